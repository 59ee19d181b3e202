// libc's socket calls, in front of libc: sockets in IWARP_MODE are served here, all others go on.
//
// Each function asks the table first; for a descriptor that is not in it that is all it does.
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <ctime>
#include <optional>

#include <weft/sockets.h>

#include "front/libibverbs/export.h"
#include "front/sockets/addresses.h"
#include "front/sockets/calls.h"
#include "front/sockets/handed.h"
#include "front/sockets/kernel.h"
#include "front/sockets/no_memory.h"
#include "front/sockets/preload/candidate.h"
#include "front/sockets/preload/descriptors.h"
#include "front/sockets/preload/libc.h"
#include "front/sockets/preload/number_sets.h"
#include "front/sockets/preload/operations_option.h"
#include "front/sockets/preload/own.h"
#include "front/sockets/preload/rules.h"

namespace {

namespace weft_sockets = weft::sockets;
namespace libc = weft::sockets::libc;
using weft_sockets::candidates;
using weft_sockets::epoll_sets;
using weft_sockets::fail;
using weft_sockets::find;
using weft_sockets::fresh;
using weft_sockets::inherited;
using weft_sockets::is_ours;
using weft_sockets::looks_for_errors;
using weft_sockets::own;
using weft_sockets::receive_octets;
using weft_sockets::send_octets;
using weft_sockets::SocketPtr;

/// A socket that this process was executed with, of another's; `shown`: what the kernel says it is,
/// in so much room.
SocketPtr executed_with(int fd, const sockaddr* shown, socklen_t room) {
  SocketPtr came;
  const bool told = shown != nullptr && room >= sizeof shown->sa_family;
  if (!told || shown->sa_family == AF_UNIX) {
    weft_sockets::attempt([&] { came = weft_sockets::adopt(fd); });
  }
  return came;
}

int inherited_name(const weft_sockets::Socket& socket, bool peer, sockaddr* address,
                   socklen_t* octets) {
  const int code = weft_sockets::give(socket.settled_name(peer), address, octets);
  return code == 0 ? 0 : fail(code);
}

/// A program that was executed with a connection as what it reads and writes: stdio does so without
/// us, so now is the time to ask for it.
[[maybe_unused]] const bool asked_early = [] {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (weft_sockets::read_end(fd)) weft_sockets::begin_use(fd);
  }
  return true;
}();

/// Likewise what a first call would make; more of it in descriptors.cc.
[[maybe_unused]] const bool made_early = weft_sockets::may_fall_back();

/// A listener of another process's, which from now on hands connections to this one. Whoever looks
/// at its readiness wants them.
SocketPtr shared_listener(int fd) {
  SocketPtr socket = inherited(fd);
  if (socket == nullptr || !socket->was_listening()) return nullptr;
  socket->ask_for_connections(fd);
  return socket;
}

/// Whether it is ours; a listener of another process's is asked for connections.
bool looks_at_ours(int fd) {
  if (!weft_sockets::sockets().has(fd)) return false;
  return is_ours(fd) || (shared_listener(fd), false);
}

/// After a failure: it is an option of TCP's, which a UNIX socket does not have.
bool is_foreign_to_unix(int level) {
  return level != SOL_SOCKET && errno == EOPNOTSUPP;
}

/// Not const: libc declares that poll only writes there, and the compiler asks who wrote before.
bool any_ours(pollfd* fds, nfds_t count) {
  bool any = false;
  for (nfds_t i = 0; i < count; ++i) any = looks_at_ours(fds[i].fd) || any;
  return any;
}

bool any_ours(int count, const fd_set* a, const fd_set* b, const fd_set* c) {
  bool any = false;
  for (int fd = 0; fd < count && fd < FD_SETSIZE; ++fd) {
    const bool asked = (a != nullptr && FD_ISSET(fd, a)) || (b != nullptr && FD_ISSET(fd, b)) ||
                       (c != nullptr && FD_ISSET(fd, c));
    if (asked) any = looks_at_ours(fd) || any;
  }
  return any;
}

/// That the kernel would wait for.
bool is_long(const timespec& wait) {
  return weft_sockets::is_time(wait) && (wait.tv_sec != 0 || wait.tv_nsec != 0);
}

