// How long the progress thread stands back before it looks in again.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::engine {

/// Each look takes the program's processor for 10 us, so the pauses grow while the program goes on.
/// While posts wait (`watched`) it may have left one lying, and is trusted for less; who calls
/// often in turn after turn, for more; most of all who stays, and never does anything else for
/// long: a sixteenth of the time for which it has.
class Pause {
 public:
  int us() const { return us_; }
  /// The program came in the last pause, by so many calls.
  void go_on(bool watched, std::uint32_t calls, bool stayed) {
    const bool often = calls >= static_cast<std::uint32_t>(us_ / kOftenUs);
    const int soon = watched ? kWatchedUs : kMaxUs;
    const bool trusted = often && often_before_ && watched == watched_before_;
    often_before_ = often;
    watched_before_ = watched;
    if (!trusted || us_ < soon) {
      us_ = std::min(us_ * 2, soon);
      return;
    }
    const int most = !stayed ? kTrustedUs : watched ? kStaysWatchedUs : kStaysUs;
    us_ = std::min(us_ + us_ / kTrustGrowth, std::max(us_ / 2, most));
  }

 private:
  static constexpr int kMinUs = 100, kMaxUs = 1000, kWatchedUs = 400;
  static constexpr int kTrustedUs = 2000, kStaysUs = 8000, kStaysWatchedUs = 4000;
  static constexpr int kTrustGrowth = 16, kOftenUs = 50;

  int us_ = kMinUs;
  bool often_before_ = false, watched_before_ = false;
};

}  // namespace weft::engine
