// How work requests end: in order when they succeed, flushed when the stream is over.
#include "core/qp/qp.h"

namespace weft::core {
namespace {

template <typename Works>
bool any_failed(Works& works) {
  for (std::uint32_t i = 0; i < works.size(); ++i) {
    if (works[i].phase == WorkPhase::Failed) return true;
  }
  return false;
}

}  // namespace

//= RDM-19 RDM-20
// Completes from the front what is done. A Send or Write is done when the transport took its last
// octet (RFC 5040 §5.5-14), or later if it was asked to (probe.cc), a Read or an atomic when its
// answer was placed; what is done behind something that is not waits.
void QP::retire() {
  while (!open_work_.empty()) {
    OpenWork& work = open_work_.front();
    if (!is_handed_over(work) && work.phase != WorkPhase::Done) return;
    complete_work(work, WorkStatus::Success);
    open_work_.pop();
  }
}

void QP::complete_work(const OpenWork& work, WorkStatus status) {
  Completion completion;
  completion.id = work.id;
  completion.status = status;
  completion.opcode = work.opcode;
  completion.signaled = work.signaled || status != WorkStatus::Success;
  completion.octets = work.octets;
  queues_.complete(completion);
}

// In Terminate the send queue keeps its entries until the transport has taken what was produced:
// it may still be sending from their memory, which is the program's again once they complete.
void QP::flush_queues() {
  if (state_ != QPState::Terminate && state_ != QPState::Error) return;
  if (peer_gone_) return;  // until fail_unreachable, or the consumer asks for Error or Idle
  const bool taken = state_ == QPState::Error || accepted_ >= flush_position_;
  // What explains the end comes before what only follows from it, and be it that this has to wait.
  if (lost_status_ == WorkStatus::RetryExceeded || any_failed(open_work_)) {
    if (!taken) return;
    flush_sends();
  }
  flush_receives();
  if (taken) flush_sends();
}

void QP::flush_sends() {
  retire();
  open_reads_.clear();
  while (!open_work_.empty()) {
    const OpenWork& work = open_work_.front();
    const bool failed = work.phase == WorkPhase::Failed;
    complete_work(work, failed ? work.status : lost_status_);
    lost_status_ = WorkStatus::Flushed;
    open_work_.pop();
  }
  for (SendWR wr; queues_.take_send(wr); wr = {}) {
    const bool unknown = wr.opcode >= WorkOpcode::Receive;
    queues_.complete({.id = wr.id, .status = lost_status_,
                      .opcode = unknown ? WorkOpcode::Send : wr.opcode});
    lost_status_ = WorkStatus::Flushed;
  }
}

void QP::flush_receives() {
  if (receive_.open) complete_receive(WorkStatus::Flushed, false);
  ReceiveWR wr;
  while (queues_.take_receive_to_flush(wr)) {
    queues_.complete(
        {.id = wr.id, .status = WorkStatus::Flushed, .opcode = WorkOpcode::Receive});
  }
}

//= DDP-15
// Work posted after the stream's end. In Closing it makes the close a bad one (verbs draft §6.2).
void QP::flush(Instant) {
  if (state_ == QPState::Closing && queues_.send_pending()) return bad_close();
  flush_queues();
}

}  // namespace weft::core
