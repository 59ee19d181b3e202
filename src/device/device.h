// The face of the RNIC: the command channel, the doorbells and the events. What stands above this
// line never sees who runs the protocol.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>

#include "base/octets.h"
#include "base/result.h"
#include "base/time.h"
#include "device/entries.h"
#include "device/ring.h"
#include "device/sums.h"

namespace weft::device {

/// Names of things inside the device; 0 is never valid.
using PDNumber = std::uint32_t;
using CQNumber = std::uint32_t;
inline constexpr CQNumber kNoCQ = 0;
using SRQNumber = std::uint32_t;
using QPNumber = std::uint32_t;          ///< 24 bits
using ConnectionNumber = std::uint64_t;  ///< never reused: a stale one is refused (EINVAL)
using ListenerNumber = std::uint64_t;

/// Access rights of a region; the values of core::Access, which the engine asserts.
enum RegionAccess : std::uint32_t {
  kLocalWrite = 1u << 0,
  kRemoteWrite = 1u << 1,
  kRemoteRead = 1u << 2,
  kRemoteAtomic = 1u << 3,
  kWindowBind = 1u << 4,
  kZeroBased = 1u << 5,
  kNull = 1u << 7,  ///< no memory: reading gives zeros, what is written is lost; address is ignored
};

struct RegionRequest {
  PDNumber pd = 0;
  std::uint32_t access = 0;
  std::uint64_t address = 0;
  std::uint64_t octets = 0;
  std::uint64_t base_to = 0;  ///< TO of the first octet: the address, or the iova asked for
  QPNumber qp = 0;  ///< not 0: only this QP, and its peer, get in; and its peer may invalidate it
};

/// The values of core::WindowKind.
enum class WindowKind : std::uint8_t {
  Type1,  ///< bound to a region, it lets all QPs of its PD in
  Type2,  ///< only the one that bound it, whose peer may invalidate it
};

struct QPRequest {
  PDNumber pd = 0;
  CQNumber send_cq = 0;
  CQNumber receive_cq = 0;
  SRQNumber srq = 0;                ///< 0: an RQ of its own
  std::uint32_t send_depth = 1;     ///< 1..kQueueDepthMax
  std::uint32_t receive_depth = 1;  ///< ignored with an SRQ
  std::uint32_t send_sges = 1;      ///< 1..kSGECountMax
  std::uint32_t receive_sges = 1;
  std::uint32_t inline_octets = 0;  ///< 0..kInlineOctetsMax
  std::uint64_t cookie = 0;         ///< comes back in completions and events
  void* send_place = nullptr;       ///< where the rings are to lie, as for create_cq
  void* receive_place = nullptr;
};
inline constexpr std::uint32_t kQueueDepthMax = 32768;
inline constexpr std::uint32_t kCQDepthMax = 1u << 20;
inline constexpr std::uint16_t kReadDepthMax = 128;  ///< IRD and ORD of one QP

/// What create_qp grants: at least what was asked for. The rings stay valid until destroy_qp.
struct QPFace {
  QPNumber number = 0;
  Ring send;     ///< the host produces SendEntry
  Ring receive;  ///< the host produces ReceiveEntry; without capacity when the QP uses an SRQ
  std::uint32_t send_sges = 0;
  std::uint32_t receive_sges = 0;
  std::uint32_t inline_octets = 0;
};
struct SRQFace {
  SRQNumber number = 0;
  Ring receive;
  std::uint32_t sges = 0;
};
struct CQFace {
  CQNumber number = 0;
  Ring completions;  ///< the host consumes CompletionEntry
};

/// How long a CQ armed for any completion may keep its event back, to give one for many: until so
/// many completions are there, or until so long after the first of them, whichever is earlier.
/// Count and period 0: no bound of that kind, and without either, or with a count of 1, nothing is
/// kept back. A count alone may wait for ever.
struct CQModeration {
  std::uint16_t count = 0;
  std::uint16_t period_us = 0;
  bool off() const { return count == 1 || (count == 0 && period_us == 0); }
};

/// The verbs draft's states, as query_qp shows them.
enum class QPState : std::uint8_t { Idle, RTS, Closing, Terminate, Error };
struct QPStatus {
  QPState state = QPState::Idle;
  std::uint16_t ird = 0, ord = 0;
  std::uint16_t terminate_sent = 0, terminate_received = 0;  ///< 0xLTCC, with the flags below
  bool has_terminate_sent = false, has_terminate_received = false;
  bool sends_drained = false;  ///< no send is begun and not done
  bool peer_gone = false;      ///< paired: the stream is over, and nothing has been flushed
};
enum class QPCommand : std::uint8_t { Close, Terminate, Fail, Reset };

/// How long the sends of a paired QP wait for its peer before they fail; zero: for ever.
struct PairPatience {
  Duration to_find{};  ///< one that was not found yet, from the first send on
  Duration to_miss{};  ///< one that left
};

/// What of a QP may change while it lives. Reset brings the defaults back.
struct QPAttributes {
  /// What its peer may do, whatever the memory allows: kRemoteWrite, kRemoteRead, kRemoteAtomic.
  /// By default all. What goes beyond is refused as an access violation.
  std::optional<std::uint32_t> remote_access;
  /// Reads and atomics that we may have open, if the connection allows as many.
  std::optional<std::uint16_t> ord;
  /// Until it is set: for ever. When it is over the oldest send completes with RetryExceeded, the
  /// rest is flushed, and the QP is in Error.
  std::optional<PairPatience> patience;
  /// No send is begun any more; SendsDrained tells when those that were are done, if asked for.
  std::optional<bool> sends_paused;
  bool tell_drained = false;
};

/// Parameters of connect and accept.
struct ConnectRequest {
  QPNumber qp = 0;        ///< an Idle QP
  bool by_name = false;   ///< `qp` is the number that programs see: its name, if it has one
  std::uint16_t ird = 0;  ///< responder_resources: Reads the peer may open at us
  std::uint16_t ord = 0;  ///< initiator_depth: Reads we may open
  Octets private_data;    ///< copied before the call returns; at most 508 octets
};

/// Parameters of pair_qp.
struct PairRequest {
  QPNumber qp = 0;              ///< an Idle QP that has a name
  std::uint32_t peer = 0;       ///< the name of the QP at the other end
  sockaddr_storage local = {};  ///< our address in the pair, and the peer's; ports do not matter
  sockaddr_storage remote = {};
  std::uint16_t ird = 0;  ///< Reads the peer may open at us
  std::uint16_t ord = 0;  ///< Reads we may open
};

enum class ConnectionEventKind : std::uint8_t {
  Requested,     ///< on a listener: `connection` waits for accept or reject
  Established,   ///< RTS on both rings; `private_data` is the responder's (active side)
  Rejected,      ///< active side: by the peer's consumer
  Failed,        ///< never established: `error` is the errno (ECONNREFUSED, ETIMEDOUT, EPROTO ...)
  Disconnected,  ///< after Established: the stream is over and the QP's queues are flushed (or the
                 ///< QP is gone); exactly once. Not ended by disconnect() here: it comes when what
                 ///< was completed before is read, or 50 ms later.
};

struct ConnectionEvent {
  ConnectionEventKind kind;
  ConnectionNumber connection = 0;
  /// Of connect/accept; of the listener for Requested, and for Failed when the peer left before its
  /// request was answered (the connection number is void then).
  std::uint64_t cookie = 0;
  int error = 0;            ///< Failed, Rejected (ECONNREFUSED), Disconnected (0, or why)
  const char* text = "";    ///< a static sentence for people, with Failed and Disconnected
  bool has_depths = false;  ///< the peer told its IRD/ORD (RFC 6581)
  std::uint16_t peer_ird = 0, peer_ord = 0;
  Octets private_data;                     ///< valid during the call only
  sockaddr_storage local = {}, peer = {};  ///< Requested, Established
};

enum class AsyncEventKind : std::uint8_t {
  CQError,         ///< overflow; cookie of the CQ
  QPFatal,         ///< local catastrophic error; cookie of the QP
  QPRequestError,  ///< the peer was terminated for a bad request (protocol); cookie of the QP
  QPAccessError,   ///< the peer was terminated for an access violation; cookie of the QP
  SRQLimit,        ///< fewer receives than the limit; cookie of the SRQ
  LastReceive,     ///< a QP with an SRQ is in Error and will take no more receives
  SendsDrained,    ///< sends were paused, and no more is under way; cookie of the QP
};
struct AsyncEvent {
  AsyncEventKind kind;
  std::uint64_t cookie = 0;
};

/// Where the device reports. Called with the device's progress lock held, from whatever thread made
/// the progress: queue the event, wake the waiter, return; never block and never call the Device.
class Events {
 public:
  virtual void handle_completion_event(std::uint64_t cq_cookie) = 0;
  virtual void handle_async_event(const AsyncEvent&) = 0;
  virtual void handle_connection_event(const ConnectionEvent&) = 0;

