// DDP segment headers (RFC 5041 §4): what stands at the start of every ULPDU.
#pragma once

#include <cstdint>
#include <optional>

#include "base/octets.h"
#include "wire/numbers.h"
#include "wire/rdmap.h"

namespace weft::wire {

inline constexpr std::uint8_t kDDPVersion = 1;
/// The control octet (RFC 5041 §4.1). 0x3c is reserved: sent as 0, not looked at.
inline constexpr std::uint8_t kTaggedBit = 0x80;
inline constexpr std::uint8_t kLastBit = 0x40;
inline constexpr std::uint8_t kVersionMask = 0x03;
inline constexpr std::size_t kTaggedHeaderOctets = 14;
inline constexpr std::size_t kUntaggedHeaderOctets = 18;
inline constexpr std::size_t kDDPHeaderOctetsMax = 18;

/// Queue numbers of untagged messages (RFC 5040 §4.1, RFC 7306 §4.1).
inline constexpr std::uint32_t kSendQueue = 0;
inline constexpr std::uint32_t kReadRequestQueue = 1;
inline constexpr std::uint32_t kTerminateQueue = 2;
inline constexpr std::uint32_t kAtomicResponseQueue = 3;

/// A DDP header as a value. `tagged` says which half means anything; parse() leaves the other half
/// at its defaults.
struct DDPHeader {
  bool tagged = false;
  bool last = true;                       ///< L: last segment of the message
  std::uint8_t version = kDDPVersion;     ///< DV; parse() does not judge it
  std::uint8_t rdmap_control = 0;         ///< RsvdULP's first octet
  // tagged
  STag stag;
  std::uint64_t to = 0;
  // untagged
  STag invalidate_stag;                   ///< RsvdULP[8:39]
  std::uint32_t qn = 0;
  MSN msn;
  std::uint32_t mo = 0;

  std::size_t octets() const { return tagged ? kTaggedHeaderOctets : kUntaggedHeaderOctets; }
  /// Writes octets() octets; reserved bits 0. out.size() >= octets(). Returns octets().
  std::size_t encode(MutableOctets out) const;
  /// Empty if `ulpdu` is shorter than the header that its T bit announces. Reserved bits are
  /// ignored; version, opcode, QN and the rest are for the core to judge.
  static std::optional<DDPHeader> parse(Octets ulpdu);
  friend bool operator==(const DDPHeader&, const DDPHeader&) = default;
};

/// Are these the control octets, DDP's and RDMAP's, of the last segment of a Write, in the versions
/// that we speak? Where the reserved bits are not all 0 it may say no.
constexpr bool is_last_of_write(std::uint8_t ddp, std::uint8_t rdmap) {
  return ddp == (kTaggedBit | kLastBit | kDDPVersion) && rdmap == rdmap_control(Opcode::Write);
}

}  // namespace weft::wire
