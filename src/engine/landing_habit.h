// Whether large payload is received straight into its place, or staged and copied there.
#pragma once

#include "engine/trial_habit.h"

namespace weft::engine {

/// What lands is copied once less; what is staged takes fewer system calls, and its copy sums it on
/// the way. Which of them is less depends on the processor's caches, on the payload's length and on
/// how many buffers there are. Usually it lands; the clock is the time that the receiving took.
/// It is tried before the sender tries its own two ways (pace_habit.h), in stretches short beside
/// those, and rarely again at the same time.
using LandingHabit =
    TrialHabit<Trial{.changing = 2 << 20, .timed = 2 << 20, .pairs = 5, .first = 16 << 20}>;

}  // namespace weft::engine
