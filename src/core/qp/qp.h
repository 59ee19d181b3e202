// The queue pair: RDMAP and DDP over one MPA stream, from work requests to completions
// (RFC 5040, RFC 5041, verbs draft §6). Sans-I/O.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/octet_list.h"
#include "base/result.h"
#include "base/time.h"
#include "core/host.h"
#include "core/memory/memory_table.h"
#include "core/mpa/deframer.h"
#include "core/mpa/framer.h"
#include "core/mpa/startup.h"
#include "core/qp/open_work.h"
#include "core/qp/qp_state.h"
#include "core/qp/ring.h"
#include "core/transmit_batch.h"
#include "core/work.h"
#include "wire/terminate.h"

namespace weft::core {

/// Fixed at creation.
struct QPConfig {
  PD pd;
  PD receive_pd;                    ///< the shared RQ's PD, else the same
  StreamId stream;                  ///< this QP among all of the device; not 0
  std::uint32_t send_depth = 16;    ///< send queue WRs open at once, 1..32768
  std::uint32_t send_sges = 4;      ///< 1..kSGECountMax
  std::uint32_t receive_sges = 4;   ///< 1..kSGECountMax
  std::uint16_t ord_max = 128;      ///< Reads we may have open: bounds StreamParameters::ord
  std::uint16_t ird_max = 128;      ///< Reads the peer may have open: bounds StreamParameters::ird
  bool strict_receive = false;      ///< no receive posted: Terminate 1/2/02 instead of holding back
  /// Sends and Writes complete when the peer has placed them (probe.cc), and not when the transport
  /// has taken them; then its refusal comes back on the WR. Not on a stream whose ORD is 0.
  bool complete_placed = false;
  std::size_t gather_octets_min = 8 * 1024;  ///< longer payloads are sent from where they lie
  Duration close_timeout = std::chrono::seconds(5);  ///< bound on Closing and Terminate
};

/// What handle_octets did with what was offered.
struct Received {
  std::size_t consumed = 0;  ///< octets done with; offer the rest again, with more behind it
  std::size_t wanted = 0;    ///< octets in all that the next FPDU needs to make progress; 0: any,
                             ///< of an FPDU that has not begun too
  bool held_back = false;    ///< a Send waits for a receive: call again (with the same octets) when
                             ///< one is posted. Stop reading the socket until then.
};

/// Memory for the rest of one FPDU's payload.
struct Landing {
  std::uint8_t* place = nullptr;
  std::size_t octets = 0;
  std::size_t landed = 0;   ///< of which are there (handle_landed)
  std::size_t trailer = 0;  ///< octets of the FPDU behind its payload: PAD and CRC
  std::size_t header = 0;   ///< and of what precedes the payload, as in a next one of its kind
  /// If the peer goes on as it began, so many FPDUs of the same message follow that are as long as
  /// this one. Of each so much payload belongs right behind that of the one before; that memory is
  /// to be filled by this message in any case, and nobody else's until it is whole.
  std::size_t followers = 0;
  std::size_t payload = 0;
};

/// What the transport has to do.
enum class LLPAction : std::uint8_t {
  None,
  CloseGracefully,  ///< FIN after all that poll_transmit gave; keep reading until the peer's
  Reset,            ///< drop the connection now
};

/// Something the consumer's control side is told about.
struct QPNotice {
  enum class Kind : std::uint8_t {
    FirstFPDUArrived,   ///< responder: transmission is open now (peer-to-peer: the RTR came)
    TerminateSent,      ///< `error`
    TerminateArrived,   ///< `error`
    PeerClosed,         ///< FIN
    LLPLost,
    Closed,             ///< the stream is over and both queues are flushed: last notice of a stream
  } kind;
  wire::TermError error{};
};

/// One QP.
///
/// Invariants: every WR taken from WorkQueues completes exactly once, each queue in posting order;
/// never more than ord Reads open; messages of one direction are never interleaved (a Terminate
/// alone may cut in between two segments); no octet is placed before CRC and all checks passed,
/// but where the place is ours to know (find_landing).
/// Outputs are drained after every call in this order: poll_transmit, poll_llp_action, poll_notice.
/// Threads: none of its own; the engine's progress lock covers every call.
class QP {
 public:
  /// How a message of a little more than a longest FPDU is cut, if it is alone.
  enum class LoneCut : std::uint8_t {
    None,      ///< as every other
    Long,      ///< into the longest FPDUs, a Write too
    ShortEnd,  ///< so that the last one is a kShortEndOf-th of it
  };
  /// Of 64 KiB over loopback: a quarter 0.94 of the time of two halves, an eighth 0.90, a
  /// thirty-second 0.95.
  static constexpr std::uint32_t kShortEndOf = 8;

