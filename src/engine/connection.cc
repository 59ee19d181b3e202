// A connection's life and its commands. The startup exchange, receiving and transmitting have files
// of their own beside this one.
#include "engine/connection.h"

#include <cerrno>
#include <cstring>

namespace weft::engine {

using transport::IOResult;

namespace {
constexpr Duration kLingerTimeout = std::chrono::seconds(5);
}

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
      private_data_(private_data.begin(), private_data.end()),
      from_listener_(false) {
  qp.connection = this;
  linger_deadline_ = owner_.now() + config.timeout;  // bounds the TCP handshake
}

Connection::Connection(device::ConnectionNumber number, ConnectionOwner& owner,
                       std::unique_ptr<transport::Stream> stream, const core::StartupConfig& config,
                       std::uint64_t listener_cookie)
    : number_(number),
      owner_(owner),
      stream_(std::move(stream)),
      config_(config),
      state_(ConnectionState::Startup),
      cookie_(listener_cookie),
      from_listener_(true) {
  startup_.emplace(core::Role::Responder, config_, owner_.now());
}

Connection::~Connection() {
  if (qp_ != nullptr) qp_->connection = nullptr;
  drop_received();
  if (batch_ != nullptr) owner_.transmit_buffers().give_back(std::move(batch_));
}

void Connection::handle_ready() {
  switch (state_) {
    case ConnectionState::Connecting:
      return handle_connected();
    case ConnectionState::Startup:
      return read_startup();
    case ConnectionState::AwaitConsumer:
      // Nothing was asked for, so this is a hang-up, which would be reported without end.
      hung_up_ = true;
      return owner_.handle_interest(*this);
    case ConnectionState::Streaming:
      blocked_ = false;
      if (send_lost_ && held_back_) return lose_stream();
      // What the transport took may complete WRs before what arrives flushes them.
      transmit();
      if (state_ == ConnectionState::Streaming && !held_back_) read_stream();
      if (state_ == ConnectionState::Streaming) transmit();
      return;
    case ConnectionState::Lingering:
      return read_lingering();
    case ConnectionState::Dead:
      return;
  }
}

void Connection::serve() {
  if (state_ != ConnectionState::Streaming) return;
  transmit();
  if (state_ != ConnectionState::Streaming || !held_back_ || !receive_posted()) return;
  held_back_ = false;
  qp_->unwant_receive();
  offer_received();
  if (state_ == ConnectionState::Streaming && !held_back_) read_stream();
  if (state_ == ConnectionState::Streaming) transmit();
}

/// Is there a receive for the message that is held back? If not, whoever posts one is sure to ring.
bool Connection::receive_posted() {
  if (qp_->receive_pending()) return true;
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

std::optional<Instant> Connection::deadline() const {
  switch (state_) {
    case ConnectionState::Connecting:
    case ConnectionState::Lingering:
      return linger_deadline_;
    case ConnectionState::Startup:
      return startup_->poll_timeout();
    case ConnectionState::Streaming:
      return qp_->core().poll_timeout();
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
    case ConnectionState::Startup:
      startup_->handle_timeout(owner_.now());
      return handle_startup_events();
    case ConnectionState::Streaming:
      qp_->core().handle_timeout(owner_.now());
      return transmit();
    default:
      return die();
  }
}

Result<void> Connection::accept(QueuePair& qp, const device::ConnectRequest& request,
                                std::uint64_t cookie) {
  if (state_ != ConnectionState::AwaitConsumer) {
    return Error{EINVAL, "accept: no connection request waits on this connection"};
  }
  if (hung_up_) return Error{ECONNRESET, "accept: the peer hung up while its request waited"};
  if (auto r = startup_->accept(request.ird, request.ord, request.private_data, owner_.now()); !r) {
    return r;
  }
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
  released_ = true;
  const Octets reply = startup_->poll_transmit();
  control_.assign(reply.begin(), reply.end());
  linger();
  return {};
}

Result<void> Connection::disconnect() {
  switch (state_) {
    case ConnectionState::Connecting:
    case ConnectionState::Startup:
      fail(ECONNABORTED, "disconnected before the connection was established");
      return {};
    case ConnectionState::Streaming: {
      const Result<void> closed = qp_->core().close(owner_.now());
      transmit();
      // Not allowed in Closing, Terminate or Error: it is already on its way out.
      if (!closed) return {};
      return {};
    }
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
    case ConnectionState::Startup:
    case ConnectionState::AwaitConsumer:
      if (stream_ != nullptr) stream_->reset();
      return die();
    default:
      return;  // a QP may outlive its CM id; a lingering stream ends by itself
  }
}

void Connection::detach_qp() {
  QueuePair* qp = qp_;
  if (qp == nullptr) return;
  if (state_ != ConnectionState::Streaming) {
    if (stream_ != nullptr) stream_->reset();
    return die();
  }
  const bool all_sent = batch_ == nullptr && control_.empty() && !qp->core().wants_transmit() &&
                        qp->core().state() != core::QPState::Error;
  qp_ = nullptr;
  qp->connection = nullptr;
  if (batch_ != nullptr) owner_.transmit_buffers().give_back(std::move(batch_));
  if (established_) {
    report({.kind = device::ConnectionEventKind::Disconnected,
            .error = end_error_,
            .text = end_text_});
    established_ = false;
  }
  if (!all_sent || held_back_) {
    stream_->reset();
    return die();
  }
  linger();
}

void Connection::restart(std::unique_ptr<transport::Stream> stream) {
  stream_ = std::move(stream);
  interest = 0;
  control_.clear();
  startup_.reset();
  config_.revision = 1;
  config_.peer_to_peer = false;
  drop_received();
  state_ = ConnectionState::Connecting;
  linger_deadline_ = owner_.now() + config_.timeout;
}

/// From here on the stream only has to end well: FIN, then wait for the peer's, within a bound.
void Connection::linger() {
  drop_received();
  blocked_ = false;
  state_ = ConnectionState::Lingering;
  linger_deadline_ = owner_.now() + kLingerTimeout;
  read_lingering();
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
  if (stream_ != nullptr) stream_->reset();
  const bool tell = !released_ && qp_ != nullptr;
  if (tell) {
    report({.kind = device::ConnectionEventKind::Failed, .error = error, .text = text});
  }
  die();
}

void Connection::die() {
  if (qp_ != nullptr) qp_->connection = nullptr;
  qp_ = nullptr;
  state_ = ConnectionState::Dead;
  blocked_ = false;
  control_.clear();
  drop_received();
  if (batch_ != nullptr) owner_.transmit_buffers().give_back(std::move(batch_));
  owner_.handle_interest(*this);  // while the descriptor is still open
  stream_.reset();
}

void Connection::report(device::ConnectionEvent event) {
  if (released_) return;
  event.connection = number_;
  event.cookie = cookie_;
  owner_.report(event);
}

}  // namespace weft::engine
