// A connection's TCP handshake and MPA startup exchange.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "engine/connection.h"

namespace weft::engine {

using transport::IOResult;

namespace {

void set_depths(device::ConnectionEvent& event, const std::optional<wire::Enhanced>& peer) {
  if (!peer) return;
  event.has_depths = true;
  event.peer_ird = peer->ird;
  event.peer_ord = peer->ord;
}

int errno_of(core::StartupFailure why) {
  switch (why) {
    case core::StartupFailure::TimedOut:
      return ETIMEDOUT;
    case core::StartupFailure::Closed:
      return ECONNRESET;
    default:
      return EPROTO;
  }
}

}  // namespace

void Connection::set_addresses(device::ConnectionEvent& event) const {
  const transport::Address local = stream_->local(), peer = stream_->peer();
  std::memcpy(&event.local, local.sockaddr_ptr(), local.length());
  std::memcpy(&event.peer, peer.sockaddr_ptr(), peer.length());
}

void Connection::handle_connected() {
  const Result<void> connected = stream_->connected();
  if (!connected) {
    if (connected.error().code == EINPROGRESS) return;
    if (connected.error().code == ECONNREFUSED && owner_.now() < refused_until_) {
      return try_again();
    }
    return fail(connected.error().code, connected.error().text);
  }
  if (startup_ == nullptr) {
    startup_.reset(new (std::nothrow) core::Startup(core::Role::Initiator, config_, owner_.now()));
  }
  if (startup_ == nullptr) return fail(ENOMEM, "no memory for the MPA startup");
  state_ = ConnectionState::Startup;
  if (const Result<void> r = startup_->connect(private_data_, owner_.now()); !r) {
    return fail(r.error().code, r.error().text);
  }
  handle_startup_events();
}

namespace {
constexpr Duration kRefusedPause = std::chrono::milliseconds(10);
}

/// A listener that is a moment late is common among programs that meet a second time, perftest -R
/// among them (docs/adr/0004-a-refused-connection-is-tried-again.md).
void Connection::try_again() {
  state_ = ConnectionState::Refused;
  deadline_ = owner_.now() + kRefusedPause;
  tell_owner();
}

void Connection::read_startup() {
  if (!send_control()) return;
  // The frame is at most 532 octets; what follows it belongs to full operation and is kept.
  if (received_ == nullptr) {
    received_ = owner_.receive_buffers().borrow();
    if (received_ == nullptr) return fail(ENOMEM, kNoStaging);
    received_->begin = received_->end = 0;
  }
  ReceiveBuffer& buffer = *received_;
  const iovec vector{buffer.octets.data() + buffer.end, 4096};
  const IOResult r = stream_->receive({&vector, 1});
  if (r.kind == IOResult::Kind::WouldBlock) {
    if (buffer.begin == buffer.end) drop_received();
    return;
  }
  if (r.kind != IOResult::Kind::Moved) {
    startup_->handle_closed(owner_.now());
    return handle_startup_events();
  }
  buffer.end += r.octets;
  buffer.begin += startup_->handle_octets(
      Octets(buffer.octets.data() + buffer.begin, buffer.end - buffer.begin), owner_.now());
  if (buffer.begin == buffer.end) drop_received();
  handle_startup_events();
}

/// Sends what the startup wants sent, then acts on what it found.
void Connection::handle_startup_events() {
  const Octets out = startup_->poll_transmit();
  control_.insert(control_.end(), out.begin(), out.end());
  send_control();
  while (state_ == ConnectionState::Startup) {
    const std::optional<core::StartupEvent> event = startup_->poll_event();
    if (!event) break;
    if (const auto* request = std::get_if<core::RequestArrived>(&*event)) {
      handle_request(*request);
    } else if (const auto* accepted = std::get_if<core::StartupAccepted>(&*event)) {
      return handle_accepted(*accepted);
    } else if (const auto* rejected = std::get_if<core::StartupRejected>(&*event)) {
      return handle_rejected(*rejected);
    } else if (const auto* failed = std::get_if<core::StartupFailed>(&*event)) {
      return handle_failed(*failed);
    }
  }
  tell_owner();
}

void Connection::handle_request(const core::RequestArrived& request) {
  if (!take_waiting_place()) {
    // The program is behind: say so at once instead of letting the peers wait.
    static_cast<void>(startup_->reject({}, owner_.now()));
    return refuse();
  }
  state_ = ConnectionState::AwaitConsumer;
  device::ConnectionEvent event{.kind = device::ConnectionEventKind::Requested,
                                .private_data = request.private_data};
  set_addresses(event);
  set_depths(event, request.peer);
  report(event);
}

void Connection::handle_rejected(const core::StartupRejected& rejected) {
  device::ConnectionEvent event{.kind = device::ConnectionEventKind::Rejected,
                                .error = ECONNREFUSED,
                                .text = "the peer's program rejected the connection",
                                .private_data = rejected.private_data};
  set_depths(event, rejected.peer);
  part_from_qp();
  report(event);
  linger();
}

void Connection::handle_failed(const core::StartupFailed& failed) {
  // An enhanced Request met a peer that may know only revision 1 (RFC 6581 §6).
  if (failed.retry_revision_1 && config_.revision != 1) {
    config_.revision = 1;
    config_.peer_to_peer = false;
    if (owner_.reconnect(*this)) return;
  }
  fail(errno_of(failed.why), core::text(failed.why));
}

void Connection::handle_accepted(const core::StartupAccepted& accepted) {
  read_emss();
  if (const Result<void> r = qp_->core().bind_stream(accepted.stream, emss_, owner_.now()); !r) {
    return fail(r.error().code, r.error().text);
  }
  state_ = ConnectionState::Streaming;
  deadline_.reset();
  std::array<std::uint8_t, wire::kPrivateDataOctetsMax> private_data;
  std::ranges::copy(accepted.private_data, private_data.begin());
  device::ConnectionEvent event{
      .kind = device::ConnectionEventKind::Established,
      .private_data = {private_data.data(), accepted.private_data.size()}};
  set_addresses(event);
  set_depths(event, accepted.peer);
  // In peer-to-peer mode a responder is not ready to send before the RTR came (RFC 6581 §9.2).
  awaits_first_fpdu_ =
      accepted.stream.role == core::Role::Responder && accepted.stream.peer_to_peer;
  if (awaits_first_fpdu_) {
    peer_depths_ = {event.has_depths, event.peer_ird, event.peer_ord};
    deadline_ = owner_.now() + config_.timeout;
  }
  // Who hears of it may end in a signal's handler that interrupted malloc, and wait there for us to
  // send what is left: memory is given back, and had for a first FPDU of ours, before that.
  forget_startup();
  transmit();
  if (state_ != ConnectionState::Streaming) return;
  tell_owner();
  if (!awaits_first_fpdu_ && !accepted.stream.terminate_with) {
    established_ = true;
    report(event);
  }
  if (received_ != nullptr) {
    offer_received();
    spill_received();
  }
  if (state_ == ConnectionState::Streaming) transmit();
  if (state_ == ConnectionState::Streaming) tell_owner();
}

/// An idle connection keeps nothing that only its beginning needed.
void Connection::forget_startup() {
  startup_.reset();
  private_data_ = {};
  if (control_.empty()) control_ = {};
}

}  // namespace weft::engine