/// As select has it: any number of microseconds.
timespec time_of(const timeval& timeout) {
  timespec wait{0, timeout.tv_usec % 1'000'000 * 1000};
  if (timeout.tv_sec < 0 || timeout.tv_usec < 0) {
    wait.tv_sec = -1;
  } else if (__builtin_add_overflow(timeout.tv_sec, timeout.tv_usec / 1'000'000, &wait.tv_sec)) {
    wait.tv_sec = weft_sockets::kForEverS;
  }
  return wait;
}

std::optional<int> wait_in_ours(int epoll, epoll_event* events, int count, int timeout_ms,
                                const sigset_t* mask) {
  if (timeout_ms == 0 || !epoll_sets.has(epoll)) return {};
  const timespec wait{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  return weft_sockets::epoll_wait(epoll, events, count, timeout_ms < 0 ? nullptr : &wait, mask);
}

int poll_ours(pollfd* fds, nfds_t count, int timeout_ms) {
  timespec wait{};
  if (timeout_ms > 0) wait = {timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  return weft_sockets::poll(fds, count, timeout_ms < 0 ? nullptr : &wait);
}

}  // namespace

// Life of a socket.
WEFT_EXPORT int socket(int domain, int type, int protocol) noexcept {
  const int fd = fresh(libc::socket(domain, type, protocol));
  const bool is_tcp = weft_sockets::octets_of(domain) != 0 &&
                      (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM;
  if (fd >= 0 && is_tcp && weft_sockets::has_rules() &&
      weft_sockets::is_programs(__builtin_return_address(0)) && !weft_sockets::consider(fd) &&
      fd < weft_sockets::kNumbersMax) {
    libc::close(fd);
    return weft_sockets::no_memory();
  }
  return fd;
}

WEFT_EXPORT int bind(int fd, const sockaddr* address, socklen_t octets) noexcept {
  if (const SocketPtr socket = find(fd); socket != nullptr) {
    return weft_sockets::bind(*socket, address, octets);
  }
  return libc::bind(fd, address, octets);
}

WEFT_EXPORT int listen(int fd, int backlog) noexcept {
  if (const SocketPtr socket = find(fd); socket != nullptr) {
    return weft_sockets::listen(*socket, backlog);
  }
  if (shared_listener(fd) != nullptr) return 0;
  if (candidates().has(fd)) {
    if (const auto result = weft_sockets::listen_switched(fd, backlog); result) return *result;
  }
  return libc::listen(fd, backlog);
}

WEFT_EXPORT int accept4(int fd, sockaddr* address, socklen_t* octets, int flags) {
  if (const SocketPtr socket = find(fd); socket != nullptr) {
    return weft_sockets::accept(*socket, address, octets, flags);
  }
  if (shared_listener(fd) != nullptr) {
    return weft_sockets::accept_handed(fd, address, octets, flags);
  }
  return fresh(libc::accept4(fd, address, octets, flags));
}

WEFT_EXPORT int accept(int fd, sockaddr* address, socklen_t* octets) {
  if (const SocketPtr socket = find(fd); socket != nullptr) {
    return weft_sockets::accept(*socket, address, octets, 0);
  }
  if (shared_listener(fd) != nullptr) {
    return weft_sockets::accept_handed(fd, address, octets, 0);
  }
  return fresh(libc::accept(fd, address, octets));
}

WEFT_EXPORT int connect(int fd, const sockaddr* address, socklen_t octets) {
  if (const SocketPtr socket = find(fd); socket != nullptr) {
    return weft_sockets::connect(*socket, address, octets);
  }
  if (candidates().has(fd)) {
    const auto result = weft_sockets::connect_switched(fd, address, octets);
    if (result) return *result;
  }
  return libc::connect(fd, address, octets);
}

WEFT_EXPORT int shutdown(int fd, int how) noexcept {
  if (const SocketPtr socket = find(fd); socket != nullptr) {
    return weft_sockets::shutdown(*socket, how);
  }
  return libc::shutdown(fd, how);
}

WEFT_EXPORT int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const SocketPtr socket = request == FIONREAD || request == FIONBIO ? find(fd) : own(fd);
  if (socket != nullptr && request == FIONREAD) {
    *static_cast<int*>(argument) = static_cast<int>(socket->readable_octets());
    return 0;
  }
  const int result = libc::ioctl(fd, request, argument);
  if (socket != nullptr && result == 0 && request == FIONBIO) {
    socket->nonblocking = *static_cast<int*>(argument) != 0;
  }
  return result;
}

// Octets.
WEFT_EXPORT ssize_t read(int fd, void* to, size_t octets) {
  if (!weft_sockets::sockets().has(fd)) return libc::read(fd, to, octets);
  const SocketPtr socket = find(fd);
  return socket != nullptr ? receive_octets(*socket, to, octets, 0) : libc::read(fd, to, octets);
}
WEFT_EXPORT ssize_t write(int fd, const void* from, size_t octets) {
  if (!weft_sockets::sockets().has(fd)) return libc::write(fd, from, octets);
  const SocketPtr socket = find(fd);
  return socket != nullptr ? send_octets(*socket, from, octets, 0) : libc::write(fd, from, octets);
}
WEFT_EXPORT ssize_t readv(int fd, const iovec* vector, int count) {
  const SocketPtr socket = find(fd);
  if (socket == nullptr) return libc::readv(fd, vector, count);
  return weft_sockets::receive_vector(*socket, vector, count, 0);
}
WEFT_EXPORT ssize_t writev(int fd, const iovec* vector, int count) {
  const SocketPtr socket = find(fd);
  if (socket == nullptr) return libc::writev(fd, vector, count);
  return weft_sockets::send_vector(*socket, vector, count, 0);
}
WEFT_EXPORT ssize_t recv(int fd, void* to, size_t octets, int flags) {
  const SocketPtr socket = find(fd);
  if (looks_for_errors(fd, flags)) return fail(EAGAIN);
  if (socket == nullptr) return libc::recv(fd, to, octets, flags);
  return receive_octets(*socket, to, octets, flags);
}
WEFT_EXPORT ssize_t send(int fd, const void* from, size_t octets, int flags) {
  const SocketPtr socket = find(fd);
  if (socket == nullptr) return libc::send(fd, from, octets, flags);
  return send_octets(*socket, from, octets, flags);
}
WEFT_EXPORT ssize_t recvfrom(int fd, void* to, size_t octets, int flags, sockaddr* address,
                             socklen_t* address_octets) {
  const SocketPtr socket = find(fd);
  if (looks_for_errors(fd, flags)) return fail(EAGAIN);
  if (socket == nullptr) return libc::recvfrom(fd, to, octets, flags, address, address_octets);
  if (address != nullptr && address_octets != nullptr) *address_octets = 0;
  return receive_octets(*socket, to, octets, flags);
}
WEFT_EXPORT ssize_t sendto(int fd, const void* from, size_t octets, int flags,
                           const sockaddr* address, socklen_t address_octets) {
  const SocketPtr socket = find(fd);
  if (socket == nullptr) return libc::sendto(fd, from, octets, flags, address, address_octets);
  return send_octets(*socket, from, octets, flags);
}
WEFT_EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const SocketPtr socket = find(fd);
  if (looks_for_errors(fd, flags)) return fail(EAGAIN);
  if (socket == nullptr) return libc::recvmsg(fd, message, flags);
  return weft_sockets::receive_message(*socket, message, flags);
}
WEFT_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  const SocketPtr socket = find(fd);
  if (socket == nullptr) {
    // The other process would have a channel that nobody serves while we keep ours.
    if (weft_sockets::passes_ours(message)) return fail(EINVAL);
    return libc::sendmsg(fd, message, flags);
  }
  return weft_sockets::with_signal(weft_sockets::send_message(*socket, message, flags), flags);
}
// What a fortified program calls instead.
extern "C" {
WEFT_EXPORT ssize_t __read_chk(int fd, void* to, size_t octets, size_t room) {
  if (octets > room) std::abort();
  return ::read(fd, to, octets);
}
WEFT_EXPORT ssize_t __recv_chk(int fd, void* to, size_t octets, size_t room, int flags) {
  if (octets > room) std::abort();
  return ::recv(fd, to, octets, flags);
}
WEFT_EXPORT ssize_t __recvfrom_chk(int fd, void* to, size_t octets, size_t room, int flags,
                                   sockaddr* address, socklen_t* address_octets) {
  if (octets > room) std::abort();
  return ::recvfrom(fd, to, octets, flags, address, address_octets);
}
WEFT_EXPORT int __poll_chk(pollfd* fds, nfds_t count, int timeout_ms, size_t room) {
  if (count > room / sizeof(pollfd)) std::abort();
  return ::poll(fds, count, timeout_ms);
}
WEFT_EXPORT int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask,
                            size_t room) {
  if (count > room / sizeof(pollfd)) std::abort();
  return ::ppoll(fds, count, wait, mask);
}
}

