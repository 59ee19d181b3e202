// Readiness by a pair of UNIX sockets.
#include "front/sockets/mirror.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "base/number_gate.h"
#include "front/sockets/kernel.h"
#include "front/sockets/numbers.h"

namespace weft::sockets {
namespace {

/// One message of this size in the smallest send buffer leaves the socket not writable.
constexpr std::size_t kFillOctets = 2048;
/// So many lie there at most.
constexpr unsigned kOctetsMax = 16;

/// Our ends, by their numbers. A child closes its copies: while one is open, wherever, whoever has
/// the other end, or waits for an answer, is not told that we have gone.
class FarEnds {
 public:
  void set(int fd, bool open) {
    if (fd < 0 || fd >= kNumbers) return;
    auto& word = words_[static_cast<unsigned>(fd) / 64];
    const std::uint64_t bit = std::uint64_t{1} << fd % 64;
    if (open) {
      word.fetch_or(bit, std::memory_order_relaxed);
      note(fd);
    } else {
      word.fetch_and(~bit, std::memory_order_relaxed);
    }
  }
  /// In a child, which has no other threads.
  void close_all() {
    for (int fd = 0; fd <= last_.load(std::memory_order_relaxed); ++fd) {
      auto& word = words_[static_cast<unsigned>(fd) / 64];
      if ((word.load(std::memory_order_relaxed) >> fd % 64 & 1) == 0) continue;
      kernel::close(fd);
      set(fd, false);
    }
    last_ = -1;
  }

 private:
  static constexpr int kNumbers = 1024 * 1024;

  void note(int fd) {
    int last = last_.load(std::memory_order_relaxed);
    while (last < fd && !last_.compare_exchange_weak(last, fd, std::memory_order_relaxed)) {
    }
  }

  std::array<std::atomic<std::uint64_t>, kNumbers / 64> words_{};
  std::atomic<int> last_{-1};
};

constinit FarEnds far_ends;
/// Registered before any other thread can fork.
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { far_ends.close_all(); });

}  // namespace

void close_in_children(int fd) {
  far_ends.set(fd, true);
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
  far_ends.set(far_, true);
  return ends[0];
}

void Mirror::close() {
  if (far_ >= 0) {
    far_ends.set(far_, false);
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
