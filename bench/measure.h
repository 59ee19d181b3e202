// The two ends of one figure.
#pragma once

#include <nlohmann/json.hpp>

#include "bench/control.h"
#include "bench/options.h"

namespace weft::bench {

/// Both block until it is measured or the other end is gone; both throw Failure. A leg that takes
/// longer than kLegSecondsMax (beyond what was asked for) ends the process by SIGALRM.
inline constexpr unsigned kLegSecondsMax = 20;

/// {"work", "over", "value", "unit", "values": of each leg, "bulk"}
nlohmann::json lead(const Options& options, const Point& point, Over over, Control& control);
void follow(const Options& options, const Point& point, Over over, Control& control);

/// Pins this process and the threads it will have to one of the cores it may use, when there are at
/// least two: leader 0, follower 1.
void pin_end(unsigned end);

}  // namespace weft::bench
