// What an atomic operation makes of 64 bits (RFC 7306 §5.1).
#pragma once

#include <cstdint>

#include "wire/atomic.h"

namespace weft::core {

/// One operation on one number. `opcode` is one of the assigned ones.
struct AtomicChange {
  wire::AtomicOpcode opcode = wire::AtomicOpcode::FetchAdd;
  wire::AtomicOperands operands;

  //= EXT-02
  constexpr std::uint64_t applied_to(std::uint64_t original) const {
    const std::uint64_t mask = operands.data_mask;
    if (opcode == wire::AtomicOpcode::CmpSwap) {
      if (((original ^ operands.compare) & operands.compare_mask) != 0) return original;
      return (original & ~mask) | (operands.data & mask);
    }
    // Each bit of the mask is the top bit of a field. Added without them no field overflows; the
    // top bits are then the sum of both and the carry that came up to them, which goes no further.
    const std::uint64_t low = (original & ~mask) + (operands.data & ~mask);
    return low ^ ((original ^ operands.data) & mask);
  }
};

}  // namespace weft::core
