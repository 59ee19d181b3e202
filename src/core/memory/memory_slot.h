// What the table keeps of one region or window. For the table's own files.
#pragma once

#include "core/memory/memory_table.h"

namespace weft::core {

// One cache line: a check reads its bucket and this, and asks nobody what kind of slot it is. A
// bound window holds its own place, bounds and rights.
struct alignas(64) MemoryTable::Slot {
  enum class State : std::uint8_t { Free, Valid, Invalid };
  enum class Kind : std::uint8_t { Region, Window1, Window2 };

  RegionAttributes attributes;
  std::uint32_t stag = 0;      // kept while Free, so that the index stays occupied
  std::uint32_t next = 0;      // of the Free ones, or of tied windows: slot + 1, 0 = last
  std::uint32_t previous = 0;  // of tied windows: slot + 1, 0 = first
  std::uint32_t region = 0;    // of a Valid window: slot + 1
  std::uint32_t windows = 0;   // of a region: Valid windows bound to it
  State state = State::Free;
  Kind kind = Kind::Region;

  bool is_window() const { return kind != Kind::Region; }
};

constexpr std::uint32_t kSTagKeyBits = 8;
constexpr std::uint32_t index_of(std::uint32_t stag) {
  return stag >> kSTagKeyBits;
}

/// As a number: a region may be as large as the address space, and then the offset is more than a
/// pointer may be moved by.
inline std::uint8_t* place_at(std::uint8_t* address, std::uint64_t offset) {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  return reinterpret_cast<std::uint8_t*>(static_cast<std::uintptr_t>(first + offset));
}

/// Does [base, base + octets) pass 2^64? Ending exactly there does not.
constexpr bool passes_top(std::uint64_t base, std::uint64_t octets) {
  return octets != 0 && octets - 1 > ~std::uint64_t{0} - base;
}

}  // namespace weft::core