 protected:
  ~Events() = default;
};

/// What the poster of a list of sends knows of it. Advice: a device may gather lists.
struct Posted {
  std::uint32_t entries = 0;  ///< in this list
  std::uint32_t open = 0;     ///< posted before it, and not known to the program to be done
  std::uint64_t octets = 0;   ///< of payload that leaves with this list: a Read's come back
};

/// One RNIC. Every call may come from any thread. Control calls may wait for the progress lock;
/// doorbells and poll do not wait.
/// What became of a thread's Device::sleep.
enum class Slept : std::uint8_t {
  Look,         ///< something happened: look whether it was what the thread waits for
  Interrupted,  ///< a signal handler ran
  NotHere,      ///< another thread does the work: wait elsewhere
};

/// For what a thread waits, and how long; all as ppoll has it.
struct Watched {
  pollfd* fds = nullptr;
  std::size_t count = 0;  ///< at most kWatchedMax
  const timespec* wait = nullptr;
  const sigset_t* mask = nullptr;
};
inline constexpr std::size_t kWatchedMax = 15;

class Device {
 public:
  virtual ~Device() = default;

  // Protection and memory. Errors: ENOMEM (limit reached), EINVAL (unknown number, bad rights),
  // EBUSY (destroy of something in use).
  virtual Result<PDNumber> create_pd() = 0;
  virtual Result<void> destroy_pd(PDNumber) = 0;
  virtual Result<std::uint32_t> register_region(const RegionRequest&) = 0;  ///< gives the STag
  virtual Result<void> reregister_region(std::uint32_t stag, const RegionRequest&) = 0;
  /// Returns when no placement into the region is under way, and none can start. EBUSY, as for
  /// reregister_region, while a window is bound to it.
  virtual Result<void> deregister_region(std::uint32_t stag) = 0;