// Readiness.
WEFT_EXPORT int poll(pollfd* fds, nfds_t count, int timeout_ms) {
  if (!any_ours(fds, count)) return libc::poll(fds, count, timeout_ms);
  return poll_ours(fds, count, timeout_ms);
}
WEFT_EXPORT int ppoll(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask) {
  if (!any_ours(fds, count)) return libc::ppoll(fds, count, wait, mask);
  return weft_sockets::poll(fds, count, wait, mask);
}
WEFT_EXPORT int select(int count, fd_set* readable, fd_set* writable, fd_set* exceptional,
                       timeval* timeout) {
  if (!any_ours(count, readable, writable, exceptional)) {
    return libc::select(count, readable, writable, exceptional, timeout);
  }
  if (timeout == nullptr) {
    return weft_sockets::select(count, readable, writable, exceptional, nullptr);
  }
  const timespec whole = time_of(*timeout);
  timespec wait = whole;
  const int ready = weft_sockets::select(count, readable, writable, exceptional, &wait);
  if (weft_sockets::is_time(whole)) *timeout = {wait.tv_sec, wait.tv_nsec / 1000};
  return ready;
}
WEFT_EXPORT int pselect(int count, fd_set* readable, fd_set* writable, fd_set* exceptional,
                        const timespec* wait, const sigset_t* mask) {
  if (!any_ours(count, readable, writable, exceptional)) {
    return libc::pselect(count, readable, writable, exceptional, wait, mask);
  }
  timespec rest{};
  if (wait != nullptr) rest = *wait;
  return weft_sockets::select(count, readable, writable, exceptional,
                              wait == nullptr ? nullptr : &rest, mask);
}
WEFT_EXPORT int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  if (candidates().has(fd)) weft_sockets::note_epoll(fd, epoll, operation, event);
  if (operation == EPOLL_CTL_DEL ? own(fd) != nullptr : looks_at_ours(fd)) {
    if (const SocketPtr socket = own(fd); socket != nullptr) {
      if (operation != EPOLL_CTL_DEL) socket->watch();
      epoll_sets.mark(epoll);
    }
  } else if (epoll_sets.has(fd)) {
    epoll_sets.mark(epoll);  // a set in a set
  }
  return libc::epoll_ctl(epoll, operation, fd, event);
}
WEFT_EXPORT int epoll_wait(int epoll, epoll_event* events, int count, int timeout_ms) {
  if (const auto found = wait_in_ours(epoll, events, count, timeout_ms, nullptr); found) {
    return *found;
  }
  return libc::epoll_wait(epoll, events, count, timeout_ms);
}
WEFT_EXPORT int epoll_pwait(int epoll, epoll_event* events, int count, int timeout_ms,
                            const sigset_t* mask) {
  if (const auto found = wait_in_ours(epoll, events, count, timeout_ms, mask); found) {
    return *found;
  }
  return libc::epoll_pwait(epoll, events, count, timeout_ms, mask);
}
WEFT_EXPORT int epoll_pwait2(int epoll, epoll_event* events, int count, const timespec* wait,
                             const sigset_t* mask) {
  if (epoll_sets.has(epoll) && (wait == nullptr || is_long(*wait))) {
    const auto found = weft_sockets::epoll_wait(epoll, events, count, wait, mask);
    if (found) return *found;
  }
  return libc::epoll_pwait2(epoll, events, count, wait, mask);
}

