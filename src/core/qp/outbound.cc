// What leaves next: RTR, messages of the send queue and Read Responses in turn, a last Terminate.
#include <algorithm>

#include "core/qp/faults.h"
#include "core/qp/qp.h"

namespace weft::core {

bool QP::poll_transmit(TransmitBatch& batch, Instant now) {
  const std::uint64_t before = produced_;
  while (!batch.full() && transmit_segment(batch, now)) {
  }
  return produced_ != before;
}

// What transmit_segment() does, once, for what most programs wait for.
bool QP::poll_short(TransmitBatch& batch, Instant now) {
  const bool free = state_ == QPState::RTS && !silent() && !rtr_pending_ &&
                    outbound_ == OutboundMessage::None && !config_.complete_placed;
  if (!free || !start_next(now)) return false;
  if (outbound_ == OutboundMessage::Response) {
    const InboundRead& read = inbound_reads_.front();
    return !read.atomic && fits_short(read.request.octets) && transmit_response(batch, now);
  }
  const OpenWork& work = open_work_.back();
  return (is_short(work) || work.opcode == WorkOpcode::Read) && transmit_work(batch, now);
}

// One FPDU. False: nothing may go, or the batch has no room for it.
bool QP::transmit_segment(TransmitBatch& batch, Instant now) {
  if (state_ == QPState::Terminate) return transmit_terminate(batch);
  //= RDM-22
  if (state_ != QPState::RTS || silent()) return false;
  //= ENH-15
  if (rtr_pending_) return transmit_rtr(batch);
  //= DDP-10
  // A message that was begun is finished first: tagged segments carry no message number, so two
  // messages of one direction cannot be interleaved.
  if (outbound_ == OutboundMessage::None) {
    if (!start_next(now)) {
      if (state_ == QPState::Terminate) return transmit_terminate(batch);
      return wants_probe() && transmit_probe(batch);
    }
  }
  return outbound_ == OutboundMessage::Work ? transmit_work(batch, now)
                                            : transmit_response(batch, now);
}

// Between messages the send queue and the answers to Reads take turns, so that neither starves: a
// peer that reads all the time cannot stop our Sends, and we cannot stop its Reads. An answer has
// the first turn, and the next too unless work had to wait for it: it may be what completes a Send
// of the peer, whose program then posts the receive that our next Send needs (probe.cc). An answer
// of no octets, as probes get, takes no turn; not more of them follow each other than the IRD.
// Where no work waits, a probe of ours that does has its turn: then there is no next message.
bool QP::start_next(Instant now) {
  const bool asked = !inbound_reads_.empty();
  const bool at_once = asked && inbound_reads_.front().is_of_nothing();
  const bool answer_first = asked && (at_once || !work_turn_);
  if (!answer_first && start_work(now)) {
    outbound_ = OutboundMessage::Work;
    work_turn_ = false;
  } else if (state_ == QPState::RTS && asked && (answer_first || !wants_probe())) {
    outbound_ = OutboundMessage::Response;
    if (!at_once) work_turn_ = work_waits() || wants_probe();
  }
  return outbound_ != OutboundMessage::None;
}

Framed QP::append(TransmitBatch& batch, Octets header, std::span<const PayloadPiece> payload,
                  bool snapshot) {
  const std::size_t before = batch.octets();
  const Framed framed = framer_.append(batch, header, payload, snapshot);
  if (framed == Framed::Done) produced_ += batch.octets() - before;
  return framed;
}

// Segments as long as the one that was just appended, with `header`, from where its payload ended.
// Returns how many octets of payload went with them.
std::uint32_t QP::append_run(TransmitBatch& batch, Octets header, const std::uint8_t* payload,
                             std::uint32_t octets, std::uint32_t count) {
  const std::size_t before = batch.octets();
  const std::size_t appended = framer_.append_run(batch, header, payload, octets, count);
  produced_ += batch.octets() - before;
  return static_cast<std::uint32_t>(appended) * octets;
}

// The initiator's first FPDU of a peer-to-peer stream (RFC 6581 §9.2), or a nudge. STag 1, not 0,
// although nobody may check it at length 0: some hardware refuses STag 0.
bool QP::transmit_rtr(TransmitBatch& batch) {
  std::uint8_t octets[wire::kUntaggedHeaderOctets + wire::ReadRequest::kOctets];
  wire::DDPHeader header;
  std::size_t size = 0;
  switch (rtr_) {
    case RTR::None: break;
    case RTR::Write:
      header.tagged = true;
      header.stag = {1};
      header.rdmap_control = wire::rdmap_control(wire::Opcode::Write);
      size = header.encode(octets);
      break;
    case RTR::Send:
      header.rdmap_control = wire::rdmap_control(wire::Opcode::Send);
      header.qn = wire::kSendQueue;
      header.msn = send_msn_;
      size = header.encode(octets);
      break;
    case RTR::Read:
      header.rdmap_control = wire::rdmap_control(wire::Opcode::ReadRequest);
      header.qn = wire::kReadRequestQueue;
      header.msn = read_msn_;
      size = header.encode(octets);
      wire::ReadRequest{.sink_stag = {1}, .source_stag = {1}}.encode(
          MutableOctets(octets).subspan(size));
      size += wire::ReadRequest::kOctets;
      break;
  }
  if (append(batch, Octets(octets, size), {}, false) != Framed::Done) return false;
  rtr_pending_ = false;
  if (rtr_ == RTR::Send) send_msn_ = send_msn_.next();
  if (rtr_ == RTR::Read) {
    OpenRead& read = open_reads_.push();
    read.msn = read_msn_;
    read.sink_stag = {1};
    read.position = produced_;
    read_msn_ = read_msn_.next();
  }
  return true;
}

bool QP::transmit_response(TransmitBatch& batch, Instant now) {
  InboundRead& read = inbound_reads_.front();
  if (read.atomic) return transmit_atomic_response(batch);
  const wire::ReadRequest& request = read.request;
  const auto payload_max = static_cast<std::uint32_t>(mulpdu_ - wire::kTaggedHeaderOctets);
  const std::uint32_t octets = std::min(request.octets - read.sent, payload_max);

  PayloadPiece piece;
  if (octets > 0) {
    //= SEC-04
    // Checked again for each segment: the region may have been deregistered, or its rights taken
    // back, since the request was accepted.
    const auto place =
        check_remote(request.source_stag, request.source_to + read.sent, octets, kRemoteRead);
    if (!place) return refuse_response(read_fault(place.error()), now), transmit_terminate(batch);
    piece = {*place, octets, true};
  }
  //= RDM-04 RDM-10
  wire::DDPHeader header;
  header.tagged = true;
  header.last = read.sent + octets == request.octets;
  header.rdmap_control = wire::rdmap_control(wire::Opcode::ReadResponse);
  header.stag = request.sink_stag;
  header.to = request.sink_to + read.sent;
  std::uint8_t raw[wire::kTaggedHeaderOctets];
  header.encode(raw);

  // A snapshot: the program may write to the source at any time, and the CRC must still be right.
  switch (append(batch, raw, std::span(&piece, octets > 0 ? 1 : 0), true)) {
    case Framed::NoRoom: return false;
    case Framed::MemoryGone:
      return refuse_response(wire::TermError::RDMAPInvalidSTag, now), transmit_terminate(batch);
    case Framed::Done: break;
  }
  read.sent += octets;
  if (header.last) {
    inbound_reads_.pop();
    outbound_ = OutboundMessage::None;
  } else {
    go_on_with_response(batch, read, raw, octets);
  }
  return true;
}

// More of a Read Response of which a segment of `octets` was just appended, but for its end.
void QP::go_on_with_response(TransmitBatch& batch, InboundRead& read, Octets header,
                             std::uint32_t octets) {
  const wire::ReadRequest& request = read.request;
  const std::uint32_t count = (request.octets - read.sent - 1) / octets;
  if (count == 0) return;
  //= SEC-04
  const auto place = check_remote(request.source_stag, request.source_to + read.sent,
                                  std::uint64_t{count} * octets, kRemoteRead);
  if (place) read.sent += append_run(batch, header, *place, octets, count);
}

// A Read that cannot be served to its end: the Terminate quotes the request as if it had asked for
// the octets that are still missing (RFC 5040 §4.8).
void QP::refuse_response(wire::TermError error, Instant now) {
  const InboundRead& read = inbound_reads_.front();
  ArrivedSegment segment;
  segment.ddp.rdmap_control = wire::rdmap_control(wire::Opcode::ReadRequest);
  segment.ddp.qn = wire::kReadRequestQueue;
  segment.ddp.msn = read.msn;
  segment.ddp.encode(segment.raw);
  //= RDM-30
  wire::ReadRequest left = read.request;
  left.sink_to += read.sent;
  left.source_to += read.sent;
  left.octets -= read.sent;
  left.encode(MutableOctets(segment.raw).subspan(wire::kUntaggedHeaderOctets));
  segment.raw_octets = segment.ulpdu_octets = sizeof segment.raw;
  protocol_error(error, &segment, now);
}

//= RDM-15
// The last octets of the stream. They go between two segments, wherever a message stands.
bool QP::transmit_terminate(TransmitBatch& batch) {
  if (!terminate_pending_) return false;
  if (append(batch, Octets(terminate_ulpdu_, terminate_octets_), {}, false) != Framed::Done) {
    return false;
  }
  terminate_pending_ = false;
  terminate_sent_ = terminate_error_;
  notify(QPNotice::Kind::TerminateSent, terminate_error_);
  //= RDM-24
  // FIN and not RST, so that the Terminate arrives.
  if (action_ != LLPAction::Reset) action_ = LLPAction::CloseGracefully;
  return true;
}

bool QP::wants_transmit() const {
  if (state_ == QPState::Terminate) return terminate_pending_;
  if (state_ != QPState::RTS || silent()) return false;
  if (rtr_pending_ || outbound_ != OutboundMessage::None || !inbound_reads_.empty()) return true;
  return wants_probe() || work_waits();
}

// Something of the send queue could be begun.
bool QP::work_waits() const {
  if (paused_) return false;
  if (open_work_.empty() || open_work_[open_work_.size() - 1].phase != WorkPhase::Waiting) {
    return !open_work_.full() && queues_.send_pending();
  }
  return may_start(open_work_[open_work_.size() - 1]);
}

}  // namespace weft::core
