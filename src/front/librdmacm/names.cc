// What the CM can tell from its arguments alone: event names and ports.
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>

#include "front/libibverbs/export.h"

namespace {

/// Row i is the name of event i.
constexpr std::array kEvents{
    "RDMA_CM_EVENT_ADDR_RESOLVED",   "RDMA_CM_EVENT_ADDR_ERROR",
    "RDMA_CM_EVENT_ROUTE_RESOLVED",  "RDMA_CM_EVENT_ROUTE_ERROR",
    "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
    "RDMA_CM_EVENT_CONNECT_ERROR",   "RDMA_CM_EVENT_UNREACHABLE",
    "RDMA_CM_EVENT_REJECTED",        "RDMA_CM_EVENT_ESTABLISHED",
    "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
    "RDMA_CM_EVENT_MULTICAST_JOIN",  "RDMA_CM_EVENT_MULTICAST_ERROR",
    "RDMA_CM_EVENT_ADDR_CHANGE",     "RDMA_CM_EVENT_TIMEWAIT_EXIT",
};
static_assert(kEvents.size() == RDMA_CM_EVENT_TIMEWAIT_EXIT + 1);

/// The port of an address in network order, 0 for a family that has none.
__be16 port_of(const sockaddr& address) {
  switch (address.sa_family) {
    case AF_INET:
      return reinterpret_cast<const sockaddr_in&>(address).sin_port;
    case AF_INET6:
      return reinterpret_cast<const sockaddr_in6&>(address).sin6_port;
    default:
      return 0;
  }
}

}  // namespace

WEFT_EXPORT const char* rdma_event_str(rdma_cm_event_type event) {
  const auto row = static_cast<std::size_t>(event);
  return row < kEvents.size() ? kEvents[row] : "UNKNOWN EVENT";
}

WEFT_EXPORT __be16 rdma_get_src_port(rdma_cm_id* id) {
  return port_of(id->route.addr.src_addr);
}

WEFT_EXPORT __be16 rdma_get_dst_port(rdma_cm_id* id) {
  return port_of(id->route.addr.dst_addr);
}
