// Immediate Data: eight octets, in order with the Sends and with a receive like one (RFC 7306 §6).
#include "core/qp/qp.h"

namespace weft::core {

//= EXT-01 EXT-10
QP::SegmentFate QP::handle_immediate(const ArrivedSegment& segment, UlpduCursor& payload,
                                     Instant now) {
  const auto refuse = [&](wire::TermError error) {
    protocol_error(error, &segment, now);
    return SegmentFate::Consumed;
  };
  // In the middle of a Send, whose header must not change.
  if (receive_.open) return refuse(wire::TermError::RDMAPUnexpectedOpcode);
  // No code is assigned to a wrong length.
  if (payload.octets_left() != wire::Immediate::kOctets) {
    return refuse(wire::TermError::RDMAPOperationUnspecified);
  }
  if (!segment.ddp.last) return refuse(wire::TermError::RDMAPStreamCatastrophic);
  if (immediate_kept_ && !deliver_kept_immediate(segment, now)) {
    return state_ == QPState::RTS ? SegmentFate::HeldBack : SegmentFate::Consumed;
  }

  std::uint8_t octets[wire::Immediate::kOctets];
  UlpduCursor reader = payload;  // what is held back has to be read again
  reader.copy(octets);
  const wire::Immediate immediate = wire::Immediate::parse(octets);
  const bool solicited = wire::traits(segment.ddp.rdmap_control).solicited;
  if (immediate.is_of_next_send()) {
    // It shares that Send's receive (docs/adr/0007-a-send-with-immediate-is-two-messages.md).
    immediate_kept_ = true;
    kept_immediate_ = immediate;
    kept_solicited_ = solicited;
  } else {
    if (!open_receive(segment, now)) {
      return state_ == QPState::RTS ? SegmentFate::HeldBack : SegmentFate::Consumed;
    }
    complete_immediate(immediate, solicited);
  }
  expected_send_msn_ = expected_send_msn_.next();
  return SegmentFate::Consumed;
}

// Before a message on queue 0 begins: is the Send here that the kept immediate data is for? If not,
// it is delivered by itself. False: there is no receive for it, as open_receive() says it.
bool QP::deliver_kept_immediate(const ArrivedSegment& segment, Instant now) {
  const wire::Opcode opcode = wire::rdmap_opcode(segment.ddp.rdmap_control);
  if (opcode == wire::Opcode::Send || opcode == wire::Opcode::SendSolicited) return true;
  if (!open_receive(segment, now)) return false;
  immediate_kept_ = false;
  complete_immediate(kept_immediate_, kept_solicited_);
  return true;
}

// The receive's memory stays as it is: the octets go into the completion, as the verbs have it.
// The message has no length of its own worth telling. Programs that know Write with immediate
// look for the Write's, so we counted it.
void QP::complete_immediate(wire::Immediate immediate, bool solicited) {
  Completion completion;
  completion.id = receive_.id;
  completion.opcode = WorkOpcode::Receive;
  completion.solicited = solicited;
  completion.octets = write_ended_ ? write_octets_ : 0;
  completion.with = Completion::With::Immediate;
  completion.immediate = immediate;
  receive_ = {};
  write_octets_ = 0;
  queues_.complete(completion);
}

}  // namespace weft::core
