// The startup exchange of both roles, revisions 1 and 2.
#include "core/mpa/startup.h"

#include <cerrno>
#include <cstring>

#include "base/assert.h"

namespace weft::core {
namespace {

constexpr std::uint8_t kRevisionPlain = 1;
constexpr std::uint8_t kRevisionEnhanced = 2;
constexpr std::uint16_t kDepthMax = wire::kDepthByULP - 1;

// Where the flags and the revision stand in a frame (RFC 5044 §7.1.1).
constexpr std::size_t kFlagsOffset = 16;
constexpr std::size_t kRevisionOffset = 17;
constexpr std::uint8_t kEnhancedFlag = 0x10;

/// A depth that fits the 14 bits; more than they hold is the most that can be said.
constexpr std::uint16_t depth(std::uint16_t n) { return n > wire::kDepthByULP ? kDepthMax : n; }

constexpr std::uint16_t least(std::uint16_t a, std::uint16_t b) { return a < b ? a : b; }

constexpr bool names_rtr(const wire::Enhanced& words) {
  return words.rtr_send || words.rtr_write || words.rtr_read;
}

/// The RTR types that both name.
constexpr wire::Enhanced common_rtr(wire::Enhanced a, const wire::Enhanced& b) {
  a.rtr_send = a.rtr_send && b.rtr_send;
  a.rtr_write = a.rtr_write && b.rtr_write;
  a.rtr_read = a.rtr_read && b.rtr_read;
  return a;
}

/// A Write costs nobody anything, a Read one IRD slot of the responder, a Send one of its receives.
constexpr RTR best_rtr(const wire::Enhanced& words) {
  if (words.rtr_write) return RTR::Write;
  if (words.rtr_read) return RTR::Read;
  return words.rtr_send ? RTR::Send : RTR::None;
}

/// The words this end would send if it asked first.
wire::Enhanced own_words(const StartupConfig& config) {
  wire::Enhanced words;
  words.ird = depth(config.ird);
  words.ord = depth(config.ord);
  words.peer_to_peer = config.peer_to_peer;
  //= ENH-11
  //= ENH-12
  words.rtr_send = config.peer_to_peer && config.rtr_send;
  words.rtr_write = config.peer_to_peer && config.rtr_write;
  words.rtr_read = config.peer_to_peer && config.rtr_read;
  return words;
}

bool private_data_fits(Octets private_data, bool enhanced) {
  return private_data.size() <=
         (enhanced ? wire::kPrivateDataOctetsMaxEnhanced : wire::kPrivateDataOctetsMax);
}

constexpr Error kPrivateDataTooLong = {
    EINVAL, "private data is limited to 512 octets, or 508 with an enhanced frame"};

}  // namespace

const char* text(StartupFailure failure) {
  switch (failure) {
    case StartupFailure::BadFrame:
      return "the peer does not speak MPA, or sent a malformed startup frame";
    case StartupFailure::SameRole:
      return "the peer took the same role: both initiate, or both respond";
    case StartupFailure::Revision:
      return "the peer's MPA revision cannot be handled";
    case StartupFailure::NotEnhanced:
      return "the peer answered an enhanced request with an unenhanced reply";
    case StartupFailure::TimedOut:
      return "the peer did not send its startup frame in time";
    case StartupFailure::Closed:
      return "the peer closed the connection during startup";
    case StartupFailure::TooManyOctets:
      return "the peer sent more than its request before it had a reply";
  }
  return "unknown startup failure";
}

Startup::Startup(Role role, const StartupConfig& config, Instant now)
    : role_(role), config_(config) {
  //= CON-10
  //= CON-17
  // A responder that meets a responder would otherwise wait for ever.
  if (role_ == Role::Responder) await_peer(State::AwaitRequest, now);
}

// Commands.

Result<void> Startup::connect(Octets private_data, Instant now) {
  if (role_ != Role::Initiator || state_ != State::Idle) {
    return Error{EINVAL, "MPA startup: only an idle initiator can connect"};
  }
  //= ENH-01
  // Nothing of RFC 6581 goes into a revision 1 frame, and nobody gets revision 2 unasked.
  const bool enhanced = config_.revision >= kRevisionEnhanced;
  if (!enhanced) config_.peer_to_peer = false;
  //= CON-18
  if (!private_data_fits(private_data, enhanced)) return kPrivateDataTooLong;

  wire::StartupFrame frame;
  //= CON-03
  //= CON-06
  //= CON-09
  frame.kind = wire::StartupKind::Request;
  frame.markers = config_.markers;
  frame.crc = config_.crc;
  frame.revision = enhanced ? kRevisionEnhanced : kRevisionPlain;
  //= ENH-03
  //= ENH-04
  if (enhanced) {
    frame.enhanced = own_words(config_);
    if (config_.peer_to_peer && !names_rtr(*frame.enhanced)) {
      return Error{EINVAL, "a peer-to-peer connection needs a type of RTR message"};
    }
  }
  frame.private_data = private_data;
  send(frame);
  //= CON-19
  await_peer(State::AwaitReply, now);
  return {};
}

Result<void> Startup::accept(std::uint16_t ird, std::uint16_t ord, Octets private_data, Instant) {
  //= CON-12
  return reply(false, ird, ord, private_data);
}

Result<void> Startup::reject(Octets private_data, Instant) {
  // The depths in a reject tell what would have been needed (RFC 6581 §9.1).
  //= CON-11
  return reply(true, config_.ird, config_.ord, private_data);
}

Result<void> Startup::reply(bool rejected, std::uint16_t ird, std::uint16_t ord,
                            Octets private_data) {
  if (state_ == State::Failed) return Error{ECONNRESET, "the connection failed during startup"};
  if (state_ != State::AwaitConsumer) {
    return Error{EINVAL, "MPA startup: no request is waiting for an answer"};
  }
  if (!private_data_fits(private_data, peer_frame_.enhanced.has_value())) {
    return kPrivateDataTooLong;
  }

  ird = depth(ird);
  ord = depth(ord);
  wire::StartupFrame frame;
  frame.kind = wire::StartupKind::Reply;
  frame.markers = config_.markers;
  // The peer's wish is repeated: the outcome is the same (one C is enough), and a peer that
  // looks at the Reply alone sees what will be used.
  //= CON-05
  frame.crc = config_.crc || peer_frame_.crc;
  frame.rejected = rejected;
  //= ENH-02
  //= ENH-18
  frame.revision = peer_frame_.revision;
  if (peer_frame_.enhanced) frame.enhanced = answer(*peer_frame_.enhanced, ird, ord);
  frame.private_data = private_data;
  send(frame);
  set_state(State::Done);

  const std::optional<wire::Enhanced> peer = peer_frame_.enhanced;
  if (rejected) {
    event_ = StartupRejected{{}, peer};
    return {};
  }
  StreamParameters stream = stream_parameters();
  stream.ird = ird;
  stream.ord = ord;
  stream.peer_to_peer = frame.enhanced && frame.enhanced->peer_to_peer;
  event_ = StartupAccepted{stream, {}, peer};
  return {};
}

wire::Enhanced Startup::answer(const wire::Enhanced& peer, std::uint16_t& ird,
                               std::uint16_t& ord) const {
  wire::Enhanced words;
  //= ENH-10
  words.peer_to_peer = peer.peer_to_peer;
  if (peer.peer_to_peer) {
    wire::Enhanced ours;
    ours.rtr_send = config_.rtr_send;
    ours.rtr_write = config_.rtr_write;
    ours.rtr_read = config_.rtr_read;
    // Receiving a zero-length Write takes nothing, so it is what an end that says nothing supports.
    if (!names_rtr(ours)) ours.rtr_write = true;
    //= ENH-13
    // All that match; without a match our own, so that the initiator learns why it has to give up.
    wire::Enhanced named = common_rtr(ours, peer);
    if (!names_rtr(named)) named = ours;
    // A depth that is the ULPs' business (0x3fff) must not be touched; with a depth of 0 then
    // better no Read than one too many.
    const bool by_ulp = peer.ord == wire::kDepthByULP;
    if (by_ulp && ird == 0 && (named.rtr_write || named.rtr_send)) named.rtr_read = false;
    // A Read as RTR occupies one slot, even if the ULPs will never read.
    if (named.rtr_read && ird == 0) ird = 1;
    words.rtr_send = named.rtr_send;
    words.rtr_write = named.rtr_write;
    words.rtr_read = named.rtr_read;
  }
  //= ENH-09
  //= ENH-06
  words.ird = peer.ord == wire::kDepthByULP ? wire::kDepthByULP : ird;
  if (peer.ird == wire::kDepthByULP) {
    words.ord = wire::kDepthByULP;
  } else {
    ord = least(ord, peer.ird);
    words.ord = ord;
  }
  return words;
}

// Inputs.

std::size_t Startup::handle_octets(Octets arrived, Instant) {
  if (state_ == State::Failed) return arrived.size();
  if (state_ == State::AwaitConsumer && !arrived.empty()) {
    // The initiator cannot know yet whether we want markers, so this can be no FPDU.
    fail(StartupFailure::TooManyOctets);
    return arrived.size();
  }
  if (state_ != State::AwaitRequest && state_ != State::AwaitReply) return 0;

  Octets rest = arrived;
  for (;;) {
    if (receive_octets_ > kRevisionOffset && receive_buffer_[kRevisionOffset] <= kRevisionPlain) {
      // S came with revision 2. In an older frame the bit is reserved: not looked at (CON-06).
      //= CON-06
      receive_buffer_[kFlagsOffset] &= static_cast<std::uint8_t>(~kEnhancedFlag);
    }
    const auto parsed = wire::parse_startup_frame(Octets(receive_buffer_, receive_octets_));
    if (const auto* frame = std::get_if<wire::StartupFrame>(&parsed)) {
      peer_frame_ = *frame;
      break;
    }
    const auto* need = std::get_if<wire::NeedMore>(&parsed);
    //= CON-03
    //= CON-08
    //= CON-13
    //= MPA-30
    if (need == nullptr || need->octets_total > sizeof receive_buffer_ ||
        need->octets_total <= receive_octets_) {
      fail(StartupFailure::BadFrame);
      return arrived.size();
    }
    if (rest.empty()) return arrived.size();
    // Never more than the frame is known to need: what follows belongs to full operation.
    //= CON-01
    //= CON-18
    std::size_t n = need->octets_total - receive_octets_;
    if (n > rest.size()) n = rest.size();
    std::memcpy(receive_buffer_ + receive_octets_, rest.data(), n);
    receive_octets_ += n;
    rest = rest.subspan(n);
  }

  handle_frame();
  if (state_ == State::AwaitConsumer && !rest.empty()) fail(StartupFailure::TooManyOctets);
  return state_ == State::Failed ? arrived.size() : arrived.size() - rest.size();
}

void Startup::handle_frame() {
  const wire::StartupKind expected =
      role_ == Role::Initiator ? wire::StartupKind::Reply : wire::StartupKind::Request;
  //= CON-17
  if (peer_frame_.kind != expected) return fail(StartupFailure::SameRole);
  return role_ == Role::Initiator ? handle_reply() : handle_request();
}

void Startup::handle_request() {
  //= CON-07
  //= ENH-02
  //= ENH-18
  // Revision 0 is the RDMA Consortium's, with other DDP and RDMAP versions: not ours. An end that
  // is told to know revision 1 only treats revision 2 as an old implementation would: it closes.
  if (peer_frame_.revision < kRevisionPlain || peer_frame_.revision > kRevisionEnhanced ||
      peer_frame_.revision > config_.revision) {
    return fail(StartupFailure::Revision);
  }
  //= ENH-05
  set_state(State::AwaitConsumer);
  event_ = RequestArrived{peer_frame_.private_data, peer_frame_.enhanced};
}

void Startup::handle_reply() {
  const bool asked_enhanced = config_.revision >= kRevisionEnhanced;
  //= CON-07
  if (peer_frame_.revision < kRevisionPlain || peer_frame_.revision > kRevisionEnhanced ||
      (!asked_enhanced && peer_frame_.revision != kRevisionPlain)) {
    return fail(StartupFailure::Revision);
  }
  //= CON-14
  //= ENH-05
  // Before NotEnhanced: a "no" in the wrong format is still the ULP's answer.
  if (peer_frame_.rejected) {
    set_state(State::Done);
    event_ = StartupRejected{peer_frame_.private_data, peer_frame_.enhanced};
    return;
  }
  //= ENH-18
  if (asked_enhanced && !peer_frame_.enhanced) return fail(StartupFailure::NotEnhanced);

  StreamParameters stream = stream_parameters();
  stream.ird = depth(config_.ird);
  stream.ord = depth(config_.ord);
  if (peer_frame_.enhanced) settle_initiator(*peer_frame_.enhanced, stream);
  set_state(State::Done);
  event_ = StartupAccepted{stream, peer_frame_.private_data, peer_frame_.enhanced};
}

void Startup::settle_initiator(const wire::Enhanced& peer, StreamParameters& stream) const {
  const wire::Enhanced ours = own_words(config_);
  //= ENH-07
  //= ENH-09
  if (peer.ird != wire::kDepthByULP) stream.ord = least(ours.ord, peer.ird);
  //= ENH-08
  //= ENH-19
  if (ours.ird != wire::kDepthByULP && peer.ord != wire::kDepthByULP && peer.ord > ours.ird) {
    stream.terminate_with = wire::TermError::MPAInsufficientIRD;
    return;
  }
  stream.peer_to_peer = ours.peer_to_peer;
  if (ours.peer_to_peer == peer.peer_to_peer) {
    if (!ours.peer_to_peer) return;
    //= ENH-14
    stream.rtr = best_rtr(common_rtr(ours, peer));
    if (stream.rtr != RTR::None) return;
  }
  // No common type, or the ends do not even agree on the model: either waits for an RTR that never
  // comes, or gets one it did not ask for.
  //= ENH-16
  stream.terminate_with = wire::TermError::MPANoMatchingRTR;
}

void Startup::handle_closed(Instant) {
  if (state_ == State::Done || state_ == State::Failed) return;
  // An old responder finds an enhanced Request malformed and closes without a word. One that began
  // a Reply knew what it read.
  //= ENH-18
  const bool retry = state_ == State::AwaitReply && config_.revision >= kRevisionEnhanced &&
                     receive_octets_ == 0;
  fail(StartupFailure::Closed, retry);
}

void Startup::handle_timeout(Instant now) {
  //= CON-19
  if (has_deadline_ && now >= deadline_) fail(StartupFailure::TimedOut);
}

// Outputs.

Octets Startup::poll_transmit() {
  const std::size_t n = transmit_octets_;
  transmit_octets_ = 0;
  return Octets(transmit_buffer_, n);
}

std::optional<StartupEvent> Startup::poll_event() {
  const std::optional<StartupEvent> event = event_;
  event_.reset();
  return event;
}

std::optional<Instant> Startup::poll_timeout() const {
  if (!has_deadline_) return std::nullopt;
  return deadline_;
}

// What all of the above share.

StreamParameters Startup::stream_parameters() const {
  StreamParameters stream;
  stream.role = role_;
  //= MPA-05
  stream.revision = peer_frame_.revision;
  //= CON-05
  //= MPA-14
  //= MPA-15
  //= MPA-16
  stream.crc = config_.crc || peer_frame_.crc;
  // M says what its sender wants to receive: the two directions have nothing to do with each other.
  //= CON-04
  //= MPA-09
  stream.transmit_markers = peer_frame_.markers;
  stream.receive_markers = config_.markers;
  return stream;
}

void Startup::send(const wire::StartupFrame& frame) {
  // The frame and nothing else: no CRC, no marker, no padding.
  //= CON-20
  transmit_octets_ = frame.encode(transmit_buffer_);
}

void Startup::fail(StartupFailure why, bool retry_revision_1) {
  // Nothing that waits to be sent matters any more: TCP is closed at once.
  //= MPA-26
  //= MPA-30
  transmit_octets_ = 0;
  set_state(State::Failed);
  event_ = StartupFailed{why, retry_revision_1};
}

void Startup::set_state(State state) {
  state_ = state;
  has_deadline_ = false;
}

void Startup::await_peer(State state, Instant now) {
  set_state(state);
  deadline_ = now + config_.timeout;
  has_deadline_ = true;
}

}  // namespace weft::core
