// Whether a program looks at memory for the answer to what it posts.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/patience.h"
#include "base/time.h"
#include "device/device.h"

namespace weft::engine {

/// What came so far, for all QPs of a device.
struct Arrivals {
  std::uint32_t writes = 0;    ///< of peers, placed whole
  std::uint32_t receives = 0;  ///< that were completed
};

/// A program that waits at memory makes no call meanwhile, so what it waits for is placed by the
/// progress thread, and comes by two switches of threads. Which programs do shows in the order of
/// things: a post, so many Writes that no call of the program brought, the next post, and so on.
/// Then the post is worth staying in until the answer is here (docs/adr/0026).
///
/// One QP at a time: who has posted to another one meanwhile, or is written to by others, waits for
/// more than one peer.
/// Threads: the progress lock, but for miss_post, is_answered and is_another_answered.
class AnswerHabit {
 public:
  /// Posts in a row that were answered alike, before one is waited behind; and after each time that
  /// it turned out otherwise twice as many, up to the other.
  static constexpr std::uint32_t kRegularMin = 8, kRegularMax = 4096;
  /// As waiting makes posts and Writes take turns, behind so many posts one is not waited behind:
  /// does the answer still come before the next post? And each time that it does twice as many, up
  /// to the other.
  static constexpr std::uint32_t kProbeMin = 1024, kProbeMax = 64 * 1024;
  /// More Writes are no answer.
  static constexpr std::uint32_t kAnswerMax = 4;
  /// Who looks at memory posts so soon behind the answer. Who computes between post and look mostly
  /// does not, and would have that work behind the answer instead of beside it.
  static constexpr Duration kSoon = std::chrono::microseconds(20);
  /// A post waits for twice as long as answers took, within these.
  static constexpr Duration kWaitMin = std::chrono::microseconds(50);
  static constexpr Duration kWaitMax = std::chrono::milliseconds(2);

  enum class Advice : std::uint8_t {
    No,
    Yes,  ///< stay until has_come, or for wait(), and tell
    Wake  ///< do not, though earlier posts did: the progress thread, which stood back, has to look
  };

  /// Is it of use to know when the next post is?
  bool is_timed() const { return regular_ != 0; }
  /// A post, served. `placed`: how many Writes of its peer so far, `all`: what came for any QP.
  /// `now`: before it was served; it need not be right unless is_timed().
  Advice note_post(device::QPNumber qp, std::uint32_t placed, const Arrivals& all, Instant now) {
    const Advice advice = judge_post(qp, placed, all, now);
    answered_.store(regular_ >= kRegularMin ? qp_ : 0, std::memory_order_relaxed);
    return advice;
  }
  /// A post that is of another kind, which ends a wait too. True: the progress thread has to look.
  bool note_other_post() {
    answered_.store(0, std::memory_order_relaxed);
    qp_ = 0;
    return begin_anew(0) == Advice::Wake;
  }
  /// A post that could not be noted, by any thread: somebody else held the lock.
  void miss_post() { missed_.store(true, std::memory_order_relaxed); }
  /// Were the last posts to this QP answered one by one? For any thread, as is the next.
  bool is_answered(device::QPNumber qp) const {
    return answered_.load(std::memory_order_relaxed) == qp;
  }
  /// Were those to another one?
  bool is_another_answered(device::QPNumber qp) const {
    const device::QPNumber answered = answered_.load(std::memory_order_relaxed);
    return answered != 0 && answered != qp;
  }
  /// Of the QP that was posted to last, so many Writes were placed while the program made no call.
  /// `now` as above.
  void note_unasked(std::uint32_t writes, Instant now) {
    unasked_ += writes;
    took_ = now - posted_at_;
  }
  Duration wait() const { return std::clamp(2 * longest_, kWaitMin, kWaitMax); }
  bool has_come(std::uint32_t placed) const { return answer_ != 0 && placed - placed_ >= answer_; }
  /// Something else came, for this QP or another, which the program may wait for as well.
  bool is_over(std::uint32_t placed, const Arrivals& all) const {
    return all.receives != all_.receives || all.writes - all_.writes != placed - placed_;
  }
  void tell(bool found, Instant now) {
    found_ = found;
    took_ = now - posted_at_;
    patience_.tell(found);
  }

