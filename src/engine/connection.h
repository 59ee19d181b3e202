// One connection: a transport stream, its MPA startup, and later the QP that lives on it.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/prefetch.h"
#include "core/memory/memory_table.h"
#include "core/mpa/startup.h"
#include "device/device.h"
#include "engine/ask_pause.h"
#include "engine/buffers.h"
#include "engine/landing_habit.h"
#include "engine/listener_places.h"
#include "engine/others_turn.h"
#include "engine/queue_pair.h"
#include "engine/roll.h"
#include "engine/share_habit.h"
#include "engine/spliced_batches.h"
#include "transport/transport.h"

namespace weft::engine {

class Connection;

/// What a connection needs of the engine around it.
class ConnectionOwner {
 public:
  virtual BufferPool<ReceiveBuffer>& receive_buffers() = 0;
  virtual TransmitPool& transmit_buffers() = 0;
  virtual core::Mover& mover() = 0;
  virtual Instant now() const = 0;
  /// Something was received: now() is a recent time.
  virtual void handle_arrival(std::size_t octets) = 0;
  /// The poller told of a stream, and all that the peer asked for by it (Reads, atomic operations)
  /// has left.
  virtual void handle_answered() = 0;
  /// The transport took something.
  virtual void handle_departure(std::size_t octets) = 0;
  virtual Instant read_clock() = 0;
  /// How often the program polled and found nothing.
  virtual std::uint32_t empty_polls() const = 0;
  /// The stream's readiness of interest changed (Connection::wants_read / wants_write).
  virtual void handle_interest(Connection&) = 0;
  virtual void handle_deadline(Connection&) = 0;
  /// May it be spliced? Then somebody can be woken to look whether it was read.
  virtual bool may_splice() = 0;
  virtual bool splices_always() const = 0;
  virtual bool stages_always() const = 0;
  /// Something was spliced: handle_spliced() of it is to be called within a short while.
  virtual void note_spliced(Connection&) = 0;
  /// It exchanges small messages, and waits for each: others are not to keep it waiting.
  virtual void handle_brisk(const Connection&) = 0;
  /// Is there another one that is brisk just now? Then a turn is a short one.
  virtual bool turn_is_short(const Connection&) const = 0;
  /// Is its peer known to read whatever is sent to it? Asks the kernel, but not for each.
  virtual bool peer_reads(transport::Stream&) = 0;
  /// Its descriptor is about to be closed. Until then: a descriptor that a forked child holds too
  /// would stay in the poller for ever.
  virtual void unwatch(Connection&) = 0;
  /// How long an orderly end may take.
  virtual Duration close_timeout() const = 0;
  virtual void report(const device::ConnectionEvent&) = 0;
  /// The same, but not before the program has read what this QP completed, within reason.
  virtual void report_end(const device::ConnectionEvent&, QueuePair&) = 0;
  /// The process ends: nothing is given back to malloc any more.
  virtual bool exits() const = 0;
  virtual void report_async(device::AsyncEventKind, QueuePair&) = 0;
  /// Connects to the same peer again, for a startup from the beginning: the old stream is replaced
  /// by restart(). False: that failed at once.
  virtual bool reconnect(Connection&) = 0;

 protected:
  ~ConnectionOwner() = default;
};

/// States in order of life. A stream's end is never waited for by a blocked call: it shows up as
/// an event later.
enum class ConnectionState : std::uint8_t {
  Connecting,     ///< TCP handshake (initiator)
  Refused,        ///< nobody listened just now: connects again at the deadline
  Startup,        ///< MPA Request and Reply under way
  AwaitConsumer,  ///< responder: Requested was reported; accept or reject decides. Should the peer
                  ///< leave meanwhile, Failed is reported with the listener's cookie.
  Streaming,      ///< full operation: the QP has the stream
  Lingering,      ///< the QP or the consumer is gone: FIN sent, what still comes is dropped
  Dead,           ///< nothing left but to be removed
};

/// What the peer is known to have done to its stream, from readiness alone.
enum class HangUp : std::uint8_t {
  None,
  Half,   ///< it will send no more
  Whole,  ///< the stream is dead in both directions
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
             std::uint64_t listener_cookie, std::shared_ptr<ListenerPlaces> places);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Inputs: the stream may be readable or writable, or is hung up; time passed; the QP has work.
  void handle_ready(HangUp hang_up);
  /// A polling consumer asks without knowing: cheap when there is nothing.
  void handle_polled();
  void handle_timeout();
  /// Looks what the peer has read of what was spliced.
  SplicedState handle_spliced();
  /// The QP has something to send, or to receive into.
  void serve();

