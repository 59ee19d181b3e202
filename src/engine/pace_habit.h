// Whether bulk within a host is faster spliced, or copied by the kernel.
#pragma once

#include "engine/trial_habit.h"

namespace weft::engine {

/// What is spliced is copied once less, but page by page, and its sender has to ask when it was
/// read. Where the two processors share a cache and the kernel copies well, as on a Zen 5, that is
/// a loss of a third; where their caches are far apart a gain of two thirds; and in a virtual
/// machine one becomes the other. Usually it is spliced, and the clock is that of the wall.
using PaceHabit =
    TrialHabit<Trial{.changing = 24 << 20, .timed = 8 << 20, .pairs = 3, .first = 96 << 20}>;

}  // namespace weft::engine
