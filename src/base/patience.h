// Whether looking before a sleep is worth it.
#pragma once

#include <algorithm>

namespace weft {

/// A thread that sleeps is woken at a price, its own and that of who wakes it. So it looks for a
/// moment first, as long as that finds something; where it does not, ever more rarely.
///
/// Threads: one at a time.
class Patience {
 public:
  /// Is it worth looking? Then tell what came of it.
  bool is_worth() { return pause_ == 0 || (--pause_, false); }
  void tell(bool found) {
    pause_max_ = found ? 0 : std::min(2 * pause_max_ + 1, kPauseMax);
    pause_ = pause_max_;
  }

 private:
  static constexpr unsigned kPauseMax = 255;
  unsigned pause_ = 0, pause_max_ = 0;
};

}  // namespace weft
