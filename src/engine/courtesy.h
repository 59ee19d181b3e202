// When a thread that polls in vain lets others have its processor.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace weft::engine {

/// Who polls in vain on a processor of its own loses nothing; who shares it with the peer that it
/// waits for keeps that from answering, until the kernel takes the processor away: milliseconds for
/// each message. Which of the two it is shows when the processor is given up: nobody wanted it, or
/// somebody did, and what was waited for had come behind that, or not.
///
/// Threads: note() under the progress lock, note_yielded() without.
class Courtesy {
 public:
  /// Vain polls in a row before the processor is given up for the first time: some 20 us.
  static constexpr std::uint32_t kFirst = 64;
  /// Where nobody wants it, again and again, so rarely: a thousandth of the time goes into asking.
  static constexpr std::uint32_t kAlone = 1024;
  /// To ask takes less, if nobody is there.
  static constexpr Duration kNobody = std::chrono::microseconds(2);
  /// Who keeps it for longer computes, and is nobody's peer: given it each time, it would have more
  /// than its share.
  static constexpr Duration kPeersTurn = std::chrono::milliseconds(1);
  static constexpr std::uint32_t kMost = 16 * 1024;

  /// A poll that did, or did not, find something. True: give the processor up now, and tell for how
  /// long that was.
  bool note(bool found) {
    if (yielded_) judge(found);
    if (found) {
      vain_ = 0;
      return false;
    }
    if (++vain_ < patience_) return false;
    vain_ = 0;
    yielded_ = true;
    return true;
  }
  void note_yielded(Duration took) {
    took_ns_.store(took.count(), std::memory_order_relaxed);
  }

 private:
  void judge(bool found) {
    yielded_ = false;
    const std::int64_t took = took_ns_.load(std::memory_order_relaxed);
    if (took < kNobody.count()) {
      patience_ = std::max(patience_, std::min(4 * patience_, kAlone));
    } else if (found) {
      patience_ = 1;
    } else if (took > kPeersTurn.count()) {
      patience_ = std::min(2 * patience_, kMost);
    }
  }

  std::uint32_t patience_ = kFirst;  ///< vain polls in a row that are borne
  std::uint32_t vain_ = 0;
  bool yielded_ = false;  ///< since the last poll
  std::atomic<std::int64_t> took_ns_{0};
};

}  // namespace weft::engine
