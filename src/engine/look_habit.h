// Whether a program's thread looks for a moment before it sleeps.
#pragma once

#include <array>
#include <chrono>

#include "base/patience.h"
#include "base/time.h"

namespace weft::engine {

/// Programs wait in patterns: for an answer, which comes at once, and for the next request, which
/// does not. So what waits are like behind a short one and behind a long one is learnt apart.
///
/// Threads: one at a time.
class LookHabit {
 public:
  /// So long is looked; what takes less is short. An answer from this host does, on a machine whose
  /// system calls take a microsecond each also that to the request for a connection.
  static constexpr Duration kLook = std::chrono::microseconds(100);

  /// Is it worth looking? Then tell what came of it.
  bool is_worth() { return patience().is_worth(); }
  void tell(bool found) {
    patience().tell(found);
    was_short_ = found;
  }
  /// There was no look; the wait took so long, and brought what was waited for or not.
  void note_wait(Duration took, bool found) { was_short_ = found && took < kLook; }

 private:
  Patience& patience() { return patience_[was_short_ ? 1 : 0]; }

  std::array<Patience, 2> patience_;
  bool was_short_ = false;
};

}  // namespace weft::engine