  /// Octets of storage for the queues of open work.
  static std::size_t storage_octets(const QPConfig&);
  /// `storage` aligned to 64, at least storage_octets(config); it, the mover, the queues and the
  /// table outlive the QP.
  QP(const QPConfig&, WorkQueues&, Mover&, MemoryTable&, MutableOctets storage);
  ~QP() { memory_.release_stream(config_.stream); }
  QP(const QP&) = delete;
  QP& operator=(const QP&) = delete;

  QPState state() const { return state_; }
  const StreamParameters& stream() const { return stream_; }

  // Inputs.
  /// Idle -> RTS: MPA startup is over, full operation begins in both directions at this octet.
  /// A responder transmits nothing before the first FPDU arrived (CON-15); an initiator in
  /// peer-to-peer mode sends its RTR first. EINVAL unless Idle.
  Result<void> bind_stream(const StreamParameters&, std::size_t emss, Instant now);
  /// The transport's effective MSS changed (RFC 5044 §5.1).
  void handle_emss(std::size_t emss);
  /// From now on; of a new stream it is None.
  void set_lone_cut(LoneCut cut) { lone_cut_ = cut; }
  /// Octets that arrived, from the first one not consumed yet. Processes every whole FPDU, but
  /// takes at most a bounded number per call; `wanted` == 0 and consumed > 0 means call again.
  Received handle_octets(const OctetList& arrived, Instant now);
  /// The rest of an FPDU's payload may be received straight into its place. `head`: what arrived of
  /// the FPDU at the front, from its first octet, into staging. Empty: it has none, or of less than
  /// `octets_min` octets, or not all in one run, or is not to be touched before its CRC is known:
  /// stage it. Ask again before every further receive, with the same `head`: if it has none then,
  /// the memory was taken back (handle_landing_fault). When it is full, offer the FPDU to
  /// finish_landed, and to handle_octets as [head][place][trailer and more].
  std::optional<Landing> find_landing(Octets head, std::size_t octets_min, Instant now);
  /// `octets` more of it were received. Tell at once, under the lock under which they came: another
  /// stream may use the same memory. False: they cannot be read any more (handle_landing_fault).
  bool handle_landed(Octets head, const Landing&, std::size_t octets);
  /// All of the payload landed, under the same lock under which find_landing() told of it, and
  /// `behind` is what was received behind it. Most of what a large message is made of is done with
  /// by that: `consumed` of `behind`. 0: offer the FPDU to handle_octets.
  Received finish_landed(Octets head, const Landing&, Octets behind);
  /// The place of what landed already is gone, or the transport cannot write to it (EFAULT). What
  /// of the FPDU lies in staging is to be offered as what it is: the QP drops it.
  void handle_landing_fault(Octets head, Instant now);
  /// The transport took `octets` more of what poll_transmit produced, in order.
  void handle_sent(std::size_t octets, Instant now);
  /// The transport could not read registered memory that a batch references (EFAULT).
  void handle_send_fault(Instant now);
  /// The same of memory that a batch was lent to answer a Read: no WR of ours is to blame.
  void handle_lent_fault(Instant now);
  void handle_peer_closed(Instant now);  ///< FIN
  void handle_llp_lost(Instant now);     ///< reset, time-out, or both halves closed after our FIN
  void handle_timeout(Instant now);
  /// An STag was deregistered: open references in an unsent batch are void (the engine tells).
  /// CQ overflow, a failed SRQ, ...: an error of ours that ends this stream (0/2/07 or 0/0/00).
  void handle_local_error(wire::TermError error, Instant now);

