// Whether others take the processor from a thread that polls, and cannot be given way to.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
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
  /// How often the processor was taken from the calling thread, or it yielded.
  static std::int64_t taken();
  /// For how long it could have run and had no processor. Zero where the kernel does not tell.
  static Duration waited();

  /// So long is looked at it; for longer where slices are long.
  static constexpr Duration kWindow = std::chrono::milliseconds(10), kWindowMost = 10 * kWindow;
  /// It is crowded that waits for one part in so many, and was interrupted so often. Who was so
  /// again and again keeps others from answering, though they take little: they sleep.
  static constexpr int kMuch = 4, kSome = 32;
  static constexpr std::int64_t kTakenMin = 2, kTakenOften = 8;
  /// A yield that takes longer was somebody's turn.
  static constexpr Duration kTurn = std::chrono::microseconds(2);
  /// Sleeps in the place of yields, before it is looked again; twice as many each time that it is
  /// crowded still.
  static constexpr std::uint32_t kSleepsMin = 1024, kSleepsMax = 64 * 1024;

  bool is_crowded() const { return sleeps_ != 0; }
  /// It has slept for that.
  void note_sleep() {
    if (--sleeps_ == 0) began_ = {};
  }
  /// It has yielded. `read_taken` and `read_waited` tell what these two of this thread's are.
  template <typename Taken, typename Waited>
  void note_yield(Instant began, Instant ended, Taken read_taken, Waited read_waited) {
    yielded_ += ended - began;
    if (ended - began > kTurn) ++turns_;
    if (ended - began_ < kWindow) return;
    const std::int64_t taken = read_taken();
    const std::int64_t interruptions = taken - taken_ - turns_;
    const bool known = began_ != Instant{};
    // Who is not interrupted is not asked for the other one, which takes more.
    if (!known || !waited_) {
      const bool asks = waited_ || (known && interruptions >= kTakenMin);
      return begin(ended, taken, asks ? std::optional(read_waited()) : std::nullopt);
    }
    judge(ended, taken, interruptions, read_waited());
  }

 private:
  void begin(Instant now, std::int64_t taken, std::optional<Duration> waited) {
    began_ = now;
    taken_ = taken;
    waited_ = waited;
    yielded_ = {};
    turns_ = 0;
  }
  void judge(Instant now, std::int64_t taken, std::int64_t interruptions, Duration waited) {
    const Duration time = now - began_;
    const Duration lost = waited - *waited_ - yielded_;
    const bool much = kMuch * lost >= time, some = kSome * lost >= time;
    if (much && interruptions < kTakenMin && time < kWindowMost) return;
    const bool crowded = (much && interruptions >= kTakenMin) ||
                         (some && interruptions >= kTakenOften);
    begin(now, taken, crowded ? std::optional(waited) : std::nullopt);
    sleeps_ = crowded ? next_ : 0;
    next_ = crowded ? std::min(2 * next_, kSleepsMax) : kSleepsMin;
  }

  Instant began_;                   ///< what is looked at; zero: not yet
  std::int64_t taken_ = 0;          ///< until then
  std::optional<Duration> waited_;  ///< likewise
  Duration yielded_{};              ///< since then
  std::int64_t turns_ = 0;          ///< in those yields
  std::uint32_t sleeps_ = 0, next_ = kSleepsMin;
};

}  // namespace weft::engine
