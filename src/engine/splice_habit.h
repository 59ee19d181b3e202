// Whether a program's bulk is of the kind that is well spliced.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::engine {

/// What is spliced is complete later: when the peer has read it, not when TCP has it. That is of no
/// account to a program that has much under way, more than is spliced at once: something waits to
/// be sent all the time. Who has less under way waits for completions, and is faster with copies.
/// So is who sleeps until it is told of them, for nothing tells when the peer has read.
///
/// Both show while batches are spliced: they run out, the program polls in vain, and others come
/// when some of them were complete; or the program arms its CQ. Where that happens again and again,
/// some hundreds of batches are copied, and twice as many each time, before it is tried again.
class SpliceHabit {
 public:
  /// `always`: whatever is noted.
  explicit SpliceHabit(bool always) : always_(always) {}

  bool splices() const { return always_ || rest_ == 0; }
  /// A batch was made, not spliced unless splices() says so. `more`: something waits behind it.
  /// `armings`: how often the program has armed its CQ. `empty_polls`: how often a poll found
  /// nothing. Who was told of something before it looked for it has not waited: it is busy posting.
  void note_batch(bool more, std::uint32_t armings, std::uint32_t empty_polls) {
    const bool armed = armings != armings_;
    const bool looked = dry_ && empty_polls != empty_polls_;
    if (rest_ != 0) {
      --rest_;
    } else {
      judge((looked && told_) || armed);
    }
    armings_ = armings;
    empty_polls_ = empty_polls;
    dry_ = !more;
    told_ = false;
  }
  /// The program is told that something spliced is complete.
  void note_told() { told_ = true; }

 private:
  static constexpr std::uint32_t kRestMin = 256, kRestMax = 1 << 16;
  /// One wait counts as much as so many batches without one.
  static constexpr std::uint32_t kWaitWeight = 8, kWaitsMax = 4 * kWaitWeight;
  static constexpr std::uint32_t kGoodMin = 4096;  ///< batches

  void judge(bool waited) {
    good_ = waited ? 0 : good_ + 1;
    if (good_ == kGoodMin) next_rest_ = kRestMin;
    waits_ = waited ? waits_ + kWaitWeight : waits_ - std::min(waits_, 1u);
    if (waits_ < kWaitsMax) return;
    waits_ = 0;
    rest_ = next_rest_;
    next_rest_ = std::min(2 * next_rest_, kRestMax);
  }

  std::uint32_t rest_ = 0;  ///< batches that are copied now
  std::uint32_t next_rest_ = kRestMin;
  std::uint32_t waits_ = 0, good_ = 0, armings_ = 0, empty_polls_ = 0;
  bool dry_ = false, told_ = false;  ///< since the last batch
  const bool always_;
};

}  // namespace weft::engine