  // Before it is served, in this order and some time apart (prefetch_ahead): has what it needs
  // brought into the cache. Changes nothing.
  void prefetch_whole() const { prefetch(this, sizeof *this); }
  void prefetch_parts() const {
    prefetch(stream_.get(), kCacheLine);
    if (qp_ != nullptr) qp_->prefetch_whole();
  }
  void prefetch_rings() const {
    if (qp_ != nullptr) qp_->prefetch_rings();
  }

  // Commands; see device::Device.
  Result<void> accept(QueuePair& qp, const device::ConnectRequest&, std::uint64_t cookie);
  Result<void> reject(Octets private_data);
  Result<void> disconnect();
  /// Waits a moment for the peer to read what was spliced to it.
  void await_spliced();
  /// The consumer wants no more events.
  void release();
  /// The QP is being destroyed: part from it. Whatever its state, the peer sees an orderly end if
  /// everything was sent, else a reset, and the consumer gets its last event.
  void detach_qp();
  /// Ends a connection that is still being set up: Failed with ECONNABORTED. False: it is not.
  bool abort_setup(const char* text);
  /// The engine cannot go on with it, for this reason: a reset, and the consumer's last event.
  void give_up(int error, const char* text);
  /// A new TCP connection, still connecting, for a startup from the beginning.
  void restart(std::unique_ptr<transport::Stream> stream);
  /// Does an unsent batch reference memory of a region that is gone, and of no other one?
  bool misses(const core::RegionAttributes& gone, const core::MemoryTable& memory) const;
  void handle_memory_gone();

  device::ConnectionNumber number() const { return number_; }
  ConnectionState state() const { return state_; }
  /// A message of the peer's waits for a receive: there is a QP, and the stream is not over.
  bool held_back() const { return held_back_; }
  bool dead() const { return state_ == ConnectionState::Dead; }
  QueuePair* qp() { return qp_; }  ///< null when there is none (any more)
  transport::Stream* stream() { return stream_.get(); }
  bool wants_read() const;
  bool wants_write() const;
  /// A stream that is not read is watched for the peer's leaving.
  bool wants_hang_up() const;
  /// It only waits for the peer's octets, as most streams do most of the time.
  bool only_reads() const {
    return state_ == ConnectionState::Streaming && !held_back_ && !peer_closed_ && !blocked_ &&
           control_.empty() && hang_up_ == HangUp::None;
  }
  /// No bulk was received for some time.
  bool brings_messages() const { return turns_since_bulk_ == kTurnsSinceBulk; }
  /// False: nothing the stream could still report is of use before something else happens.
  bool watched() const {
    return state_ != ConnectionState::Dead && state_ != ConnectionState::Refused &&
           hang_up_ != HangUp::Whole;
  }
  std::optional<Instant> deadline() const;
  /// Still in the startup that this listener began.
  bool half_open_of(const ListenerPlaces& places) const {
    return places_.get() == &places && place_ == Place::HalfOpen;
  }
  /// A program has been told of its Request, and is to answer.
  bool awaits_consumer() const { return state_ == ConnectionState::AwaitConsumer; }
  const core::StartupConfig& config() const { return config_; }
  const std::vector<std::uint8_t>& private_data() const { return private_data_; }

  // The engine's notes.
  static constexpr std::uint32_t kRegistered = 1u << 28;  ///< so that interest in nothing is not 0
  static constexpr std::uint32_t kReads = EPOLLIN | kRegistered;
  /// By edges: told once of what is new, and of a FIN behind octets too.
  static constexpr std::uint32_t kReadsByEdges = EPOLLET | EPOLLRDHUP | kReads;
  /// As kReads, but the poller has nothing to watch: the program's polls find what comes.
  static constexpr std::uint32_t kReadsByPolls = 1u << 29 | kReads;
  static constexpr std::uint32_t kNotListed = ~0u;
  std::uint32_t interest = 0;              ///< what the poller was last told; none of kReadsByPolls
  bool tell_again = false;                 ///< the poller, of what it told of already by an edge
  int poller_error = 0;                    ///< errno: the poller refused
  std::uint32_t direct_slot = kNotListed;  ///< index in the list of streams to read
  PassedOver passed_over;                  ///< by polls
  AskPause ask_pause;                      ///< of polls
  RollPlace roll;                          ///< while it is on the roll
  bool on_splice_list = false;             ///< of those that have spliced something
  bool to_bury = false;                    ///< on the list of the dead

