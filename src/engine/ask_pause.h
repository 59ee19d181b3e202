// When a stream within this host that had nothing is asked again.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::engine {

/// Over loopback it is the peer's own call that receives what it sends, and that call holds our
/// socket for some three times as long as a vain question takes. Who asks meanwhile waits for its
/// end, and has the message then. But when the message comes while a vain question holds the
/// socket, the kernel lays it aside for us to receive, and the next question gets it: a microsecond
/// later. Round trips are alike, so what happened in one happens in the next thousand.
/// A pause between questions makes it rarer, and when it happens, the pauses become other ones
/// (docs/adr/0032-a-vain-question-is-not-repeated-at-once.md).
///
/// Times are ticks(); those of two processors may differ: then a pause is over.
///
/// Threads: the progress lock.
class AskPause {
 public:
  /// May it be asked?
  bool is_over(std::uint64_t now) const { return now - ended_ >= pause_; }
  /// It had nothing. What the question took tells whether the kernel laid something aside.
  void note_vain(std::uint64_t began, std::uint64_t ended) {
    const std::uint64_t took = ended - began;
    ended_ = ended;
    if (typical_ == 0) {
      typical_ = took;
      return;
    }
    was_in_the_way_ = took > kLong * typical_;
    if (was_in_the_way_) {
      typical_ += typical_ / 16 + 1;  // it says little of the others, unless they all are so long
    } else if (typical_ > kLong * took) {
      typical_ = took;
    } else {
      typical_ = (7 * typical_ + took) / 8;
    }
    if (typical_ * step_ > kMost * kStepsOfOne) step_ = 1;  // longer ones would all be the longest
    pause_ = std::min(typical_ * step_ / kStepsOfOne, kMost);
  }
  /// It had something: there may be more.
  void note_found() {
    pause_ = 0;
    if (!was_in_the_way_) return;
    was_in_the_way_ = false;
    step_ = step_ % kSteps + 1;
  }

 private:
  static constexpr std::uint64_t kLong = 2;
  /// Pauses are so many fourths of a vain question, one to six: together with it they are shorter
  /// than the peer's call holds the socket.
  static constexpr std::uint64_t kStepsOfOne = 4, kSteps = 6;
  /// Whatever held a question up, and where each takes long: half a microsecond or so, or, of a
  /// slow counter, some of its ticks. The peer's call does not hold the socket for longer there.
#if defined(__aarch64__)
  static constexpr std::uint64_t kMost = 64;
#else
  static constexpr std::uint64_t kMost = 1600;
#endif

  std::uint64_t ended_ = 0;
  std::uint64_t typical_ = 0;  ///< what a vain question takes
  std::uint64_t pause_ = 0;
  std::uint64_t step_ = 1;
  bool was_in_the_way_ = false;  ///< the last question, if it was vain
};

}  // namespace weft::engine
