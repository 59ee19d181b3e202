// Errors that end a stream from our side: the Terminate that tells the peer (RFC 5040 §4.8, §7.1).
#include "core/qp/qp.h"

#include <cerrno>

namespace weft::core {

//= RDM-24 RDM-28
// The first error is the one that is told: after it the state is no longer RTS. `segment`: the one
// in error; null when the error is not about a segment of the peer's. In Closing, where nothing may
// be sent any more, any error makes the close a bad one.
void QP::protocol_error(wire::TermError error, const ArrivedSegment* segment, Instant now) {
  if (state_ == QPState::Closing) return bad_close();
  if (step(QPEvent::ProtocolError)) begin_terminate(error, segment, now);
}

void QP::begin_terminate(wire::TermError error, const ArrivedSegment* segment, Instant now) {
  wire::Terminate message;
  message.error = error;
  //= RDM-27 RDM-30 DDP-22 EXT-11
  const wire::TermHeaders wanted = wire::headers_for(error);
  if (wanted.ddp && segment) {
    const Octets raw(segment->raw, segment->raw_octets);
    message.ddp_segment_octets = static_cast<std::uint16_t>(segment->ulpdu_octets);
    message.ddp_header = raw.first(segment->ddp.octets());
    const bool is_read_request = !segment->ddp.tagged &&
                                 wire::rdmap_opcode(segment->ddp.rdmap_control) ==
                                     wire::Opcode::ReadRequest;
    if (wanted.read_request && is_read_request && raw.size() == sizeof segment->raw) {
      message.read_request = raw.subspan(wire::kUntaggedHeaderOctets);
    }
  }
  //= RDM-14
  // Built now and kept apart from everything else that is sent, so there is always room for it.
  wire::DDPHeader header;
  header.rdmap_control = wire::rdmap_control(wire::Opcode::Terminate);
  header.qn = wire::kTerminateQueue;
  std::size_t octets = header.encode(terminate_ulpdu_);
  octets += message.encode(MutableOctets(terminate_ulpdu_).subspan(octets));
  terminate_octets_ = static_cast<std::uint8_t>(octets);
  terminate_error_ = error;
  terminate_pending_ = !silent();
  if (silent()) action_ = LLPAction::CloseGracefully;
  stop_work(now);
}

Result<void> QP::terminate(Instant now) {
  if (!step(QPEvent::TerminateRequested)) return Error{EINVAL, "terminate: the QP is not in RTS"};
  begin_terminate(wire::TermError::RDMAPLocalCatastrophic, nullptr, now);
  return {};
}

}  // namespace weft::core
