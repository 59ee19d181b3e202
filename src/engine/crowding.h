// Whether others take the processor from a thread that polls, and cannot be given way to.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/time.h"

namespace weft::engine {

/// sched_yield lets those run that the scheduler has in the same group: of one session where it
/// groups sessions (sched_autogroup_enabled), of one container. Whoever is in another one gets the
/// processor when a slice is over, after milliseconds; and if that is the peer, each message takes
/// as long. But who sleeps gives way to all. So a thread that is kept from its processor for much
/// of the time sleeps in the place of yielding, for a while (docs/adr/0024).
///
/// Of one thread.
class Crowding {
 public:
  /// The calling thread's.
  static Crowding& here();
  /// A thread's time so far.
  struct Usage {
    Instant now;             ///< of a monotonic clock
    Duration processor{};    ///< that it has used
    std::int64_t taken = 0;  ///< how often the processor was taken from it, or it yielded
    std::int64_t slept = 0;  ///< how often it slept
  };
  /// Of the calling thread, but for `now`.
  static Usage usage();

  /// So long is looked at it; for longer where slices are long.
  static constexpr Duration kWindow = std::chrono::milliseconds(10), kWindowMost = 10 * kWindow;
  /// It is crowded that cannot run for one part in so many, and was interrupted so often. Who was
  /// so again and again keeps others from answering, though they take little: they sleep.
  static constexpr int kMuch = 4, kSome = 32;
  static constexpr std::int64_t kTakenMin = 2, kTakenOften = 8;
  /// What takes longer was somebody's turn.
  static constexpr Duration kTurn = std::chrono::microseconds(2);
  /// Sleeps in the place of yields, before it is looked again; twice as many each time that it is
  /// crowded still.
  static constexpr std::uint32_t kSleepsMin = 1024, kSleepsMax = 64 * 1024;

  bool is_crowded() const { return sleeps_ != 0; }
  /// It has slept for that.
  void note_sleep() {
    if (--sleeps_ == 0) began_ = {};
  }
  /// It has yielded. `read` tells its usage.
  template <typename Read>
  void note_yield(Instant began, Instant ended, Read read) {
    yielded_ += ended - began;
    if (ended - began > kTurn) ++turns_;
    if (ended - began_.now >= kWindow) judge(read(), ended);
  }

 private:
  void judge(Usage usage, Instant now) {
    usage.now = now;
    const Duration time = now - began_.now;
    const Duration lost = time - (usage.processor - began_.processor) - yielded_;
    const bool known = began_.now != Instant{} && usage.slept == began_.slept;
    const std::int64_t taken = usage.taken - began_.taken - turns_;
    const bool much = known && kMuch * lost >= time;
    if (much && taken < kTakenMin && time < kWindowMost) return;  // slices may be long
    began_ = usage;
    yielded_ = {};
    turns_ = 0;
    if (!known) return;
    if (!(much && taken >= kTakenMin) && !(kSome * lost >= time && taken >= kTakenOften)) {
      next_ = kSleepsMin;
      return;
    }
    sleeps_ = next_;
    next_ = std::min(2 * next_, kSleepsMax);
  }

  Usage began_{};
  Duration yielded_{};      ///< since then
  std::int64_t turns_ = 0;  ///< in those
  std::uint32_t sleeps_ = 0, next_ = kSleepsMin;
};

}  // namespace weft::engine