// Names and options.
WEFT_EXPORT int getsockname(int fd, sockaddr* address, socklen_t* octets) noexcept {
  const SocketPtr socket = own(fd);
  if (const SocketPtr parents = inherited(fd); parents != nullptr) {
    return inherited_name(*parents, false, address, octets);
  }
  if (socket == nullptr) {
    const socklen_t room = octets != nullptr ? *octets : 0;
    const int result = libc::getsockname(fd, address, octets);
    const SocketPtr came = result == 0 ? executed_with(fd, address, room) : nullptr;
    if (came == nullptr) return result;
    *octets = room;
    return inherited_name(*came, false, address, octets);
  }
  return weft_sockets::local_name(*socket, address, octets);
}
WEFT_EXPORT int getpeername(int fd, sockaddr* address, socklen_t* octets) noexcept {
  const SocketPtr socket = own(fd);
  if (const SocketPtr parents = inherited(fd); parents != nullptr) {
    return inherited_name(*parents, true, address, octets);
  }
  if (socket == nullptr) {
    const socklen_t room = octets != nullptr ? *octets : 0;
    const int result = libc::getpeername(fd, address, octets);
    const SocketPtr came = result == 0 ? executed_with(fd, address, room) : nullptr;
    if (came == nullptr) return result;
    *octets = room;
    return inherited_name(*came, true, address, octets);
  }
  return weft_sockets::peer_name(*socket, address, octets);
}
WEFT_EXPORT int setsockopt(int fd, int level, int name, const void* value,
                           socklen_t octets) noexcept {
  if (level == SOL_IWARP) {
    if (name == IWARP_OPERATIONS) return weft_sockets::set_operations(fd, value, octets);
    return name == IWARP_MODE ? weft_sockets::set_mode(fd, value, octets) : fail(ENOPROTOOPT);
  }
  // A socket that may yet be switched cannot keep what it was promised then.
  if (level == SOL_SOCKET && name == SO_ZEROCOPY && candidates().has(fd)) return fail(EOPNOTSUPP);
  SocketPtr socket = level == SOL_SOCKET ? find(fd) : own(fd);
  if (socket == nullptr && level != SOL_SOCKET) socket = inherited(fd);
  if (socket == nullptr) {
    const int result = libc::setsockopt(fd, level, name, value, octets);
    if (result == 0 || !is_foreign_to_unix(level)) return result;
    weft_sockets::attempt([&] { socket = weft_sockets::adopt(fd); });
    if (socket == nullptr) return fail(EOPNOTSUPP);
  }
  return weft_sockets::set_option(*socket, level, name, value, octets);
}
WEFT_EXPORT int getsockopt(int fd, int level, int name, void* value, socklen_t* octets) noexcept {
  if (level == SOL_IWARP) {
    if (name == IWARP_OPERATIONS) return weft_sockets::get_operations(fd, value, octets);
    return name == IWARP_MODE ? weft_sockets::get_mode(fd, value, octets) : fail(ENOPROTOOPT);
  }
  SocketPtr socket = own(fd);
  const bool kernel_knows = level == SOL_SOCKET && name != SO_DOMAIN && name != SO_PROTOCOL;
  if (socket == nullptr && !kernel_knows) socket = inherited(fd);
  if (socket == nullptr) {
    const int result = libc::getsockopt(fd, level, name, value, octets);
    if (result == 0 || !is_foreign_to_unix(level)) return result;
    weft_sockets::attempt([&] { socket = weft_sockets::adopt(fd); });
    if (socket == nullptr) return fail(EOPNOTSUPP);
  }
  return weft_sockets::get_option(*socket, level, name, value, octets);
}

// A process that ends at once takes no octets with it, as with TCP.
namespace {
/// libc's own _exit comes behind it, where nobody can stand. What is registered first runs last.
[[maybe_unused]] const int at_quick_exit =
    std::at_quick_exit([] { weft_sockets::leave_at_once(); });
}  // namespace
WEFT_EXPORT void _exit(int status) noexcept {
  weft_sockets::leave_at_once();
  for (;;) ::syscall(SYS_exit_group, status);
}
extern "C" __attribute__((visibility("default"), alias("_exit"), noreturn)) void _Exit(
    int) noexcept;
