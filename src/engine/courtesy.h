// When a thread that polls in vain lets others have its processor.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace weft::engine {

/// Who polls in vain on a processor of its own loses nothing; who shares it with the peer that it
/// waits for keeps that from answering, until the kernel takes the processor away: milliseconds for
/// each message. Which of the two it is shows when the processor is given up: nobody wanted it, or
/// somebody did, and what was waited for had come behind that, or not
/// (docs/adr/0024-who-polls-in-vain-gives-way.md).
///
/// Threads: note() and note_leaving() under the progress lock, note_yielded() without. Of several
/// that poll, the patience of one is another's, too, unless it is short.
class Courtesy {
 public:
  /// Vain polls in a row before the processor is given up for the first time: 20 to 70 us, with the
  /// pauses between them (AskPause).
  static constexpr std::uint32_t kFirst = 64;
  /// Where nobody wants it, again and again, so rarely: asking takes two thousandths of the time.
  static constexpr std::uint32_t kAlone = 1024;
  /// To ask takes less, if nobody is there.
  static constexpr Duration kNobody = std::chrono::microseconds(2);
  /// What polls look at seldom waited for as long as some dozens of them take.
  static constexpr Duration kAway = std::chrono::microseconds(20);
  /// Who keeps it for longer computes: given it each time, it would have more than its share. So it
  /// has it ever more rarely; where something came meanwhile it may be the peer all the same, and
  /// has it after some 100 us at the latest.
  static constexpr Duration kPeersTurn = std::chrono::milliseconds(1);
  static constexpr std::uint32_t kMost = 16 * 1024;
  static constexpr std::uint32_t kMostBesideAnswers = 256;

  /// A poll. `arrivals`: how often something was received so far, in whatever thread. `sent`: this
  /// poll sent something. True: give the processor up now, and tell for how long that was.
  bool note(std::uint32_t arrivals, bool sent) {
    const bool found = arrivals != arrivals_ || sent;
    arrivals_ = arrivals;
    if (yielded_ && is_yielder()) judge(arrivals != arrivals_at_yield_ || sent);
    if (found) {
      vain_ = 0;
      return false;
    }
    if (++vain_ < patience_ || vain_ < borne()) return false;
    vain_ = 0;
    yielded_ = true;
    yielder_ = pthread_self();
    arrivals_at_yield_ = arrivals;
    return true;
  }
  void note_yielded(Duration took) { note_slept(took, true); }
  /// It slept instead, and was woken or not.
  void note_slept(Duration took, bool woken) {
    took_ns_.store(took.count(), std::memory_order_relaxed);
    slept_out_.store(!woken, std::memory_order_relaxed);
  }
  /// This thread polls no more for now: what came behind its yield says nothing.
  void note_leaving() {
    if (yielded_ && is_yielder()) yielded_ = false;
  }
  /// Before note(): this thread comes back from others' turn, which was no short one.
  bool was_away() const {
    return yielded_ && took_ns_.load(std::memory_order_relaxed) > kAway.count() && is_yielder();
  }

 private:
  /// By this thread.
  std::uint32_t borne() const {
    if (yielded_) return kMost;  // by another one, which has not come back; or it never will
    return patience_ < kFirst && !is_yielder() ? kFirst : patience_;
  }
  bool is_yielder() const { return pthread_equal(yielder_, pthread_self()) != 0; }

  void judge(bool found) {
    yielded_ = false;
    const std::int64_t took = took_ns_.load(std::memory_order_relaxed);
    if (slept_out_.load(std::memory_order_relaxed) && !found) {
      patience_ = std::min(2 * patience_, std::max(patience_, kMostBesideAnswers));
    } else if (took < kNobody.count()) {
      patience_ = std::max(patience_, std::min(4 * patience_, kAlone));
    } else if (took > kPeersTurn.count()) {
      patience_ = std::clamp(2 * patience_, kFirst, found ? kMostBesideAnswers : kMost);
    } else if (found) {
      patience_ = 1;
    }
  }

  std::uint32_t patience_ = kFirst;  ///< vain polls in a row that are borne
  std::uint32_t vain_ = 0;
  std::uint32_t arrivals_ = 0;  ///< at the last poll
  bool yielded_ = false;        ///< yielder_ has, and has not polled since
  pthread_t yielder_ = {};
  std::uint32_t arrivals_at_yield_ = 0;
  std::atomic<std::int64_t> took_ns_{0};
  std::atomic<bool> slept_out_{false};
};

}  // namespace weft::engine
