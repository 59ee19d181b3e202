// epoll and a wake-up, in one object.
#pragma once

#include <poll.h>
#include <sys/epoll.h>

#include <csignal>
#include <cstdint>
#include <ctime>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/time.h"

namespace weft::engine {

/// Threads: any call from any thread (the kernel's own rules for epoll and eventfd), but one at a
/// time waits. None but sleep() is a cancellation point: they are called with locks held.
class Poller {
 public:
  Poller() = default;
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  /// EMFILE and its like.
  Result<void> open();
  /// Interest in `fd`; `events` are EPOLLIN, EPOLLOUT, EPOLLRDHUP and EPOLLET bits. `key` comes
  /// back. ENOSPC (the user's limit), ENOMEM, EPERM (cannot be watched): as it was before.
  Result<void> add(int fd, std::uint32_t events, std::uint64_t key);
  Result<void> modify(int fd, std::uint32_t events, std::uint64_t key);
  void remove(int fd);
  /// Waits up to timeout_ms (-1: for ever, 0: not at all). The wake-up is consumed and not listed.
  std::span<const epoll_event> wait(int timeout_ms, std::span<epoll_event> out);
  /// What is there now, for who does not wait here: a wake-up is left to who does.
  std::span<const epoll_event> look(std::span<epoll_event> out);
  /// As wait, to less than a millisecond; a kernel before 5.11 takes a whole one. `timer_due`: the
  /// timer ended it, or would have.
  std::span<const epoll_event> wait_briefly(Duration timeout, std::span<epoll_event> out,
                                            bool& timer_due);
  /// Waits as wait() would and takes nothing, so that nobody else misses an edge. Is there
  /// something?
  /// A wake-up is consumed.
  bool await(Duration most);
  /// As await(), for a program's thread: a cancellation point, and EINTR when a signal ended it.
  /// `mask`: the signals that are blocked meanwhile; null: as they are.
  Result<void> sleep(int timeout_ms, const sigset_t& mask);
  /// As ppoll with all its results, and this poller beside: `more` has a place for it behind the
  /// others. True: the poller has something. No cancellation point.
  Result<bool> sleep_among(std::span<pollfd> more, const timespec* wait, const sigset_t* mask);
  /// Ends a wait() of another thread, or the next one.
  void wake();
  /// Makes the timer; once it is there this does nothing. EMFILE, ENFILE, ENOMEM, ENOSPC.
  Result<void> open_timer();
  /// From `when` (CLOCK_MONOTONIC) on no wait() lasts, until the timer is set anew; empty: it is
  /// off. Finer than a wait's timeout, and it shows at fd(). Only after open_timer.
  void set_timer(std::optional<Instant> when);
  int fd() const { return epoll_; }
  int wake_fd() const { return wake_; }

 private:
  /// As epoll_wait; no cancellation point.
  long ask(int timeout_ms, std::span<epoll_event> out) const;
  /// Takes the wake-up, if it is among what epoll_wait returned.
  void take_wakeup(std::span<const epoll_event> events);
  void take_wakeup();
  /// Drops what is not a stream's or a listener's; `n` as epoll_wait returned it.
  static std::span<const epoll_event> keep(long n, std::span<epoll_event> out);
  std::span<const epoll_event> take_and_keep(long n, std::span<epoll_event> out);
  Result<void> control(int operation, int fd, std::uint32_t events, std::uint64_t key);

  int epoll_ = -1;
  int wake_ = -1;
  int timer_ = -1;
};

}  // namespace weft::engine
