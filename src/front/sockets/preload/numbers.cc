// What a number leads to: closing, duplicating, replacing.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <utility>

#include "front/libibverbs/export.h"
#include "front/sockets/calls.h"
#include "front/sockets/kernel.h"
#include "front/sockets/no_memory.h"
#include "front/sockets/our_verbs.h"
#include "front/sockets/preload/candidate.h"
#include "front/sockets/preload/epoll_sets.h"
#include "front/sockets/preload/libc.h"
#include "front/sockets/preload/own.h"

namespace {

namespace weft_sockets = weft::sockets;
namespace libc = weft::sockets::libc;
using weft_sockets::candidates;
using weft_sockets::epoll_sets;
using weft_sockets::find;
using weft_sockets::inherited;
using weft_sockets::own;
using weft_sockets::SocketPtr;

/// The new number leads to the same socket, or to the same candidate.
int share(int from, int to) {
  if (to < 0 || from == to) return to;
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

/// The number is about to lead to something else, or nowhere: what was there loses it.
void vacate(int fd) {
  candidates().take(fd);
  const SocketPtr socket = weft_sockets::sockets().take(fd);
  if (socket == nullptr) return;
  const bool mine = socket->made_in == weft_sockets::fork_generation();
  if ((mine || socket->is_shared()) && socket->remove_number(fd) && mine) socket->close(false);
}

bool is_open(int fd) {
  return weft_sockets::kernel::fcntl(fd, F_GETFD) >= 0;
}

/// As dup3(fd, to, flags).
int put_under(int to, int fd, int flags) {
  if (fd != to && is_open(fd)) vacate(to);
  return share(fd,
               beside_device != nullptr ? beside_device(fd, to, flags) : libc::dup3(fd, to, flags));
}

}  // namespace

WEFT_EXPORT int close(int fd) {
  if (candidates().has(fd)) candidates().take(fd);
  if (epoll_sets.has(fd)) epoll_sets.unmark(fd);
  if (weft_sockets::sockets().has(fd)) {
    const SocketPtr socket = weft_sockets::sockets().find(fd);
    if (socket != nullptr) return weft_sockets::close(fd, socket, false);
  }
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
  if (const SocketPtr socket = command == F_SETFL ? find(fd) : own(fd); socket != nullptr) {
    return weft_sockets::control(fd, *socket, command, argument);
  }
  const int result = libc::fcntl(fd, command, argument);
  const bool made = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  return made && (candidates().has(fd) || inherited(fd) != nullptr) ? share(fd, result) : result;
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
  return libc::close_range(first, last, flags);
}

/// A child that runs in its parent's memory would close its parent's sockets before it executes.
/// POSIX lets vfork be fork.
WEFT_EXPORT pid_t vfork() noexcept {
  return ::fork();
}

WEFT_EXPORT void closefrom(int first) noexcept {
  ::close_range(static_cast<unsigned>(std::max(first, 0)), ~0u, 0);
}
