// Addresses and sockets, by direct system calls.
#include "front/librdmacm/address.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/number_gate.h"

namespace weft::front::cm {
namespace {

const sockaddr_in& v4(const sockaddr& address) {
  return reinterpret_cast<const sockaddr_in&>(address);
}
const sockaddr_in6& v6(const sockaddr& address) {
  return reinterpret_cast<const sockaddr_in6&>(address);
}
sockaddr& plain(sockaddr_storage& address) {
  return reinterpret_cast<sockaddr&>(address);
}

/// A descriptor that is closed unless it is taken.
class Socket {
 public:
  Socket(int family, int type)
      : fd_(static_cast<int>(syscall(SYS_socket, family, type | SOCK_CLOEXEC, 0))) {}
  ~Socket() { close_socket(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool valid() const { return fd_ >= 0; }
  bool set_option(int level, int name, int value) {
    return syscall(SYS_setsockopt, fd_, level, name, &value, sizeof value) == 0;
  }
  bool bind(const sockaddr& address) {
    return syscall(SYS_bind, fd_, &address, address_octets(address)) == 0;
  }
  bool connect(const sockaddr& address) {
    return syscall(SYS_connect, fd_, &address, address_octets(address)) == 0;
  }
  bool name(sockaddr_storage& address) {
    socklen_t octets = sizeof address;
    return syscall(SYS_getsockname, fd_, &address, &octets) == 0;
  }
  int take() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

}  // namespace

socklen_t address_octets(const sockaddr& address) {
  switch (address.sa_family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    default:
      return 0;
  }
}

std::uint16_t port_of(const sockaddr& address) {
  return ntohs(address.sa_family == AF_INET    ? v4(address).sin_port
               : address.sa_family == AF_INET6 ? v6(address).sin6_port
                                               : 0);
}

void set_port(sockaddr& address, std::uint16_t port) {
  if (address.sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  } else if (address.sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  }
}

bool is_any(const sockaddr& address) {
  if (address.sa_family == AF_INET) return v4(address).sin_addr.s_addr == htonl(INADDR_ANY);
  return address.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6(address).sin6_addr);
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return (ntohl(v4(address).sin_addr.s_addr) >> IN_CLASSA_NSHIFT) == IN_LOOPBACKNET;
  }
  return address.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6(address).sin6_addr);
}

bool is_multicast(const sockaddr& address) {
  if (address.sa_family == AF_INET) return IN_MULTICAST(ntohl(v4(address).sin_addr.s_addr));
  return address.sa_family == AF_INET6 && IN6_IS_ADDR_MULTICAST(&v6(address).sin6_addr);
}

void set_loopback(sockaddr& address) {
  if (address.sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else if (address.sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
  }
}

void copy_address(sockaddr_storage& to, const sockaddr& from) {
  sockaddr_storage copy{};
  std::memcpy(&copy, &from, address_octets(from));
  to = copy;
}

void copy_unmapped(sockaddr_storage& to, const sockaddr& from) {
  copy_address(to, from);
  if (from.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6(from).sin6_addr)) return;
  sockaddr_in unmapped{};
  unmapped.sin_family = AF_INET;
  unmapped.sin_port = v6(from).sin6_port;
  std::memcpy(&unmapped.sin_addr, v6(from).sin6_addr.s6_addr + 12, 4);
  copy_address(to, reinterpret_cast<const sockaddr&>(unmapped));
}

ibv_gid gid_of(const sockaddr& address) {
  ibv_gid gid{};
  if (address.sa_family == AF_INET) {
    gid.raw[10] = gid.raw[11] = 0xff;
    std::memcpy(gid.raw + 12, &v4(address).sin_addr, 4);
  } else if (address.sa_family == AF_INET6) {
    std::memcpy(gid.raw, &v6(address).sin6_addr, 16);
  }
  return gid;
}

Result<int> hold_port(sockaddr_storage& address, bool v6_only) {
  Socket socket(address.ss_family, SOCK_STREAM);
  if (!socket.valid()) return Error{errno, "no socket for the port"};
  if (!socket.set_option(SOL_SOCKET, SO_REUSEADDR, 1) ||
      (address.ss_family == AF_INET6 &&
       !socket.set_option(IPPROTO_IPV6, IPV6_V6ONLY, v6_only ? 1 : 0)) ||
      !socket.bind(plain(address))) {
    return Error{errno, "the address or port is not free"};
  }
  sockaddr_storage bound{};
  if (!socket.name(bound)) return Error{errno, "the port picked is unknown"};
  set_port(plain(address), port_of(plain(bound)));
  return out_of_the_way(socket.take());  // a thread of ours may close it
}

Result<void> choose_source(const sockaddr& target, sockaddr_storage& source) {
  const std::uint16_t port = port_of(plain(source));
  Socket socket(target.sa_family, SOCK_DGRAM);
  if (!socket.valid()) return Error{errno, "no socket for the route"};
  if (source.ss_family != AF_UNSPEC && !is_any(plain(source))) {
    sockaddr_storage wanted = source;
    set_port(plain(wanted), 0);
    if (!socket.bind(plain(wanted))) return Error{errno, "not an address of this host"};
  }
  sockaddr_storage chosen{};
  if (!socket.connect(target) || !socket.name(chosen)) {
    return Error{errno, "no route to the target"};
  }
  set_port(plain(chosen), port);
  source = chosen;
  return {};
}

void close_socket(int fd) {
  if (fd >= 0) syscall(SYS_close, fd);
}

}  // namespace weft::front::cm