 private:
  /// Path MTU discovery and the peer's options change the MSS rarely, and asking is a system call.
  /// But TCP begins with half of the peer's window, which on a loopback is half of the MSS, and the
  /// window grows as soon as the peer reads: the pause between two questions is short at first and
  /// then doubles.
  static constexpr Duration kEmssPauseMin = std::chrono::milliseconds(1);
  static constexpr std::uint8_t kEmssDoublingsMax = 7;
  /// Nor is it asked before so much was sent, a batch counted as so much more than it is: among
  /// thousands of connections each has a request in so long a time, and would ask for each.
  static constexpr std::size_t kEmssWeightMin = 1024 * 1024;
  static constexpr std::size_t kEmssBatchWeight = 4 * 1024;

  /// A turn that brings more is one of bulk, and so are these behind it: the end of bulk, or what
  /// came while the sender was slower.
  static constexpr std::size_t kMessagesOctets = 16 * 1024;
  static constexpr std::uint8_t kTurnsSinceBulk = 16;

  /// What a listener's connection counts as there.
  enum class Place : std::uint8_t { None, HalfOpen, Waiting };

  void leave_place();
  bool take_waiting_place();
  void handle_request(const core::RequestArrived&);
  void refuse();
  void handle_rejected(const core::StartupRejected&);
  void handle_hang_up(HangUp hang_up);
  void handle_stream_ready(HangUp hang_up);
  void transmit_more();
  std::size_t share_of_batch();
  void note_trip(Duration took);
  void note_sent();
  bool may_splice();
  void note_batch(std::size_t octets, bool more);
  bool make_batch(bool is_short);
  std::unique_ptr<TransmitBuffer> take_staging();
  void put_back_batch();
  void count_sent(std::size_t octets);
  bool has_spliced() const;
  bool release_spliced();
  bool release_spliced_now();
  bool knows_nothing() const;
  void ask_before_end();
  void drop_batches();
  bool wants_batch() const;
  void settle();
  void set_addresses(device::ConnectionEvent& event) const;
  void resume_receiving();
  void go_on_receiving();
  void give_up_waiting();
  void read_emss();
  bool emss_is_old() const {
    return emss_weight_ >= kEmssWeightMin &&
           owner_.now() - emss_checked_ >= kEmssPauseMin * (1 << emss_doublings_);
  }
  void refresh_emss(bool is_short);
  void reset_stream();
  device::ConnectionEvent take_end();
  void handle_connected();
  void try_again();
  void read_startup();
  void handle_startup_events();
  void forget_startup();
  void tell_owner();
  void handle_accepted(const core::StartupAccepted&);
  void handle_failed(const core::StartupFailed&);
  void read_stream();
  void begin_turn();
  bool turn_tells_of_writes() const;
  void read_more();
  void finish_reading();
  void note_turn();
  /// What one receive brought. Nothing: also when the stream ended, which was dealt with.
  enum class Got : std::uint8_t { Nothing, Some, More };
  Got receive_once();
  Got receive_staged();
  std::size_t room_for_staging();
  void note_received(std::size_t octets, std::size_t asked);
  Got receive_large(const core::Landing&);
  struct Train;
  Got receive_landing(const core::Landing&);
  void note_behind(const core::Landing&);
  std::size_t end_behind(const core::Landing&) const;
  std::size_t followers_to_receive(const core::Landing&, std::size_t octets) const;
  bool take_followers(const core::Landing& first, const Train&, std::size_t octets);
  std::optional<core::Landing> find_follower(const core::Landing& first,
                                             const std::uint8_t* place);
  Got lose_landing();
  Got handle_no_octets(const transport::IOResult&);
  Octets front() const;
  void make_room();
  void give_back_received();
  void part_from_qp();
  void offer_received();
  void offer_landed(const core::Landing&);
  bool receive_posted();
  void drop_received();
  bool borrow_received();
  void lose_stream();
  void ask_again();
  void spill_received();
  void transmit();
  bool transmit_short();
  void keep_unsent(Octets octets, std::size_t sent);
  bool is_told() const;
  bool is_quiet() const;
  bool send_pending();
  bool send_control();
  bool keep_lent(core::ReadBy);
  void handle_lent_memory_gone();
  void end_batch();
  void handle_llp_action(core::LLPAction action);
  void handle_notices() {
    if (qp_ != nullptr && qp_->core().has_notice()) act_on_notices();
  }
  void act_on_notices();
  void read_lingering();
  void linger();
  void die();
  void fail(int error, const char* text);
  void report(device::ConnectionEvent event);
  bool address(device::ConnectionEvent& event) const;
  void finish_stream();