  /// The QP stands for one end of an InfiniBand connection: when the other end leaves, nothing is
  /// flushed. How long work may wait for it then is the host's to say. Holds until reset().
  void set_paired() { paired_ = true; }
  /// Its stream is over, or about to be, and nothing has been flushed.
  bool peer_gone() const { return peer_gone_; }
  /// Work in the send queue waits for it.
  bool misses_peer() const {
    return peer_gone_ && !send_queue_empty() && !(paused_ && sends_drained());
  }
  /// Work has waited long enough for a paired QP's peer: Error. The oldest WR of the send queue
  /// completes with RetryExceeded, everything behind it is flushed.
  Result<void> fail_unreachable(Instant now);

  // What the consumer may change at any time. reset() undoes all of it.
  /// What the peer may do with memory, whatever that memory allows: bits of RemoteWrite, RemoteRead
  /// and RemoteAtomic; all of them until set. A request beyond it is an access violation (RFC 5040
  /// §8.1.1), unless it is about no octet.
  void set_remote_access(std::uint32_t rights) { remote_access_ = rights; }
  /// Bounds the Reads and atomics that we have open, beside the stream's ORD.
  void set_ord(std::uint16_t ord);
  /// True: no WR is begun any more. Those that were go on, and what the peer asks for is answered.
  void pause_sends(bool paused) { paused_ = paused; }
  /// No WR is begun and not completed.
  bool sends_drained() const;

  // Commands of the consumer. EINVAL where the state table has no row.
  Result<void> close(Instant now);        ///< modify Closing: FIN if the SQ is empty, else BadClose
  Result<void> terminate(Instant now);    ///< modify Terminate: Terminate 0/0/00
  Result<void> fail(Instant now);         ///< modify Error: no Terminate; LLP reset; all WRs flush
  /// Error -> Idle, everything is flushed and windows tied to this QP are Invalid (modify RESET).
  Result<void> reset(Instant now);
  /// In Error (and Terminate, Closing): WRs posted since are flushed. Call when work was posted.
  void flush(Instant now);

  // Outputs.
  /// Builds FPDUs into the batch until it admits no more or nothing may be sent. True if it added
  /// any.
  bool poll_transmit(TransmitBatch&, Instant now);
  /// As poll_transmit, of no more than one message, and a short one; or of the Terminate that it
  /// leads to. False: it is none, or it failed, and poll_transmit is to be asked.
  bool poll_short(TransmitBatch&, Instant now);
  /// Enough staging for it.
  static constexpr std::size_t kShortStagingOctets = 4224;
  /// Would poll_transmit have something to add?
  bool wants_transmit() const;
  /// But for what is in the send queue: nothing to send, to do, to tell or to wait for. False may
  /// be wrong.
  bool is_quiet() const {
    return state_ == QPState::RTS && outbound_ == OutboundMessage::None &&
           inbound_reads_.empty() && !rtr_pending_ && !silent() &&
           !config_.complete_placed && action_ == LLPAction::None && notice_count_ == 0 &&
           !nudge_at_ &&
           (open_work_.empty() || open_work_[open_work_.size() - 1].phase != WorkPhase::Waiting);
  }
  bool has_llp_action() const { return action_ != LLPAction::None; }
  LLPAction poll_llp_action() { return std::exchange(action_, LLPAction::None); }
  std::optional<QPNotice> poll_notice();
  bool has_notice() const { return notice_count_ != 0; }
  /// In RTS the next nudge (nudge.cc), after it the end of a teardown's patience.
  std::optional<Instant> poll_timeout() const {
    return state_ == QPState::RTS ? nudge_at_ : deadline_;
  }

  /// The peer has said nothing yet, and may have missed what it was sent: it is about to be sent a
  /// little more (nudge.cc).
  bool nudge_is_due(Instant now) const {
    return state_ == QPState::RTS && nudge_at_ && now >= *nudge_at_;
  }
  /// It is known to have missed nothing.
  void forget_nudges() { nudge_at_.reset(); }

