// Whether the program keeps polling, or goes away between its polls.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace weft::engine {

/// Noted by who polls, read by the progress thread.
class Presence {
 public:
  /// Away is who polls so late.
  static constexpr Duration kAway = std::chrono::microseconds(500);

  void note(Instant now) {
    const std::int64_t before = at_ns_.load(std::memory_order_relaxed);
    at_ns_.store(now.ns, std::memory_order_relaxed);
    if (now.ns - before > kAway.count()) {
      times_away_.store(times_away() + 1, std::memory_order_relaxed);
    }
  }
  std::uint32_t times_away() const { return times_away_.load(std::memory_order_relaxed); }
  bool is_here(Instant now) const {
    return now.ns - at_ns_.load(std::memory_order_relaxed) <= kAway.count();
  }

 private:
  std::atomic<std::int64_t> at_ns_{0};
  std::atomic<std::uint32_t> times_away_{0};
};

}  // namespace weft::engine
