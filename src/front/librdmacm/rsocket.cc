// The rsocket calls.
//
// rsockets have no implementation in this release: the calls that need one answer EOPNOTSUPP.
// rsocket() is the only call that could make one, so every descriptor that reaches the others is a
// foreign one.
//
// rpoll and rselect also take ordinary descriptors, and rping and ucmatose wait on CM channels with
// them; for those they are poll and select. They enter the kernel directly: a sockets preload
// replaces poll() with a function that calls rpoll(), and through libc the two would recurse.
#include <rdma/rsocket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "front/libibverbs/export.h"

namespace {

constexpr long kMicrosPerSecond = 1'000'000;
constexpr long kNanosPerMicro = 1'000;

int refuse() {
  errno = EOPNOTSUPP;
  return -1;
}

}  // namespace

WEFT_EXPORT int rpoll(pollfd* fds, nfds_t nfds, int timeout) {
  timespec wait{};
  if (timeout > 0) {
    wait.tv_sec = timeout / 1000;
    wait.tv_nsec = timeout % 1000 * 1'000'000L;
  }
  // A negative timeout waits for ever. No signal mask: poll keeps the caller's.
  return static_cast<int>(
      syscall(SYS_ppoll, fds, nfds, timeout < 0 ? nullptr : &wait, nullptr, std::size_t{0}));
}

WEFT_EXPORT int rselect(int nfds, fd_set* readfds, fd_set* writefds, fd_set* exceptfds,
                        timeval* timeout) {
  if (timeout == nullptr) {
    return static_cast<int>(
        syscall(SYS_pselect6, nfds, readfds, writefds, exceptfds, nullptr, nullptr));
  }
  if (timeout->tv_sec < 0 || timeout->tv_usec < 0) {
    errno = EINVAL;
    return -1;
  }
  // Linux select takes more than a second's worth of microseconds, pselect6 does not.
  timespec wait{};
  if (__builtin_add_overflow(timeout->tv_sec, timeout->tv_usec / kMicrosPerSecond, &wait.tv_sec)) {
    errno = EINVAL;
    return -1;
  }
  wait.tv_nsec = timeout->tv_usec % kMicrosPerSecond * kNanosPerMicro;
  const long ready = syscall(SYS_pselect6, nfds, readfds, writefds, exceptfds, &wait, nullptr);
  // Linux select leaves the time that remained.
  timeout->tv_sec = wait.tv_sec;
  timeout->tv_usec = wait.tv_nsec / kNanosPerMicro;
  return static_cast<int>(ready);
}

// Life of a socket.
WEFT_EXPORT int rsocket(int, int, int) {
  return refuse();
}
WEFT_EXPORT int rbind(int, const sockaddr*, socklen_t) {
  return refuse();
}
WEFT_EXPORT int rlisten(int, int) {
  return refuse();
}
WEFT_EXPORT int raccept(int, sockaddr*, socklen_t*) {
  return refuse();
}
WEFT_EXPORT int rconnect(int, const sockaddr*, socklen_t) {
  return refuse();
}
WEFT_EXPORT int rshutdown(int, int) {
  return refuse();
}
WEFT_EXPORT int rclose(int) {
  return refuse();
}

// Octets.
WEFT_EXPORT ssize_t rrecv(int, void*, size_t, int) {
  return refuse();
}
WEFT_EXPORT ssize_t rrecvfrom(int, void*, size_t, int, sockaddr*, socklen_t*) {
  return refuse();
}
WEFT_EXPORT ssize_t rrecvmsg(int, msghdr*, int) {
  return refuse();
}
WEFT_EXPORT ssize_t rsend(int, const void*, size_t, int) {
  return refuse();
}
WEFT_EXPORT ssize_t rsendto(int, const void*, size_t, int, const sockaddr*, socklen_t) {
  return refuse();
}
WEFT_EXPORT ssize_t rsendmsg(int, const msghdr*, int) {
  return refuse();
}
WEFT_EXPORT ssize_t rread(int, void*, size_t) {
  return refuse();
}
WEFT_EXPORT ssize_t rreadv(int, const iovec*, int) {
  return refuse();
}
WEFT_EXPORT ssize_t rwrite(int, const void*, size_t) {
  return refuse();
}
WEFT_EXPORT ssize_t rwritev(int, const iovec*, int) {
  return refuse();
}

// Names and options.
WEFT_EXPORT int rgetpeername(int, sockaddr*, socklen_t*) {
  return refuse();
}
WEFT_EXPORT int rgetsockname(int, sockaddr*, socklen_t*) {
  return refuse();
}
WEFT_EXPORT int rsetsockopt(int, int, int, const void*, socklen_t) {
  return refuse();
}
WEFT_EXPORT int rgetsockopt(int, int, int, void*, socklen_t*) {
  return refuse();
}
WEFT_EXPORT int rfcntl(int, int, ...) {
  return refuse();
}

// Direct access to the peer's memory.
WEFT_EXPORT off_t riomap(int, void*, size_t, int, int, off_t) {
  return refuse();
}
WEFT_EXPORT int riounmap(int, void*, size_t) {
  return refuse();
}
WEFT_EXPORT size_t riowrite(int, const void*, size_t, off_t, int) {
  return static_cast<size_t>(refuse());
}
