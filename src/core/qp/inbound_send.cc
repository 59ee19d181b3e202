// The four Sends: one receive buffer each, in order (RFC 5040 §5.3).
#include "core/qp/qp.h"

#include <algorithm>

namespace weft::core {

//= RDM-12 RDM-16 DDP-12
QP::SegmentFate QP::handle_send(const ArrivedSegment& segment, UlpduCursor& payload, Instant now) {
  if (!receive_.open) {
    const bool may_open = !immediate_kept_ || deliver_kept_immediate(segment, now);
    if (!may_open || !open_receive(segment, now)) {
      return state_ == QPState::RTS ? SegmentFate::HeldBack : SegmentFate::Consumed;
    }
  } else {
    //= DDP-04
    // What RDMAP put into the header must not change within a message.
    const bool invalidates = wire::traits(receive_.control).invalidates;
    if (segment.ddp.rdmap_control != receive_.control ||
        (invalidates && segment.ddp.invalidate_stag != receive_.invalidate_stag)) {
      protocol_error(wire::TermError::RDMAPUnexpectedOpcode, &segment, now);
      return SegmentFate::Consumed;
    }
  }
  const std::size_t octets = payload.octets_left();
  const std::uint64_t length_max = std::min<std::uint64_t>(receive_.capacity, 0xffffffffu);
  if (octets > length_max - receive_.received) {
    complete_receive(WorkStatus::LocalLength, false);
    protocol_error(wire::TermError::DDPUntaggedTooLong, &segment, now);
    return SegmentFate::Consumed;
  }
  const WorkStatus placed = scatter(payload);
  if (placed != WorkStatus::Success) {
    // The buffer is ours to have got right: the peer did nothing wrong. Still it is told which
    // message did not arrive. RDMAP's local catastrophic error could not say so, for it never has
    // a header (RFC 5040 §4.8); that of DDP, which is the layer that places, has one.
    complete_receive(placed, false);
    protocol_error(wire::TermError::DDPLocalCatastrophic, &segment, now);
    return SegmentFate::Consumed;
  }
  receive_.received += static_cast<std::uint32_t>(octets);
  if (segment.ddp.last) deliver_send(segment, now);
  return SegmentFate::Consumed;
}

// Takes the buffer for a message that begins. False: there is none, or it is no good and the stream
// has ended. Nothing of the segment was acted on when it is held back.
bool QP::open_receive(const ArrivedSegment& segment, Instant now) {
  ReceiveWR wr;
  if (!queues_.take_receive(wr)) {
    if (config_.strict_receive) {
      protocol_error(wire::TermError::DDPUntaggedNoBuffer, &segment, now);
    }
    return false;
  }
  receive_ = {};
  receive_.open = true;
  receive_.control = segment.ddp.rdmap_control;
  receive_.invalidate_stag = segment.ddp.invalidate_stag;
  receive_.id = wr.id;
  if (wr.sges.size() > config_.receive_sges) {
    complete_receive(WorkStatus::LocalQPOperation, false);
    protocol_error(wire::TermError::DDPLocalCatastrophic, &segment, now);
    return false;
  }
  receive_.sge_count = static_cast<std::uint32_t>(wr.sges.size());
  for (std::uint32_t i = 0; i < receive_.sge_count; ++i) {
    receive_sges_[i] = wr.sges[i];
    receive_.capacity += wr.sges[i].octets;
  }
  return true;
}

// Places the rest of the segment behind what was placed before. The caller checked that it fits.
WorkStatus QP::scatter(UlpduCursor& payload) {
  while (payload.octets_left() > 0) {
    const SGE& sge = receive_sges_[receive_.sge_index];
    const std::size_t run = std::min<std::size_t>(payload.octets_left(),
                                                  sge.octets - receive_.sge_offset);
    if (run > 0) {
      const auto place = memory_.check(sge.stag, sge.to + receive_.sge_offset, run, kLocalWrite,
                                       {config_.receive_pd, config_.stream});
      if (!place) return WorkStatus::LocalProtection;
      for (std::size_t done = 0; done < run;) {
        const Octets piece = payload.next(run - done);
        if (!put(*place + done, piece)) return WorkStatus::LocalProtection;
        done += piece.size();
      }
      receive_.sge_offset += static_cast<std::uint32_t>(run);
    }
    if (receive_.sge_offset == sge.octets) {
      ++receive_.sge_index;
      receive_.sge_offset = 0;
    }
  }
  return WorkStatus::Success;
}

void QP::deliver_send(const ArrivedSegment& segment, Instant now) {
  //= RDM-13
  // After the payload was placed and before the consumer hears of it. Whatever the reason, the code
  // is "cannot be invalidated" (RFC 5040 §5.3).
  const bool invalidates = wire::traits(receive_.control).invalidates;
  if (invalidates && !memory_.invalidate_for_peer(receive_.invalidate_stag, requester())) {
    complete_receive(WorkStatus::LocalProtection, false);
    return protocol_error(wire::TermError::RDMAPCannotInvalidate, &segment, now);
  }
  expected_send_msn_ = expected_send_msn_.next();
  complete_receive(WorkStatus::Success, invalidates);
}

//= DDP-13
void QP::complete_receive(WorkStatus status, bool invalidated) {
  Completion completion;
  completion.id = receive_.id;
  completion.status = status;
  completion.opcode = WorkOpcode::Receive;
  completion.solicited = wire::traits(receive_.control).solicited;
  completion.invalidated = invalidated;
  if (invalidated) completion.invalidated_stag = receive_.invalidate_stag;
  completion.octets = receive_.received;
  if (immediate_kept_ && status == WorkStatus::Success) {
    completion.with = Completion::With::SendImmediate;
    completion.immediate = kept_immediate_;
    immediate_kept_ = false;
  }
  receive_ = {};
  write_octets_ = 0;
  queues_.complete(completion);
}

}  // namespace weft::core
