// Atomic Response: must answer our oldest open request (RFC 7306 §5.2.2).
#include "core/qp/faults.h"
#include "core/qp/qp.h"

#include <cstring>

namespace weft::core {

//= EXT-03 EXT-06 EXT-09
void QP::handle_atomic_response(const ArrivedSegment& segment, UlpduCursor& payload, Instant now) {
  // Each request of ours brings its buffer on queue 3: without one there is none.
  if (open_reads_.empty()) {
    return protocol_error(wire::TermError::DDPUntaggedNoBuffer, &segment, now);
  }
  const OpenRead& open = open_reads_.front();
  const auto fail = [&](wire::TermError error, WorkStatus status) {
    fail_read(segment, error, status, now);
  };
  // Reads and atomics are answered in the order of their requests (RFC 7306 §7).
  if (!open.atomic) {
    return fail(wire::TermError::RDMAPUnexpectedOpcode, WorkStatus::BadResponse);
  }
  if (const auto fault = judge_only_segment(segment, payload, wire::AtomicResponse::kOctets)) {
    return fail(*fault, WorkStatus::BadResponse);
  }
  std::uint8_t octets[wire::AtomicResponse::kOctets];
  payload.copy(octets);
  const auto response = wire::AtomicResponse::parse(octets);
  if (response.id != open.msn.value) {
    return fail(wire::TermError::RDMAPOperationUnspecified, WorkStatus::BadResponse);
  }
  // In the order of this machine, as the verbs have it.
  std::uint8_t value[sizeof response.original];
  std::memcpy(value, &response.original, sizeof value);
  //= SEC-04
  const auto place =
      memory_.check(open.sink_stag, open.sink_to, sizeof value, kLocalWrite, requester());
  if (!place) return fail(tagged_fault(place.error()), WorkStatus::LocalProtection);
  if (!mover_.place(*place, value, nullptr)) {
    return fail(wire::TermError::DDPTaggedInvalidSTag, WorkStatus::LocalProtection);
  }
  expected_atomic_response_msn_ = expected_atomic_response_msn_.next();
  deliver_read(now);
}

// Messages that are a header and nothing else fit any segment, so they have to be one.
std::optional<wire::TermError> QP::judge_only_segment(const ArrivedSegment& segment,
                                                      const UlpduCursor& payload,
                                                      std::size_t octets) {
  if (payload.octets_left() < octets) return wire::TermError::DDPLocalCatastrophic;
  if (payload.octets_left() > octets) return wire::TermError::DDPUntaggedTooLong;
  if (!segment.ddp.last) return wire::TermError::RDMAPStreamCatastrophic;
  return {};
}

}  // namespace weft::core
