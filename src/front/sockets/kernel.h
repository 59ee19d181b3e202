// The kernel's calls, entered directly.
//
// This code also runs in a library that stands in front of libc's calls: through libc its own calls
// on sockets would come back to it. Of syscall(), in front of which it stands too, it knows what
// comes from our own libraries. All set errno and are as in their manual pages.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace weft::sockets::kernel {

inline int close(int fd) {
  return static_cast<int>(syscall(SYS_close, fd));
}
inline int dup3(int fd, int to, int flags) {
  return static_cast<int>(syscall(SYS_dup3, fd, to, flags));
}
inline int fcntl(int fd, int command, long argument = 0) {
  return static_cast<int>(syscall(SYS_fcntl, fd, command, argument));
}
inline int socket(int domain, int type, int protocol) {
  return static_cast<int>(syscall(SYS_socket, domain, type, protocol));
}
inline int socketpair(int type, int* ends) {
  return static_cast<int>(syscall(SYS_socketpair, AF_UNIX, type, 0, ends));
}
inline ssize_t send(int fd, const void* from, std::size_t octets, int flags) {
  return syscall(SYS_sendto, fd, from, octets, flags, nullptr, 0);
}
inline ssize_t recv(int fd, void* to, std::size_t octets, int flags) {
  return syscall(SYS_recvfrom, fd, to, octets, flags, nullptr, nullptr);
}
inline ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return syscall(SYS_sendmsg, fd, message, flags);
}
inline ssize_t recvmsg(int fd, msghdr* message, int flags) {
  return syscall(SYS_recvmsg, fd, message, flags);
}
inline ssize_t read(int fd, void* to, std::size_t octets) {
  return syscall(SYS_read, fd, to, octets);
}
inline ssize_t write(int fd, const void* from, std::size_t octets) {
  return syscall(SYS_write, fd, from, octets);
}
inline int shutdown(int fd, int how) {
  return static_cast<int>(syscall(SYS_shutdown, fd, how));
}
inline int getsockname(int fd, sockaddr* address, socklen_t* octets) {
  return static_cast<int>(syscall(SYS_getsockname, fd, address, octets));
}
inline int getpeername(int fd, sockaddr* address, socklen_t* octets) {
  return static_cast<int>(syscall(SYS_getpeername, fd, address, octets));
}
inline int getsockopt(int fd, int level, int name, void* value, socklen_t* octets) {
  return static_cast<int>(syscall(SYS_getsockopt, fd, level, name, value, octets));
}
inline int setsockopt(int fd, int level, int name, const void* value, socklen_t octets) {
  return static_cast<int>(syscall(SYS_setsockopt, fd, level, name, value, octets));
}
inline int bind(int fd, const sockaddr* address, socklen_t octets) {
  return static_cast<int>(syscall(SYS_bind, fd, address, octets));
}
inline int connect(int fd, const sockaddr* address, socklen_t octets) {
  return static_cast<int>(syscall(SYS_connect, fd, address, octets));
}
/// `mask`: the signals blocked meanwhile; null: as they are. The kernel counts up the rest.
inline int ppoll(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask = nullptr) {
  timespec rest{};
  if (wait != nullptr) rest = *wait;
  return static_cast<int>(syscall(SYS_ppoll, fds, count, wait == nullptr ? nullptr : &rest, mask,
                                  std::size_t{_NSIG / 8}));
}
inline int epoll_create1(int flags) {
  return static_cast<int>(syscall(SYS_epoll_create1, flags));
}
inline int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  return static_cast<int>(syscall(SYS_epoll_ctl, epoll, operation, fd, event));
}
inline int epoll_wait(int epoll, epoll_event* events, int count, int timeout_ms) {
  return static_cast<int>(
      syscall(SYS_epoll_pwait, epoll, events, count, timeout_ms, nullptr, std::size_t{0}));
}
inline int epoll_pwait(int epoll, epoll_event* events, int count, int timeout_ms,
                       const sigset_t* mask) {
  return static_cast<int>(
      syscall(SYS_epoll_pwait, epoll, events, count, timeout_ms, mask, std::size_t{_NSIG / 8}));
}
inline int epoll_pwait2(int epoll, epoll_event* events, int count, const timespec* wait,
                        const sigset_t* mask) {
  return static_cast<int>(
      syscall(SYS_epoll_pwait2, epoll, events, count, wait, mask, std::size_t{_NSIG / 8}));
}
/// Does not wait for a machine that has just begun.
inline ssize_t random(void* to, std::size_t octets) {
  return syscall(SYS_getrandom, to, octets, 1u);  // GRND_NONBLOCK
}
inline int eventfd(unsigned value, int flags) {
  return static_cast<int>(syscall(SYS_eventfd2, value, flags));
}

}  // namespace weft::sockets::kernel
