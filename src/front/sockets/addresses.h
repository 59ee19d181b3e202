// Addresses as the two families write them.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::sockets {

/// Octets of an address of these families; 0: of another.
inline socklen_t octets_of(int family) {
  return family == AF_INET ? sizeof(sockaddr_in) : family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

/// `address` as a socket of `family` shows it: IPv4 becomes a mapped address of IPv6.
inline sockaddr_storage shown_as(int family, const sockaddr& address) {
  sockaddr_storage shown{};
  if (family == AF_INET6 && address.sa_family == AF_INET) {
    const auto& from = reinterpret_cast<const sockaddr_in&>(address);
    auto& to = reinterpret_cast<sockaddr_in6&>(shown);
    to.sin6_family = AF_INET6;
    to.sin6_port = from.sin_port;
    to.sin6_addr.s6_addr[10] = to.sin6_addr.s6_addr[11] = 0xff;
    std::memcpy(&to.sin6_addr.s6_addr[12], &from.sin_addr, sizeof from.sin_addr);
    return shown;
  }
  std::memcpy(&shown, &address, octets_of(address.sa_family));
  return shown;
}

/// The opposite: a mapped address becomes one of IPv4.
inline sockaddr_storage unmapped(const sockaddr& address) {
  const auto& from = reinterpret_cast<const sockaddr_in6&>(address);
  sockaddr_storage plain{};
  if (address.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&from.sin6_addr)) {
    auto& to = reinterpret_cast<sockaddr_in&>(plain);
    to.sin_family = AF_INET;
    to.sin_port = from.sin6_port;
    std::memcpy(&to.sin_addr, &from.sin6_addr.s6_addr[12], sizeof to.sin_addr);
    return plain;
  }
  std::memcpy(&plain, &address, octets_of(address.sa_family));
  return plain;
}

/// Fills what a program asked for, cut to its room, as the kernel does: no room needs no memory.
/// 0, or an errno.
inline int give(const sockaddr_storage& address, sockaddr* to, socklen_t* octets) {
  if (octets == nullptr) return EFAULT;
  if (static_cast<int>(*octets) < 0) return EINVAL;
  const socklen_t size = octets_of(address.ss_family);
  const socklen_t room = std::min(*octets, size);
  if (room != 0 && to == nullptr) return EFAULT;
  if (room != 0) std::memcpy(to, &address, room);
  *octets = size;
  return 0;
}

}  // namespace weft::sockets
