// How a call of a socket waits; only for the sources of Socket.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "base/signals.h"
#include "front/sockets/kernel.h"
#include "front/sockets/socket.h"

namespace weft::sockets {

/// What is left until `deadline`, for ppoll. Null: for ever.
inline const timespec* remaining(const Deadline& deadline, timespec& room) {
  if (!deadline) return nullptr;
  const auto left = std::max(Clock::duration::zero(), *deadline - Clock::now());
  const auto nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
  room = {static_cast<time_t>(nanos / 1'000'000'000), static_cast<long>(nanos % 1'000'000'000)};
  return &room;
}

/// Ends a wait however it is left, with the mutex held.
struct Socket::EndOfWait {
  Socket& socket;
  int wake_fd;
  ~EndOfWait() { socket.stop_waiting(wake_fd); }
};

/// Drives the connection until `ready()`, which is asked with the mutex held, as is this. From the
/// first sleep on the thread takes signals in sleeps alone, or one that comes in between would go
/// unheard. `none` keeps it so for those who wait again; it is declared before `lock`, since what
/// is pending at its end runs there, and may use this socket. Errors: EAGAIN: the deadline passed;
/// EINTR; EMFILE; ESTALE: another process uses it too, so go on at the descriptor.
template <typename Ready>
Result<void> Socket::wait(std::unique_lock<Mutex>& lock, std::optional<NoSignals>& none,
                          Deadline deadline, Ready ready) {
  if (relayed_) return Error{ESTALE, "another process uses it too"};
  drive();
  if (ready()) return {};
  const auto found = [&] {
    drive();
    return ready();
  };
  if (state_ == State::Connected && look_for(deadline, found)) return {};
  const auto own = own_wake_fd();
  if (!own) return own.error();
  waiters_.push_back({*own, pthread_self()});
  const EndOfWait end{*this, *own};
  if (!none) none.emplace();
  Result<void> result;
  while (!ready()) {
    const bool connected = lane_ != nullptr && state_ == State::Connected;
    if (connected && arm()) continue;
    std::array<pollfd, 2> fds{{{*own, POLLIN, 0}, {connected ? lane_->event_fd() : -1, POLLIN, 0}}};
    lock.unlock();
    timespec room{};
    const int count = (connected ? sleep : sleep_idly)(fds.data(), fds.size(),
                                                       remaining(deadline, room), &none->before());
    bool interrupted = count < 0 && errno == EINTR;
    if (fds[0].revents != 0) settle(*own);
    lock.lock();
    if (relayed_) return Error{ESTALE, "another process uses it too"};
    if (fds[1].revents != 0 && lane_ != nullptr) lane_->take_event();
    drive();
    if (ready()) break;
    if (count == 0 && deadline && *deadline <= Clock::now()) {
      result = Error{EAGAIN, "not in time"};
      break;
    }
    // As the kernel has it, a limit of time makes calls end that would be restarted.
    interrupted |= count > 0 && takes_signal(none->before());
    if (interrupted && (deadline || !handlers_restart())) {
      result = Error{EINTR, "interrupted"};
      break;
    }
  }
  return result;
}

/// For one wait by who was given the lock; pending signals are taken under it.
template <typename Ready>
Result<void> Socket::wait(std::unique_lock<Mutex>& lock, Deadline deadline, Ready ready) {
  std::optional<NoSignals> none;
  return wait(lock, none, deadline, ready);
}

}  // namespace weft::sockets
