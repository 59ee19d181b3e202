// Two ways to move the same octets, of which the better one is found by trying both.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace weft::engine {

/// How they are tried. `changing`: octets of a turn that are not timed, since what was made ready
/// before leaves meanwhile, and memory that is used anew is slow at first; `timed`: those that are;
/// `pairs`: turns of each way; `first`: octets before the first trial.
struct Trial {
  std::size_t changing, timed;
  std::uint8_t pairs;
  std::uint64_t first;
};

/// Both are timed in turns, the middle one of so many stretches each, for what others do on the
/// machine makes a stretch longer, or shorter where it is the peer that stands still while buffers
/// are filled. Each pair begins with the way that is taken anyhow; if the one on trial takes more
/// than twice as long the first time it is given up there. What was found is kept for a while, and
/// twice as long each time that the next trial finds the same.
template <Trial kTrial>
class TrialHabit {
 public:
  /// Octets of one turn and of a whole trial, and those for which the better way is kept behind it.
  static constexpr std::uint64_t kTurn = kTrial.changing + kTrial.timed;
  static constexpr std::uint64_t kTried = 2 * kTrial.pairs * kTurn;
  static constexpr std::uint64_t kKeptMin = 32 * kTried, kKeptMax = 4 * kKeptMin;
  /// The other way has to be faster by one part in so many.
  static constexpr int kGain = 16;

  /// Both are being tried: the clock is asked for.
  bool tries() const { return left_ == 0; }
  /// The other way is to be taken now.
  bool takes_other() const { return other_won_ != changed_; }
  /// It is timed, and nothing else is to be tried beside it.
  bool times_other() const { return left_ == 0 && takes_other(); }
  /// So much more is about to be moved, in the usual way or not; `clock` tells the time that
  /// counts.
  template <typename Clock>
  void note(std::size_t octets, bool usually, Clock clock) {
    if (left_ != 0) {
      left_ -= std::min<std::uint64_t>(left_, octets);
      return;
    }
    if (!takes_other() && !usually) return begin_stretch();  // these go another way anyway
    if (octets_ >= (began_ ? kTrial.timed : kTrial.changing)) end_stretch(clock());
    octets_ += octets;
  }
  /// For a while neither way is taken, or nothing moved: that was no pace of theirs. Where it is so
  /// again and again, all goes on as before.
  void note_neither() {
    if (left_ != 0) return;
    begin_stretch();
    if (++vain_ == kVainMax) end_trial();
  }

 private:
  static constexpr std::uint8_t kVainMax = 8;
  /// What takes longer stood still, and what takes less than nothing changed processors.
  static constexpr Duration kStretchMax = std::chrono::milliseconds(100);
  using Stretches = std::array<Duration, kTrial.pairs>;

  static Duration middle(Stretches stretches) {
    std::ranges::nth_element(stretches, stretches.begin() + kTrial.pairs / 2);
    return stretches[kTrial.pairs / 2];
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
    if (took < Duration{} || took > kStretchMax) return note_neither();
    (takes_other() ? others_ : usual_)[pairs_] =
        took * static_cast<Duration::rep>(kTrial.timed) / static_cast<Duration::rep>(octets);
    changed_ = !changed_;
    if (changed_) return;
    if (pairs_ == 0 && is_hopeless()) return judge(other_won_);
    if (++pairs_ < kTrial.pairs) return;
    const Duration usual = middle(usual_);
    judge(middle(others_) < usual - usual / kGain);
  }
  bool is_hopeless() const {
    return other_won_ ? usual_[0] > 2 * others_[0] : others_[0] > 2 * usual_[0];
  }
  void judge(bool other_won) {
    kept_ = other_won == other_won_ ? std::min(2 * kept_, kKeptMax) : kKeptMin;
    other_won_ = other_won;
    end_trial();
  }
  void end_trial() {
    changed_ = false;
    pairs_ = vain_ = 0;
    left_ = kept_;
  }

  std::size_t octets_ = 0;  ///< of this stretch
  std::optional<Instant> began_;
  bool changed_ = false;          ///< in a trial: to the way that is not taken anyhow
  Stretches usual_{}, others_{};  ///< of this trial, for kTrial.timed octets
  std::uint8_t pairs_ = 0, vain_ = 0;  ///< of this trial; vain_: note_neither()
  bool other_won_ = false;
  std::uint64_t kept_ = kKeptMin / 8, left_ = kTrial.first;
};

}  // namespace weft::engine
