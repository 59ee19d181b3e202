// The end of a stream: graceful, abortive, or taken away (verbs draft §6.2, RFC 5040 §6.2).
#include "core/qp/qp.h"

#include <cerrno>

namespace weft::core {

bool QP::send_queue_empty() const { return open_work_.empty() && !queues_.send_pending(); }

// Commands.

Result<void> QP::close(Instant now) {
  if (!step(QPEvent::CloseRequested)) return Error{EINVAL, "close: the QP is not in RTS"};
  if (send_queue_empty() && inbound_reads_.empty()) {
    begin_closing(now);
    // A consumer may close before the answer to its RTR is here. That answer is no bad close, and
    // a FIN before it would make one at the peer: it goes when the answer came (deliver_read).
    if (!open_reads_.empty()) action_ = LLPAction::None;
  } else {
    bad_close();
  }
  return {};
}

Result<void> QP::fail(Instant) {
  peer_gone_ = false;
  if (!step(QPEvent::ErrorRequested)) return Error{EINVAL, "fail: not in this state"};
  enter_error(bound_ ? LLPAction::Reset : LLPAction::None);
  return {};
}

Result<void> QP::fail_unreachable(Instant now) {
  lost_status_ = WorkStatus::RetryExceeded;
  return fail(now);
}

Result<void> QP::reset(Instant) {
  peer_gone_ = false;
  if (state_ == QPState::Error) flush_queues();
  if (!step(QPEvent::IdleRequested)) return Error{EINVAL, "reset: the QP is not in Error"};
  forget_stream();
  paired_ = paused_ = false;
  remote_access_ = kRemoteAll;
  ord_limit_ = 0xffff;
  memory_.release_stream(config_.stream);
  return {};
}

// Inputs.

//= MPA-25
void QP::handle_peer_closed(Instant now) {
  if (state_ == QPState::Idle || state_ == QPState::Error) return;
  peer_closed_ = true;
  peer_gone_ = paired_ && state_ == QPState::RTS;
  notify(QPNotice::Kind::PeerClosed);
  if (state_ == QPState::Closing && !open_reads_.empty()) {
    open_reads_.clear();  // the answer to the RTR will not come any more
    action_ = LLPAction::CloseGracefully;
  }
  if (state_ != QPState::RTS) return;
  if (send_queue_empty() && inbound_reads_.empty()) {
    step(QPEvent::PeerClosed);
    begin_closing(now);
    open_reads_.clear();
  } else {
    // The peer left while work was open; our half still carries the Terminate that says so.
    step(QPEvent::PeerClosedEarly);
    begin_terminate(wire::TermError::RDMAPStreamCatastrophic, nullptr, now);
  }
}

//= DDP-17 RDM-25 MPA-26
void QP::handle_llp_lost(Instant) {
  const bool in_order = peer_closed_ && state_ != QPState::RTS;
  if (!step(in_order ? QPEvent::LLPClosed : QPEvent::LLPLost)) return;
  if (!in_order) notify(QPNotice::Kind::LLPLost);
  if (!in_order && paired_ && !terminate_sent_ && !terminate_received_) peer_gone_ = true;
  enter_error(LLPAction::None);
}

void QP::handle_timeout(Instant now) {
  if (state_ == QPState::RTS) return nudge(now);
  if (!deadline_ || now < *deadline_) return;
  // Behind a FIN all is the transport's, which goes on with a peer that stands still for longer.
  const bool all_left = state_ == QPState::Closing && action_ == LLPAction::None;
  if (!step(QPEvent::LLPLost)) return;
  notify(QPNotice::Kind::LLPLost);
  enter_error(all_left ? LLPAction::None : LLPAction::Reset);
}

// A segment that was begun cannot be finished, so not even a Terminate can follow it: only a reset
// is left (verbs draft §6.4). To blame is the oldest WR whose octets the transport
// still had to take.
void QP::handle_send_fault(Instant) {
  // A stream that is ending already has its guilty WR, if there is one.
  const bool blame = state_ == QPState::RTS;
  if (!step(QPEvent::LLPLost)) return;
  for (std::uint32_t i = 0; blame && i < open_work_.size(); ++i) {
    OpenWork& work = open_work_[i];
    const bool unsent = work.phase == WorkPhase::Sending ||
                        (work.phase == WorkPhase::Sent && work.end_position > accepted_);
    if (!unsent || work.is_request()) continue;
    work.phase = WorkPhase::Failed;
    work.status = WorkStatus::LocalProtection;
    break;
  }
  notify(QPNotice::Kind::LLPLost);
  enter_error(LLPAction::Reset);
}

void QP::handle_lent_fault(Instant) {
  if (!step(QPEvent::LLPLost)) return;
  notify(QPNotice::Kind::LLPLost);
  enter_error(LLPAction::Reset);
}

// What they share.

void QP::begin_closing(Instant now) {
  deadline_ = now + config_.close_timeout;
  action_ = LLPAction::CloseGracefully;
}

// Into Terminate: nothing is started or answered any more.
void QP::stop_work(Instant now) {
  deadline_ = now + config_.close_timeout;
  rtr_pending_ = false;
  outbound_ = OutboundMessage::None;
  inbound_reads_.clear();
  open_reads_.clear();
  flush_position_ = produced_;
  flush_queues();
}

//= DDP-16
void QP::bad_close() {
  if (step(QPEvent::BadClose)) enter_error(LLPAction::Reset);
}

void QP::enter_error(LLPAction action) {
  action_ = action;
  deadline_.reset();
  terminate_pending_ = rtr_pending_ = false;
  outbound_ = OutboundMessage::None;
  inbound_reads_.clear();
  flush_queues();
  if (!bound_) return;
  bound_ = false;
  notify(QPNotice::Kind::Closed);
}

void QP::notify(QPNotice::Kind kind, wire::TermError error) {
  const auto bit = static_cast<std::uint8_t>(1u << static_cast<unsigned>(kind));
  if (notices_given_ & bit) return;
  notices_given_ |= bit;
  // Each kind once a stream, so the places are never used twice.
  notices_[notice_first_ + notice_count_++] = {kind, error};
}

}  // namespace weft::core
