// The descriptor that tells a program "an event is waiting": of a completion channel, of a
// context's asynchronous events, of a connection manager's channel.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/number_gate.h"
#include "base/result.h"
#include "base/signals.h"
#include "device/device.h"

namespace weft::verbs {

/// Counts the events of a queue in an eventfd, so that the program's own poll(), O_NONBLOCK and
/// signals work as with a kernel device.
///
/// Invariant: the eventfd's count is the number of queued events, less those that a thread in
/// wait() will find by itself, or a taker has taken. The owner keeps it by calling add, remove,
/// hand and settle under the lock of its queue; nobody else reads the eventfd.
///
/// When the engine runs inline, fd() is an epoll descriptor over the eventfd and the device's
/// progress descriptor: the program then also wakes when there is protocol work, calls for an event
/// and by that does the work. It may find none; with O_NONBLOCK that is EAGAIN.
class WakeFd {
 public:
  /// What a thread does that waits.
  enum class Waiting : std::uint8_t {
    Works,   ///< it is the RNIC meanwhile, if no other thread is
    Sleeps,  ///< nothing: for queues whose events are rare
  };

  WakeFd() = default;
  WakeFd(const WakeFd&) = delete;
  WakeFd& operator=(const WakeFd&) = delete;
  ~WakeFd();

  /// Called once, first. Error: errno of the system call. The device outlives this object.
  Result<void> open(device::Device& device, Numbers numbers);

  /// For the program: it may poll it and set O_NONBLOCK, and never reads it.
  int fd() const { return program_fd_; }

  void add(std::uint32_t events);
  void remove(std::uint32_t events);
  /// From now on add() asks `taker(cookie)` first: true means that the calling thread takes the
  /// events itself, soon, and the eventfd does not count them. It calls nothing of this library.
  /// Null: nobody is asked any more. What was not taken yet is counted.
  using Taker = bool (*)(void* cookie);
  void hand(Taker taker, void* cookie);
  /// Called when a thread that was in wait() takes what it found, or gives up.
  void settle();

  /// A call that waits, from when it found its queue empty until it returns. The thread takes its
  /// signals while it waits in the kernel and not while it works for the device, so that the call
  /// hears of each.
  class Wait {
    friend class WakeFd;
    bool progressed_ = false;
    std::optional<NoSignals> none_;
  };
  /// Waits until an event may be there. Called without the queue's lock, after the queue was found
  /// empty, again and again until it is not.
  /// Returns 0 (look again), EAGAIN (the program set O_NONBLOCK), EINTR (a handler ran, and not all
  /// were installed with SA_RESTART), or another errno. A cancellation point.
  int wait(Wait& wait, Waiting how = Waiting::Sleeps);

 private:
  /// With this mask in the kernel. Returns 0, EINTR (a signal, of whatever kind), or another errno.
  int sleep(Waiting how, const sigset_t& mask);
  int sleep_inline(const sigset_t& mask);

  device::Device* device_ = nullptr;
  int event_fd_ = -1;
  int program_fd_ = -1;
  std::atomic<std::uint32_t> queued_{0};
  std::uint32_t uncounted_ = 0;  ///< of the queued ones: not in the eventfd
  Taker taker_ = nullptr;
  void* taker_cookie_ = nullptr;
};

}  // namespace weft::verbs