  // Readable at any time, for query and tests.
  std::uint32_t reads_open() const;          ///< ours, at the peer; atomics too
  std::uint32_t inbound_reads_open() const;  ///< the peer's, at us; atomics too
  std::optional<wire::TermError> terminate_sent() const;
  std::optional<wire::TermError> terminate_received() const;

  // The rest is private, one idea per file: qp.cc (life and inputs), outbound.cc (what goes next),
  // outbound_work.cc, probe.cc, nudge.cc, inbound*.cc (one per message kind;
  // inbound_run.cc), landing.cc,
  // terminate.cc, teardown.cc, flush.cc.
 private:
  enum class OutboundMessage : std::uint8_t { None, Work, Response };
  enum class SegmentFate : std::uint8_t { Consumed, HeldBack };

  // qp.cc
  bool step(QPEvent event);
  void forget_stream();
  // CON-15: not even a Terminate may leave a responder before the initiator's first FPDU is here.
  //= CON-15
  bool silent() const { return stream_.role == Role::Responder && !first_fpdu_arrived_; }
  void settle_ord();
  Result<std::uint8_t*, MemoryFault> check_remote(STag, std::uint64_t to, std::uint64_t octets,
                                                  std::uint32_t right) const;

  // outbound.cc
  static constexpr std::uint32_t kShortOctetsMax = 4096;  ///< of a short message
  /// Of so many octets, it is one, and one segment holds it.
  bool fits_short(std::uint32_t octets) const {
    return octets <= kShortOctetsMax && octets + wire::kDDPHeaderOctetsMax <= mulpdu_;
  }
  bool start_next(Instant now);
  Framed append(TransmitBatch&, Octets header, std::span<const PayloadPiece>, bool snapshot);
  std::uint32_t append_run(TransmitBatch&, Octets header, const std::uint8_t* payload,
                           std::uint32_t octets, std::uint32_t count);
  bool transmit_segment(TransmitBatch&, Instant now);
  bool transmit_rtr(TransmitBatch&);
  bool transmit_response(TransmitBatch&, Instant now);
  void go_on_with_response(TransmitBatch&, InboundRead&, Octets header, std::uint32_t octets);
  bool transmit_atomic_response(TransmitBatch&);
  void refuse_response(wire::TermError, Instant now);
  bool transmit_terminate(TransmitBatch&);

  // probe.cc
  bool is_handed_over(const OpenWork&) const;
  bool wants_probe() const;
  bool transmit_probe(TransmitBatch&);
  void confirm(const OpenRead&);
  void confirm_before(std::uint32_t index);

  // nudge.cc
  void plan_nudge(Instant now);
  void nudge(Instant now);

  // outbound_work.cc
  bool start_work(Instant now);
  bool take_work();
  void take_extras(OpenWork&, const SendWR&);
  WorkStatus perform_locally(const OpenWork&);
  bool may_start(const OpenWork&) const;
  bool work_waits() const;
  WorkStatus check_work(const OpenWork&) const;
  std::uint32_t segment_octets_max(const OpenWork&) const;
  bool is_lone_of_few(const OpenWork& work, std::uint32_t longest) const;
  bool transmit_work(TransmitBatch&, Instant now);
  bool is_short(const OpenWork&) const;
  bool transmit_short(TransmitBatch&, OpenWork&, Instant now);
  void finish_work(OpenWork&);
  void go_on_with_work(TransmitBatch&, OpenWork&, Octets header, std::uint32_t octets);
  bool transmit_read_request(TransmitBatch&, OpenWork&);
  bool transmit_immediate(TransmitBatch&, OpenWork&);
  bool transmit_atomic_request(TransmitBatch&, OpenWork&);
  void finish_request(OpenWork&, OpenRead&);
  std::optional<std::uint32_t> gather(OpenWork&, std::uint32_t octets);
  void fail_work(OpenWork&, WorkStatus, Instant now);
  wire::DDPHeader work_header(const OpenWork&, std::uint32_t octets) const;

