// A short sleep whose end another thread may bring on, or put off.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace weft::engine {

/// Threads: one waits; any interrupts; one at a time pushes.
class Nap {
 public:
  /// A pushed nap ends so long after the last push.
  ///
  /// Longer than the kernel's tick is (4 ms, mostly): to set the timer that is the next of its
  /// processor to expire is to set the hardware, which takes a virtual machine 10 us, as a look of
  /// the progress thread does; another one takes 0.5 us.
  static constexpr Duration kPushed = std::chrono::milliseconds(5);

  Nap() = default;
  ~Nap();
  Nap(const Nap&) = delete;
  Nap& operator=(const Nap&) = delete;

  /// Makes the timer of pushed naps, if there is a descriptor for it.
  void open();
  bool can_be_pushed() const { return timer_ >= 0; }

  /// Up to `us` microseconds, below a second. False: interrupted.
  bool wait(int us);
  /// Ends when push() has not been called for kPushed. May end early. False: interrupted.
  bool wait_pushed();

  /// Puts off the end of a wait_pushed; does nothing to any other wait. Cheap: sets the timer only
  /// once in a while. True: it did so just now.
  bool push(Instant now) {
    if (!is_pushed()) return false;
    if (now.ns - set_ns_.load(std::memory_order_relaxed) < kPushEvery.count()) return false;
    push_timer(now);
    return true;
  }
  /// Does somebody wait, and was not interrupted?
  bool is_under_way() const {
    const std::uint32_t word = word_.load(std::memory_order_relaxed);
    return word == kAsleep || word == kAsleepPushed;
  }
  /// Does somebody wait in wait_pushed?
  bool is_pushed() const { return word_.load(std::memory_order_relaxed) == kAsleepPushed; }
  /// Ends a wait; does nothing when there is none.
  void interrupt();

 private:
  static constexpr Duration kPushEvery = kPushed / 4;
  static constexpr std::uint32_t kAwake = 0, kAsleep = 1, kAsleepPushed = 2, kInterrupted = 3;

  bool set_timer(Instant now);
  void expire_timer();
  void push_timer(Instant now);

  std::atomic<std::uint32_t> word_{kAwake};
  std::atomic<std::int64_t> set_ns_{0};  ///< when the timer was set
  int timer_ = -1;
};

}  // namespace weft::engine
