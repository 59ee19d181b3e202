// Readiness by a pair of UNIX sockets.
#include "front/sockets/mirror.h"

#include <pthread.h>

#include <array>
#include <cerrno>

#include "base/number_gate.h"
#include "front/sockets/kernel.h"
#include "front/sockets/number_set.h"
#include "front/sockets/numbers.h"

namespace weft::sockets {
namespace {

/// One message of this size in the smallest send buffer leaves the socket not writable.
constexpr std::size_t kFillOctets = 2048;
/// So many lie there at most.
constexpr unsigned kOctetsMax = 16;

/// Our ends, by their numbers. A child closes its copies: while one is open, wherever, whoever has
/// the other end, or waits for an answer, is not told that we have gone.
constinit NumberSet far_ends;

/// In a child, which has no other threads.
void close_far_ends() {
  for (int fd = far_ends.next(0); fd >= 0; fd = far_ends.next(static_cast<unsigned>(fd) + 1)) {
    kernel::close(fd);
    far_ends.unmark(fd);
  }
}

/// Registered before any other thread can fork.
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, close_far_ends);

}  // namespace

void close_in_children(int fd) {
  far_ends.mark(fd);
}

Result<int> Mirror::open(int flags, Near near) {
  int ends[2] = {-1, -1}, code = 0;
  beside_dup3([&] {
    code = kernel::socketpair(SOCK_STREAM | SOCK_CLOEXEC, ends) == 0 ? 0 : errno;
    far_ = out_of_the_way(ends[1]);
    if (near == Near::Passed) ends[0] = out_of_the_way(ends[0]);
  });
  if (code != 0) return Error{code, "no descriptor for a socket"};
  const int smallest = 1;
  kernel::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &smallest, sizeof smallest);
  if ((flags & SOCK_CLOEXEC) == 0) kernel::fcntl(ends[0], F_SETFD, 0);
  if ((flags & SOCK_NONBLOCK) != 0) kernel::fcntl(ends[0], F_SETFL, O_RDWR | O_NONBLOCK);
  far_ends.mark(far_);
  return ends[0];
}

void Mirror::close() {
  if (far_ >= 0) {
    far_ends.unmark(far_);
    kernel::close(far_);
  }
  far_ = -1;
  octets_ = 0;
  full_ = false;
}

void Mirror::show_readable(int near, bool readable) {
  if (far_ < 0 || readable == (octets_ != 0) || ended_) return;
  if (readable) return show_more(near);
  take_octets(near);
}

void Mirror::take_octets(int near) {
  if (octets_ == 0) return;
  std::array<char, kOctetsMax> octets;
  kernel::recv(near, octets.data(), octets.size(), MSG_DONTWAIT);
  octets_ = 0;
}

void Mirror::show_more(int near) {
  if (far_ < 0 || ended_) return;
  ++changes_;
  if (octets_ == kOctetsMax) {
    // It is the arrival of one that tells. One stays, so that it is readable all the time.
    std::array<char, kOctetsMax - 1> octets;
    kernel::recv(near, octets.data(), octets.size(), MSG_DONTWAIT);
    octets_ = 1;
  }
  if (kernel::send(far_, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) ++octets_;
}

void Mirror::show_writable(int near, bool writable) {
  if (far_ < 0 || writable != full_ || hung_up_) return;
  ++changes_;
  std::array<char, kFillOctets> octets{};
  if (writable) {
    kernel::recv(far_, octets.data(), octets.size(), MSG_DONTWAIT);
  } else {
    kernel::send(near, octets.data(), octets.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  full_ = !writable;
}

void Mirror::clear(int near) {
  if (far_ < 0) return;
  take_octets(near);  // at the end of the peer's direction too
  show_writable(near, true);
  const int usual = 256 * 1024;
  kernel::setsockopt(near, SOL_SOCKET, SO_SNDBUF, &usual, sizeof usual);
}

bool Mirror::is_readable(int near) const {
  pollfd fd{near, POLLIN, 0};
  const timespec at_once{};
  return kernel::ppoll(&fd, 1, &at_once) > 0;
}

bool Mirror::is_abandoned() const {
  if (far_ < 0 || hung_up_) return true;
  pollfd fd{far_, 0, 0};
  const timespec at_once{};
  return kernel::ppoll(&fd, 1, &at_once) != 0 && (fd.revents & (POLLHUP | POLLERR)) != 0;
}

bool Mirror::has_legacy() const {
  char octet = 0;
  return far_ >= 0 && kernel::recv(far_, &octet, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void Mirror::show_end() {
  if (far_ < 0 || ended_) return;
  ++changes_;
  kernel::shutdown(far_, SHUT_WR);
  ended_ = true;
}

void Mirror::show_hang_up() {
  if (far_ < 0 || hung_up_) return;
  show_end();
  ++changes_;
  kernel::shutdown(far_, SHUT_RDWR);
  hung_up_ = true;
}

}  // namespace weft::sockets
