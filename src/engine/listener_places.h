// How many connections a listener holds that no consumer owns yet, and how many it may hold.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::engine {

/// Startups (and refusals on their way out) of one listener; more are reset as they come.
inline constexpr std::uint32_t kHalfOpenMax = 1024;
/// Requests of one listener that wait for accept or reject: the backlog asked for, within these
/// bounds. More are rejected as if the consumer had done it. The lower bound is above most backlogs
/// because a request that the program has seen and thinks about counts here, and not for listen().
inline constexpr std::uint32_t kWaitingMin = 128;
inline constexpr std::uint32_t kWaitingMax = 4096;

/// Shared by a listener and the connections that came by it; the connections count.
/// Threads: the progress lock.
struct ListenerPlaces {
  explicit ListenerPlaces(int backlog)
      : waiting_max(static_cast<std::uint32_t>(
            std::clamp(backlog, int{kWaitingMin}, int{kWaitingMax}))) {}

  const std::uint32_t waiting_max;
  std::uint32_t half_open = 0;
  std::uint32_t waiting = 0;
};

}  // namespace weft::engine
