// The strong integers of the wire: STag and MSN.
#pragma once

#include <cstdint>

namespace weft {

/// Steering tag: names a registered buffer (RFC 5041 §2.1). Octet 0 (low) is the consumer's key.
struct STag {
  std::uint32_t value = 0;
  friend constexpr bool operator==(STag, STag) = default;
};

/// DDP message sequence number: starts at 1 on each queue and wraps modulo 2^32 (RFC 5041 §4.3),
/// so it has equality and a successor but no order.
struct MSN {
  std::uint32_t value = 1;
  friend constexpr bool operator==(MSN, MSN) = default;
  constexpr MSN next() const { return {value + 1}; }
};

}  // namespace weft