  // inbound.cc
  Requester requester() const { return {config_.pd, config_.stream}; }
  SegmentFate handle_segment(UlpduCursor&, Instant now);
  bool expected_in_closing(wire::Opcode, std::size_t payload_octets) const;
  std::optional<wire::TermError> judge_header(const ArrivedSegment&) const;
  std::optional<wire::TermError> judge_queue(const wire::DDPHeader&) const;
  SegmentFate handle_send(const ArrivedSegment&, UlpduCursor&, Instant now);
  bool open_receive(const ArrivedSegment&, Instant now);
  SegmentFate handle_immediate(const ArrivedSegment&, UlpduCursor&, Instant now);
  bool deliver_kept_immediate(const ArrivedSegment&, Instant now);
  void complete_immediate(wire::Immediate, bool solicited);
  WorkStatus scatter(UlpduCursor&);
  void deliver_send(const ArrivedSegment&, Instant now);
  void complete_receive(WorkStatus, bool invalidated);
  bool put(std::uint8_t* target, Octets run);
  void handle_write(const ArrivedSegment&, UlpduCursor&, Instant now);
  std::size_t handle_lone_write(const OctetList& arrived);
  void handle_read_request(ArrivedSegment&, UlpduCursor&, Instant now);
  void handle_read_response(const ArrivedSegment&, UlpduCursor&, Instant now);
  void handle_atomic_request(const ArrivedSegment&, UlpduCursor&, Instant now);
  void handle_atomic_response(const ArrivedSegment&, UlpduCursor&, Instant now);
  static std::optional<wire::TermError> judge_only_segment(const ArrivedSegment&,
                                                           const UlpduCursor&,
                                                           std::size_t octets);
  void deliver_read(Instant now);
  void fail_read(const ArrivedSegment&, wire::TermError, WorkStatus, Instant now);
  void handle_terminate(UlpduCursor&, Instant now);
  void blame_work(const wire::Terminate&);

  // inbound_run.cc
  std::size_t handle_run(Octets arrived, std::size_t fpdu_octets, std::size_t most);

  // landing.cc
  void forget_landing() { landed_ = {}, landing_ = nullptr; }
  bool land_staged(Octets arrived, std::array<Octets, 3>& parts, Instant now);
  std::uint8_t* place_of(const ArrivedSegment&, std::size_t octets, Instant now);
  std::uint8_t* place_of_send(const ArrivedSegment&, std::size_t octets, Instant now);
  std::uint8_t* place_of_response(const ArrivedSegment&, std::size_t octets);
  std::uint8_t* place_of_write(const ArrivedSegment&, std::size_t octets);
  bool goes_on(std::uint8_t control, std::size_t payload);

  // inbound_write.cc
  /// For the Immediate Data that may follow: one more segment of a Write.
  void count_write(std::size_t octets, bool last) {
    if (write_ended_) write_octets_ = 0;
    write_octets_ += static_cast<std::uint32_t>(octets);
    write_ended_ = last;
  }
  std::size_t followers_of(const ArrivedSegment&, std::size_t payload);

  // terminate.cc
  void protocol_error(wire::TermError, const ArrivedSegment*, Instant now);
  void begin_terminate(wire::TermError, const ArrivedSegment*, Instant now);

  // teardown.cc
  void begin_closing(Instant now);
  void stop_work(Instant now);
  void bad_close();
  void enter_error(LLPAction);
  void notify(QPNotice::Kind, wire::TermError = {});
  bool send_queue_empty() const;

  // flush.cc
  void retire();
  void complete_work(const OpenWork&, WorkStatus);
  void flush_queues();
  void flush_sends();
  void flush_receives();

  const QPConfig config_;
  WorkQueues& queues_;
  Mover& mover_;
  MemoryTable& memory_;

