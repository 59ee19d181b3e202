// Time as the sans-I/O layers see it: an argument, never a call.
#pragma once

#include <chrono>
#include <cstdint>

namespace weft {

using Duration = std::chrono::nanoseconds;

/// A point on a monotonic clock whose zero means nothing. Instants of one clock may be compared.
struct Instant {
  std::int64_t ns = 0;

  friend constexpr auto operator<=>(const Instant&, const Instant&) = default;
  friend constexpr Instant operator+(Instant a, Duration d) { return {a.ns + d.count()}; }
  friend constexpr Duration operator-(Instant a, Instant b) { return Duration{a.ns - b.ns}; }
};

}  // namespace weft
