// How long the progress thread stands back before it looks in again.
#pragma once

#include <algorithm>

namespace weft::engine {

/// Each look takes the program's processor for 10 us, so the pauses grow while the program goes on.
/// While posts wait (`watched`) it may have left one lying, and is trusted for less; but one that
/// has left more of them in turn after turn, for more.
class Pause {
 public:
  int us() const { return us_; }
  /// The program came in the last pause. `posted`: and left posts that wait for others.
  void go_on(bool watched, bool posted) {
    const int soon = watched ? kWatchedUs : kMaxUs;
    const bool trusted = watched && posted && posted_before_;
    posted_before_ = watched && posted;
    us_ = trusted && us_ >= soon ? std::min(us_ + us_ / kTrustGrowth, kTrustedUs)
                                 : std::min(us_ * 2, soon);
  }

 private:
  static constexpr int kMinUs = 100, kMaxUs = 1000;
  static constexpr int kWatchedUs = 400, kTrustedUs = 2000, kTrustGrowth = 16;

  int us_ = kMinUs;
  bool posted_before_ = false;
};

}  // namespace weft::engine
