// rdma_getaddrinfo: getaddrinfo's first answer in RDMA terms.
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "front/libibverbs/export.h"
#include "front/librdmacm/error.h"

namespace weft::front::cm {
namespace {

struct FreeInfo {
  void operator()(rdma_addrinfo* info) const { rdma_freeaddrinfo(info); }
};
using Info = std::unique_ptr<rdma_addrinfo, FreeInfo>;

bool copy_octets(void*& to, const void* from, std::size_t octets) {
  if (from == nullptr || octets == 0) return true;
  to = std::malloc(octets);
  if (to == nullptr) return false;
  std::memcpy(to, from, octets);
  return true;
}

bool copy_address(sockaddr*& to, socklen_t& to_octets, const sockaddr* from, socklen_t octets) {
  void* copy = nullptr;
  if (!copy_octets(copy, from, octets)) return false;
  to = static_cast<sockaddr*>(copy);
  to_octets = copy != nullptr ? octets : 0;
  return true;
}

addrinfo question(const rdma_addrinfo& hints) {
  addrinfo asked{};
  if ((hints.ai_flags & RAI_PASSIVE) != 0) asked.ai_flags |= AI_PASSIVE;
  if ((hints.ai_flags & RAI_NUMERICHOST) != 0) asked.ai_flags |= AI_NUMERICHOST;
  // AF_IB is a hint that any family may follow, unless it is demanded; that cannot be met here.
  constexpr int kDemanded = RAI_FAMILY | RAI_NUMERICHOST;
  const bool any = hints.ai_family == AF_IB && (hints.ai_flags & kDemanded) != kDemanded;
  asked.ai_family = any ? AF_UNSPEC : hints.ai_family;
  const bool datagram = hints.ai_qp_type == IBV_QPT_UD || hints.ai_port_space == RDMA_PS_UDP ||
                        hints.ai_port_space == RDMA_PS_IPOIB;
  asked.ai_socktype = datagram ? SOCK_DGRAM : SOCK_STREAM;
  asked.ai_protocol = datagram ? IPPROTO_UDP : IPPROTO_TCP;
  return asked;
}

/// Gives 0, -1 with errno, or an EAI_ value.
int look_up(const char* node, const char* service, const rdma_addrinfo& hints,
            rdma_addrinfo& info) {
  const addrinfo asked = question(hints);
  addrinfo* answers = nullptr;
  if (const int code = getaddrinfo(node, service, &asked, &answers); code != 0) return code;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(answers, freeaddrinfo);
  const bool datagram = answers->ai_socktype == SOCK_DGRAM;
  info.ai_flags = hints.ai_flags & (RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY);
  info.ai_family = answers->ai_family;
  info.ai_qp_type = hints.ai_qp_type != 0
                        ? hints.ai_qp_type
                        : static_cast<int>(datagram ? IBV_QPT_UD : IBV_QPT_RC);
  info.ai_port_space = hints.ai_port_space != 0
                           ? hints.ai_port_space
                           : static_cast<int>(datagram ? RDMA_PS_UDP : RDMA_PS_TCP);
  const bool passive = (hints.ai_flags & RAI_PASSIVE) != 0;
  const bool copied = passive ? copy_address(info.ai_src_addr, info.ai_src_len, answers->ai_addr,
                                             answers->ai_addrlen)
                              : copy_address(info.ai_dst_addr, info.ai_dst_len, answers->ai_addr,
                                             answers->ai_addrlen);
  return copied ? 0 : fail(ENOMEM);
}

/// Without names the hints are the answer.
int take_hints(const rdma_addrinfo& hints, rdma_addrinfo& info) {
  info.ai_flags = hints.ai_flags;
  info.ai_family = hints.ai_family;
  info.ai_qp_type = hints.ai_qp_type;
  info.ai_port_space = hints.ai_port_space;
  return copy_address(info.ai_dst_addr, info.ai_dst_len, hints.ai_dst_addr, hints.ai_dst_len)
             ? 0
             : fail(ENOMEM);
}

}  // namespace
}  // namespace weft::front::cm

using namespace weft::front::cm;

WEFT_EXPORT int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                                 rdma_addrinfo** result) {
  if (result == nullptr || (node == nullptr && service == nullptr && hints == nullptr)) {
    return fail(EINVAL);
  }
  const rdma_addrinfo none{};
  const rdma_addrinfo& wanted = hints != nullptr ? *hints : none;
  Info info(static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo))));
  if (info == nullptr) return fail(ENOMEM);
  const int code = node != nullptr || service != nullptr ? look_up(node, service, wanted, *info)
                                                         : take_hints(wanted, *info);
  if (code != 0) return code;
  if (info->ai_src_len == 0 &&
      !copy_address(info->ai_src_addr, info->ai_src_len, wanted.ai_src_addr, wanted.ai_src_len)) {
    return fail(ENOMEM);
  }
  *result = info.release();
  return 0;
}

WEFT_EXPORT void rdma_freeaddrinfo(rdma_addrinfo* info) {
  while (info != nullptr) {
    rdma_addrinfo* next = info->ai_next;
    std::free(info->ai_src_addr);
    std::free(info->ai_dst_addr);
    std::free(info->ai_src_canonname);
    std::free(info->ai_dst_canonname);
    std::free(info->ai_route);
    std::free(info->ai_connect);
    std::free(info);
    info = next;
  }
}
