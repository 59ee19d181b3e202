// Terminate: the peer's last words, and which work request of ours they are about (RFC 5040 §5.4).
#include "core/qp/qp.h"

#include <algorithm>

namespace weft::core {
namespace {

/// Does the quoted header belong to a segment of this Write? Several Writes to one region may be
/// open: the whole segment has to lie within the right one. `segment_octets` is what the peer says
/// of its length; some say less than it was, by the header.
bool is_segment_of(const OpenWork& work, const wire::DDPHeader& quoted,
                   std::size_t segment_octets) {
  if (!work.is_write() || work.remote_stag != quoted.stag) return false;
  const std::size_t payload = segment_octets - std::min(segment_octets, quoted.octets());
  const std::uint64_t offset = quoted.to - work.remote_to;
  if (offset >= work.octets) return offset == 0 && work.octets == 0 && payload == 0;
  return payload <= work.octets - offset;
}

/// Does the header that the peer quotes belong to this WR?
bool is_quoted(const OpenWork& work, const wire::DDPHeader& quoted, std::size_t segment_octets) {
  if (quoted.tagged) {
    return wire::rdmap_opcode(quoted.rdmap_control) == wire::Opcode::Write &&
           is_segment_of(work, quoted, segment_octets);
  }
  if (quoted.qn == wire::kSendQueue) {
    if (work.opcode == WorkOpcode::SendImmediate && quoted.msn.next() == work.msn) return true;
    const bool is_on_it = work.is_send() || work.opcode == WorkOpcode::WriteImmediate;
    return is_on_it && work.msn == quoted.msn;
  }
  // A Read's number is drawn when its request leaves.
  return quoted.qn == wire::kReadRequestQueue && work.is_request() &&
         work.phase == WorkPhase::Sent && work.msn == quoted.msn;
}

/// Without a quotation, as some peers send it: can an error of this kind be about such a WR?
bool is_of_kind(const OpenWork& work, wire::TermError error) {
  if (error == wire::TermError::RDMAPCannotInvalidate) {
    return work.opcode == WorkOpcode::SendInvalidate;
  }
  //= rfc7306#1.1
  // All peers know the messages of RFC 5040.
  if (error == wire::TermError::RDMAPUnexpectedOpcode) return work.is_extension();
  if (wire::layer(error) == 1) {
    return wire::etype(error) == 1 ? work.is_write() : work.is_send();
  }
  return wire::etype(error) == 1 && work.is_request();
}

/// How the WR ends that the peer's error is about.
WorkStatus status_for(const OpenWork& work, wire::TermError error) {
  if (wire::etype(error) == 1) return WorkStatus::RemoteAccess;
  const bool unknown = error == wire::TermError::RDMAPUnexpectedOpcode && work.is_extension();
  // What RFC 7306 §8.2 wants for a target that is not aligned.
  const bool misaligned = error == wire::TermError::RDMAPStreamCatastrophic && work.is_atomic();
  return unknown || misaligned ? WorkStatus::RemoteInvalidRequest : WorkStatus::RemoteOperation;
}

}  // namespace

// Whatever it says it is believed and never answered: a second Terminate would be about the first.
void QP::handle_terminate(UlpduCursor& payload, Instant now) {
  std::uint8_t octets[wire::kTerminateOctetsMax];
  const std::size_t size = std::min(payload.octets_left(), sizeof octets);
  payload.copy(MutableOctets(octets).first(size));
  wire::Terminate message;
  if (const auto parsed = wire::Terminate::parse(Octets(octets, size))) message = *parsed;

  if (!step(QPEvent::TerminateArrived)) return;
  terminate_received_ = message.error;
  notify(QPNotice::Kind::TerminateArrived, message.error);
  blame_work(message);
  action_ = LLPAction::CloseGracefully;
  stop_work(now);
}

// At most one WR ends with the peer's reason, and only if the Terminate can be about it: an error
// of the remote protection or operation kind, or of DDP. The quoted headers name the message. A
// catastrophe of the peer's own is about a message only if the peer quotes it: one that it had no
// usable receive for.
void QP::blame_work(const wire::Terminate& message) {
  const std::uint8_t layer = wire::layer(message.error), etype = wire::etype(message.error);
  std::optional<wire::DDPHeader> quoted;
  if (!message.ddp_header.empty()) quoted = wire::DDPHeader::parse(message.ddp_header);
  if (layer > 1 || (etype == 0 && !quoted)) return;
  const std::size_t segment_octets =
      message.ddp_segment_octets ? std::size_t{*message.ddp_segment_octets} : 0;

  for (std::uint32_t i = 0; i < open_work_.size(); ++i) {
    OpenWork& work = open_work_[i];
    if (work.phase != WorkPhase::Sent && work.phase != WorkPhase::Sending) continue;
    const bool is_about_it = quoted ? is_quoted(work, *quoted, segment_octets)
                                    : is_of_kind(work, message.error);
    if (!is_about_it) continue;
    work.phase = WorkPhase::Failed;
    work.status = status_for(work, message.error);
    if (quoted) confirm_before(i);
    return;
  }
}

}  // namespace weft::core
