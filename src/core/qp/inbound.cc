// Octets that arrived: FPDU by FPDU, header judged, then to the handler of its message kind.
#include "core/qp/qp.h"

#include <algorithm>
#include <array>
#include <variant>

namespace weft::core {
namespace {

// A call takes no more than this, so that one busy stream cannot keep the engine from the others.
constexpr std::size_t kFPDUsMax = 64;
constexpr std::size_t kOctetsMax = std::size_t{1} << 20;

/// How many more FPDUs of so many octets each, behind what the call has taken.
std::size_t may_begin(std::size_t count, std::size_t consumed, std::size_t size) {
  if (consumed >= kOctetsMax) return 0;
  return std::min(kFPDUsMax - count, (kOctetsMax - consumed - 1) / size + 1);
}

/// The arrived octets less what was consumed. The first FPDU sees the list as it came. After it
/// the first part has to be cut, for which the parts are copied: as many as fit; an FPDU that needs
/// more of them is left for the next call, where it is the first.
class Remaining {
 public:
  explicit Remaining(const OctetList& arrived) : list_(arrived) {}
  const OctetList& list() const { return list_; }
  Octets front() const { return list_.parts.empty() ? Octets() : list_.parts.front(); }
  bool complete() const { return beyond_.empty(); }

  void consume(std::size_t octets) {
    if (!copied_ && list_.parts.size() == 1) {
      only_ = list_.parts.front().subspan(octets);
      list_.parts = {&only_, 1};
      return;
    }
    if (!copied_) {
      copied_ = true;
      beyond_ = list_.parts;
      refill(0);
    }
    while (octets > 0) {
      if (first_ == count_) refill(0);
      Octets& part = parts_[first_];
      const std::size_t n = std::min(octets, part.size());
      part = part.subspan(n);
      octets -= n;
      if (part.empty()) ++first_;
    }
    if (!beyond_.empty() && first_ > 0) refill(count_ - first_);
    list_.parts = std::span<const Octets>(parts_ + first_, count_ - first_);
  }

 private:
  // Moves the `kept` parts still in use to the front and fills up behind them.
  void refill(std::size_t kept) {
    for (std::size_t i = 0; i < kept; ++i) parts_[i] = parts_[first_ + i];
    const std::size_t more = std::min(kPartsMax - kept, beyond_.size());
    for (std::size_t i = 0; i < more; ++i) parts_[kept + i] = beyond_[i];
    beyond_ = beyond_.subspan(more);
    first_ = 0;
    count_ = kept + more;
  }