  // What is open, in the storage.
  Ring<OpenWork> open_work_;
  Ring<OpenRead> open_reads_;
  Ring<InboundRead> inbound_reads_;
  SGE* send_sges_ = nullptr;          ///< send_sges for each slot of open_work_
  SGE* receive_sges_ = nullptr;       ///< of receive_
  PayloadPiece* pieces_ = nullptr;    ///< scratch of gather()
  OpenReceive receive_;

  QPState state_ = QPState::Idle;
  StreamParameters stream_;
  bool bound_ = false;                ///< a stream was bound and its Closed notice is still owed

  // The consumer's.
  static constexpr std::uint32_t kRemoteAll = kRemoteWrite | kRemoteRead | kRemoteAtomic;
  std::uint32_t remote_access_ = kRemoteAll;
  std::uint16_t ord_limit_ = 0xffff;
  bool paused_ = false;

  // Outbound.
  Framer framer_;
  std::uint32_t mulpdu_ = wire::kMulpduMin;
  LoneCut lone_cut_ = LoneCut::None;
  std::uint32_t ord_ = 0;             ///< for WRs: the stream's, or what the consumer set
  std::uint32_t stream_ord_ = 0;
  OutboundMessage outbound_ = OutboundMessage::None;  ///< the message whose segments go now
  bool work_turn_ = false;            ///< work, or a probe, waited for the last message, an answer
  bool rtr_pending_ = false;
  RTR rtr_ = RTR::None;               ///< its kind: the stream's, and a Write when it is a nudge
  std::uint8_t nudges_ = 0;           ///< times a nudge was due
  std::optional<Instant> nudge_at_;   ///< initiator: until the first FPDU arrived
  MSN send_msn_;                      ///< of our next Send
  MSN read_msn_;                      ///< of our next Read or Atomic Request
  std::uint64_t produced_ = 0;        ///< stream octets put into batches
  std::uint64_t accepted_ = 0;        ///< of which the transport took
  std::uint64_t placed_ = 0;          ///< of which the peer is known to have placed; see probe.cc
  std::uint64_t flush_position_ = 0;  ///< Terminate: the SQ is flushed once this much was accepted
  wire::Immediate immediate_;         ///< of the newest of open_work_
  wire::AtomicOperands operands_;     ///< likewise
  WindowBinding binding_;             ///< likewise
  MSN atomic_response_msn_;           ///< of our next Atomic Response

  // Inbound.
  Deframer deframer_;
  Summed landed_;  ///< of the FPDU at the front: staged head and landed payload
  const std::uint8_t* landing_ = nullptr;  ///< where that payload begins, if some of it landed
  std::uint32_t ird_ = 0;
  bool first_fpdu_arrived_ = false;
  MSN expected_send_msn_;
  MSN expected_read_msn_;
  MSN expected_atomic_response_msn_;
  std::uint32_t write_octets_ = 0;    ///< of the last Write since a message on queue 0
  bool write_ended_ = false;          ///< it is whole
  bool immediate_kept_ = false;       ///< for the Send that is to come
  bool kept_solicited_ = false;
  wire::Immediate kept_immediate_;

  // Teardown.
  bool peer_closed_ = false;
  bool terminate_pending_ = false;
  std::uint8_t terminate_octets_ = 0;
  std::uint8_t terminate_ulpdu_[wire::kTerminateOctetsMax];
  wire::TermError terminate_error_{};
  std::optional<wire::TermError> terminate_sent_;
  std::optional<wire::TermError> terminate_received_;
  bool paired_ = false;
  bool peer_gone_ = false;            ///< paired, the stream is over, and nothing is flushed yet
  WorkStatus lost_status_ = WorkStatus::Flushed;  ///< of the first WR that the send queue flushes
  std::optional<Instant> deadline_;
  LLPAction action_ = LLPAction::None;

  // Each kind of notice is given at most once a stream.
  static constexpr std::uint8_t kNoticesMax = 6;
  QPNotice notices_[kNoticesMax];
  std::uint8_t notice_first_ = 0;
  std::uint8_t notice_count_ = 0;
  std::uint8_t notices_given_ = 0;    ///< bit per kind
};

}  // namespace weft::core
