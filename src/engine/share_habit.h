// Whether answers a little longer than a packet end in a short share, or leave in equal ones.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace weft::engine {

/// Which of the two is faster depends on what it costs to send, beside what it costs to receive, to
/// check and to place: one processor gains a tenth by short ends, and another may lose as much. So
/// both are tried in turns, and the one with the shorter round trips is kept for a
/// while: short ends only if they gain something. A trip is all that lies between two answers, the
/// program's and the peer's time with it, and two ends may try at different times: hence the turns.
class ShareHabit {
 public:
  /// Trips with one of them, of which the first are those of a change.
  static constexpr std::size_t kTried = 16, kChanging = 2;
  /// Each is tried so often.
  static constexpr std::uint8_t kTurns = 2;
  /// Trips for which the better one then is kept.
  static constexpr std::uint32_t kKept = 2048;
  /// Less than one part in so many may be chance.
  static constexpr int kGain = 50;

  bool ends_short() const { return left_ != 0 ? short_is_better_ : turn_ % 2 != 0; }
  /// So long it was from one answer to the next.
  void note(Duration trip) {
    if (left_ != 0) return static_cast<void>(--left_);
    if (noted_++ < kChanging) return;
    trips_[noted_ - kChanging - 1] = trip;
    if (noted_ < kChanging + kTried) return;
    noted_ = 0;
    const auto middle = trips_.begin() + kTried / 2;
    std::nth_element(trips_.begin(), middle, trips_.end());
    (ends_short() ? short_ : equal_) += *middle;
    if (++turn_ < 2 * kTurns) return;
    turn_ = 0;
    short_is_better_ = short_ < equal_ - equal_ / kGain;
    short_ = equal_ = {};
    left_ = kKept;
  }

 private:
  std::array<Duration, kTried> trips_{};
  std::size_t noted_ = 0;  ///< of this turn
  std::uint8_t turn_ = 0;  ///< the odd ones are those of short ends
  Duration short_{}, equal_{};
  bool short_is_better_ = false;
  std::uint32_t left_ = 0;  ///< trips for which it is kept
};

}  // namespace weft::engine
