// Terminate messages to octets and back, and what their codes mean.
#include "wire/terminate.h"

#include <algorithm>

#include "base/assert.h"
#include "base/byte_order.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

namespace weft::wire {
namespace {

constexpr std::size_t kControlOctets = 4;
constexpr std::size_t kSegmentLengthOctets = 2;

// HdrCt, the third octet of the Terminate Control field (RFC 5040 figure 8).
constexpr std::uint8_t kSegmentLengthValid = 0x80;  // M
constexpr std::uint8_t kDDPHeaderIncluded = 0x40;   // D
constexpr std::uint8_t kRDMAHeaderIncluded = 0x20;  // R

static_assert(kTerminateOctetsMax == kUntaggedHeaderOctets + kControlOctets + kSegmentLengthOctets +
                                         kDDPHeaderOctetsMax + ReadRequest::kOctets);

/// The size of the header that starts with this DDP control octet.
std::size_t ddp_header_octets(std::uint8_t control) {
  return (control & 0x80) ? kTaggedHeaderOctets : kUntaggedHeaderOctets;
}

void append(std::uint8_t* out, std::size_t& at, Octets piece) {
  std::copy(piece.begin(), piece.end(), out + at);
  at += piece.size();
}

}  // namespace

// clang-format off
const char* text(TermError e) {
  // The error code means nothing where the type is a local catastrophe (RFC 5040 figure 9).
  if (layer(e) == 0 && etype(e) == 0) return "RDMAP: local catastrophic error";
  switch (e) {
    case TermError::RDMAPLocalCatastrophic: break;
    case TermError::RDMAPInvalidSTag: return "remote protection: invalid STag";
    case TermError::RDMAPBounds: return "remote protection: base or bounds violation";
    case TermError::RDMAPAccess: return "remote protection: access rights violation";
    case TermError::RDMAPNotAssociated:
      return "remote protection: STag not associated with this stream";
    case TermError::RDMAPTOWrap: return "remote protection: tagged offset wraps";
    case TermError::RDMAPCannotInvalidate: return "remote protection: STag cannot be invalidated";
    case TermError::RDMAPProtectionUnspecified: return "remote protection: unspecified error";
    case TermError::RDMAPVersion: return "remote operation: invalid RDMAP version";
    case TermError::RDMAPUnexpectedOpcode: return "remote operation: unexpected opcode";
    case TermError::RDMAPStreamCatastrophic:
      return "remote operation: catastrophic error of this stream";
    case TermError::RDMAPGlobalCatastrophic: return "remote operation: catastrophic global error";
    case TermError::RDMAPOperationCannotInvalidate:
      return "remote operation: STag cannot be invalidated";
    case TermError::RDMAPOperationUnspecified: return "remote operation: unspecified error";
    case TermError::DDPLocalCatastrophic: return "DDP: local catastrophic error";
    case TermError::DDPTaggedInvalidSTag: return "tagged: invalid STag";
    case TermError::DDPTaggedBounds: return "tagged: base or bounds violation";
    case TermError::DDPTaggedNotAssociated: return "tagged: STag not associated with this stream";
    case TermError::DDPTaggedTOWrap: return "tagged: tagged offset wraps";
    case TermError::DDPTaggedVersion: return "tagged: invalid DDP version";
    case TermError::DDPUntaggedInvalidQN: return "untagged: invalid queue number";
    case TermError::DDPUntaggedNoBuffer: return "untagged: no buffer for this message";
    case TermError::DDPUntaggedMSNRange: return "untagged: message sequence number out of range";
    case TermError::DDPUntaggedInvalidMO: return "untagged: invalid message offset";
    case TermError::DDPUntaggedTooLong: return "untagged: message too long for its buffer";
    case TermError::DDPUntaggedVersion: return "untagged: invalid DDP version";
    case TermError::MPAStreamLost: return "MPA: connection closed, terminated or lost";
    case TermError::MPACRC: return "MPA: CRC mismatch";
    case TermError::MPAMarker: return "MPA: marker and length disagree";
    case TermError::MPAStartup: return "MPA: invalid request or reply frame";
    case TermError::MPALocalCatastrophic: return "MPA: local catastrophic error";
    case TermError::MPAInsufficientIRD: return "MPA: insufficient IRD";
    case TermError::MPANoMatchingRTR: return "MPA: no matching RTR";
  }
  return "unassigned error code";
}
// clang-format on

TermHeaders headers_for(TermError e) {
  switch (layer(e)) {
    case 0:
      return {.ddp = etype(e) != 0, .read_request = etype(e) == 1};
    case 1:
      return {.ddp = true, .read_request = false};
    default:
      return {};  // an error below DDP has no DDP segment to show
  }
}

std::size_t Terminate::octets() const {
  const bool length_present = ddp_segment_octets.has_value() || !ddp_header.empty();
  return kControlOctets + (length_present ? kSegmentLengthOctets : 0) + ddp_header.size() +
         read_request.size();
}

std::size_t Terminate::encode(MutableOctets out) const {
  const bool ddp_ok = ddp_header.empty() || ddp_header.size() == ddp_header_octets(ddp_header[0]);
  const bool read_ok = read_request.empty() || read_request.size() == ReadRequest::kOctets;
  weft_assert(ddp_ok);
  weft_assert(read_ok);
  weft_assert(out.size() >= octets());
  if (!ddp_ok || !read_ok || out.size() < octets()) return 0;  // the freestanding hook comes back

  std::uint8_t* p = out.data();
  store_be16(p, static_cast<std::uint16_t>(error));
  p[2] = static_cast<std::uint8_t>((ddp_segment_octets ? kSegmentLengthValid : 0) |
                                   (ddp_header.empty() ? 0 : kDDPHeaderIncluded) |
                                   (read_request.empty() ? 0 : kRDMAHeaderIncluded));
  p[3] = 0;
  std::size_t at = kControlOctets;
  if (ddp_segment_octets || !ddp_header.empty()) {
    store_be16(p + at, ddp_segment_octets ? *ddp_segment_octets : std::uint16_t{0});
    at += kSegmentLengthOctets;
  }
  append(p, at, ddp_header);
  append(p, at, read_request);
  return at;
}

std::optional<Terminate> Terminate::parse(Octets in) {
  if (in.size() < 2) return {};
  Terminate terminate;
  terminate.error = static_cast<TermError>(load_be16(in.data()));
  const std::uint8_t control = in.size() < kControlOctets ? 0 : in[2];
  Octets rest = in.subspan(std::min(in.size(), kControlOctets));

  // The length field stands there for M and, because the figure has no other layout, for D alone.
  if (control & (kSegmentLengthValid | kDDPHeaderIncluded)) {
    if (rest.size() < kSegmentLengthOctets) return terminate;
    if (control & kSegmentLengthValid) terminate.ddp_segment_octets = load_be16(rest.data());
    rest = rest.subspan(kSegmentLengthOctets);
  }
  if (control & kDDPHeaderIncluded) {
    if (rest.empty() || rest.size() < ddp_header_octets(rest[0])) return terminate;
    terminate.ddp_header = rest.first(ddp_header_octets(rest[0]));
    rest = rest.subspan(terminate.ddp_header.size());
  }
  if ((control & kRDMAHeaderIncluded) && rest.size() >= ReadRequest::kOctets) {
    terminate.read_request = rest.first(ReadRequest::kOctets);
  }
  return terminate;
}

}  // namespace weft::wire
