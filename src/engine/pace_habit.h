// Whether bulk within a host is faster spliced, or copied by the kernel.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
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
/// So both are timed in turns, the middle one of three stretches each, for what others do on the
/// machine makes a stretch longer, or shorter where it is the peer that stands still while buffers
/// are filled. Copies that take more than twice as long the first time are given up there. What was
/// found is kept for a while, twice as long each time that the next trial finds the same.
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
  /// These copies are timed, and nothing else is to be tried beside them.
  bool times_copies() const { return left_ == 0 && copying_; }
  /// So much more is about to be sent, spliced or not.
  template <typename Clock>
  void note(std::size_t octets, bool spliced, Clock clock) {
    if (left_ != 0) {
      left_ -= std::min<std::uint64_t>(left_, octets);
      return;
    }
    if (!copying_ && !spliced) return begin_stretch();  // too little to be spliced
    if (octets_ >= (began_ ? kTimed : kChanging)) end_stretch(clock());
    octets_ += octets;
  }
  /// The program waited: that was not the stream's pace. Who does so again and again goes on as
  /// before.
  void note_wait() {
    if (left_ != 0) return;
    begin_stretch();
    if (++waits_ == kWaitsMax) end_trial();
  }

 private:
  static constexpr std::uint8_t kWaitsMax = 8;
  /// What takes longer stood still.
  static constexpr Duration kStretchMax = std::chrono::milliseconds(100);
  using Stretches = std::array<Duration, kPairs>;

  static Duration middle(Stretches stretches) {
    std::ranges::nth_element(stretches, stretches.begin() + kPairs / 2);
    return stretches[kPairs / 2];
  }
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
    const Duration took = now - *began_;
    const std::size_t octets = octets_;
    begin_stretch();
    if (took > kStretchMax) return;
    (copying_ ? copied_ : spliced_)[pairs_] =
        took * static_cast<Duration::rep>(kTimed) / static_cast<Duration::rep>(octets);
    copying_ = !copying_;
    if (copying_) return;
    const bool hopeless = pairs_ == 0 && copied_[0] > 2 * spliced_[0];
    if (hopeless || ++pairs_ == kPairs) judge(!hopeless);
  }
  void judge(bool hopeful) {
    const Duration spliced = middle(spliced_);
    const bool copies_won = hopeful && middle(copied_) < spliced - spliced / kGain;
    kept_ = copies_won == copies_won_ ? std::min(2 * kept_, kKeptMax) : kKeptMin;
    copies_won_ = copies_won;
    end_trial();
  }
  void end_trial() {
    copying_ = false;
    pairs_ = waits_ = 0;
    left_ = kept_;
  }

  std::size_t octets_ = 0;  ///< of this stretch
  std::optional<Instant> began_;
  bool copying_ = false;            ///< in a trial
  Stretches spliced_{}, copied_{};  ///< of this trial, for kTimed octets
  std::uint8_t pairs_ = 0, waits_ = 0;
  bool copies_won_ = false;
  std::uint64_t kept_ = kKeptMin / 4, left_ = 0;
};

}  // namespace weft::engine
