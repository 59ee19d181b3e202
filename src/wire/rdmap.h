// RDMAP opcodes and headers (RFC 5040 §4, RFC 7306 §4, RFC 6580 §3.4).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/octets.h"
#include "wire/numbers.h"

namespace weft::wire {

enum class Opcode : std::uint8_t {
  Write = 0x0,
  ReadRequest = 0x1,
  ReadResponse = 0x2,
  Send = 0x3,
  SendInvalidate = 0x4,
  SendSolicited = 0x5,
  SendSolicitedInvalidate = 0x6,
  Terminate = 0x7,
  Immediate = 0x8,
  ImmediateSolicited = 0x9,
  AtomicRequest = 0xa,
  AtomicResponse = 0xb,
  // 0xc..0xe unassigned, 0xf experimental: rows exist, support does not.
};

enum class Model : std::uint8_t { None, Tagged, Untagged };

/// One row per opcode value (RFC 5040 fig. 4, RFC 7306 fig. 1).
struct OpcodeTraits {
  Model model;               ///< None: unassigned
  std::uint32_t queue;       ///< QN of an untagged message; 0 otherwise
  std::uint8_t fixed_octets; ///< header after the DDP header (28 for Read Request); 0: any length
  bool supported;            ///< what the core processes; the rest answers 0/2/06
  bool solicited;            ///< carries Solicited Event
  bool invalidates;          ///< carries an Invalidate STag
  const char* name;
};

/// Row i describes opcode i; asserted at compile time in rdmap.cc.
extern const std::array<OpcodeTraits, 16> kOpcodes;

inline constexpr std::uint8_t kRDMAPVersion = 1;

/// The control octet: RV in the top two bits, opcode in the low four, the others reserved and 0
/// (RFC 5040 §4.1).
constexpr std::uint8_t rdmap_control(Opcode op) {
  return static_cast<std::uint8_t>((kRDMAPVersion << 6) | static_cast<std::uint8_t>(op));
}
constexpr std::uint8_t rdmap_version(std::uint8_t control) { return control >> 6; }
constexpr Opcode rdmap_opcode(std::uint8_t control) { return static_cast<Opcode>(control & 0x0f); }
/// The row for any control octet (its low four bits), so never out of range.
const OpcodeTraits& traits(std::uint8_t control);
inline const OpcodeTraits& traits(Opcode op) { return traits(static_cast<std::uint8_t>(op)); }

/// RDMA Read Request header (RFC 5040 §4.4): follows the untagged DDP header. Sink first.
struct ReadRequest {
  static constexpr std::size_t kOctets = 28;
  STag sink_stag;
  std::uint64_t sink_to = 0;
  std::uint32_t octets = 0;  ///< RDMA Read Message Size
  STag source_stag;
  std::uint64_t source_to = 0;

  void encode(MutableOctets out) const;            ///< out.size() >= kOctets
  static ReadRequest parse(Octets in);             ///< in.size() >= kOctets, else asserts
  friend bool operator==(const ReadRequest&, const ReadRequest&) = default;
};

}  // namespace weft::wire
