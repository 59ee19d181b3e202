// Which streams among many are asked by polls, how often, and which are watched by the poller.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace weft::engine {

/// What may be lost by streams that come on the roll and leave before they have paid for it: each
/// costs as much as to be told of three messages, all of them a hundredth of all work at most.
class RollBudget {
 public:
  static constexpr std::uint32_t kMost = 2048;
  /// One is there again after so many messages.
  static constexpr std::size_t kMessages = 32;

  /// So many messages were told of.
  void earn(std::size_t told) {
    told_ += told;
    left_ = static_cast<std::uint32_t>(std::min<std::size_t>(left_ + told_ / kMessages, kMost));
    told_ %= kMessages;
  }
  /// For one that comes. False: nothing is left.
  bool take() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  /// One has paid.
  void give_back() { left_ = std::min(left_ + 1, kMost); }

 private:
  std::uint32_t left_ = kMost;
  std::size_t told_ = 0;
};

/// Whether what the roll is asked is mostly in vain, for longer than a peer may be held up.
class RollLoad {
 public:
  /// As long as one of so many questions finds something, the poller would tell of no more than it
  /// costs to ask, and could not keep up.
  static constexpr std::uint32_t kAskedForOne = 3;
  static constexpr std::uint32_t kAsked = 256;  ///< are looked at together
  static constexpr Duration kGrace = std::chrono::milliseconds(10);

  void note(std::uint32_t asked, std::uint32_t found, Instant now) {
    asked_ += asked;
    found_ += found;
    if (asked_ < kAsked) return;
    if (found_ * kAskedForOne >= asked_) busy_until_ = now + kGrace;
    asked_ = found_ = 0;
  }
  bool is_busy(Instant now) const { return now <= busy_until_; }

 private:
  std::uint32_t asked_ = 0, found_ = 0;
  Instant busy_until_;
};

/// How many of the roll to ask behind a look at those off it that found so many: each stream as
/// often, on it and off it. At least one, so that nobody on it waits for ever.
inline std::size_t roll_share(std::size_t found_off_roll, std::size_t on_roll,
                              std::size_t off_roll) {
  return std::max<std::size_t>(
      found_off_roll * on_roll / std::max({off_roll, found_off_roll, std::size_t{1}}), 1);
}

/// A stream's place on the roll.
struct RollPlace {
  static constexpr std::uint32_t kNone = ~0u;
  /// So many messages pay for coming and going.
  static constexpr std::uint8_t kPaid = 4;
  /// Asked so many times in vain, one after the other, a stream goes; from a busy roll later.
  static constexpr std::uint8_t kVainMost = 4, kVainMostOfBusy = 32;

  std::uint32_t slot = kNone;
  std::uint8_t found = 0;  ///< messages since it came, up to kPaid
  std::uint8_t vain = 0;   ///< asked in vain since the last one

  /// It was asked, and `some` came or not. False: it goes.
  bool note(bool some, bool busy, RollBudget& budget) {
    if (!some) return ++vain < (busy ? kVainMostOfBusy : kVainMost);
    vain = 0;
    if (found < kPaid && ++found == kPaid) budget.give_back();
    return true;
  }
};

}  // namespace weft::engine
