// Send queue entries: taken, checked, cut into segments.
#include <algorithm>
#include <cstring>

#include "core/qp/qp.h"

namespace weft::core {

/// Payload of a Write's segment where there is a CRC. A receiver that checks before it places, as
/// for a Write it has to, finds so much in its first-level cache when it has checked it. What it
/// can receive in place is the better for being long, and what somebody waits for may be (LoneCut).
constexpr std::uint32_t kCheckedWriteOctetsMax = 32 * 1024;
/// Longer segments than packets have: within a host.
constexpr std::uint32_t kLongSegmentOctetsMin = 32 * 1024;
/// Of more the last is no great part anyway.
constexpr std::uint32_t kFewSegmentsMost = 3;

/// Rounded up: how many parts no longer than that there are, or how long each of so many is.
constexpr std::uint32_t divided(std::uint32_t octets, std::uint32_t by) {
  return octets / by + (octets % by != 0 ? 1 : 0);
}

// Makes the next WR ready for its first segment. False: none, or a fence, the ORD, the consumer or
// an error holds it. Local invalidations and binds take effect here and the search goes on.
bool QP::start_work(Instant now) {
  while (state_ == QPState::RTS && !paused_) {
    const bool waiting = !open_work_.empty() && open_work_.back().phase == WorkPhase::Waiting;
    if (!waiting && !take_work()) return false;
    OpenWork& work = open_work_.back();
    if (work.phase == WorkPhase::Failed) return fail_work(work, work.status, now), false;
    if (!may_start(work)) return false;
    const WorkStatus status = check_work(work);
    if (status != WorkStatus::Success) return fail_work(work, status, now), false;
    if (!work.is_local()) {
      work.phase = WorkPhase::Sending;
      work.msn = send_msn_;  // a Read or an atomic draws its own when it leaves
      if (work.opcode == WorkOpcode::SendImmediate) {
        work.immediate_next = true;
        work.msn = send_msn_.next();
      }
      return true;
    }
    const WorkStatus done = perform_locally(work);
    if (done != WorkStatus::Success) return fail_work(work, done, now), false;
    work.phase = WorkPhase::Done;
    retire();
  }
  return false;
}

// What waits for a fence or the ORD is not begun.
bool QP::sends_drained() const {
  const std::uint32_t open = open_work_.size();
  return open == 0 || (open == 1 && open_work_[0].phase == WorkPhase::Waiting);
}

// What of memory the peer may reach changes now, whatever is still open of earlier WRs.
WorkStatus QP::perform_locally(const OpenWork& work) {
  if (work.opcode == WorkOpcode::BindWindow) {
    return memory_.bind(binding_, requester()) ? WorkStatus::Success : WorkStatus::WindowBind;
  }
  return memory_.invalidate(work.invalidate_stag, requester()) ? WorkStatus::Success
                                                               : WorkStatus::LocalProtection;
}

//= RDM-18
// Copies the oldest posted WR, whose spans are good only for this call. False: none, or no slot.
bool QP::take_work() {
  // Asked for first: mostly there is none behind the one that was taken last.
  if (open_work_.full() || !queues_.send_pending()) return false;
  SendWR wr;
  if (!queues_.take_send(wr)) return false;
  OpenWork& work = open_work_.push();
  work.id = wr.id;
  work.opcode = wr.opcode;
  work.signaled = wr.signaled;
  work.solicited = wr.solicited;
  work.read_fence = wr.read_fence;
  work.local_fence = wr.local_fence;
  work.remote_stag = wr.remote_stag;
  work.remote_to = wr.remote_to;
  work.invalidate_stag = wr.invalidate_stag;
  work.inline_data = wr.inline_data;
  work.sges = send_sges_ + std::size_t{open_work_.slot(work)} * config_.send_sges;

  // What cannot even be noted down fails when its turn has come, that is now: nothing is before it.
  const bool request = work.is_request();
  const std::size_t sges_max = request ? 1 : config_.send_sges;
  std::uint64_t octets = wr.inline_data.size();
  const bool unknown = wr.opcode >= WorkOpcode::Receive;
  const auto lacks_operands = [&] {
    return work.is_atomic() && (wr.sges.empty() || wr.operands == nullptr);
  };
  if (unknown || wr.sges.size() > sges_max || (request && (octets > 0 || lacks_operands()))) {
    if (unknown) work.opcode = WorkOpcode::Send;  // completions of this queue are no receives
    work.phase = WorkPhase::Failed;
    work.status = WorkStatus::LocalQPOperation;
    return true;
  }
  if (octets == 0) {
    work.sge_count = static_cast<std::uint32_t>(wr.sges.size());
    for (std::uint32_t i = 0; i < work.sge_count; ++i) {
      work.sges[i] = wr.sges[i];
      octets += wr.sges[i].octets;
    }
  }
  //= DDP-08
  if (octets > 0xffffffffu) {
    work.phase = WorkPhase::Failed;
    work.status = WorkStatus::LocalLength;
  }
  work.octets = static_cast<std::uint32_t>(octets);
  if (!work.is_plain()) take_extras(work, wr);
  return true;
}

// What only the newest of open_work_ needs, and only until it has started.
void QP::take_extras(OpenWork& work, const SendWR& wr) {
  immediate_ = wr.immediate;
  if (work.is_atomic()) {
    if (work.octets < sizeof(std::uint64_t)) {
      work.phase = WorkPhase::Failed;
      work.status = WorkStatus::LocalLength;
    }
    // Those of the number that comes back, however long its place is.
    work.octets = sizeof(std::uint64_t);
    operands_ = *wr.operands;
  } else if (work.opcode == WorkOpcode::BindWindow) {
    if (wr.binding != nullptr && work.octets == 0) {
      binding_ = *wr.binding;
    } else {
      work.phase = WorkPhase::Failed;
      work.status = WorkStatus::LocalQPOperation;
    }
  }
}

bool QP::may_start(const OpenWork& work) const {
  if (work.local_fence && open_work_.size() > 1) return false;
  if (work.read_fence && !open_reads_.empty()) return false;
  // With an ORD of 0 a Read or an atomic starts at once: to fail.
  //= RDM-23 EXT-06
  return !work.is_request() || ord_ == 0 || open_reads_.size() < ord_;
}

std::uint32_t QP::segment_octets_max(const OpenWork& work) const {
  const bool is_send = work.is_send();
  const std::uint32_t longest =
      mulpdu_ - (is_send ? wire::kUntaggedHeaderOctets : wire::kTaggedHeaderOctets);
  const std::uint32_t room =
      stream_.crc && !is_send ? std::min(longest, kCheckedWriteOctetsMax) : longest;
  if (lone_cut_ == LoneCut::None || !is_lone_of_few(work, longest)) return room;
  if (lone_cut_ == LoneCut::Long) return longest;
  const std::uint32_t others = work.octets - work.octets / kShortEndOf;
  return divided(others, divided(others, room));
}

// A message of a little more than a longest FPDU, with nothing else open: what the peer can check
// and place of it while the rest is on its way depends on how it is cut. Where FPDUs are packets,
// each fills one.
bool QP::is_lone_of_few(const OpenWork& work, std::uint32_t longest) const {
  return longest >= kLongSegmentOctetsMin && work.octets > longest &&
         divided(work.octets, longest) <= kFewSegmentsMost && open_work_.size() == 1 &&
         !queues_.send_pending();
}

// The checks before the first octet leaves. Lengths of 0 are not checked (verbs draft §7).
WorkStatus QP::check_work(const OpenWork& work) const {
  if (work.is_request()) {
    if (ord_ == 0) return WorkStatus::LocalQPOperation;
    if (work.octets == 0) return WorkStatus::Success;
    const SGE& sink = work.sges[0];
    return memory_.check(sink.stag, sink.to, work.octets, kLocalWrite, requester())
               ? WorkStatus::Success
               : WorkStatus::LocalProtection;
  }
  // What is gathered is checked then, and of one segment that is all: no need to look twice.
  if (is_short(work) || work.octets <= segment_octets_max(work)) return WorkStatus::Success;
  for (std::uint32_t i = 0; i < work.sge_count; ++i) {
    const SGE& sge = work.sges[i];
    if (sge.octets > 0 && !memory_.check(sge.stag, sge.to, sge.octets, kLocalRead, requester())) {
      return WorkStatus::LocalProtection;
    }
  }
  return WorkStatus::Success;
}

/// Most messages that somebody waits for: one segment, of one piece. Its payload is written
/// straight to its place in staging, and summed there.
bool QP::is_short(const OpenWork& work) const {
  return fits_short(work.octets) && work.sge_count <= 1 && work.is_plain() &&
         framer_.writes_through();
}

// What transmit_work() does, for these.
bool QP::transmit_short(TransmitBatch& batch, OpenWork& work, Instant now) {
  PayloadPiece payload{work.inline_data.data(), work.octets, false};
  if (work.inline_data.empty() && work.octets > 0) {
    const SGE& sge = work.sges[0];
    const auto place = memory_.check(sge.stag, sge.to, work.octets, kLocalRead, requester());
    if (!place) return fail_work(work, WorkStatus::LocalProtection, now), transmit_terminate(batch);
    payload = {*place, work.octets};
  }
  const wire::DDPHeader header = work_header(work, work.octets);
  const std::size_t ulpdu = header.octets() + work.octets;
  const TransmitBatch::Mark mark = batch.mark();
  std::uint8_t* const at = framer_.begin(batch, ulpdu);
  if (at == nullptr) return false;
  const std::size_t header_octets = header.encode(MutableOctets(at, ulpdu));
  if (!framer_.finish(at, header_octets, payload, batch.read_by())) {
    batch.rollback(mark);
    return fail_work(work, WorkStatus::LocalProtection, now), transmit_terminate(batch);
  }
  produced_ += wire::fpdu_octets(ulpdu);
  work.sent = work.octets;
  finish_work(work);
  return true;
}

// Its last segment was produced.
void QP::finish_work(OpenWork& work) {
  if (work.is_send()) send_msn_ = send_msn_.next();
  work.end_position = produced_;
  work.phase = WorkPhase::Sent;
  outbound_ = OutboundMessage::None;
}

bool QP::transmit_work(TransmitBatch& batch, Instant now) {
  OpenWork& work = open_work_.back();
  if (is_short(work) && work.sent == 0) return transmit_short(batch, work, now);
  const bool plain = work.is_plain();
  if (!plain) {
    if (work.is_atomic()) return transmit_atomic_request(batch, work);
    if (work.is_request()) return transmit_read_request(batch, work);
    if (work.immediate_next) return transmit_immediate(batch, work);
  }
  const std::size_t header_octets =
      work.is_send() ? wire::kUntaggedHeaderOctets : wire::kTaggedHeaderOctets;
  const std::uint32_t most = segment_octets_max(work);
  const std::uint32_t octets = std::min(work.octets - work.sent, most);
  // Before its sum is asked for, which is told once.
  if (!batch.admits(wire::fpdu_octets(header_octets + octets))) return false;
  const std::uint32_t index = work.sge_index, offset = work.sge_offset;
  const std::optional<std::uint32_t> pieces = gather(work, octets);
  if (!pieces) {
    return fail_work(work, WorkStatus::LocalProtection, now), transmit_terminate(batch);
  }
  if (*pieces == 1 && stream_.crc && !work.is_send() && pieces_[0].registered) {
    pieces_[0].sum = queues_.sum_of(pieces_[0].data, octets, most);
  }

  std::uint8_t raw[wire::kDDPHeaderOctetsMax];
  const wire::DDPHeader header = work_header(work, octets);
  header.encode(raw);
  switch (append(batch, Octets(raw, header_octets), std::span(pieces_, *pieces), false)) {
    case Framed::NoRoom:
      work.sge_index = index;
      work.sge_offset = offset;
      return false;
    case Framed::MemoryGone:
      return fail_work(work, WorkStatus::LocalProtection, now), transmit_terminate(batch);
    case Framed::Done: break;
  }
  work.sent += octets;
  if (!header.last) {
    go_on_with_work(batch, work, Octets(raw, header_octets), octets);
  } else {
    if (!plain && work.opcode == WorkOpcode::WriteImmediate) {
      work.immediate_next = true;
      return true;
    }
    finish_work(work);
  }
  return true;
}

// More of a message of which a segment of `octets` was just appended, but for its end: as much of
// it as lies side by side.
void QP::go_on_with_work(TransmitBatch& batch, OpenWork& work, Octets header,
                         std::uint32_t octets) {
  if (!work.inline_data.empty()) return;
  const SGE& sge = work.sges[work.sge_index];
  const std::uint32_t here = sge.octets - work.sge_offset;
  const std::uint32_t count = std::min(here, work.octets - work.sent - 1) / octets;
  if (count == 0) return;
  const auto place = memory_.check(sge.stag, sge.to + work.sge_offset,
                                   std::uint64_t{count} * octets, kLocalRead, requester());
  if (!place) return;
  const std::uint32_t sent = append_run(batch, header, *place, octets, count);
  work.sent += sent;
  work.sge_offset += sent;
}

wire::DDPHeader QP::work_header(const OpenWork& work, std::uint32_t octets) const {
  wire::DDPHeader header;
  //= DDP-01 DDP-07
  header.last = work.sent + octets == work.octets;
  //= RDM-05
  if (work.is_write()) {
    header.tagged = true;
    header.rdmap_control = wire::rdmap_control(wire::Opcode::Write);
    header.stag = work.remote_stag;
    // Some hardware refuses STag 0 even where nothing is placed.
    if (work.octets == 0 && header.stag.value == 0) header.stag = {1};
    header.to = work.remote_to + work.sent;
    return header;
  }
  //= RDM-02 RDM-12
  wire::Opcode opcode = work.solicited ? wire::Opcode::SendSolicited : wire::Opcode::Send;
  if (work.opcode == WorkOpcode::SendInvalidate) {
    opcode = work.solicited ? wire::Opcode::SendSolicitedInvalidate : wire::Opcode::SendInvalidate;
    header.invalidate_stag = work.invalidate_stag;
  }
  header.rdmap_control = wire::rdmap_control(opcode);
  header.qn = wire::kSendQueue;
  header.msn = work.msn;
  header.mo = work.sent;
  return header;
}

//= RDM-06
bool QP::transmit_read_request(TransmitBatch& batch, OpenWork& work) {
  wire::ReadRequest request;
  if (work.sge_count > 0) {
    request.sink_stag = work.sges[0].stag;
    request.sink_to = work.sges[0].to;
  }
  request.octets = work.octets;
  request.source_stag = work.remote_stag;
  request.source_to = work.remote_to;
  if (work.octets == 0) {
    if (request.sink_stag.value == 0) request.sink_stag = {1};
    if (request.source_stag.value == 0) request.source_stag = {1};
  }
  wire::DDPHeader header;
  header.rdmap_control = wire::rdmap_control(wire::Opcode::ReadRequest);
  header.qn = wire::kReadRequestQueue;
  header.msn = read_msn_;
  std::uint8_t raw[wire::kUntaggedHeaderOctets + wire::ReadRequest::kOctets];
  header.encode(raw);
  request.encode(MutableOctets(raw).subspan(wire::kUntaggedHeaderOctets));
  if (append(batch, raw, {}, false) != Framed::Done) return false;

  OpenRead& read = open_reads_.push();
  read.sink_stag = request.sink_stag;
  read.sink_to = request.sink_to;
  read.octets = request.octets;
  finish_request(work, read);
  return true;
}

// Fills pieces_ with the next `octets` octets of the message and moves the cursor past them.
// Returns how many pieces; empty when local memory is no longer what it was (or never was).
std::optional<std::uint32_t> QP::gather(OpenWork& work, std::uint32_t octets) {
  if (octets == 0) return 0;
  if (!work.inline_data.empty()) {
    pieces_[0] = {work.inline_data.data() + work.sent, octets, false};
    return 1;
  }
  std::uint32_t count = 0;
  while (octets > 0) {
    const SGE& sge = work.sges[work.sge_index];
    const std::uint32_t run = std::min(octets, sge.octets - work.sge_offset);
    if (run > 0) {
      const auto place =
          memory_.check(sge.stag, sge.to + work.sge_offset, run, kLocalRead, requester());
      if (!place) return {};
      pieces_[count++] = {*place, run, true};
      work.sge_offset += run;
      octets -= run;
    }
    if (work.sge_offset == sge.octets) {
      ++work.sge_index;
      work.sge_offset = 0;
    }
  }
  return count;
}

//= RDM-26
// The WR goes no further; the Terminate takes the place of its next segment.
void QP::fail_work(OpenWork& work, WorkStatus status, Instant now) {
  work.phase = WorkPhase::Failed;
  work.status = status;
  protocol_error(wire::TermError::RDMAPLocalCatastrophic, nullptr, now);
}

}  // namespace weft::core
