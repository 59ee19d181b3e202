// RDMA Read Response: must be what our oldest open Read asked for (RFC 5040 §5.2.2).
#include "core/qp/faults.h"
#include "core/qp/qp.h"

namespace weft::core {

//= RDM-10
void QP::handle_read_response(const ArrivedSegment& segment, UlpduCursor& payload, Instant now) {
  if (open_reads_.empty()) {
    return protocol_error(wire::TermError::RDMAPUnexpectedOpcode, &segment, now);
  }
  OpenRead& read = open_reads_.front();
  if (read.atomic) {
    return fail_read(segment, wire::TermError::RDMAPUnexpectedOpcode, WorkStatus::BadResponse,
                     now);
  }
  const std::size_t octets = payload.octets_left();
  if (octets > 0) {
    if (segment.ddp.stag != read.sink_stag) {
      return fail_read(segment, wire::TermError::DDPTaggedInvalidSTag, WorkStatus::BadResponse,
                       now);
    }
    const bool contiguous = segment.ddp.to == read.sink_to + read.received;
    if (!contiguous || octets > read.octets - read.received) {
      return fail_read(segment, wire::TermError::DDPTaggedBounds, WorkStatus::BadResponse, now);
    }
  }
  const bool ends = read.received + octets == read.octets;
  if (ends != segment.ddp.last) {
    return fail_read(segment, wire::TermError::RDMAPStreamCatastrophic, WorkStatus::BadResponse,
                     now);
  }
  if (octets > 0) {
    // The sink was checked when the request left, but our program may have taken it back since.
    //= SEC-04
    const auto place =
        memory_.check(segment.ddp.stag, segment.ddp.to, octets, kLocalWrite, requester());
    if (!place) {
      return fail_read(segment, tagged_fault(place.error()), WorkStatus::LocalProtection, now);
    }
    std::uint8_t* target = *place;
    for (Octets run = payload.next(octets); !run.empty(); run = payload.next(octets)) {
      if (!put(target, run)) {
        return fail_read(segment, wire::TermError::DDPTaggedInvalidSTag,
                         WorkStatus::LocalProtection, now);
      }
      target += run.size();
    }
    read.received += static_cast<std::uint32_t>(octets);
  }
  if (ends) deliver_read(now);
}

//= RDM-16 RDM-21
void QP::deliver_read(Instant now) {
  const OpenRead read = open_reads_.front();
  open_reads_.pop();
  confirm(read);
  if (!read.work) {  // the RTR's answer: nobody asked for it, but close() may wait for it
    if (state_ == QPState::Closing) action_ = LLPAction::CloseGracefully;
    return retire();
  }
  if (read.work->opcode == WorkOpcode::ReadInvalidate &&
      !memory_.invalidate(read.sink_stag, requester())) {
    return fail_work(*read.work, WorkStatus::LocalProtection, now);
  }
  read.work->phase = WorkPhase::Done;
  retire();
}

void QP::fail_read(const ArrivedSegment& segment, wire::TermError error, WorkStatus status,
                   Instant now) {
  if (OpenWork* work = open_reads_.front().work) {
    work->phase = WorkPhase::Failed;
    work->status = status;
  }
  protocol_error(error, &segment, now);
}

}  // namespace weft::core
