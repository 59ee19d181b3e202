// How a thread waits: in the kernel's poll, on a descriptor of its own that others can write to.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <optional>

#include "base/patience.h"
#include "base/result.h"

namespace weft::sockets {

using Clock = std::chrono::steady_clock;
/// Empty: for ever.
using Deadline = std::optional<Clock::time_point>;

/// More seconds than these, some decades, are for ever.
inline constexpr time_t kForEverS = 1'000'000'000;
/// What the kernel takes for a time to wait.
inline bool is_time(const timespec& wait) {
  return wait.tv_sec >= 0 && wait.tv_nsec >= 0 && wait.tv_nsec < 1'000'000'000;
}
/// Null: for ever.
inline Deadline deadline_after(const timespec* wait, Clock::time_point now = Clock::now()) {
  if (wait == nullptr || wait->tv_sec >= kForEverS) return {};
  return now + std::chrono::seconds(wait->tv_sec) + std::chrono::nanoseconds(wait->tv_nsec);
}

/// An eventfd of ours, which does not block. Errors: EMFILE, ENFILE.
Result<int> make_event_fd();

/// The calling thread's descriptor that wakes it, made when first asked for; in a forked child, a
/// new one. Errors: EMFILE, ENFILE.
Result<int> own_wake_fd();
/// The same; -1: it was not asked for.
int made_wake_fd();
void wake(int wake_fd);
/// Takes back what woke this thread.
void settle(int wake_fd);

/// As ppoll(2), which it may end before, with 0: look at your sockets. Over weft's own verbs
/// library the calling thread works for the device while it sleeps, and is not woken by another
/// one.
int sleep(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask = nullptr);
/// The same for a thread that waits for none of the device's completions: it leaves the work, and
/// the wake-ups that come with it, to those who do.
int sleep_idly(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask = nullptr);
/// For a thread that may have left sleep() by a jump out of a signal handler. Costs nothing else.
void end_jumped_sleep();
/// Part of it (epoll.cc).
void end_jumped_turn();
/// The calling thread works for the device for a moment, where sleep() would.
void look();

/// So long is looked for before a sleep.
inline constexpr auto kLook = std::chrono::microseconds(50);
/// The calling thread's.
Patience& own_patience();

/// Asks `found()` for a moment, not beyond `deadline`. True: it was.
template <typename Found>
bool look_for(const Deadline& deadline, Found found) {
  Patience& patience = own_patience();
  if (!patience.is_worth()) return false;
  const auto now = Clock::now();
  const auto end = deadline ? std::min(now + kLook, *deadline) : now + kLook;
  bool is_found = false;
  while (!is_found && Clock::now() < end) is_found = found();
  patience.tell(is_found);
  return is_found;
}

/// Counts the forks that led to this process: what was made in an earlier one is not ours.
unsigned fork_generation();

}  // namespace weft::sockets
