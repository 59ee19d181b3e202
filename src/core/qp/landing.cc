// Where payload that has not arrived yet belongs, so that it can be received straight into it
// (docs/adr/0010-large-payload-is-received-in-place.md).
#include <algorithm>

#include "core/qp/qp.h"

namespace weft::core {
namespace {

/// Finding the place costs something, which less payload hardly earns.
constexpr std::size_t kLandedStagedMin = 2048;

/// The header of an FPDU without a leading marker that may have only begun.
std::optional<ArrivedSegment> front_segment(Octets head) {
  if (head.size() < wire::kUlpduLengthOctets) return {};
  ArrivedSegment segment;
  segment.ulpdu_octets = load_be16(head.data());
  const Octets behind = head.subspan(wire::kUlpduLengthOctets);
  const Octets ulpdu = behind.first(std::min(behind.size(), segment.ulpdu_octets));
  const auto ddp = wire::DDPHeader::parse(ulpdu);
  if (!ddp) return {};
  segment.ddp = *ddp;
  // What a Terminate would quote.
  segment.raw_octets = ddp->octets();
  std::copy_n(ulpdu.begin(), segment.raw_octets, segment.raw);
  return segment;
}

}  // namespace

std::optional<Landing> QP::find_landing(Octets head, std::size_t octets_min, Instant now) {
  if (stream_.receive_markers || (state_ != QPState::RTS && state_ != QPState::Closing)) return {};
  const std::optional<ArrivedSegment> segment = front_segment(head);
  if (!segment) return {};
  const std::size_t before = wire::kUlpduLengthOctets + segment->ddp.octets();
  const std::size_t staged = head.size() - before;
  const std::size_t payload = segment->ulpdu_octets - segment->ddp.octets();
  if (payload < staged + std::max<std::size_t>(octets_min, 1)) return {};
  if (judge_header(*segment)) return {};
  std::uint8_t* const place = place_of(*segment, payload, now);
  if (place == nullptr) return {};
  const bool begun = landing_ != nullptr;
  if (begun && landing_ != place + staged) return {};
  const std::size_t trailer =
      wire::fpdu_octets(segment->ulpdu_octets) - wire::kUlpduLengthOctets - segment->ulpdu_octets;
  return Landing{place + staged, payload - staged, begun ? landed_.octets - head.size() : 0,
                 trailer, before, followers_of(*segment, payload), payload};
}

// Of a Read we know by ourselves what is still to come. A message of the peer's may end sooner than
// one thinks, and then the memory behind it was not to be touched.
std::size_t QP::followers_of(const ArrivedSegment& segment, std::size_t payload) {
  const wire::Opcode opcode = wire::rdmap_opcode(segment.ddp.rdmap_control);
  if (segment.ddp.last || opcode != wire::Opcode::ReadResponse) return 0;
  const OpenRead& read = open_reads_.front();
  const std::size_t all = read.octets - read.received;
  const bool granted =
      memory_.check(read.sink_stag, segment.ddp.to, all, kLocalWrite, requester()).ok();
  return granted ? all / payload - 1 : 0;
}

// The header has not been vouched for by the CRC. It is believed as far as it says what our side
// knows by itself: the next Send goes into the next receive buffer, the next Read Response answers
// the oldest Read. Nothing but these fills that memory until it completes, so octets that turn out
// to be damaged hurt nobody. A Write says itself where it belongs: only without a CRC, when there
// is nothing to wait for.
std::uint8_t* QP::place_of(const ArrivedSegment& segment, std::size_t octets, Instant now) {
  switch (wire::rdmap_opcode(segment.ddp.rdmap_control)) {
    case wire::Opcode::ReadResponse:
      return place_of_response(segment, octets);
    case wire::Opcode::Write:
      return stream_.crc ? nullptr : place_of_write(segment, octets);
    case wire::Opcode::Send:
    case wire::Opcode::SendInvalidate:
    case wire::Opcode::SendSolicited:
    case wire::Opcode::SendSolicitedInvalidate:
      return place_of_send(segment, octets, now);
    default:
      return nullptr;
  }
}

// Whatever the handler of the whole segment would object to has no place.
std::uint8_t* QP::place_of_send(const ArrivedSegment& segment, std::size_t octets, Instant now) {
  if (!receive_.open) {
    const bool may_open = state_ == QPState::RTS && !immediate_kept_ && !config_.strict_receive;
    if (!may_open || !open_receive(segment, now)) return nullptr;
  }
  std::uint32_t index = receive_.sge_index;
  std::uint32_t offset = receive_.sge_offset;
  while (index < receive_.sge_count && offset == receive_sges_[index].octets) ++index, offset = 0;
  if (index == receive_.sge_count) return nullptr;
  const SGE& sge = receive_sges_[index];
  if (octets > sge.octets - offset) return nullptr;
  const auto place = memory_.check(sge.stag, sge.to + offset, octets, kLocalWrite,
                                   {config_.receive_pd, config_.stream});
  return place ? *place : nullptr;
}

std::uint8_t* QP::place_of_response(const ArrivedSegment& segment, std::size_t octets) {
  if (open_reads_.empty() || open_reads_.front().atomic) return nullptr;
  const OpenRead& read = open_reads_.front();
  const bool next = segment.ddp.stag == read.sink_stag &&
                    segment.ddp.to == read.sink_to + read.received &&
                    octets <= read.octets - read.received;
  if (!next) return nullptr;
  const auto place =
      memory_.check(read.sink_stag, segment.ddp.to, octets, kLocalWrite, requester());
  return place ? *place : nullptr;
}

std::uint8_t* QP::place_of_write(const ArrivedSegment& segment, std::size_t octets) {
  const auto place = check_remote(segment.ddp.stag, segment.ddp.to, octets, kRemoteWrite);
  return place ? *place : nullptr;
}

// The CRC is taken piece by piece as they come, from where they lie: a stream or a program that
// uses the same memory in between spoils what it holds, but not the judgement.
bool QP::handle_landed(Octets head, const Landing& landing, std::size_t octets) {
  const bool begins = landing_ == nullptr;
  if (begins) {
    landing_ = landing.place;
    landed_ = {head.size(), kCRC32CStart};
    if (stream_.crc) landed_.crc = mover_.crc_extend(landed_.crc, head);
  }
  landed_.octets += octets;
  return !stream_.crc ||
         mover_.crc_registered(&landed_.crc, landing.place + landing.landed, octets);
}

// What handle_octets() does with a segment from the middle of a message: its header was judged and
// its place looked up when it was found, so the CRC is left, and to count. Whatever is unusual
// about it, or wrong, is found, and told of, by who looks at each part.
Received QP::finish_landed(Octets head, const Landing& landing, Octets behind) {
  const std::size_t octets = head.size() + landing.payload;
  const bool plain = state_ == QPState::RTS && first_fpdu_arrived_ &&
                     head.size() == landing.header && landed_.octets == octets &&
                     behind.size() >= landing.trailer;
  if (!plain || (head[wire::kUlpduLengthOctets] & wire::kLastBit) != 0) return {};
  //= MPA-16
  if (!deframer_.agrees(behind.first(landing.trailer), {0, landed_.crc})) return {};
  if (!goes_on(head[wire::kUlpduLengthOctets + 1], landing.payload)) return {};
  forget_landing();
  deframer_.consume(octets + landing.trailer);
  const Octets next = behind.subspan(landing.trailer);
  const std::size_t ulpdu_octets =
      next.size() < wire::kUlpduLengthOctets ? 0 : load_be16(next.data());
  return {landing.trailer, wire::fpdu_octets(ulpdu_octets)};
}

// `payload` more octets of a message that is not over are in their place. False: it would be over,
// or something else began.
bool QP::goes_on(std::uint8_t control, std::size_t payload) {
  const auto octets = static_cast<std::uint32_t>(payload);
  switch (wire::rdmap_opcode(control)) {
    case wire::Opcode::Write:
      count_write(payload, false);
      return true;
    case wire::Opcode::ReadResponse: {
      OpenRead& read = open_reads_.front();
      if (payload >= read.octets - read.received) return false;
      read.received += octets;
      return true;
    }
    default: {
      //= DDP-04
      const bool same = control == receive_.control && !wire::traits(control).invalidates &&
                        payload <= 0xffffffffu - receive_.received;
      if (!same) return false;
      while (receive_.sge_offset == receive_sges_[receive_.sge_index].octets) {
        ++receive_.sge_index, receive_.sge_offset = 0;
      }
      receive_.received += octets;
      receive_.sge_offset += octets;
      return true;
    }
  }
}

// To land an FPDU that lies in staging from its first octet to its last: one pass copies its
// payload into its place and sums it. `parts`: the FPDU, less what was copied, and that in its
// place. False: it has none, or little, or it cannot be written.
bool QP::land_staged(Octets arrived, std::array<Octets, 3>& parts, Instant now) {
  if (!stream_.crc || arrived.size() < kLandedStagedMin) return false;
  const std::size_t ulpdu_octets = load_be16(arrived.data());
  const bool tagged = (arrived[wire::kUlpduLengthOctets] & wire::kTaggedBit) != 0;
  const std::size_t header = tagged ? wire::kTaggedHeaderOctets : wire::kUntaggedHeaderOctets;
  if (ulpdu_octets < header + kLandedStagedMin) return false;
  const Octets head = arrived.first(wire::kUlpduLengthOctets + header);
  if (arrived.size() < wire::fpdu_octets(ulpdu_octets)) return false;
  const std::optional<Landing> landing = find_landing(head, kLandedStagedMin, now);
  if (!landing) return false;
  std::uint32_t crc = mover_.crc_extend(kCRC32CStart, head);
  if (!mover_.place(landing->place, arrived.subspan(head.size(), landing->octets), &crc)) {
    return false;
  }
  landed_ = {head.size() + landing->octets, crc};
  parts = {head, Octets(landing->place, landing->octets),
           arrived.subspan(landed_.octets, landing->trailer)};
  return true;
}

// Part of the segment has been received into memory that is ours no more, so it cannot even be
// judged: an error of our own, whatever the peer sent.
void QP::handle_landing_fault(Octets head, Instant now) {
  forget_landing();
  if (state_ != QPState::RTS && state_ != QPState::Closing) return;
  const std::optional<ArrivedSegment> segment = front_segment(head);
  const bool response =
      segment && wire::rdmap_opcode(segment->ddp.rdmap_control) == wire::Opcode::ReadResponse;
  if (response && !open_reads_.empty()) {
    return fail_read(*segment, wire::TermError::RDMAPLocalCatastrophic, WorkStatus::LocalProtection,
                     now);
  }
  if (receive_.open) complete_receive(WorkStatus::LocalProtection, false);
  protocol_error(wire::TermError::DDPLocalCatastrophic, segment ? &*segment : nullptr, now);
}

}  // namespace weft::core