  device::QPNumber qp() const { return qp_; }

 private:
  /// One post that is late counts as much as so many that are not.
  static constexpr std::uint32_t kLateWeight = 8, kLateMax = 4 * kLateWeight;

  bool waits() const { return regular_ >= needed_; }
  Advice judge_post(device::QPNumber qp, std::uint32_t placed, const Arrivals& all, Instant now) {
    const std::uint32_t writes = placed - placed_;
    const bool in_time = qp == qp_ && !is_over(placed, all) && writes != 0 &&
                         writes <= kAnswerMax && (found_ || unasked_ == writes);
    const bool is_late = is_timed() && now - posted_at_ - took_ > kSoon;
    if (in_time && is_timed()) longest_ = std::max(took_, longest_ * 7 / 8);
    qp_ = qp;
    placed_ = placed;
    all_ = all;
    posted_at_ = now;
    took_ = {};
    unasked_ = 0;
    found_ = false;
    if (missed_.load(std::memory_order_relaxed)) {
      missed_.store(false, std::memory_order_relaxed);
      // Nothing is known of what came since the one before. Once is no sign.
      if (!waits()) return Advice::No;
      return comes_late(true) ? begin_anew(0) : Advice::Wake;
    }
    if (!in_time || writes != answer_ || comes_late(is_late)) {
      return begin_anew(in_time ? writes : 0);
    }
    if (!waits() && (++regular_, !waits())) return Advice::No;
    if (++posts_ == next_probe_) {
      posts_ = 0;
      // It has held for so long: some of what was held against it is forgotten.
      if (next_probe_ != kProbeMin) needed_ = std::max(needed_ / 2, kRegularMin);
      next_probe_ = std::min(2 * next_probe_, kProbeMax);
      return Advice::Wake;
    }
    return patience_.is_worth() ? Advice::Yes : Advice::No;
  }
  /// Again and again, or while it is learnt.
  bool comes_late(bool is_late) {
    late_ = is_late ? late_ + kLateWeight : late_ - std::min(late_, 1u);
    return waits() ? late_ >= kLateMax : is_late;
  }
  Advice begin_anew(std::uint32_t answer) {
    const bool waited = waits();
    if (waited) needed_ = std::min(2 * needed_, kRegularMax);
    answer_ = answer;
    regular_ = answer == 0 ? 0 : 1;
    longest_ = {};
    late_ = 0;
    posts_ = 0;
    next_probe_ = kProbeMin;
    return waited ? Advice::Wake : Advice::No;
  }

  device::QPNumber qp_ = 0;   ///< that was posted to last; 0: by a post of another kind
  std::uint32_t placed_ = 0;  ///< at that post
  Arrivals all_;              ///< likewise
  Instant posted_at_;
  Duration took_{};            ///< from then to the last Write
  Duration longest_{};         ///< of answers of late, up to the last post
  std::uint32_t unasked_ = 0;  ///< Writes since the last post
  std::uint32_t answer_ = 0;   ///< Writes that are an answer; 0: not known
  std::uint32_t regular_ = 0;  ///< answers in a row, up to needed_
  std::uint32_t needed_ = kRegularMin;
  std::uint32_t late_ = 0;
  std::uint32_t posts_ = 0;  ///< that waits() held for since the last probe
  std::uint32_t next_probe_ = kProbeMin;
  bool found_ = false;               ///< the last post was waited behind, and the answer came
  std::atomic<bool> missed_{false};  ///< a post since the last one that was noted
  std::atomic<device::QPNumber> answered_{0};  ///< 0: none
  Patience patience_;
};

}  // namespace weft::engine
