// How long the progress thread stands back before it looks in again.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::engine {

/// Each look takes the program's processor for 10 us, so the pauses grow while the program goes on.
/// While posts wait (`watched`) it may have left one lying, and is trusted for less; who calls
/// often in turn after turn, for more.
class Pause {
 public:
  int us() const { return us_; }
  /// It has grown as far as it does.
  bool is_longest() const { return us_ == kTrustedUs; }
  /// The program came in the last pause, by so many calls.
  void go_on(bool watched, std::uint32_t calls) {
    const bool often = calls >= static_cast<std::uint32_t>(us_ / kOftenUs);
    const int soon = watched ? kWatchedUs : kMaxUs;
    const bool trusted = often && often_before_ && watched == watched_before_;
    often_before_ = often;
    watched_before_ = watched;
    us_ = !trusted || us_ < soon ? std::min(us_ * 2, soon)
                                 : std::min(us_ + us_ / kTrustGrowth, kTrustedUs);
  }

 private:
  static constexpr int kMinUs = 100, kMaxUs = 1000, kWatchedUs = 400, kTrustedUs = 2000;
  static constexpr int kTrustGrowth = 16, kOftenUs = 50;

  int us_ = kMinUs;
  bool often_before_ = false, watched_before_ = false;
};

}  // namespace weft::engine
