// The rsocket calls: fronts of front/sockets, which has the sockets.
//
// rpoll and rselect also take ordinary descriptors; the other calls answer EBADF for them.
#include <rdma/rsocket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <ctime>

#include "front/libibverbs/export.h"
#include "front/sockets/calls.h"

namespace {

using weft::sockets::SocketPtr;
namespace sockets = weft::sockets;

constexpr long kMicrosPerSecond = 1'000'000;
constexpr long kNanosPerMicro = 1'000;

int fail(int code) {
  errno = code;
  return -1;
}

/// Calls `function` with the socket of a descriptor; EBADF if it has none.
template <typename Function>
auto with(int fd, Function function) -> decltype(function(*SocketPtr())) {
  const SocketPtr socket = sockets::sockets().find(fd);
  if (socket == nullptr) return static_cast<decltype(function(*socket))>(fail(EBADF));
  return function(*socket);
}

}  // namespace

WEFT_EXPORT int rpoll(pollfd* fds, nfds_t nfds, int timeout) {
  timespec wait{};
  if (timeout > 0) {
    wait.tv_sec = timeout / 1000;
    wait.tv_nsec = timeout % 1000 * 1'000'000L;
  }
  return sockets::poll(fds, nfds, timeout < 0 ? nullptr : &wait);
}

WEFT_EXPORT int rselect(int nfds, fd_set* readfds, fd_set* writefds, fd_set* exceptfds,
                        timeval* timeout) {
  if (timeout == nullptr) return sockets::select(nfds, readfds, writefds, exceptfds, nullptr);
  if (timeout->tv_sec < 0 || timeout->tv_usec < 0) return fail(EINVAL);
  // Linux select takes more than a second's worth of microseconds.
  timespec wait{};
  if (__builtin_add_overflow(timeout->tv_sec, timeout->tv_usec / kMicrosPerSecond, &wait.tv_sec)) {
    return fail(EINVAL);
  }
  wait.tv_nsec = timeout->tv_usec % kMicrosPerSecond * kNanosPerMicro;
  const int ready = sockets::select(nfds, readfds, writefds, exceptfds, &wait);
  // Linux select leaves the time that remained.
  timeout->tv_sec = wait.tv_sec;
  timeout->tv_usec = wait.tv_nsec / kNanosPerMicro;
  return ready;
}

// Life of a socket.
WEFT_EXPORT int rsocket(int domain, int type, int protocol) {
  return sockets::new_socket(domain, type, protocol);
}
WEFT_EXPORT int rbind(int fd, const sockaddr* address, socklen_t octets) {
  return with(fd, [&](auto& socket) { return sockets::bind(socket, address, octets); });
}
WEFT_EXPORT int rlisten(int fd, int backlog) {
  return with(fd, [&](auto& socket) { return sockets::listen(socket, backlog); });
}
WEFT_EXPORT int raccept(int fd, sockaddr* address, socklen_t* octets) {
  return with(fd, [&](auto& socket) { return sockets::accept(socket, address, octets, 0); });
}
WEFT_EXPORT int rconnect(int fd, const sockaddr* address, socklen_t octets) {
  return with(fd, [&](auto& socket) { return sockets::connect(socket, address, octets); });
}
WEFT_EXPORT int rshutdown(int fd, int how) {
  return with(fd, [&](auto& socket) { return sockets::shutdown(socket, how); });
}
WEFT_EXPORT int rclose(int fd) {
  return with(fd,
              [&](auto& socket) { return sockets::close(fd, socket.shared_from_this(), true); });
}