  /// Gives the STag of an unbound window. A BindWindow binds it.
  virtual Result<std::uint32_t> allocate_window(PDNumber, WindowKind) = 0;
  /// Bound or not. The STag's key does not count: a bind that failed did not change it.
  virtual Result<void> deallocate_window(std::uint32_t stag) = 0;

  // Queues.
  /// `place`: memory of the host's for the ring, as large as device/ring_shape.h says and aligned
  /// (else EINVAL); it is the host's again when the ring is gone. Null: the device takes its own.
  /// `timed`: the host reads the entries' timestamps; else they say nothing, and cost nothing.
  virtual Result<CQFace> create_cq(std::uint32_t depth, std::uint64_t cookie, void* place = nullptr,
                                   bool timed = true) = 0;
  virtual Result<void> destroy_cq(CQNumber) = 0;  ///< EBUSY while a QP uses it
  /// Moves the unread entries to a new ring; ENOSPC when they do not fit. The caller holds its own
  /// consumer lock and uses the returned face from then on; the old ring is gone.
  virtual Result<CQFace> resize_cq(CQNumber, std::uint32_t depth, void* place = nullptr) = 0;
  /// Replaces what was set before; an event that is being kept back is given now. A completion with
  /// an error, a full CQ and what a solicited-only arming waits for give their event at once.
  /// EINVAL, ENOMEM, EMFILE or ENFILE (no timer): all is as before.
  virtual Result<void> moderate_cq(CQNumber, const CQModeration&) = 0;
  virtual Result<SRQFace> create_srq(PDNumber, std::uint32_t depth, std::uint32_t sges,
                                     std::uint64_t cookie, void* place = nullptr) = 0;
  virtual Result<void> destroy_srq(SRQNumber) = 0;
  /// Arms the SRQ limit event: fires once when fewer than `limit` receives are left; 0 disarms.
  virtual Result<void> set_srq_limit(SRQNumber, std::uint32_t limit) = 0;
  virtual Result<QPFace> create_qp(const QPRequest&) = 0;
  /// Ends the stream (reset if still connected) and drops the queues without completions.
  virtual Result<void> destroy_qp(QPNumber) = 0;
  virtual Result<void> command_qp(QPNumber, QPCommand) = 0;
  virtual Result<void> modify_qp(QPNumber, const QPAttributes&) = 0;
  /// `sums`, which live as long as the QP, may have those of what its Writes send. EINVAL: no such
  /// QP.
  virtual Result<void> take_sums(QPNumber, Sums& /*sums*/) {
    return Error{ENOTSUP, "the device makes all sums itself"};
  }
  virtual Result<QPStatus> query_qp(QPNumber) = 0;
  /// From now on what the QP's peer writes through this STag may stay with the device for a while,
  /// where nobody else reads the region's memory, and is told of as if it were in its place.
  /// `count`, which outlives the QP and the region, is how many pieces stay; while it is not 0 the
  /// region is to be read by read_written(). Ends with the region. EINVAL: no such QP or region, or
  /// one that peers may read; ENOMEM.
  virtual Result<void> keep_writes(QPNumber, std::uint32_t /*stag*/,
                                   std::atomic<std::uint32_t>& /*count*/) {
    return Error{ENOTSUP, "the device places all at once"};
  }
  /// Copies out of that region, as is told of by now. What is read without `peek` is not read
  /// again. False: `target` is no memory, or all is in its place by now: the caller is to copy.
  virtual bool read_written(QPNumber, std::uint8_t* /*target*/, Octets /*source*/, bool /*peek*/) {
    return false;
  }

