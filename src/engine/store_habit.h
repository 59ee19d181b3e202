// Whether what another core reads next is better stored past the caches.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::engine {

/// To store where another core has read takes no longer than elsewhere while the two share a cache,
/// and ten times as long while theirs are far apart; in a virtual machine that changes by the
/// minute. Past the caches it takes the same always, and the other core reads a little longer. How
/// long an ordinary copy takes tells which is better, so there is one again and again.
///
/// Threads: any. The answer is a guess, and what is noted by several at once is noted of one.
class StoreHabit {
 public:
  /// Are these octets to be stored past the caches? No: note() how long that took.
  bool goes_past(std::size_t octets) {
    const std::uint64_t left = left_.load(std::memory_order_relaxed);
    if (left == 0) return false;
    left_.store(left > octets ? left - octets : 0, std::memory_order_relaxed);
    return true;
  }
  /// `ticks`: of the processor's clock.
  void note(std::size_t octets, std::uint64_t ticks) {
    if (ticks * kSlowOctetsPerTick > octets) left_.store(kPastInARow, std::memory_order_relaxed);
  }

 private:
  /// Where the caches are shared a copy and its CRC do 7 and more, by folding; where they are not,
  /// 0.5 to 3. Past the caches it is 5 to 8.
  static constexpr std::uint64_t kSlowOctetsPerTick = 4;
  static constexpr std::uint64_t kPastInARow = 64 * 1024 * 1024;  ///< octets

  std::atomic<std::uint64_t> left_{0};
};

}  // namespace weft::engine