// Octets.
WEFT_EXPORT ssize_t rrecv(int fd, void* to, size_t octets, int flags) {
  const iovec part{to, octets};
  return with(fd, [&](auto& socket) { return sockets::receive(socket, &part, 1, flags); });
}
WEFT_EXPORT ssize_t rrecvfrom(int fd, void* to, size_t octets, int flags, sockaddr* address,
                              socklen_t* address_octets) {
  const ssize_t received = rrecv(fd, to, octets, flags);
  // rsockets name the peer here, TCP names nobody.
  if (received > 0 && address != nullptr) rgetpeername(fd, address, address_octets);
  return received;
}
WEFT_EXPORT ssize_t rrecvmsg(int fd, msghdr* message, int flags) {
  return with(fd, [&](auto& socket) { return sockets::receive_message(socket, message, flags); });
}
WEFT_EXPORT ssize_t rsend(int fd, const void* from, size_t octets, int flags) {
  const iovec part{const_cast<void*>(from), octets};
  return with(fd, [&](auto& socket) { return sockets::send(socket, &part, 1, flags); });
}
WEFT_EXPORT ssize_t rsendto(int fd, const void* from, size_t octets, int flags, const sockaddr*,
                            socklen_t) {
  return rsend(fd, from, octets, flags);
}
WEFT_EXPORT ssize_t rsendmsg(int fd, const msghdr* message, int flags) {
  return with(fd, [&](auto& socket) { return sockets::send_message(socket, message, flags); });
}
WEFT_EXPORT ssize_t rread(int fd, void* to, size_t octets) {
  return rrecv(fd, to, octets, 0);
}
WEFT_EXPORT ssize_t rreadv(int fd, const iovec* vector, int count) {
  if (count < 0) return fail(EINVAL);
  return with(fd, [&](auto& socket) {
    return sockets::receive(socket, vector, static_cast<size_t>(count), 0);
  });
}
WEFT_EXPORT ssize_t rwrite(int fd, const void* from, size_t octets) {
  return rsend(fd, from, octets, 0);
}
WEFT_EXPORT ssize_t rwritev(int fd, const iovec* vector, int count) {
  if (count < 0) return fail(EINVAL);
  return with(fd, [&](auto& socket) {
    return sockets::send(socket, vector, static_cast<size_t>(count), 0);
  });
}

// Names and options.
WEFT_EXPORT int rgetpeername(int fd, sockaddr* address, socklen_t* octets) {
  return with(fd, [&](auto& socket) { return sockets::peer_name(socket, address, octets); });
}
WEFT_EXPORT int rgetsockname(int fd, sockaddr* address, socklen_t* octets) {
  return with(fd, [&](auto& socket) { return sockets::local_name(socket, address, octets); });
}
WEFT_EXPORT int rsetsockopt(int fd, int level, int name, const void* value, socklen_t octets) {
  return with(
      fd, [&](auto& socket) { return sockets::set_option(socket, level, name, value, octets); });
}
WEFT_EXPORT int rgetsockopt(int fd, int level, int name, void* value, socklen_t* octets) {
  return with(
      fd, [&](auto& socket) { return sockets::get_option(socket, level, name, value, octets); });
}
WEFT_EXPORT int rfcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const long argument = va_arg(arguments, long);
  va_end(arguments);
  return with(fd, [&](auto& socket) { return sockets::control(fd, socket, command, argument); });
}

// Direct access to the peer's memory.
WEFT_EXPORT off_t riomap(int fd, void* memory, size_t octets, int protection, int flags,
                         off_t offset) {
  if (flags != 0 || (protection & ~(PROT_WRITE | PROT_NONE)) != 0) return fail(EINVAL);
  return with(fd, [&](auto& socket) -> off_t {
    std::optional<std::uint64_t> at;
    if (offset != -1) at = static_cast<std::uint64_t>(offset);
    auto mapped = socket.map(memory, octets, (protection & PROT_WRITE) != 0, at);
    return mapped ? static_cast<off_t>(*mapped) : fail(mapped.error().code);
  });
}
WEFT_EXPORT int riounmap(int fd, void* memory, size_t octets) {
  return with(fd, [&](auto& socket) {
    auto unmapped = socket.unmap(memory, octets);
    return unmapped ? 0 : fail(unmapped.error().code);
  });
}
WEFT_EXPORT size_t riowrite(int fd, const void* from, size_t octets, off_t offset, int flags) {
  const iovec part{const_cast<void*>(from), octets};
  return static_cast<size_t>(with(fd, [&](auto& socket) -> ssize_t {
    const bool blocking = !socket.nonblocking && (flags & MSG_DONTWAIT) == 0;
    auto written = socket.write_at(sockets::Cursor({&part, 1}), static_cast<std::uint64_t>(offset),
                                   flags, blocking);
    return written ? static_cast<ssize_t>(*written) : fail(written.error().code);
  }));
}