  // Connections. Addresses are AF_INET or AF_INET6. Results arrive as ConnectionEvents.
  virtual Result<ListenerNumber> listen(const sockaddr* local, int backlog, bool v6_only,
                                        std::uint64_t cookie) = 0;
  virtual Result<void> listener_address(ListenerNumber, sockaddr_storage* local) = 0;
  /// Connections that wait for accept/reject live on; half-open startups are dropped.
  virtual Result<void> close_listener(ListenerNumber) = 0;
  /// `local` may be null or have port 0.
  virtual Result<ConnectionNumber> connect(const sockaddr* local, const sockaddr* remote,
                                           const ConnectRequest&, std::uint64_t cookie) = 0;
  virtual Result<void> accept(ConnectionNumber, const ConnectRequest&, std::uint64_t cookie) = 0;
  virtual Result<void> reject(ConnectionNumber, Octets private_data) = 0;
  /// Graceful close of an established connection (what rdma_disconnect does). ENOTCONN if it is
  /// over.
  virtual Result<void> disconnect(ConnectionNumber) = 0;
  /// The consumer forgets this connection: no more events; resets it if still being set up.
  virtual Result<void> release(ConnectionNumber) = 0;

  // Pairs: connections as InfiniBand makes them, by the two QPs' names and addresses. Neither side
  // listens, either may come first, and no ConnectionEvent tells; a pair that is up is in RTS.
  /// Gives a QP the name by which a peer finds it, for as long as it lives: 24 bits, unique on this
  /// host and of this moment; the upper 16 are a TCP port of this process. Again: the same name.
  virtual Result<std::uint32_t> name_qp(QPNumber) = 0;
  /// Begins to look for the peer; it has to do the same. EINVAL: the QP is not Idle or has no name,
  /// or it is to be its own peer. reset (command_qp) ends the search.
  virtual Result<void> pair_qp(const PairRequest&) = 0;

  // Doorbells: entries were published on that ring.
  virtual void ring_send(QPNumber, const Posted&) = 0;
  virtual void ring_receive(QPNumber) = 0;
  virtual void ring_shared_receive(SRQNumber) = 0;
  /// One event for the next completion (or the next solicited one).
  virtual Result<void> arm_cq(CQNumber, bool solicited_only) = 0;

  // Progress.
  /// Called by a consumer that found this CQ empty: runs the protocol in this thread if nobody else
  /// is at it, mostly for the streams that complete there. kNoCQ: for all alike. Never blocks.
  virtual void poll(CQNumber empty) = 0;
  /// Engine inline: readable when progress() has something to do, else -1 (a thread does it).
  virtual int progress_fd() const = 0;
  /// Engine inline: does what is due; called by blocking calls between waits. `timeout_ms()` bounds
  /// the wait (-1: none).
  virtual void progress() = 0;
  virtual int timeout_ms() = 0;
  /// A thread that has to wait until `events` is above 0 is the RNIC meanwhile, which saves it the
  /// switch from the thread that would be. In the kernel it has `mask`; called with all that the
  /// program may take blocked, so that no handler runs elsewhere and goes unnoticed, or with a lock
  /// held. A cancellation point. Engine inline: always NotHere.
  virtual Slept sleep(const std::atomic<std::uint32_t>& /*events*/, const sigset_t& /*mask*/) {
    return Slept::NotHere;
  }
  /// The same for a thread that waits for descriptors, among them those of its events: as ppoll,
  /// whose results are in `watched` when it looks. No cancellation point.
  virtual Slept sleep_among(const Watched& /*watched*/) { return Slept::NotHere; }
  /// For the thread that was in sleep_among and left it by a jump out of a signal handler.
  virtual void abandon_sleep() {}
  /// The process is about to end, and malloc may wait for ever. Nobody is told of connections that
  /// begin or end any more, and what is over stays where it is.
  virtual void prepare_exit() {}
  /// Called after `events` was counted up. True: a thread that sleeps for it will look, and needs
  /// no other sign.
  virtual bool end_sleep(const std::atomic<std::uint32_t>& /*events*/) { return false; }
};

}  // namespace weft::device
