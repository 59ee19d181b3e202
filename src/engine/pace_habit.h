// Whether bulk within a host is faster spliced, or copied by the kernel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace weft::engine {

/// What is spliced is copied once less, but page by page, and its sender has to ask when it was
/// read. Where the two processors share a cache and the kernel copies well, as on a Zen 5, that is
/// a loss of a third; where their caches are far apart a gain of two thirds; and in a virtual
/// machine one becomes the other.
///
/// So both are timed in turns, and the best of each compared, for what others do on the machine
/// only ever adds. Copies that take more than twice as long the first time are not tried again.
/// What was found is kept for a while, twice as long each time that the next trial finds the same.
class PaceHabit {
 public:
  /// Octets of a turn that are not timed, since what was made ready before leaves meanwhile, and
  /// those that are.
  static constexpr std::size_t kChanging = 8 << 20, kTimed = 8 << 20;
  static constexpr std::uint8_t kPairs = 3;
  /// Octets for which the better way is kept.
  static constexpr std::uint64_t kKeptMin = std::uint64_t{4} << 30, kKeptMax = kKeptMin << 2;
  /// Less than one part in so many is not worth the processors' time that copies take.
  static constexpr int kGain = 16;

  bool copies() const { return left_ != 0 ? copies_won_ : copying_; }
  /// So much more is about to be sent, as copies() said.
  template <typename Clock>
  void note(std::size_t octets, Clock clock) {
    if (left_ != 0) {
      left_ -= std::min<std::uint64_t>(left_, octets);
      return;
    }
    if (octets_ >= (began_ ? kTimed : kChanging)) end_stretch(clock());
    octets_ += octets;
  }
  /// The program had nothing to be sent, and waited: that was not the stream's pace. Who waits
  /// again and again is not to be sent copies for that.
  void note_wait() {
    if (left_ != 0) return;
    begin_stretch();
    if (copying_ && ++waits_ == kWaitsMax) end_trial(false);
  }

 private:
  static constexpr std::uint8_t kWaitsMax = 8;

  void begin_stretch() {
    octets_ = 0;
    began_.reset();
  }
  void end_stretch(Instant now) {
    if (!began_) {
      began_ = now;
      octets_ = 0;
      return;
    }
    const Duration took = (now - *began_) * static_cast<Duration::rep>(kTimed) /
                          static_cast<Duration::rep>(octets_);
    begin_stretch();
    Duration& best = copying_ ? copied_ : spliced_;
    best = pairs_ == 0 ? took : std::min(best, took);
    copying_ = !copying_;
    if (copying_) return;
    const bool hopeless = pairs_ == 0 && copied_ > 2 * spliced_;
    if (hopeless || ++pairs_ == kPairs) end_trial(copied_ < spliced_ - spliced_ / kGain);
  }
  void end_trial(bool copies_won) {
    copying_ = false;
    pairs_ = waits_ = 0;
    kept_ = copies_won == copies_won_ ? std::min(2 * kept_, kKeptMax) : kKeptMin;
    copies_won_ = copies_won;
    left_ = kept_;
  }

  std::size_t octets_ = 0;  ///< of this stretch
  std::optional<Instant> began_;
  bool copying_ = false;           ///< in a trial
  Duration spliced_{}, copied_{};  ///< the best of this trial, for kTimed octets
  std::uint8_t pairs_ = 0, waits_ = 0;
  bool copies_won_ = false;
  std::uint64_t kept_ = kKeptMin / 4, left_ = 0;
};

}  // namespace weft::engine