  const device::ConnectionNumber number_;
  ConnectionOwner& owner_;
  std::unique_ptr<transport::Stream> stream_;
  core::StartupConfig config_;
  std::unique_ptr<core::Startup> startup_;  ///< until the stream is established
  QueuePair* qp_ = nullptr;
  ConnectionState state_;
  std::uint64_t cookie_ = 0;
  std::vector<std::uint8_t> private_data_;   ///< ours, kept for a second startup
  std::vector<std::uint8_t> control_;        ///< startup octets the transport has not taken yet
  std::unique_ptr<ReceiveBuffer> received_;  ///< lent while octets wait in it
  std::vector<std::uint8_t> tail_;           ///< an idle connection's unfinished FPDU
  /// How much is staged of the front FPDU before the payload that is being received straight into
  /// its place; its trailer follows. 0: all is staged.
  std::size_t landing_head_ = 0;
  std::size_t wanted_ = 0;           ///< octets of the front FPDU, when its beginning is staged
  std::size_t header_expected_ = 0;  ///< of an FPDU that may land; 0: none is expected
  std::uint8_t staged_in_a_row_ = 0;  ///< receives since one landed
  struct {
    std::uint32_t payload = 0, octets = 0;
  } end_;  ///< behind the last FPDU that landed, of so much payload, came a short one of so many
  LandingHabit landing_habit_;
  Instant landing_work_;  ///< so many ticks, for what the habit was told of
  bool heard_ = false;                ///< something was received since the last batch
  bool sent_much_ = false;            ///< a batch that is not small, since the last turn
  std::size_t octets_last_ = 0;       ///< of the last batch; the next is likely as long
  bool drained_ = false;              ///< the last receive found less than it asked for
  struct {
    Instant began, ended;
    Duration took{};
    std::size_t octets = 0;  ///< if it was one that somebody waits for
  } last_answer_;            ///< the last batch that might leave in shares
  std::unique_ptr<ShareHabit> share_habit_;  ///< once there was one that somebody waits for
  std::size_t turn_octets_ = 0;            ///< received since this connection's turn began
  struct {
    std::uint32_t large_writes = 0, produced = 0;  ///< of the QP, and by its receive CQ
  } turn_began_at_;
  bool tells_of_writes_ = false;           ///< the last turn did
  std::uint8_t small_turns_ = 0;           ///< in a row, up to the number that makes it brisk
  std::uint8_t turns_since_bulk_ = kTurnsSinceBulk;  ///< up to that
  std::uint8_t emss_doublings_ = 0;                  ///< of the pause before it is asked again
  std::unique_ptr<TransmitBuffer> batch_;    ///< while unsent
  std::unique_ptr<SplicedBatches> spliced_;  ///< once something was
  /// Of the TCP handshake, of lingering, of a responder's wait for the first FPDU, and of a message
  /// that waits for a receive although its sender left.
  std::optional<Instant> deadline_;
  Instant refused_until_;                   ///< until then a refusal is tried again
  Instant emss_checked_;
  std::size_t emss_ = 0;
  int end_error_ = 0;  ///< why the stream ended, for Disconnected
  std::uint32_t emss_weight_ = 0;  ///< of what was sent since emss_checked_
  const char* end_text_ = "";
  const std::shared_ptr<ListenerPlaces> places_;  ///< null: we connected
  Place place_ = Place::None;
  struct {
    bool told = false;
    std::uint16_t ird = 0, ord = 0;
  } peer_depths_;  ///< kept for an Established that comes with the first FPDU
  HangUp hang_up_ = HangUp::None;  ///< seen while a message is held back
  bool released_ = false;
  bool disconnected_ = false;       ///< by our program
  bool established_ = false;        ///< Established was reported
  bool awaits_first_fpdu_ = false;  ///< responder in peer-to-peer mode: Established comes with it
  bool held_back_ = false;          ///< a Send waits for a receive buffer: do not read
  bool short_fpdus_ = false;        ///< the core was told of a smaller EMSS: turns are short
  bool blocked_ = false;            ///< the transport took less than offered
  bool send_lost_ = false;          ///< the transport takes no more; what it holds is read first
  bool fin_sent_ = false;
  bool peer_closed_ = false;
};

/// Of thousands of connections that take turns none is in the cache any more. What the next ones
/// need is asked for while others are served, in steps, each of which follows what the one before
/// it brought. `ahead`: the connection that is served after so many others, or null; it may be
/// another one's place, which does no harm.
inline constexpr std::size_t kWholeAhead = 6;
template <typename Ahead>
void prefetch_ahead(Ahead ahead) {
  constexpr std::size_t kParts = 4, kRings = 2;
  if (const Connection* c = ahead(kWholeAhead)) c->prefetch_whole();
  if (const Connection* c = ahead(kParts)) c->prefetch_parts();
  if (const Connection* c = ahead(kRings)) c->prefetch_rings();
}

}  // namespace weft::engine
