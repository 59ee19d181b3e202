// How answers a little longer than a packet leave: in which shares, and when in one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace weft::engine {

/// Which way is fastest depends on what it costs to send, beside what it costs to receive, to check
/// and to place, and on how far apart the two ends' caches are. So all are tried in turns, and the
/// one with the shortest round trips is kept for a while: not the first one only if another gains
/// something. A trip is all that lies between two answers, the program's and the peer's time with
/// it, and two ends may try at different times: hence the turns.
class ShareHabit {
 public:
  enum class Way : std::uint8_t {
    Equal,     ///< in equal shares, where we had waited for longer than we send; else in one
    ShortEnd,  ///< in shares of which the last one is short, likewise
    ShortEndSoon,  ///< in such shares also where we had waited for half as long
  };
  static constexpr std::size_t kWays = 3;
  /// Trips with one of them, of which the first are those of a change.
  static constexpr std::size_t kTried = 16, kChanging = 2;
  /// Each is tried so often.
  static constexpr std::uint8_t kTurns = 2;
  /// Trips for which the best one then is kept.
  static constexpr std::uint32_t kKept = 2048;
  /// Less than one part in so many may be chance.
  static constexpr int kGain = 50;

  Way way() const { return left_ != 0 ? best_ : static_cast<Way>(turn_ % kWays); }
  /// So long it was from one answer to the next.
  void note(Duration trip) {
    if (left_ != 0) return static_cast<void>(--left_);
    if (noted_++ < kChanging) return;
    trips_[noted_ - kChanging - 1] = trip;
    if (noted_ < kChanging + kTried) return;
    noted_ = 0;
    const auto middle = trips_.begin() + kTried / 2;
    std::nth_element(trips_.begin(), middle, trips_.end());
    took_[turn_ % kWays] += *middle;
    if (++turn_ < kWays * kTurns) return;
    turn_ = 0;
    const auto shortest = std::min_element(took_.begin(), took_.end());
    const bool gains = *shortest < took_[0] - took_[0] / kGain;
    best_ = gains ? static_cast<Way>(shortest - took_.begin()) : Way::Equal;
    took_ = {};
    left_ = kKept;
  }

 private:
  std::array<Duration, kTried> trips_{};
  std::size_t noted_ = 0;   ///< of this turn
  std::uint8_t turn_ = 0;   ///< each way has every third
  std::array<Duration, kWays> took_{};
  Way best_ = Way::Equal;
  std::uint32_t left_ = 0;  ///< trips for which it is kept
};

}  // namespace weft::engine
