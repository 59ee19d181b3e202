// Limits of what makes many connections.
#pragma once

#include <cstdint>

namespace weft::bench {

/// Work::Connect: so many connections are open at once at most.
inline constexpr std::uint32_t kConnectionsAtOnceMax = 512;
/// Work::IdleMemory: what a round adds, and how many rounds there are.
inline constexpr std::uint32_t kIdleConnectionsMax = 4096;
inline constexpr std::uint32_t kIdleRoundsMax = 3;

}  // namespace weft::bench
