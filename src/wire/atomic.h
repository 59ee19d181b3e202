// Atomic Request and Atomic Response headers (RFC 7306 §5.2).
#pragma once

#include <cstdint>

#include "base/octets.h"
#include "wire/numbers.h"

namespace weft::wire {

/// The low four bits of an Atomic Request's first word (RFC 7306 fig. 5). A peer may send any of
/// the sixteen values.
enum class AtomicOpcode : std::uint8_t {
  FetchAdd = 0x0,
  CmpSwap = 0x2,
};

/// The four operand fields. Numbers: the wire is big-endian, memory is what the target's CPU is.
struct AtomicOperands {
  std::uint64_t data = 0;       ///< what to add, or to swap in
  std::uint64_t data_mask = 0;  ///< FetchAdd: the top bit of each field; CmpSwap: the bits to swap
  std::uint64_t compare = 0;    ///< CmpSwap
  std::uint64_t compare_mask = ~std::uint64_t{0};  ///< CmpSwap: the bits to compare

  friend bool operator==(const AtomicOperands&, const AtomicOperands&) = default;
};

/// Atomic Request header: follows the untagged DDP header.
struct AtomicRequest {
  static constexpr std::size_t kOctets = 52;
  AtomicOpcode opcode = AtomicOpcode::FetchAdd;
  std::uint32_t id = 0;  ///< the requester's choice; the response repeats it
  STag stag;
  std::uint64_t to = 0;
  AtomicOperands operands;

  void encode(MutableOctets out) const;   ///< out.size() >= kOctets; reserved bits 0
  static AtomicRequest parse(Octets in);  ///< in.size() >= kOctets, else asserts
  friend bool operator==(const AtomicRequest&, const AtomicRequest&) = default;
};

/// Atomic Response header: follows the untagged DDP header. RFC 7306 §4 speaks of 32 octets; its
/// figure 6 and its list of fields have these 12, and so has everybody's wire.
struct AtomicResponse {
  static constexpr std::size_t kOctets = 12;
  std::uint32_t id = 0;
  std::uint64_t original = 0;  ///< the value before the operation

  void encode(MutableOctets out) const;
  static AtomicResponse parse(Octets in);
  friend bool operator==(const AtomicResponse&, const AtomicResponse&) = default;
};

}  // namespace weft::wire
