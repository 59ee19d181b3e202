// What a number leads to: closing, duplicating, replacing, and what gives new ones.
#include "front/sockets/preload/descriptors.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <optional>
#include <utility>

#include "front/libibverbs/export.h"
#include "front/sockets/calls.h"
#include "front/sockets/kernel.h"
#include "front/sockets/no_memory.h"
#include "front/sockets/our_verbs.h"
#include "front/sockets/preload/candidate.h"
#include "front/sockets/preload/libc.h"
#include "front/sockets/preload/number_sets.h"
#include "front/sockets/preload/own.h"

namespace {

namespace weft_sockets = weft::sockets;
namespace libc = weft::sockets::libc;
using weft_sockets::candidates;
using weft_sockets::epoll_sets;
using weft_sockets::find;
using weft_sockets::fresh;
using weft_sockets::hidden_numbers;
using weft_sockets::inherited;
using weft_sockets::own;
using weft_sockets::SocketPtr;
using weft_sockets::vacate;

[[maybe_unused]] const bool made_early =
    (candidates().has(-1), weft_sockets::is_programs(nullptr), weft_sockets::has_tables = true);

/// The new number leads to the same socket, or to the same candidate.
int share(int from, int to) {
  if (from == to || fresh(to) < 0) return to;
  if (const SocketPtr socket = weft_sockets::sockets().find(from); socket != nullptr) {
    if (own(from) != nullptr && !weft_sockets::attempt([&] { socket->add_number(to); })) {
      libc::close(to);
      return weft_sockets::no_memory();
    }
    weft_sockets::sockets().set(to, socket);
  }
  if (auto candidate = candidates().find(from); candidate != nullptr) {
    candidates().set(to, std::move(candidate));
  }
  return to;
}

/// weft's verbs library has some numbers for a moment only, and knows when. Looked up with the
/// library, not when a forked child asks.
const auto beside_device =
    weft_sockets::of_our_verbs<int (*)(int, int, int)>("weft_dup3");

bool is_open(int fd) {
  return weft_sockets::kernel::fcntl(fd, F_GETFD) >= 0;
}

/// As dup3(fd, to, flags).
int put_under(int to, int fd, int flags) {
  if (fd != to && is_open(fd)) vacate(to);
  return share(fd,
               beside_device != nullptr ? beside_device(fd, to, flags) : libc::dup3(fd, to, flags));
}

/// Not those that our libraries had before a fork: there the program closes what it likes.
[[maybe_unused]] const int cleared_in_children =
    pthread_atfork(nullptr, nullptr, [] { hidden_numbers.clear(); });

/// Closes a number of a socket. Nothing: it is none, and the kernel's to close. `caller`: where the
/// call comes from.
std::optional<int> close_ours(int fd, const void* caller) {
  if (hidden_numbers.has(fd)) {
    if (weft_sockets::is_programs(caller)) return weft_sockets::fail(EBADF);
    hidden_numbers.unmark(fd);
  }
  if (candidates().has(fd)) candidates().take(fd);
  if (epoll_sets.has(fd)) epoll_sets.unmark(fd);
  if (!weft_sockets::sockets().has(fd)) return {};
  const SocketPtr socket = weft_sockets::sockets().find(fd);
  if (socket == nullptr) return {};
  return weft_sockets::close(fd, socket, false);
}

/// As close_range, of what the program knows.
int close_around(unsigned first, unsigned last, int flags) {
  for (;;) {
    const int next = hidden_numbers.next(first);
    const auto hidden = static_cast<unsigned>(next);
    if (next < 0 || hidden > last) return libc::close_range(first, last, flags);
    if (first < hidden && libc::close_range(first, hidden - 1, flags) != 0) return -1;
    if (hidden == last) return 0;
    first = hidden + 1;
  }
}

/// Gives both ends of what libc made.
int fresh_ends(int result, const int* ends) {
  if (result == 0) fresh(ends[0]), fresh(ends[1]);
  return result;
}

}  // namespace

void weft::sockets::vacate(int fd) {
  candidates().take(fd);
  forget(fd);
}

WEFT_EXPORT int close(int fd) {
  if (const auto closed = close_ours(fd, __builtin_return_address(0)); closed) return *closed;
  return libc::close(fd);
}

WEFT_EXPORT int dup(int fd) noexcept {
  return share(fd, libc::dup(fd));
}

WEFT_EXPORT int dup2(int fd, int to) noexcept {
  return fd == to ? libc::dup2(fd, to) : put_under(to, fd, 0);
}

WEFT_EXPORT int dup3(int fd, int to, int flags) noexcept {
  return put_under(to, fd, flags);
}

WEFT_EXPORT int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const long argument = va_arg(arguments, long);
  va_end(arguments);
  const bool made = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  if (const SocketPtr socket = command == F_SETFL ? find(fd) : own(fd); socket != nullptr) {
    const int result = weft_sockets::control(fd, *socket, command, argument);
    if (made && hidden_numbers.has(result)) hidden_numbers.unmark(result);
    return result;
  }
  const int result = libc::fcntl(fd, command, argument);
  if (!made) return result;
  return candidates().has(fd) || inherited(fd) != nullptr ? share(fd, result) : fresh(result);
}
extern "C" __attribute__((visibility("default"), alias("fcntl"))) int fcntl64(int, int, ...);

