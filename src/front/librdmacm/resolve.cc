// Addresses: binding, resolving the address and the route, and the list of devices.
//
// rdma_bind_addr reserves the TCP port, as the kernel reserves it in its RDMA port space, with a
// socket that is bound and does not listen: two weft processes may both bind a port, and the second
// to listen gets EADDRINUSE from rdma_listen.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "front/libibverbs/export.h"
#include "front/librdmacm/address.h"
#include "front/librdmacm/error.h"
#include "front/librdmacm/id.h"

namespace weft::front::cm {
namespace {

/// Datagrams have no iWARP: such an id exists, but cannot get an address.
bool is_datagram(const Id& id) {
  return id.qp_type == IBV_QPT_UD;
}

/// Binds an Idle id; the state is the caller's business.
Result<void> bind_source(Id& id, const sockaddr& address) {
  copy_address(id.route.addr.src_storage, address);
  if (auto reserved = id.reserve_port(); !reserved) return reserved;
  // A loopback address is no device's here, as in the kernel's cma: libfabric binds to "localhost"
  // to ask for whatever there is, and drops all but the device it is given.
  if (is_any(address) || is_loopback(address)) return {};
  const verbs::Interface* interface = id.manager.runtime().interface_of(&id.source());
  if (interface == nullptr) return Error{ENODEV, "no device has this address"};
  return id.bind_device(*interface);
}

void unbind_source(Id& id) {
  id.drop_port();
  id.route.addr.src_storage = {};
}

/// Finds source and device; the answer becomes the event.
Result<void> find_device(Id& id) {
  sockaddr_storage source = id.route.addr.src_storage;
  if (auto chosen = choose_source(id.target(), source); !chosen) return chosen;
  const auto* local = reinterpret_cast<const sockaddr*>(&source);
  const verbs::Interface* interface = id.manager.runtime().interface_of(local);
  if (interface == nullptr) return Error{ENODEV, "no device leads to this address"};
  if (auto bound = id.bind_device(*interface); !bound) return bound;
  copy_address(id.route.addr.src_storage, *local);
  return {};
}

std::uint8_t path_mtu(unsigned octets) {
  return octets >= 4096   ? IBV_MTU_4096
         : octets >= 2048 ? IBV_MTU_2048
         : octets >= 1024 ? IBV_MTU_1024
         : octets >= 512  ? IBV_MTU_512
                          : IBV_MTU_256;
}

/// What programs read of an InfiniBand path: who talks to whom, and an MTU.
bool make_path(Id& id) {
  id.path.reset(new (std::nothrow) ibv_sa_path_rec{});
  if (id.path == nullptr) return false;
  ibv_sa_path_rec& path = *id.path;
  path.sgid = gid_of(id.source());
  path.dgid = gid_of(id.target());
  path.hop_limit = 64;
  path.reversible = 1;
  path.numb_path = 1;
  path.pkey = htons(0xffff);
  path.mtu_selector = 2;  // exactly
  path.mtu = path_mtu(id.bound->mtu);
  path.rate_selector = 2;
  path.rate = IBV_RATE_10_GBPS;
  path.packet_life_time_selector = 2;
  path.packet_life_time = 18;  // 4.096 us * 2^18: about a second
  id.route.path_rec = &path;
  id.route.num_paths = 1;
  id.route.addr.addr.ibaddr.sgid = path.sgid;
  id.route.addr.addr.ibaddr.dgid = path.dgid;
  id.route.addr.addr.ibaddr.pkey = path.pkey;
  return true;
}

}  // namespace
}  // namespace weft::front::cm

using namespace weft::front::cm;

WEFT_EXPORT int rdma_bind_addr(rdma_cm_id* public_id, sockaddr* address) {
  if (public_id == nullptr || address == nullptr) return fail(EINVAL);
  if (address_octets(*address) == 0) return fail(EINVAL);
  Id& id = Id::of(public_id);
  if (is_datagram(id)) return fail(EOPNOTSUPP);
  if (!id.advance(IdState::Idle, IdState::Bound)) return fail(EINVAL);
  if (auto bound = bind_source(id, *address); !bound) {
    unbind_source(id);
    id.set_state(IdState::Idle);
    return fail(bound.error());
  }
  return 0;
}

WEFT_EXPORT int rdma_resolve_addr(rdma_cm_id* public_id, sockaddr* source, sockaddr* target,
                                  int /*timeout_ms*/) {
  if (public_id == nullptr || target == nullptr) return fail(EINVAL);
  if (address_octets(*target) == 0) return fail(EINVAL);
  Id& id = Id::of(public_id);
  const Waiting waiting(id);
  if (is_datagram(id)) return fail(EOPNOTSUPP);
  const bool has_source = source != nullptr && source->sa_family != AF_UNSPEC;
  if (has_source && source->sa_family != target->sa_family) return fail(EINVAL);

  if (id.advance(IdState::Idle, IdState::AddressResolved)) {
    if (has_source) {
      if (auto bound = bind_source(id, *source); !bound) {
        unbind_source(id);
        id.set_state(IdState::Idle);
        return fail(bound.error());
      }
    }
  } else if (id.source().sa_family != target->sa_family ||
             !id.advance(IdState::Bound, IdState::AddressResolved)) {
    return fail(EINVAL);
  }
  copy_address(id.route.addr.dst_storage, *target);
  if (id.source().sa_family == AF_UNSPEC) copy_unmapped(id.route.addr.dst_storage, *target);
  if (is_any(id.target())) set_loopback(id.target());
  if (auto found = find_device(id); found) {
    id.report(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
  } else {
    // As in the kernel, the id may try another target.
    id.set_state(id.source().sa_family == AF_UNSPEC ? IdState::Idle : IdState::Bound);
    id.report(RDMA_CM_EVENT_ADDR_ERROR, -found.error().code);
  }
  return waiting.complete(id);
}

WEFT_EXPORT int rdma_resolve_route(rdma_cm_id* public_id, int /*timeout_ms*/) {
  if (public_id == nullptr) return fail(EINVAL);
  Id& id = Id::of(public_id);
  const Waiting waiting(id);
  if (!id.advance(IdState::AddressResolved, IdState::RouteResolved)) return fail(EINVAL);
  if (!make_path(id)) {
    id.set_state(IdState::AddressResolved);
    return fail(ENOMEM);
  }
  id.report(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
  return waiting.complete(id);
}

WEFT_EXPORT ibv_context** rdma_get_devices(int* count) {
  if (count != nullptr) *count = 0;
  auto manager = Manager::get();
  if (!manager) return fail(manager.error()), nullptr;
  const auto contexts =
      (*manager)->verbs_devices().open_all((*manager)->runtime().interfaces());
  if (contexts.empty()) return fail(ENODEV), nullptr;
  auto** list = static_cast<ibv_context**>(std::calloc(contexts.size() + 1, sizeof(ibv_context*)));
  if (list == nullptr) return fail(ENOMEM), nullptr;
  std::copy(contexts.begin(), contexts.end(), list);
  if (count != nullptr) *count = static_cast<int>(contexts.size());
  return list;
}

WEFT_EXPORT void rdma_free_devices(ibv_context** list) {
  std::free(list);
}
