// One connection: a transport stream, its MPA startup, and later the QP that lives on it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/mpa/startup.h"
#include "device/device.h"
#include "engine/buffers.h"
#include "engine/queue_pair.h"
#include "transport/transport.h"

namespace weft::engine {

class Connection;

/// What a connection needs of the engine around it.
class ConnectionOwner {
 public:
  virtual BufferPool<ReceiveBuffer>& receive_buffers() = 0;
  virtual BufferPool<TransmitBuffer>& transmit_buffers() = 0;
  virtual Instant now() const = 0;
  /// The stream's readiness of interest changed (Connection::wants_read / wants_write).
  virtual void handle_interest(Connection&) = 0;
  virtual void handle_deadline(Connection&) = 0;
  virtual void report(const device::ConnectionEvent&) = 0;
  virtual void report_async(device::AsyncEventKind, QueuePair&) = 0;
  /// An enhanced Request met a revision 1 peer: connect again, without (RFC 6581 §6). False: this
  /// was the second try, or no socket could be had.
  virtual bool reconnect_with_revision_1(Connection&) = 0;

 protected:
  ~ConnectionOwner() = default;
};

/// States in order of life. A stream's end is never waited for by a blocked call: it shows up as
/// an event later.
enum class ConnectionState : std::uint8_t {
  Connecting,     ///< TCP handshake (initiator)
  Startup,        ///< MPA Request and Reply under way
  AwaitConsumer,  ///< responder: Requested was reported; accept or reject decides
  Streaming,      ///< full operation: the QP has the stream
  Lingering,      ///< the QP or the consumer is gone: FIN sent, what still comes is dropped
  Dead,           ///< nothing left but to be removed
};

/// Threads: the progress lock covers everything.
class Connection {
 public:
  /// Initiator: `stream` is connecting.
  Connection(device::ConnectionNumber number, ConnectionOwner& owner,
             std::unique_ptr<transport::Stream> stream, const core::StartupConfig& config,
             QueuePair& qp, Octets private_data, std::uint64_t cookie);
  /// Responder: `stream` was accepted; `listener_cookie` goes into Requested.
  Connection(device::ConnectionNumber number, ConnectionOwner& owner,
             std::unique_ptr<transport::Stream> stream, const core::StartupConfig& config,
             std::uint64_t listener_cookie);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Inputs: the stream may be readable or writable; time passed; the QP has work.
  void handle_ready();
  void handle_timeout();
  /// The QP has something to send, or to receive into.
  void serve();

  // Commands; see device::Device.
  Result<void> accept(QueuePair& qp, const device::ConnectRequest&, std::uint64_t cookie);
  Result<void> reject(Octets private_data);
  Result<void> disconnect();
  /// The consumer wants no more events.
  void release();
  /// The QP is being destroyed: part from it. Whatever its state, the peer sees an orderly end if
  /// everything was sent, else a reset.
  void detach_qp();
  /// A new TCP connection for a second startup with revision 1.
  void restart(std::unique_ptr<transport::Stream> stream);
  /// Does an unsent batch reference this registered memory?
  bool references(const std::uint8_t* address, std::uint64_t octets) const;
  void handle_memory_gone();

  device::ConnectionNumber number() const { return number_; }
  ConnectionState state() const { return state_; }
  bool held_back() const { return held_back_; }
  bool hung_up() const { return hung_up_; }
  bool dead() const { return state_ == ConnectionState::Dead; }
  QueuePair* qp() { return qp_; }  ///< null when there is none (any more)
  transport::Stream* stream() { return stream_.get(); }
  bool wants_read() const;
  bool wants_write() const;
  std::optional<Instant> deadline() const;
  bool established() const { return established_; }
  bool from_listener() const { return from_listener_; }
  /// Still in the startup that a listener with this cookie began.
  bool half_open_of(std::uint64_t listener_cookie) const {
    return from_listener_ && qp_ == nullptr && state_ == ConnectionState::Startup &&
           cookie_ == listener_cookie;
  }
  const core::StartupConfig& config() const { return config_; }
  const std::vector<std::uint8_t>& private_data() const { return private_data_; }

  std::uint32_t interest = 0;  ///< what the poller was last told; the engine's note

 private:
  void handle_connected();
  void read_startup();
  void handle_startup_events();
  void handle_accepted(const core::StartupAccepted&);
  void handle_failed(const core::StartupFailed&);
  void read_stream();
  bool receive_once();
  void offer_received();
  bool receive_posted();
  void drop_received();
  void lose_stream();
  void spill_received();
  void transmit();
  bool send_pending();
  bool send_control();
  void handle_llp_action(core::LLPAction action);
  void handle_notices();
  void read_lingering();
  void linger();
  void die();
  void fail(int error, const char* text);
  void report(device::ConnectionEvent event);
  void finish_stream();

  const device::ConnectionNumber number_;
  ConnectionOwner& owner_;
  std::unique_ptr<transport::Stream> stream_;
  core::StartupConfig config_;
  std::optional<core::Startup> startup_;
  QueuePair* qp_ = nullptr;
  ConnectionState state_;
  std::uint64_t cookie_ = 0;
  std::vector<std::uint8_t> private_data_;   ///< ours, kept for a second startup
  std::vector<std::uint8_t> control_;        ///< startup octets the transport has not taken yet
  std::unique_ptr<ReceiveBuffer> received_;  ///< lent while octets wait in it
  std::vector<std::uint8_t> tail_;           ///< an idle connection's unfinished FPDU
  std::unique_ptr<TransmitBuffer> batch_;    ///< lent while unsent
  std::optional<Instant> linger_deadline_;
  int end_error_ = 0;  ///< why the stream ended, for Disconnected
  const char* end_text_ = "";
  const bool from_listener_;
  bool released_ = false;
  bool established_ = false;        ///< Established was reported
  bool awaits_first_fpdu_ = false;  ///< responder in peer-to-peer mode: Established comes with it
  bool held_back_ = false;          ///< a Send waits for a receive buffer: do not read
  bool blocked_ = false;            ///< the transport took less than offered
  bool send_lost_ = false;         ///< the transport takes no more; what it still holds is read first
  bool hung_up_ = false;           ///< while the consumer decided; not watched any more
  bool fin_sent_ = false;
  bool peer_closed_ = false;
};

}  // namespace weft::engine