  static constexpr std::size_t kPartsMax = 16;
  Octets only_;  // of a list of one part, for which no other is touched
  union {
    Octets parts_[kPartsMax];  // so not made before they are assigned
  };
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::span<const Octets> beyond_;
  bool copied_ = false;
  OctetList list_;
};

}  // namespace

Received QP::handle_octets(const OctetList& arrived, Instant now) {
  if (const std::size_t octets = handle_lone_write(arrived); octets != 0) return {octets};
  Received received;
  Remaining remaining(arrived);
  const std::size_t octets = arrived.size();
  for (std::size_t count = 0; count < kFPDUsMax && received.consumed < kOctetsMax; ++count) {
    //= DDP-21
    // After an error, and where there is no stream, whatever arrives is dropped.
    if (state_ != QPState::RTS && state_ != QPState::Closing) {
      received.consumed = octets;
      return received;
    }
    const Octets front = remaining.front();
    ArrivedFPDU fpdu;
    std::array<Octets, 3> parts;
    const bool landed_now = landed_.octets == 0 && land_staged(front, parts, now);
    if (state_ != QPState::RTS && state_ != QPState::Closing) continue;  // its receive is no good
    // Mostly it is all there, in one run, and nothing is wrong with it.
    if (landed_.octets != 0 || !deframer_.next_whole(front, fpdu)) {
      auto found = deframer_.next(landed_now ? OctetList{parts} : remaining.list(), landed_);
      if (const auto* needs = std::get_if<FPDUNeeds>(&found)) {
        if (remaining.complete()) received.wanted = needs->octets_total;
        return received;
      }
      if (const auto* error = std::get_if<wire::TermError>(&found)) {
        //= DDP-14, DDP-18
        // The layers below only report; what becomes of the stream is decided here.
        protocol_error(*error, nullptr, now);
        continue;
      }
      fpdu = *std::get_if<ArrivedFPDU>(&found);
    }
    if (!first_fpdu_arrived_) {
      first_fpdu_arrived_ = true;
      nudge_at_.reset();
      if (stream_.role == Role::Responder) notify(QPNotice::Kind::FirstFPDUArrived);
    }
    forget_landing();
    if (handle_segment(fpdu.ulpdu, now) == SegmentFate::HeldBack) {
      received.held_back = true;
      return received;
    }
    deframer_.consume(fpdu.stream_octets);
    const std::size_t size = fpdu.stream_octets;
    const std::size_t run =
        front.size() < 2 * size
            ? 0
            : handle_run(front, size, may_begin(count + 1, received.consumed + size, size));
    count += run;
    const std::size_t consumed = (run + 1) * size;
    received.consumed += consumed;
    if (received.consumed == octets) return received;
    remaining.consume(consumed);
  }
  return received;
}

// The memory's own rights first: an STag that is none is to be called so.
//= SEC-01
Result<std::uint8_t*, MemoryFault> QP::check_remote(STag stag, std::uint64_t to,
                                                    std::uint64_t octets,
                                                    std::uint32_t right) const {
  const auto place = memory_.check(stag, to, octets, right, requester());
  if (place && (remote_access_ & right) == 0) return MemoryFault::Access;
  return place;
}

//= RDM-01 DDP-05
QP::SegmentFate QP::handle_segment(UlpduCursor& ulpdu, Instant now) {
  ArrivedSegment segment;
  segment.ulpdu_octets = ulpdu.octets_left();
  segment.raw_octets = std::min(segment.ulpdu_octets, ulpdu.header_octets());
  ulpdu.peek(MutableOctets(segment.raw).first(segment.raw_octets));
  const auto ddp = wire::DDPHeader::parse(Octets(segment.raw, segment.raw_octets));
  if (!ddp) {
    // Too short to say what it is: there is no header to send back.
    protocol_error(wire::TermError::DDPLocalCatastrophic, nullptr, now);
    return SegmentFate::Consumed;
  }
  segment.ddp = *ddp;
  segment.raw_octets = ddp->octets();
  ulpdu.skip(segment.raw_octets);

  const wire::Opcode opcode = wire::rdmap_opcode(ddp->rdmap_control);
  const std::optional<wire::TermError> fault = judge_header(segment);
  if (fault) return protocol_error(*fault, &segment, now), SegmentFate::Consumed;
  if (state_ == QPState::Closing && !expected_in_closing(opcode, ulpdu.octets_left())) {
    return bad_close(), SegmentFate::Consumed;
  }
  switch (opcode) {
    case wire::Opcode::Write: handle_write(segment, ulpdu, now); break;
    case wire::Opcode::ReadRequest: handle_read_request(segment, ulpdu, now); break;
    case wire::Opcode::ReadResponse: handle_read_response(segment, ulpdu, now); break;
    case wire::Opcode::Terminate: handle_terminate(ulpdu, now); break;
    case wire::Opcode::AtomicRequest: handle_atomic_request(segment, ulpdu, now); break;
    case wire::Opcode::AtomicResponse: handle_atomic_response(segment, ulpdu, now); break;
    case wire::Opcode::Immediate:
    case wire::Opcode::ImmediateSolicited: return handle_immediate(segment, ulpdu, now);
    default: return handle_send(segment, ulpdu, now);  // judge_header lets only the Sends by
  }
  return SegmentFate::Consumed;
}

// Placement: what was received straight into its place is there already.
bool QP::put(std::uint8_t* target, Octets run) {
  return run.data() == target || mover_.place(target, run, nullptr);
}

// With no work open there is nothing left for the peer to say but a Terminate, the answer to an RTR
// that close() waits for, and a nudge (nudge.cc) that our FIN crossed.
bool QP::expected_in_closing(wire::Opcode opcode, std::size_t payload_octets) const {
  return opcode == wire::Opcode::Terminate ||
         (opcode == wire::Opcode::ReadResponse && !open_reads_.empty()) ||
         (opcode == wire::Opcode::Write && payload_octets == 0 && !peer_closed_);
}

// Everything that can be judged without knowing the message: versions, opcode, queue. The layers
// are judged from below, and the opcode before the queue it belongs to. Reserved bits are nobody's.
//= DDP-02 RDM-03
std::optional<wire::TermError> QP::judge_header(const ArrivedSegment& segment) const {
  const wire::DDPHeader& ddp = segment.ddp;
  //= DDP-03 DDP-23 RDM-29
  if (ddp.version != wire::kDDPVersion) {
    return ddp.tagged ? wire::TermError::DDPTaggedVersion : wire::TermError::DDPUntaggedVersion;
  }
  if (wire::rdmap_version(ddp.rdmap_control) != wire::kRDMAPVersion) {
    return wire::TermError::RDMAPVersion;
  }
  const wire::OpcodeTraits& traits = wire::traits(ddp.rdmap_control);
  const wire::Model model = ddp.tagged ? wire::Model::Tagged : wire::Model::Untagged;
  if (!traits.supported || traits.model != model) return wire::TermError::RDMAPUnexpectedOpcode;
  if (ddp.tagged) return {};
  if (ddp.qn != traits.queue) return wire::TermError::DDPUntaggedInvalidQN;
  return judge_queue(ddp);
}

// Over a byte stream nothing is lost or overtaken: a gap in MSN or MO is an error of the peer's,
// and waiting for what should fill it would hang the QP.
//= DDP-11 DDP-19
std::optional<wire::TermError> QP::judge_queue(const wire::DDPHeader& ddp) const {
  switch (ddp.qn) {
    case wire::kSendQueue:
      if (ddp.msn != expected_send_msn_) return wire::TermError::DDPUntaggedMSNRange;
      if (ddp.mo != receive_.received) return wire::TermError::DDPUntaggedInvalidMO;
      return {};
    case wire::kReadRequestQueue:
      if (ddp.msn != expected_read_msn_) return wire::TermError::DDPUntaggedMSNRange;
      if (ddp.mo != 0) return wire::TermError::DDPUntaggedInvalidMO;
      return {};
    case wire::kAtomicResponseQueue:
      if (ddp.msn != expected_atomic_response_msn_) return wire::TermError::DDPUntaggedMSNRange;
      if (ddp.mo != 0) return wire::TermError::DDPUntaggedInvalidMO;
      return {};
    default:
      // The Terminate queue: the peer is done with the stream, and being strict with its last
      // message would only hide its reason.
      return {};
  }
}

}  // namespace weft::core
