// Immediate Data of a Write (behind it) or of a Send (before it).
#include "core/qp/qp.h"

namespace weft::core {

//= EXT-01 EXT-10
bool QP::transmit_immediate(TransmitBatch& batch, OpenWork& work) {
  const bool of_send = work.opcode == WorkOpcode::SendImmediate;
  // The Send behind it solicits the event by itself.
  const bool solicited = work.solicited && !of_send;
  wire::DDPHeader header;
  header.rdmap_control =
      wire::rdmap_control(solicited ? wire::Opcode::ImmediateSolicited : wire::Opcode::Immediate);
  header.qn = wire::kSendQueue;
  header.msn = send_msn_;
  std::uint8_t raw[wire::kUntaggedHeaderOctets + wire::Immediate::kOctets];
  const std::size_t size = header.encode(raw);
  const wire::Immediate immediate = of_send ? immediate_.of_next_send() : immediate_;
  immediate.encode(MutableOctets(raw).subspan(size));
  if (append(batch, raw, {}, false) != Framed::Done) return false;

  send_msn_ = send_msn_.next();
  work.immediate_next = false;
  if (of_send) return true;
  work.end_position = produced_;
  work.phase = WorkPhase::Sent;
  outbound_ = OutboundMessage::None;
  return true;
}

}  // namespace weft::core
