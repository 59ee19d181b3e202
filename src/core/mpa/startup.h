// MPA startup: the exchange of Request and Reply before full operation (RFC 5044 §7, RFC 6581).
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "base/octets.h"
#include "base/result.h"
#include "base/time.h"
#include "wire/startup_frame.h"
#include "wire/terminate.h"

namespace weft::core {

enum class Role : std::uint8_t { Initiator, Responder };
enum class RTR : std::uint8_t { None, Send, Write, Read };

/// What this end wants; the exchange settles what both get.
struct StartupConfig {
  //= MPA-14
  //= MPA-19
  bool crc = true;            ///< off only by explicit administrator request
  bool markers = false;       ///< ask the peer to send us markers
  std::uint8_t revision = 2;  ///< initiator: 1 or 2 (2 = enhanced); responder: the highest accepted
  std::uint16_t ird = 0;      ///< Reads the peer may have open at us, 0..0x3ffe, or kDepthByULP
  std::uint16_t ord = 0;      ///< Reads we want open at the peer
  bool peer_to_peer = false;  ///< initiator: ask for it (A)
  bool rtr_send = false, rtr_write = true, rtr_read = true;  ///< RTR types we can send / accept
  Duration timeout = std::chrono::seconds(10);  ///< for each wait on the peer
};

/// What full operation runs with.
struct StreamParameters {
  Role role = Role::Initiator;
  std::uint8_t revision = 1;
  bool crc = true;               ///< both directions
  bool transmit_markers = false; ///< we insert markers (the peer's frame had M)
  bool receive_markers = false;  ///< the peer inserts them (our frame had M)
  std::uint16_t ird = 0;
  std::uint16_t ord = 0;
  bool peer_to_peer = false;
  RTR rtr = RTR::None;           ///< initiator: send this first
  /// After Accept something does not fit (ENH-08, -16, -17): the QP's first and last message is
  /// this Terminate.
  std::optional<wire::TermError> terminate_with;
};

/// Why a startup ended without a stream. `text` gives the sentence for people.
enum class StartupFailure : std::uint8_t {
  BadFrame,        ///< not MPA: wrong key (an HTTP server, say), bad length
  SameRole,        ///< initiator met initiator, or responder met responder
  Revision,        ///< a revision that cannot be handled
  NotEnhanced,     ///< enhanced Request answered by an unenhanced Reply
  TimedOut,
  Closed,          ///< the peer closed before the exchange was over; see retry_revision_1
  TooManyOctets,   ///< octets after the Request before any Reply was sent
};
const char* text(StartupFailure);

struct RequestArrived {          // responder: the consumer now calls accept() or reject()
  Octets private_data;           ///< valid until accept(), reject() or destruction
  std::optional<wire::Enhanced> peer;  ///< the peer's IRD/ORD words, as received
};
struct StartupAccepted {         // full operation begins
  StreamParameters stream;
  Octets private_data;           ///< initiator: from the Reply; valid until destruction
  std::optional<wire::Enhanced> peer;
};
struct StartupRejected {         // initiator: R=1; responder: our reject was sent. TCP stays open.
  Octets private_data;
  std::optional<wire::Enhanced> peer;
};
struct StartupFailed {           // close TCP at once
  StartupFailure why;
  /// Initiator of an enhanced Request whose peer closed without a Reply: the peer may know only
  /// revision 1; reconnect with that on a new TCP connection (RFC 6581 §6).
  bool retry_revision_1 = false;
};
using StartupEvent = std::variant<RequestArrived, StartupAccepted, StartupRejected, StartupFailed>;

/// One startup exchange. Sans-I/O; drain poll_transmit, then poll_event, after every call.
///
///   initiator:  Idle --connect--> AwaitReply --Reply--> Done
///   responder:  AwaitRequest --Request--> AwaitConsumer --accept or reject--> Done
///   any but Done, on a bad frame, close or time-out:  --> Failed
///
/// Grammar:  initiator: connect (handle_* poll_*)* ;  responder: (handle_* poll_*)* (accept|reject)
/// The deadline of a wait on the peer runs from its start: octets that trickle in do not extend it.
/// Not copyable: events refer to private data inside.
/// Threads: none of its own.
class Startup {
 public:
  Startup(Role role, const StartupConfig& config, Instant now);
  Startup(const Startup&) = delete;
  Startup& operator=(const Startup&) = delete;

  /// Initiator: makes the Request. EINVAL: private data above 512 (508 when enhanced), no RTR type
  /// for a peer-to-peer connection, or not Idle. A revision 1 Request cannot ask for peer-to-peer.
  Result<void> connect(Octets private_data, Instant now);
  /// Responder, after RequestArrived: depths as the consumer wants them (clamped: ORD <= the peer's
  /// IRD; an IRD below the peer's ORD is allowed, the initiator decides). EINVAL as above.
  /// ECONNRESET: the startup failed meanwhile.
  Result<void> accept(std::uint16_t ird, std::uint16_t ord, Octets private_data, Instant now);
  Result<void> reject(Octets private_data, Instant now);

  /// Octets from the stream. Returns how many were taken; the rest belongs to full operation (or,
  /// after a reject, to the ULP). A failed startup takes all. Before connect() takes none.
  std::size_t handle_octets(Octets arrived, Instant now);
  void handle_closed(Instant now);   ///< FIN or reset
  void handle_timeout(Instant now);

  /// Octets to send now, or empty. Valid until the next call; hand all of them to the transport.
  Octets poll_transmit();
  std::optional<StartupEvent> poll_event();
  std::optional<Instant> poll_timeout() const;

  enum class State : std::uint8_t { Idle, AwaitReply, AwaitRequest, AwaitConsumer, Done, Failed };
  State state() const { return state_; }

 private:
  // What the depths and RTR flags of the peer's Reply mean for the initiator.
  void settle_initiator(const wire::Enhanced& peer, StreamParameters& stream) const;
  // What the responder answers to the peer's words; sets the depths this end will use.
  wire::Enhanced answer(const wire::Enhanced& peer, std::uint16_t& ird, std::uint16_t& ord) const;
  Result<void> reply(bool rejected, std::uint16_t ird, std::uint16_t ord, Octets private_data);
  StreamParameters stream_parameters() const;
  void handle_frame();
  void handle_request();
  void handle_reply();
  void send(const wire::StartupFrame&);
  void fail(StartupFailure, bool retry_revision_1 = false);
  void set_state(State);
  void await_peer(State, Instant now);

  Role role_;
  StartupConfig config_;
  State state_ = State::Idle;
  Instant deadline_;
  bool has_deadline_ = false;
  // The peer's frame as it arrives. The private data of events lies in it.
  std::uint8_t receive_buffer_[wire::kStartupFrameOctetsMax];
  std::size_t receive_octets_ = 0;
  std::uint8_t transmit_buffer_[wire::kStartupFrameOctetsMax];
  std::size_t transmit_octets_ = 0;
  wire::StartupFrame peer_frame_;
  std::optional<StartupEvent> event_;
};

}  // namespace weft::core
