// How large the rings are: for the device, which lays them out, and for a host that brings the
// memory for them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "device/entries.h"
#include "device/ring.h"

namespace weft::device {

inline constexpr std::size_t kRingAlignment = 64;

/// What Ring::format takes.
struct RingShape {
  /// Of at least `depth` entries of at least `entry_octets`.
  RingShape(std::uint32_t depth, std::size_t entry_octets)
      : capacity(std::bit_ceil(depth)),
        stride(static_cast<std::uint32_t>((entry_octets + 63) / 64 * 64)) {}
  std::size_t octets() const { return Ring::storage_octets(capacity, stride); }

  std::uint32_t capacity;
  std::uint32_t stride;
};

// For depths and counts within the device's limits.

inline RingShape send_ring(const QPRequest& request) {
  constexpr std::size_t kAtomicOctets = sizeof(SGEntry) + sizeof(AtomicEntry);
  static_assert(sizeof(BindEntry) <= kAtomicOctets);
  return {request.send_depth,
          sizeof(SendEntry) + std::max<std::size_t>({request.send_sges * sizeof(SGEntry),
                                                     request.inline_octets, kAtomicOctets})};
}
/// Also of an SRQ.
inline RingShape receive_ring(std::uint32_t depth, std::uint32_t sges) {
  return {depth, sizeof(ReceiveEntry) + sges * sizeof(SGEntry)};
}
inline RingShape completion_ring(std::uint32_t depth) {
  return {depth, sizeof(CompletionEntry)};
}

}  // namespace weft::device
