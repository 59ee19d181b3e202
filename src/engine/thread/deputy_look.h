// A look of the progress thread for the next part of an exchange.
#pragma once

#include "base/time.h"
#include "engine/crowding.h"
#include "engine/look_habit.h"

namespace weft::engine {

/// It ends in vain when it was long enough, or kept the processor from others: between the
/// questions these have their turn. If the program is at work in one, that is what it is for.
class DeputyLook {
 public:
  /// So many turns of others. (One may have been an interrupt.)
  static constexpr int kTurnsMost = 4;

  explicit DeputyLook(Instant began) : began_(began) {}
  /// A turn was given. `programs`: the program was at work meanwhile. False: it is over.
  bool goes_on(Instant given, Instant back, bool programs) {
    if (back - given > Crowding::kTurn && !programs) ++turns_;
    return turns_ < kTurnsMost && back - began_ <= LookHabit::kLook;
  }
  /// Then what is found, and needs no program, came no sooner than it would have to a sleeper.
  bool others_had_turns() const { return turns_ != 0; }

 private:
  Instant began_;
  int turns_ = 0;
};

}  // namespace weft::engine
