// A connection's life and its commands. The startup exchange, receiving and transmitting have files
// of their own beside this one.
#include "engine/connection.h"

#include <cerrno>
#include <cstring>

namespace weft::engine {

using transport::IOResult;

namespace {
/// How long a refused connection is tried again.
constexpr Duration kRefusedPatience = std::chrono::milliseconds(250);
}  // namespace

Connection::Connection(device::ConnectionNumber number, ConnectionOwner& owner,
                       std::unique_ptr<transport::Stream> stream, const core::StartupConfig& config,
                       QueuePair& qp, Octets private_data, std::uint64_t cookie)
    : number_(number),
      owner_(owner),
      stream_(std::move(stream)),
      config_(config),
      qp_(&qp),
      state_(ConnectionState::Connecting),
      cookie_(cookie),
      private_data_(private_data.begin(), private_data.end()) {
  control_.reserve(wire::kStartupFrameOctetsMax);
  // What it is about to need, while the call can still say that there is no memory.
  if (stream_->connects_at_once()) {
    startup_ = std::make_unique<core::Startup>(core::Role::Initiator, config_, owner_.now());
  }
  qp.connection = this;
  deadline_ = owner_.now() + config.timeout;  // bounds the TCP handshake
  refused_until_ = owner_.now() + kRefusedPatience;
}

Connection::Connection(device::ConnectionNumber number, ConnectionOwner& owner,
                       std::unique_ptr<transport::Stream> stream, const core::StartupConfig& config,
                       std::uint64_t listener_cookie, std::shared_ptr<ListenerPlaces> places)
    : number_(number),
      owner_(owner),
      stream_(std::move(stream)),
      config_(config),
      state_(ConnectionState::Startup),
      cookie_(listener_cookie),
      places_(std::move(places)),
      place_(Place::HalfOpen) {
  control_.reserve(wire::kStartupFrameOctetsMax);
  startup_ = std::make_unique<core::Startup>(core::Role::Responder, config_, owner_.now());
  ++places_->half_open;
}

Connection::~Connection() {
  part_from_qp();
  leave_place();
  drop_received();
  drop_batches();
}

/// What was received for it lies in our memory.
void Connection::part_from_qp() {
  if (qp_ == nullptr) return;
  qp_->place_kept_writes();
  qp_->connection = nullptr;
  qp_ = nullptr;
}

void Connection::leave_place() {
  if (place_ == Place::HalfOpen) --places_->half_open;
  if (place_ == Place::Waiting) --places_->waiting;
  place_ = Place::None;
}

bool Connection::take_waiting_place() {
  if (places_->waiting >= places_->waiting_max) return false;
  leave_place();
  ++places_->waiting;
  place_ = Place::Waiting;
  return true;
}

void Connection::handle_ready(HangUp hang_up) {
  switch (state_) {
    case ConnectionState::Connecting:
      return handle_connected();
    case ConnectionState::Startup:
      return read_startup();
    case ConnectionState::AwaitConsumer:
      if (hang_up != HangUp::None) fail(ECONNRESET, "the peer left before it had an answer");
      return;
    case ConnectionState::Streaming:
      return handle_stream_ready(hang_up);
    case ConnectionState::Lingering:
      return read_lingering();
    case ConnectionState::Refused:
    case ConnectionState::Dead:
      return;
  }
}

void Connection::handle_stream_ready(HangUp hang_up) {
  if (wants_write()) {
    blocked_ = false;
    // What the transport took may complete WRs before what arrives flushes them.
    transmit();
  }
  if (state_ == ConnectionState::Streaming && !held_back_) read_stream();
  if (state_ == ConnectionState::Streaming) {
    const bool asked = qp_->core().inbound_reads_open() != 0;
    transmit_more();
    const bool answered = asked && state_ == ConnectionState::Streaming &&
                          qp_->core().inbound_reads_open() == 0 && !wants_write();
    if (answered) owner_.handle_answered();
  }
  if (state_ != ConnectionState::Streaming) return;
  // Behind the peer's FIN there is nothing to read that would tell of the loss.
  if (peer_closed_ && (send_lost_ || hang_up == HangUp::Whole)) return lose_stream();
  if (held_back_ && hang_up > hang_up_) handle_hang_up(hang_up);
  if (hang_up == HangUp::None || peer_closed_) return;
  // A receive that was not filled need not have reached the FIN behind it.
  ask_again();
  settle();
}

void Connection::handle_polled() {
  if (state_ != ConnectionState::Streaming) return;
  if (wants_write()) return handle_stream_ready(HangUp::None);
  if (has_spliced()) handle_spliced();
  if (held_back_ || state_ != ConnectionState::Streaming) return;
  begin_turn();
  const bool had_buffer = received_ != nullptr;
  const Got got = receive_once();
  if (got == Got::Nothing) {
    // Of many that are asked in turn most have nothing.
    if (!had_buffer && state_ == ConnectionState::Streaming) spill_received();
    return;
  }
  // A receive that was not filled found all there was: the next poll finds what has come since.
  if (got == Got::More) read_more();
  finish_reading();
  if (state_ == ConnectionState::Streaming) transmit_more();
}

/// transmit(), where mostly nothing has come about that it would send, do or tell.
void Connection::transmit_more() {
  if (is_quiet() || transmit_short()) return;
  if (has_spliced()) release_spliced();
  const core::QP& core = qp_->core();
  const bool quiet = batch_ == nullptr && control_.empty() && !core.wants_transmit() &&
                     !core.has_llp_action() && !core.has_notice() && !qp_->drain_awaited;
  quiet ? settle() : transmit();
}

/// The peer left while its last message waits for a receive. The program gets a while to post one:
/// only then the end of the stream can be reached.
void Connection::handle_hang_up(HangUp hang_up) {
  hang_up_ = hang_up;
  if (!deadline_) deadline_ = owner_.now() + owner_.close_timeout();
  tell_owner();
}

/// What it is to watch, and until when.
void Connection::tell_owner() {
  owner_.handle_interest(*this);
  owner_.handle_deadline(*this);
}

void Connection::serve() {
  if (state_ != ConnectionState::Streaming || transmit_short()) return;
  transmit();
  if (state_ == ConnectionState::Streaming && held_back_ && receive_posted()) go_on_receiving();
}

/// With the message that was held back, and what came behind it.
void Connection::go_on_receiving() {
  resume_receiving();
  offer_received();
  if (state_ == ConnectionState::Streaming && !held_back_) read_stream();
  if (state_ == ConnectionState::Streaming) transmit();
  if (state_ == ConnectionState::Streaming) spill_received();
}

void Connection::resume_receiving() {
  held_back_ = false;
  hang_up_ = HangUp::None;
  if (!awaits_first_fpdu_) deadline_.reset();
  qp_->unwant_receive();
}

/// Is there a receive for the message that is held back? If not, whoever posts one is sure to ring.
/// Once the stream is ending the core needs none: it drops what comes.
bool Connection::receive_posted() {
  if (qp_->receive_pending() || qp_->core().state() != core::QPState::RTS) return true;
  qp_->want_receive();
  return qp_->receive_pending();
}

bool Connection::wants_read() const {
  switch (state_) {
    case ConnectionState::Startup:
    case ConnectionState::Lingering:
      return true;
    case ConnectionState::Streaming:
      return !held_back_ && !peer_closed_;
    default:
      return false;
  }
}

bool Connection::wants_write() const {
  return state_ == ConnectionState::Connecting || blocked_ || !control_.empty();
}

bool Connection::wants_hang_up() const {
  if (hang_up_ != HangUp::None) return false;
  return state_ == ConnectionState::AwaitConsumer ||
         (state_ == ConnectionState::Streaming && held_back_);
}

std::optional<Instant> Connection::deadline() const {
  switch (state_) {
    case ConnectionState::Connecting:
    case ConnectionState::Refused:
    case ConnectionState::Lingering:
      return deadline_;
    case ConnectionState::Startup:
      return startup_->poll_timeout();
    case ConnectionState::Streaming: {
      const std::optional<Instant> core = qp_->core().poll_timeout();
      return !core || (deadline_ && *deadline_ < *core) ? deadline_ : core;
    }
    default:
      return std::nullopt;
  }
}

void Connection::handle_timeout() {
  const std::optional<Instant> due = deadline();
  if (!due || *due > owner_.now()) return;
  switch (state_) {
    case ConnectionState::Connecting:
      return fail(ETIMEDOUT, "the TCP connection was not established in time");
    case ConnectionState::Refused:
      if (!owner_.reconnect(*this)) fail(ECONNREFUSED, "nobody listens at that address and port");
      return;
    case ConnectionState::Startup:
      startup_->handle_timeout(owner_.now());
      return handle_startup_events();
    case ConnectionState::Streaming:
      ask_before_end();
      if (qp_->core().nudge_is_due(owner_.now()) && owner_.peer_reads(*stream_)) {
        qp_->core().forget_nudges();
      }
      qp_->core().handle_timeout(owner_.now());
      if (deadline_ && *deadline_ <= owner_.now()) return give_up_waiting();
      return transmit();
    default:
      return die();
  }
}

/// Neither the first FPDU nor a receive for the last message came in time.
void Connection::give_up_waiting() {
  deadline_.reset();
  if (awaits_first_fpdu_) {
    end_error_ = ETIMEDOUT;
    end_text_ = "the peer did not begin to send after the connection was accepted";
  } else {
    end_error_ = ECONNRESET;
    end_text_ = "the peer left while its message waited for a receive";
  }
  static_cast<void>(qp_->core().fail(owner_.now()));  // refused where it is over already
  transmit();
}

Result<void> Connection::accept(QueuePair& qp, const device::ConnectRequest& request,
                                std::uint64_t cookie) {
  if (state_ != ConnectionState::AwaitConsumer) {
    return Error{EINVAL, "accept: no connection request waits on this connection"};
  }
  if (auto r = startup_->accept(request.ird, request.ord, request.private_data, owner_.now()); !r) {
    return r;
  }
  leave_place();
  cookie_ = cookie;
  qp_ = &qp;
  qp.connection = this;
  state_ = ConnectionState::Startup;
  handle_startup_events();
  return {};
}

Result<void> Connection::reject(Octets private_data) {
  if (state_ != ConnectionState::AwaitConsumer) {
    return Error{EINVAL, "reject: no connection request waits on this connection"};
  }
  if (auto r = startup_->reject(private_data, owner_.now()); !r) return r;
  refuse();
  return {};
}

/// The startup said no: send that and end. Counts as half open until it is gone.
void Connection::refuse() {
  leave_place();
  ++places_->half_open;
  place_ = Place::HalfOpen;
  released_ = true;
  const Octets reply = startup_->poll_transmit();
  control_.assign(reply.begin(), reply.end());
  linger();
}

Result<void> Connection::disconnect() {
  switch (state_) {
    case ConnectionState::Connecting:
    case ConnectionState::Refused:
    case ConnectionState::Startup:
      abort_setup("disconnected before the connection was established");
      return {};
    case ConnectionState::Streaming:
      disconnected_ = true;
      await_spliced();
      if (state_ != ConnectionState::Streaming) return {};  // it ended meanwhile
      // Refused in Closing, Terminate or Error: it is already on its way out.
      static_cast<void>(qp_->core().close(owner_.now()));
      serve();
      return {};
    case ConnectionState::Lingering:
      return {};
    default:
      return Error{ENOTCONN, "disconnect: the connection is over"};
  }
}

void Connection::release() {
  released_ = true;
  switch (state_) {
    case ConnectionState::Connecting:
    case ConnectionState::Refused:
    case ConnectionState::Startup:
    case ConnectionState::AwaitConsumer:
      reset_stream();
      return die();
    default:
      return;  // a QP may outlive its CM id; a lingering stream ends by itself
  }
}

bool Connection::abort_setup(const char* text) {
  const bool begun = state_ == ConnectionState::Connecting ||
                     state_ == ConnectionState::Refused || state_ == ConnectionState::Startup;
  if (!begun) return false;
  fail(ECONNABORTED, text);
  return true;
}

void Connection::give_up(int error, const char* text) {
  switch (state_) {
    case ConnectionState::Streaming:
      ask_before_end();
      end_error_ = error;
      end_text_ = text;
      static_cast<void>(qp_->core().fail(owner_.now()));  // any state but Error can
      return transmit();
    case ConnectionState::Lingering:
      return die();
    case ConnectionState::Dead:
      return;
    default:
      return fail(error, text);
  }
}

void Connection::detach_qp() {
  if (qp_ == nullptr || abort_setup("the QP was destroyed before the connection was established")) {
    return;
  }
  await_spliced();
  if (qp_ == nullptr) return;  // it ended meanwhile
  core::QP& core = qp_->core();
  // An answer to a Read needs no memory of the program's.
  const bool left = has_spliced() && !core.sends_drained();
  const bool all_sent = batch_ == nullptr && !left && control_.empty() &&
                        !core.wants_transmit() && core.state() != core::QPState::Error;
  part_from_qp();
  drop_batches();
  if (!established_) end_error_ = ECONNABORTED;
  report(take_end());
  if (all_sent && !held_back_) return linger();
  reset_stream();
  die();
}

void Connection::restart(std::unique_ptr<transport::Stream> stream) {
  stream_ = std::move(stream);
  interest = 0;
  control_.clear();
  startup_.reset();
  drop_received();
  state_ = ConnectionState::Connecting;
  deadline_ = owner_.now() + config_.timeout;
}

/// From here on the stream only has to end well: FIN, then wait for the peer's, within a bound.
void Connection::linger() {
  drop_received();
  blocked_ = false;
  state_ = ConnectionState::Lingering;
  deadline_ = owner_.now() + owner_.close_timeout();
  read_lingering();
  if (state_ != ConnectionState::Lingering) return;
  tell_owner();
}

void Connection::read_lingering() {
  if (!send_control()) return;
  if (!fin_sent_) {
    stream_->close_gracefully();
    fin_sent_ = true;
  }
  std::uint8_t scrap[4096];
  for (int i = 0; i < 16; ++i) {
    const iovec vector{scrap, sizeof scrap};
    const IOResult r = stream_->receive({&vector, 1});
    if (r.kind == IOResult::Kind::WouldBlock) return;
    if (r.kind != IOResult::Kind::Moved) return die();
  }
}

/// The connection ends without ever having been established.
void Connection::fail(int error, const char* text) {
  reset_stream();
  // Of a startup that never became a request the consumer knows nothing.
  if (qp_ != nullptr || state_ == ConnectionState::AwaitConsumer) {
    report({.kind = device::ConnectionEventKind::Failed, .error = error, .text = text});
  }
  die();
}

void Connection::reset_stream() {
  if (stream_ == nullptr) return;
  owner_.unwatch(*this);
  stream_->reset();
}

void Connection::die() {
  part_from_qp();
  state_ = ConnectionState::Dead;
  leave_place();
  blocked_ = held_back_ = false;
  control_.clear();
  drop_received();
  drop_batches();
  owner_.handle_interest(*this);
  owner_.unwatch(*this);
  if (owner_.exits()) static_cast<void>(stream_.release());
  stream_.reset();
}

/// The last event of a connection whose stream or QP is gone.
device::ConnectionEvent Connection::take_end() {
  const auto kind = established_ ? device::ConnectionEventKind::Disconnected
                                 : device::ConnectionEventKind::Failed;
  if (!established_ && end_error_ == 0) end_error_ = ECONNRESET;
  established_ = false;
  return {.kind = kind, .error = end_error_, .text = end_text_};
}

void Connection::report(device::ConnectionEvent event) {
  if (address(event)) owner_.report(event);
}

/// False: nobody wants to hear of it.
bool Connection::address(device::ConnectionEvent& event) const {
  event.connection = number_;
  event.cookie = cookie_;
  return !released_;
}

}  // namespace weft::engine
