// Whether answers a little longer than a packet leave in shares or in one call.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace weft::engine {

/// Which of the two is faster depends on what it costs to send, beside what it costs to receive, to
/// check and to place, and on how far apart the two ends' caches are: by minutes, on one machine,
/// shares take two thirds of the time, or a twentieth more. So both are tried in turns, and the one
/// with the shorter round trips is kept for a while: one call only if that gains something. A trip
/// is all that lies between two answers, the program's and the peer's time with it, and two ends
/// may try at different times: hence the turns.
class ShareHabit {
 public:
  /// Trips with one of them, of which the first are those of a change.
  static constexpr std::size_t kTried = 16, kChanging = 2;
  /// Each is tried so often, and its best turn counts: what else goes on makes trips longer.
  static constexpr std::uint8_t kTurns = 3;
  /// Trips for which the better one then is kept.
  static constexpr std::uint32_t kKept = 4096;
  /// Less than one part in so many may be chance.
  static constexpr int kGain = 50;

  bool sends_whole() const { return left_ != 0 ? whole_is_better_ : turn_ % 2 != 0; }
  /// So long it was from one answer to the next.
  void note(Duration trip) {
    if (left_ != 0) return static_cast<void>(--left_);
    if (noted_++ < kChanging) return;
    trips_[noted_ - kChanging - 1] = trip;
    if (noted_ < kChanging + kTried) return;
    noted_ = 0;
    const auto middle = trips_.begin() + kTried / 2;
    std::nth_element(trips_.begin(), middle, trips_.end());
    Duration& took = sends_whole() ? whole_ : shares_;
    took = turn_ < 2 ? *middle : std::min(took, *middle);
    if (++turn_ < 2 * kTurns) return;
    turn_ = 0;
    whole_is_better_ = whole_ < shares_ - shares_ / kGain;
    left_ = kKept;
  }

 private:
  std::array<Duration, kTried> trips_{};
  std::size_t noted_ = 0;  ///< of this turn
  std::uint8_t turn_ = 0;  ///< the odd ones are those of one call
  Duration shares_{}, whole_{};  ///< a trip, in the best turn
  bool whole_is_better_ = false;
  std::uint32_t left_ = 0;  ///< trips for which it is kept
};

}  // namespace weft::engine