WEFT_EXPORT int close_range(unsigned first, unsigned last, int flags) noexcept {
  if ((flags & CLOSE_RANGE_CLOEXEC) == 0 && first <= last) {
    const auto in = [&](int fd) {
      return static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last;
    };
    weft_sockets::sockets().for_each([&](int fd, const SocketPtr&) {
      if (in(fd)) ::close(fd);
    });
    candidates().for_each([&](int fd, const auto&) {
      if (in(fd)) candidates().take(fd);
    });
  }
  return close_around(first, last, flags);
}

/// A child that runs in its parent's memory would close its parent's sockets before it executes.
/// POSIX lets vfork be fork.
WEFT_EXPORT pid_t vfork() noexcept {
  return ::fork();
}

WEFT_EXPORT void closefrom(int first) noexcept {
  ::close_range(static_cast<unsigned>(std::max(first, 0)), ~0u, 0);
}

/// libuv closes what it has by number, others duplicate so. Our own libraries enter the kernel by
/// this function too, and mean the kernel. No cancellation point, unlike close().
WEFT_EXPORT __attribute__((no_sanitize("address"))) long syscall(long number, ...) noexcept {
  // All six, whatever the call has: no_sanitize, as the last may not be there.
  va_list arguments;
  va_start(arguments, number);
  const long a = va_arg(arguments, long), b = va_arg(arguments, long), c = va_arg(arguments, long),
             d = va_arg(arguments, long), e = va_arg(arguments, long), f = va_arg(arguments, long);
  va_end(arguments);
  const void* const caller = __builtin_return_address(0);
  const auto is_programs = [caller] {
    return weft_sockets::has_tables && weft_sockets::is_programs(caller);
  };
  switch (number) {
    case SYS_close: {
      const auto fd = static_cast<int>(a);
      if (!is_programs()) {
        if (hidden_numbers.has(fd)) hidden_numbers.unmark(fd);
        break;
      }
      if (const auto closed = close_ours(fd, caller); closed) return *closed;
      break;
    }
    case SYS_fcntl: {
      // Above some number: not the program's (base/number_gate.h).
      if (b != F_DUPFD_CLOEXEC || c == 0 || !weft_sockets::has_tables || is_programs()) break;
      const long made = libc::syscall(number, a, b, c, d, e, f);
      hidden_numbers.mark(static_cast<int>(made));
      return made;
    }
    case SYS_dup:
      if (is_programs()) return ::dup(static_cast<int>(a));
      break;
#ifdef SYS_dup2
    case SYS_dup2:
      if (is_programs()) return ::dup2(static_cast<int>(a), static_cast<int>(b));
      break;
#endif
    case SYS_dup3:
      if (!is_programs()) break;
      return ::dup3(static_cast<int>(a), static_cast<int>(b), static_cast<int>(c));
    case SYS_close_range:
      if (!is_programs()) break;
      return ::close_range(static_cast<unsigned>(a), static_cast<unsigned>(b), static_cast<int>(c));
    default:
      break;
  }
  return libc::syscall(number, a, b, c, d, e, f);
}

// What gives new numbers, beside sockets; see fresh().
WEFT_EXPORT int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return fresh(libc::open(path, flags, mode));
}
WEFT_EXPORT int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return fresh(libc::openat(folder, path, flags, mode));
}
WEFT_EXPORT int creat(const char* path, mode_t mode) {
  return fresh(libc::creat(path, mode));
}
WEFT_EXPORT int pipe(int* ends) noexcept {
  return fresh_ends(libc::pipe(ends), ends);
}
WEFT_EXPORT int pipe2(int* ends, int flags) noexcept {
  return fresh_ends(libc::pipe2(ends, flags), ends);
}
WEFT_EXPORT int socketpair(int domain, int type, int protocol, int* ends) noexcept {
  return fresh_ends(libc::socketpair(domain, type, protocol, ends), ends);
}
WEFT_EXPORT int eventfd(unsigned value, int flags) noexcept {
  return fresh(libc::eventfd(value, flags));
}
WEFT_EXPORT int epoll_create(int size) noexcept {
  return fresh(libc::epoll_create(size));
}
WEFT_EXPORT int epoll_create1(int flags) noexcept {
  return fresh(libc::epoll_create1(flags));
}
extern "C" {
__attribute__((visibility("default"), alias("open"))) int open64(const char*, int, ...);
__attribute__((visibility("default"), alias("openat"))) int openat64(int, const char*, int, ...);
__attribute__((visibility("default"), alias("creat"))) int creat64(const char*, mode_t);
// What a fortified program calls instead.
WEFT_EXPORT int __open_2(const char* path, int flags) {
  return fresh(libc::open(path, flags, 0));
}
WEFT_EXPORT int __openat_2(int folder, const char* path, int flags) {
  return fresh(libc::openat(folder, path, flags, 0));
}
__attribute__((visibility("default"), alias("__open_2"))) int __open64_2(const char*, int);
__attribute__((visibility("default"), alias("__openat_2"))) int __openat64_2(int, const char*, int);
}
