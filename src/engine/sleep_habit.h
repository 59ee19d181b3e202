// Where a program sleeps when it has armed its CQs: in the RNIC (docs/adr/0014), or elsewhere.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace weft::engine {

/// Threads: any; what gets lost between two of them does not matter.
class SleepHabit {
 public:
  /// A CQ is armed: the program is about to sleep. True: it has not slept in here of late, so it
  /// will do so elsewhere, and somebody else has to be awake.
  bool note_arming() {
    const std::uint32_t before = armings();
    armings_.store(before + 1, std::memory_order_relaxed);
    return before - at_sleep_.load(std::memory_order_relaxed) >=
           per_sleep_.load(std::memory_order_relaxed);
  }
  /// It sleeps in here. Between two sleeps a program of many CQs arms those that had work, and next
  /// time some more.
  void note_sleep() {
    const std::uint32_t armed = armings() - at_sleep_.load(std::memory_order_relaxed);
    const std::uint32_t fading = per_sleep_.load(std::memory_order_relaxed) * 7 / 8;
    per_sleep_.store(std::max(armed > 1 ? std::min(2 * armed, kMost) : 1u, fading),
                     std::memory_order_relaxed);
    at_sleep_.store(armings(), std::memory_order_relaxed);
  }
  std::uint32_t armings() const { return armings_.load(std::memory_order_relaxed); }

 private:
  /// However many it armed, a program that went elsewhere is found out after these.
  static constexpr std::uint32_t kMost = 4096;

  std::atomic<std::uint32_t> armings_{0};
  std::atomic<std::uint32_t> at_sleep_{0};   ///< of them, at the last sleep
  std::atomic<std::uint32_t> per_sleep_{1};  ///< so many without a sleep are a sign
};

}  // namespace weft::engine
