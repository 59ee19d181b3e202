// The QP's life: storage, streams, and the inputs that are not octets.
#include "core/qp/qp.h"

#include <algorithm>
#include <cerrno>
#include <type_traits>

namespace weft::core {
namespace {

constexpr std::size_t kStorageAlignment = 64;

/// Hands out the parts of the storage, or only counts them when there is none.
class Carver {
 public:
  explicit Carver(std::uint8_t* base) : base_(base) {}
  std::uint8_t* take(std::size_t octets) {
    std::uint8_t* part = base_ ? base_ + used_ : nullptr;
    used_ += (octets + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment;
    return part;
  }
  std::size_t used() const { return used_; }

 private:
  std::uint8_t* base_;
  std::size_t used_ = 0;
};

struct Parts {
  std::uint8_t *work, *reads, *inbound_reads, *send_sges, *receive_sges, *pieces;
};

// The RTR Read has a slot of its own on both sides: RFC 6581 §9.1 lets a responder whose IRD is 0
// raise it to 1 for that purpose, and an initiator whose ORD is 0 still sends one.
std::uint32_t read_slots(const QPConfig& config) { return config.ord_max + 1u; }
std::uint32_t inbound_read_slots(const QPConfig& config) {
  return std::max<std::uint32_t>(config.ird_max, 1);
}

Parts carve(const QPConfig& config, Carver& carver) {
  Parts parts;
  // What every message needs first, so that it shares pages.
  parts.receive_sges = carver.take(sizeof(SGE) * config.receive_sges);
  parts.pieces = carver.take(sizeof(PayloadPiece) * std::max<std::uint32_t>(config.send_sges, 1));
  parts.work = carver.take(Ring<OpenWork>::storage_octets(config.send_depth));
  parts.send_sges = carver.take(sizeof(SGE) * config.send_sges * config.send_depth);
  parts.reads = carver.take(Ring<OpenRead>::storage_octets(read_slots(config)));
  parts.inbound_reads = carver.take(Ring<InboundRead>::storage_octets(inbound_read_slots(config)));
  return parts;
}

/// Of what is written before it is read; nothing is touched here (ring.h).
template <typename T>
T* array_in(std::uint8_t* storage) {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  return reinterpret_cast<T*>(storage);
}

}  // namespace

std::size_t QP::storage_octets(const QPConfig& config) {
  Carver carver(nullptr);
  carve(config, carver);
  return carver.used();
}

QP::QP(const QPConfig& config, WorkQueues& queues, Mover& mover, MemoryTable& memory,
       MutableOctets storage)
    : config_(config), queues_(queues), mover_(mover), memory_(memory) {
  weft_assert(storage.size() >= storage_octets(config));
  weft_assert(reinterpret_cast<std::uintptr_t>(storage.data()) % kStorageAlignment == 0);
  Carver carver(storage.data());
  const Parts parts = carve(config, carver);
  open_work_ = Ring<OpenWork>(parts.work, config.send_depth);
  open_reads_ = Ring<OpenRead>(parts.reads, read_slots(config));
  inbound_reads_ = Ring<InboundRead>(parts.inbound_reads, inbound_read_slots(config));
  send_sges_ = array_in<SGE>(parts.send_sges);
  receive_sges_ = array_in<SGE>(parts.receive_sges);
  pieces_ = array_in<PayloadPiece>(parts.pieces);
}

// The only place that changes the state. False: the table has no such row.
bool QP::step(QPEvent event) {
  const std::optional<QPState> to = next_state(state_, event);
  if (!to) return false;
  state_ = *to;
  return true;
}

void QP::forget_stream() {
  open_reads_.clear();
  inbound_reads_.clear();
  receive_ = {};
  write_octets_ = 0;
  write_ended_ = immediate_kept_ = false;
  outbound_ = OutboundMessage::None;
  work_turn_ = rtr_pending_ = first_fpdu_arrived_ = false;
  //= DDP-06
  send_msn_ = read_msn_ = expected_send_msn_ = expected_read_msn_ = MSN{1};
  atomic_response_msn_ = expected_atomic_response_msn_ = MSN{1};
  produced_ = accepted_ = placed_ = flush_position_ = 0;
  nudges_ = 0;
  nudge_at_.reset();
  forget_landing();
  peer_closed_ = terminate_pending_ = peer_gone_ = false;
  lost_status_ = WorkStatus::Flushed;
  terminate_sent_.reset();
  terminate_received_.reset();
  deadline_.reset();
  action_ = LLPAction::None;
  notice_first_ = notice_count_ = notices_given_ = 0;
}

//= CON-02
Result<void> QP::bind_stream(const StreamParameters& stream, std::size_t emss, Instant now) {
  if (!step(QPEvent::BindStream)) return Error{EINVAL, "bind_stream: the QP is not Idle"};
  forget_stream();
  bound_ = true;
  stream_ = stream;
  settle_ord();
  //= RDM-23 SEC-08
  ird_ = std::min<std::uint32_t>(stream.ird, inbound_reads_.capacity());
  framer_ = Framer(stream.transmit_markers, stream.crc, &mover_, config_.gather_octets_min);
  deframer_ = Deframer(stream.receive_markers, stream.crc, &mover_);
  handle_emss(emss);
  lone_cut_ = LoneCut::None;
  if (stream.terminate_with) {
    protocol_error(*stream.terminate_with, nullptr, now);
  } else if (stream.role == Role::Initiator) {
    rtr_ = stream.rtr;
    rtr_pending_ = stream.rtr != RTR::None;
    plan_nudge(now);
  }
  return {};
}

//= RDM-23
// 0x3fff says that the ULPs settle the depth among themselves: only our own bound holds then.
void QP::settle_ord() {
  stream_ord_ = std::min(stream_.ord, config_.ord_max);
  ord_ = std::min<std::uint32_t>(stream_ord_, ord_limit_);
}

void QP::set_ord(std::uint16_t ord) {
  ord_limit_ = ord;
  if (bound_) settle_ord();
}

//= MPA-02, MPA-22
void QP::handle_emss(std::size_t emss) {
  mulpdu_ = static_cast<std::uint32_t>(wire::mulpdu(emss, stream_.transmit_markers));
}

void QP::handle_sent(std::size_t octets, Instant) {
  if (state_ == QPState::Idle) return;  // of a stream that was reset
  accepted_ += octets;
  weft_assert(accepted_ <= produced_);
  if (state_ == QPState::RTS || state_ == QPState::Terminate) retire();
  if (state_ == QPState::Terminate) flush_queues();
}

void QP::handle_local_error(wire::TermError error, Instant now) {
  protocol_error(error, nullptr, now);
}

std::optional<QPNotice> QP::poll_notice() {
  if (notice_count_ == 0) return {};
  --notice_count_;
  return notices_[notice_first_++];
}

std::uint32_t QP::reads_open() const { return open_reads_.size(); }
std::uint32_t QP::inbound_reads_open() const { return inbound_reads_.size(); }
std::optional<wire::TermError> QP::terminate_sent() const { return terminate_sent_; }
std::optional<wire::TermError> QP::terminate_received() const { return terminate_received_; }

}  // namespace weft::core
