// Terminate: the error codes every layer reports and the message that carries them
// (RFC 5040 §4.8 and fig. 9/10, RFC 5041 §7.2, RFC 5044 §8, RFC 6581 §8).
#pragma once

#include <cstdint>
#include <optional>

#include "base/octets.h"

namespace weft::wire {

/// Layer, error type and code as one value: 0xLTCC. All that a peer can do wrong is in this list.
enum class TermError : std::uint16_t {
  RDMAPLocalCatastrophic = 0x0000,
  RDMAPInvalidSTag = 0x0100,
  RDMAPBounds = 0x0101,
  RDMAPAccess = 0x0102,
  RDMAPNotAssociated = 0x0103,
  RDMAPTOWrap = 0x0104,
  RDMAPCannotInvalidate = 0x0109,
  RDMAPProtectionUnspecified = 0x01ff,
  RDMAPVersion = 0x0205,
  RDMAPUnexpectedOpcode = 0x0206,
  RDMAPStreamCatastrophic = 0x0207,
  RDMAPGlobalCatastrophic = 0x0208,
  RDMAPOperationCannotInvalidate = 0x0209,
  RDMAPOperationUnspecified = 0x02ff,
  DDPLocalCatastrophic = 0x1000,
  DDPTaggedInvalidSTag = 0x1100,
  DDPTaggedBounds = 0x1101,
  DDPTaggedNotAssociated = 0x1102,
  DDPTaggedTOWrap = 0x1103,
  DDPTaggedVersion = 0x1104,
  DDPUntaggedInvalidQN = 0x1201,
  DDPUntaggedNoBuffer = 0x1202,
  DDPUntaggedMSNRange = 0x1203,
  DDPUntaggedInvalidMO = 0x1204,
  DDPUntaggedTooLong = 0x1205,
  DDPUntaggedVersion = 0x1206,
  MPAStreamLost = 0x2001,
  MPACRC = 0x2002,
  MPAMarker = 0x2003,
  MPAStartup = 0x2004,
  MPALocalCatastrophic = 0x2005,
  MPAInsufficientIRD = 0x2006,
  MPANoMatchingRTR = 0x2007,
};

constexpr std::uint8_t layer(TermError e) {
  return static_cast<std::uint8_t>(static_cast<std::uint16_t>(e) >> 12);
}
constexpr std::uint8_t etype(TermError e) {
  return static_cast<std::uint8_t>((static_cast<std::uint16_t>(e) >> 8) & 0xf);
}
constexpr std::uint8_t code(TermError e) {
  return static_cast<std::uint8_t>(static_cast<std::uint16_t>(e) & 0xff);
}
/// One sentence for people, e.g. "tagged: base or bounds violation". A code from a peer that is in
/// no list gives "unassigned error code". The pointer lives for ever.
const char* text(TermError e);

/// Which headers RFC 5040 fig. 10 asks to be included for this error.
struct TermHeaders {
  bool ddp = false;           ///< M and D: segment length and the DDP header
  bool read_request = false;  ///< R: also the Read Request header, if the message was one
};
TermHeaders headers_for(TermError e);

/// The largest Terminate ULPDU: 18 + 4 + 2 + 18 + 28.
inline constexpr std::size_t kTerminateOctetsMax = 70;

/// A Terminate message as a value: what follows its 18-octet untagged DDP header.
struct Terminate {
  TermError error{};
  std::optional<std::uint16_t> ddp_segment_octets;  ///< present with ddp_header
  Octets ddp_header;    ///< 0, 14 or 18 octets, of the segment in error; borrowed
  Octets read_request;  ///< 0 or 28 octets; borrowed

  /// Octets that encode() writes: 4..52.
  std::size_t octets() const;
  /// Writes the part after the DDP header; out.size() >= octets(). Returns octets().
  std::size_t encode(MutableOctets out) const;
  /// From the octets after the DDP header. Reserved bits are ignored; a HdrCt that promises more
  /// than is there gives what is there (the peer is dying: its code matters, its tail does not).
  /// Empty if fewer than 2 octets; 2 or 3 are accepted as "no headers". `error` may be a value that
  /// stands in no list; the headers borrow from `in`.
  static std::optional<Terminate> parse(Octets in);
};

}  // namespace weft::wire
