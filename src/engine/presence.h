// Whether the program keeps polling, or goes away between its polls.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace weft::engine {

/// Noted by who polls, read by the progress thread.
class Presence {
 public:
  /// Away is who polls so late.
  static constexpr Duration kAway = std::chrono::milliseconds(2);
  /// So is who comes later than this for more of the time than one part in so many: it computes
  /// between its polls, and would keep its peers waiting again and again.
  static constexpr Duration kLate = std::chrono::microseconds(500);
  static constexpr std::int64_t kLateShare = 16;
  /// Who was not away for so long stays. Eight times what it can keep its peers waiting for when it
  /// goes away then (Nap::kPushed).
  static constexpr Duration kLong = std::chrono::milliseconds(40);

  /// A poll. True: it stays.
  bool note(Instant now) {
    const std::int64_t gap = now.ns - at_ns_.load(std::memory_order_relaxed);
    late_ns_ -= std::min(late_ns_, gap / kLateShare);
    gap_ns_ = gap;
    if (gap > kLate.count()) late_ns_ += gap;
    if (is_away(now) || late_ns_ > kAway.count()) {
      late_ns_ = 0;
      since_ns_.store(now.ns, std::memory_order_relaxed);
    }
    at_ns_.store(now.ns, std::memory_order_relaxed);
    return stays(now);
  }
  /// Between its last two polls; for who notes.
  Duration last_gap() const { return Duration{gap_ns_}; }
  /// A poll brought many completions: the program works on them, and then comes again.
  void note_much(Instant now) { much_ns_.store(now.ns, std::memory_order_relaxed); }
  /// It armed a CQ: perhaps it sleeps.
  void note_arming() { much_ns_.store(kNever, std::memory_order_relaxed); }
  bool is_at_work(Instant now) const {
    return now.ns - much_ns_.load(std::memory_order_relaxed) <= kAway.count();
  }
  bool stays(Instant now) const {
    return !is_away(now) && now.ns - since_ns_.load(std::memory_order_relaxed) >= kLong.count();
  }

 private:
  bool is_away(Instant now) const {
    return now.ns - at_ns_.load(std::memory_order_relaxed) > kAway.count();
  }

  std::atomic<std::int64_t> at_ns_{0};
  std::atomic<std::int64_t> since_ns_{0};
  static constexpr std::int64_t kNever = INT64_MIN / 2;
  std::atomic<std::int64_t> much_ns_{kNever};
  std::int64_t late_ns_ = 0;  ///< of who notes
  std::int64_t gap_ns_ = 0;   ///< likewise
};

}  // namespace weft::engine
