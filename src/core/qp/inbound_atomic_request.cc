// Atomic Request: checked and performed at once, then queued for its response (RFC 7306 §5.2.1).
#include "core/qp/faults.h"
#include "core/qp/qp.h"

namespace weft::core {
namespace {

constexpr std::uintptr_t kAlignment = 8;

bool is_assigned(wire::AtomicOpcode opcode) {
  return opcode == wire::AtomicOpcode::FetchAdd || opcode == wire::AtomicOpcode::CmpSwap;
}

}  // namespace

//= EXT-03 EXT-05 EXT-08
// It is performed before its turn among the responses comes: after everything that arrived before
// it, and before everything behind it. Only a Read that is still to be answered may see what it
// changed, which RFC 7306 §7 leaves open.
void QP::handle_atomic_request(const ArrivedSegment& segment, UlpduCursor& payload, Instant now) {
  const auto refuse = [&](wire::TermError error) { protocol_error(error, &segment, now); };
  if (const auto fault = judge_only_segment(segment, payload, wire::AtomicRequest::kOctets)) {
    return refuse(*fault);
  }
  //= EXT-06 RDM-23 SEC-08
  if (inbound_reads_.size() >= ird_) return refuse(wire::TermError::DDPUntaggedNoBuffer);
  std::uint8_t octets[wire::AtomicRequest::kOctets];
  payload.copy(octets);
  const auto request = wire::AtomicRequest::parse(octets);
  if (!is_assigned(request.opcode)) return refuse(wire::TermError::RDMAPUnexpectedOpcode);

  const auto place =
      check_remote(request.stag, request.to, sizeof(std::uint64_t), kRemoteAtomic);
  if (!place) return refuse(read_fault(place.error()));
  //= EXT-04
  // The address counts: the tagged offset may start anywhere.
  if (reinterpret_cast<std::uintptr_t>(*place) % kAlignment != 0) {
    return refuse(wire::TermError::RDMAPStreamCatastrophic);
  }
  std::uint64_t original = 0;
  //= EXT-07
  if (!mover_.update(*place, {request.opcode, request.operands}, &original)) {
    return refuse(wire::TermError::RDMAPInvalidSTag);
  }
  InboundRead& response = inbound_reads_.push();
  response.atomic = true;
  response.answer = {request.id, original};
  expected_read_msn_ = expected_read_msn_.next();
}

//= EXT-03 EXT-05 EXT-06
bool QP::transmit_atomic_response(TransmitBatch& batch) {
  wire::DDPHeader header;
  header.rdmap_control = wire::rdmap_control(wire::Opcode::AtomicResponse);
  header.qn = wire::kAtomicResponseQueue;
  header.msn = atomic_response_msn_;
  std::uint8_t raw[wire::kUntaggedHeaderOctets + wire::AtomicResponse::kOctets];
  const std::size_t size = header.encode(raw);
  inbound_reads_.front().answer.encode(MutableOctets(raw).subspan(size));
  if (append(batch, raw, {}, false) != Framed::Done) return false;
  atomic_response_msn_ = atomic_response_msn_.next();
  inbound_reads_.pop();
  outbound_ = OutboundMessage::None;
  return true;
}

}  // namespace weft::core
