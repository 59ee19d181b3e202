// Atomic Request: shares queue, order and ORD with the Read Requests (RFC 7306 §5.2).
#include "core/qp/qp.h"

namespace weft::core {

//= EXT-01 EXT-03 EXT-05
bool QP::transmit_atomic_request(TransmitBatch& batch, OpenWork& work) {
  wire::AtomicRequest request;
  const bool swaps = work.opcode == WorkOpcode::CompareSwap;
  request.opcode = swaps ? wire::AtomicOpcode::CmpSwap : wire::AtomicOpcode::FetchAdd;
  // The number on the queue: no two of those that are open have the same.
  request.id = read_msn_.value;
  request.stag = work.remote_stag;
  request.to = work.remote_to;
  request.operands = operands_;
  if (!swaps) {
    request.operands.compare = 0;
    request.operands.compare_mask = ~std::uint64_t{0};
  }
  wire::DDPHeader header;
  header.rdmap_control = wire::rdmap_control(wire::Opcode::AtomicRequest);
  header.qn = wire::kReadRequestQueue;
  header.msn = read_msn_;
  std::uint8_t raw[wire::kUntaggedHeaderOctets + wire::AtomicRequest::kOctets];
  const std::size_t size = header.encode(raw);
  request.encode(MutableOctets(raw).subspan(size));
  if (append(batch, raw, {}, false) != Framed::Done) return false;

  OpenRead& open = open_reads_.push();
  open.atomic = true;
  open.sink_stag = work.sges[0].stag;
  open.sink_to = work.sges[0].to;
  open.octets = work.octets;
  finish_request(work, open);
  return true;
}

// A request of either kind left: its answer has the next word.
void QP::finish_request(OpenWork& work, OpenRead& open) {
  open.work = &work;
  open.position = produced_;
  open.msn = work.msn = read_msn_;
  read_msn_ = read_msn_.next();
  work.sent = work.octets;
  work.end_position = produced_;
  work.phase = WorkPhase::Sent;
  outbound_ = OutboundMessage::None;
}

}  // namespace weft::core
