// System calls by number. A preload library of the same process may stand in front of libc's socket
// functions and be built on weft itself: calling them here would lead back into us.
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "base/number_gate.h"

namespace weft::transport::raw {

/// Makes the call; again after EINTR. Returns its result, or minus the errno. Never cancels, never
/// blocks on the descriptors used here. Threads: any.
template <typename... Arguments>
long call(long number, Arguments... arguments) {
  for (;;) {
    const long result = ::syscall(number, arguments...);
    if (result >= 0) {
      return result;
    }
    if (errno != EINTR) {
      return -errno;
    }
  }
}

/// A non-blocking, close-on-exec socket.
inline long open_socket(int family, int type, int protocol) {
  const NumberGate gate;
  const long fd = call(SYS_socket, family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
  return out_of_the_way(static_cast<int>(fd));
}
inline long bind(int fd, const sockaddr* address, socklen_t length) {
  return call(SYS_bind, fd, address, length);
}
inline long listen(int fd, int backlog) {
  return call(SYS_listen, fd, backlog);
}
inline long connect(int fd, const sockaddr* address, socklen_t length) {
  return call(SYS_connect, fd, address, length);
}
/// Ends a TCP connection, with RST unless it is over already.
inline long disconnect(int fd) {
  const sockaddr nobody = {AF_UNSPEC, {}};
  return raw::connect(fd, &nobody, sizeof nobody);
}
inline long accept(int fd, sockaddr* peer, socklen_t* length) {
  const NumberGate gate;
  const long made = call(SYS_accept4, fd, peer, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  return out_of_the_way(static_cast<int>(made));
}
inline long local_name(int fd, sockaddr* address, socklen_t* length) {
  return call(SYS_getsockname, fd, address, length);
}
inline long peer_name(int fd, sockaddr* address, socklen_t* length) {
  return call(SYS_getpeername, fd, address, length);
}
inline long set_option(int fd, int level, int name, const void* value, socklen_t length) {
  return call(SYS_setsockopt, fd, level, name, value, length);
}
inline long set_option(int fd, int level, int name, int value) {
  return set_option(fd, level, name, &value, sizeof value);
}
inline long get_option(int fd, int level, int name, void* value, socklen_t* length) {
  return call(SYS_getsockopt, fd, level, name, value, length);
}
/// Of one piece: without the message header that the kernel would have to fetch and take apart.
inline long send(int fd, const iovec& piece) {
  return call(SYS_sendto, fd, piece.iov_base, piece.iov_len, MSG_NOSIGNAL | MSG_DONTWAIT, nullptr,
              0);
}
inline long send(int fd, const msghdr* message) {
  return call(SYS_sendmsg, fd, message, MSG_NOSIGNAL | MSG_DONTWAIT);
}
inline long receive(int fd, const iovec& piece) {
  return call(SYS_recvfrom, fd, piece.iov_base, piece.iov_len, MSG_DONTWAIT, nullptr, nullptr);
}
inline long receive(int fd, msghdr* message) {
  return call(SYS_recvmsg, fd, message, MSG_DONTWAIT);
}
inline long shut_down(int fd, int how) {
  return call(SYS_shutdown, fd, how);
}
inline long read(int fd, void* data, std::size_t octets) {
  return call(SYS_read, fd, data, octets);
}
inline long write(int fd, const void* data, std::size_t octets) {
  return call(SYS_write, fd, data, octets);
}
/// Not repeated after EINTR: Linux has freed the descriptor even then.
inline void close(int fd) {
  ::syscall(SYS_close, fd);
}

}  // namespace weft::transport::raw
