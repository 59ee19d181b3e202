// libc's own functions, behind ours of the same names.
#pragma once

#include <dlfcn.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <ctime>

namespace weft::sockets::libc {

/// One function, found when it is first called: other libraries' constructors may call before ours.
template <typename Function>
class Real;

template <typename R, typename... Args>
class Real<R(Args...)> {
 public:
  constexpr explicit Real(const char* name) : name_(name) {}

  template <typename... Given>
  R operator()(Given... given) {
    void* found = found_.load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = ::dlsym(RTLD_NEXT, name_);
      found_.store(found, std::memory_order_relaxed);
    }
    return reinterpret_cast<R (*)(Args...)>(found)(given...);
  }

 private:
  const char* name_;
  std::atomic<void*> found_{nullptr};
};

#define WEFT_REAL(name, type) inline constinit Real<type> name(#name)

WEFT_REAL(socket, int(int, int, int));
WEFT_REAL(bind, int(int, const sockaddr*, socklen_t));
WEFT_REAL(listen, int(int, int));
WEFT_REAL(accept, int(int, sockaddr*, socklen_t*));
WEFT_REAL(accept4, int(int, sockaddr*, socklen_t*, int));
WEFT_REAL(connect, int(int, const sockaddr*, socklen_t));
WEFT_REAL(shutdown, int(int, int));
WEFT_REAL(close, int(int));
WEFT_REAL(dup, int(int));
WEFT_REAL(dup2, int(int, int));
WEFT_REAL(dup3, int(int, int, int));
WEFT_REAL(fcntl, int(int, int, long));
WEFT_REAL(ioctl, int(int, unsigned long, void*));
WEFT_REAL(syscall, long(long, long, long, long, long, long, long));
WEFT_REAL(open, int(const char*, int, mode_t));
WEFT_REAL(openat, int(int, const char*, int, mode_t));
WEFT_REAL(creat, int(const char*, mode_t));
WEFT_REAL(pipe, int(int*));
WEFT_REAL(pipe2, int(int*, int));
WEFT_REAL(socketpair, int(int, int, int, int*));
WEFT_REAL(eventfd, int(unsigned, int));
WEFT_REAL(epoll_create, int(int));
WEFT_REAL(epoll_create1, int(int));
WEFT_REAL(close_range, int(unsigned, unsigned, int));
WEFT_REAL(closefrom, void(int));
WEFT_REAL(read, ssize_t(int, void*, size_t));
WEFT_REAL(write, ssize_t(int, const void*, size_t));
WEFT_REAL(readv, ssize_t(int, const iovec*, int));
WEFT_REAL(writev, ssize_t(int, const iovec*, int));
WEFT_REAL(recv, ssize_t(int, void*, size_t, int));
WEFT_REAL(send, ssize_t(int, const void*, size_t, int));
WEFT_REAL(recvfrom, ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*));
WEFT_REAL(sendto, ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t));
WEFT_REAL(recvmsg, ssize_t(int, msghdr*, int));
WEFT_REAL(sendmsg, ssize_t(int, const msghdr*, int));
WEFT_REAL(sendfile, ssize_t(int, int, off_t*, size_t));
WEFT_REAL(splice, ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned));
WEFT_REAL(sendmmsg, int(int, mmsghdr*, unsigned, int));
WEFT_REAL(recvmmsg, int(int, mmsghdr*, unsigned, int, timespec*));
WEFT_REAL(preadv2, ssize_t(int, const iovec*, int, off_t, int));
WEFT_REAL(pwritev2, ssize_t(int, const iovec*, int, off_t, int));
WEFT_REAL(fclose, int(FILE*));
WEFT_REAL(freopen, FILE*(const char*, const char*, FILE*));
WEFT_REAL(fdopen, FILE*(int, const char*));
WEFT_REAL(vdprintf, int(int, const char*, va_list));
WEFT_REAL(poll, int(pollfd*, nfds_t, int));
WEFT_REAL(ppoll, int(pollfd*, nfds_t, const timespec*, const sigset_t*));
WEFT_REAL(select, int(int, fd_set*, fd_set*, fd_set*, timeval*));
WEFT_REAL(pselect, int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*));
WEFT_REAL(epoll_ctl, int(int, int, int, epoll_event*));
WEFT_REAL(epoll_wait, int(int, epoll_event*, int, int));
WEFT_REAL(epoll_pwait, int(int, epoll_event*, int, int, const sigset_t*));
WEFT_REAL(epoll_pwait2, int(int, epoll_event*, int, const timespec*, const sigset_t*));
WEFT_REAL(getsockname, int(int, sockaddr*, socklen_t*));
WEFT_REAL(getpeername, int(int, sockaddr*, socklen_t*));
WEFT_REAL(getsockopt, int(int, int, int, void*, socklen_t*));
WEFT_REAL(setsockopt, int(int, int, int, const void*, socklen_t));

#undef WEFT_REAL

}  // namespace weft::sockets::libc
