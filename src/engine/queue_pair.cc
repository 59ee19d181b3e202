// Ring entries to work requests, completions to CQ entries.
#include "engine/queue_pair.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

namespace weft::engine {

// The device line's enums and the core's carry the same values, so a cast translates.
static_assert(static_cast<int>(device::CompletionStatus::Fatal) ==
              static_cast<int>(core::WorkStatus::Fatal));
static_assert(static_cast<int>(device::CompletionStatus::Flushed) ==
              static_cast<int>(core::WorkStatus::Flushed));
static_assert(static_cast<int>(device::CompletionOpcode::Receive) ==
              static_cast<int>(core::WorkOpcode::Receive));
static_assert(static_cast<int>(device::SendOpcode::BindWindow) ==
              static_cast<int>(core::WorkOpcode::BindWindow));
static_assert(static_cast<int>(device::kZeroBased) == static_cast<int>(core::kZeroBased));
static_assert(sizeof(device::SGEntry) == sizeof(core::SGE));
static_assert(device::kSGECountMax == core::kSGECountMax);

namespace {

/// A Write this short is a flag or a counter that somebody looks at, not data
/// (docs/adr/0003-a-flag-written-wakes-an-armed-cq.md).
constexpr std::size_t kFlagOctetsMax = 8;

// The last of the opcodes that the host may post.
constexpr device::SendOpcode kSendOpcodeMax = device::SendOpcode::BindWindow;

}  // namespace

Result<QueuePairMemory> QueuePairMemory::make(const device::QPRequest& request,
                                              const core::QPConfig& config) {
  Result<RingMemory> send = RingMemory::make(device::send_ring(request), request.send_place);
  if (!send) return send.error();
  QueuePairMemory memory;
  memory.send = std::move(*send);
  if (request.srq == 0) {
    Result<RingMemory> receive = RingMemory::make(
        device::receive_ring(request.receive_depth, request.receive_sges), request.receive_place);
    if (!receive) return receive.error();
    memory.receive = std::move(*receive);
  }
  const std::size_t octets = core::QP::storage_octets(config);
  void* core = ::mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (core == MAP_FAILED) return Error{ENOMEM, "no memory for a QP of this size"};
  memory.core = {static_cast<std::uint8_t*>(core), {octets}};
  return memory;
}

QueuePair::QueuePair(device::QPNumber number, const device::QPRequest& request,
                     const core::QPConfig& config, QueuePairOwner& owner, CompletionQueue& send_cq,
                     CompletionQueue& receive_cq, SharedReceiveQueue* srq, core::Mover& mover,
                     core::MemoryTable& memory, QueuePairMemory storage)
    : number_(number),
      request_(request),
      pd_{config.pd},
      owner_(owner),
      mover_(mover),
      send_cq_(send_cq),
      receive_cq_(receive_cq),
      srq_(srq),
      storage_(std::move(storage)),
      send_(storage_.send.ring()),
      receive_(storage_.receive.ring()),
      core_(config, *this, mover, memory,
            MutableOctets(storage_.core.get(), storage_.core_octets())) {}

device::QPFace QueuePair::face() const {
  return {.number = number_,
          .send = send_,
          .receive = receive_,
          .send_sges = request_.send_sges,
          .receive_sges = request_.receive_sges,
          .inline_octets = request_.inline_octets};
}

bool QueuePair::receive_pending() const {
  return srq_ != nullptr ? !srq_->ring.empty() : !receive_.empty();
}

bool QueuePair::take_send(core::SendWR& wr) {
  if (!send_pending()) return false;
  auto* shared = static_cast<device::SendEntry*>(send_.entry(sends_taken_));
  ++sends_taken_;
  const device::SendEntry entry = *shared;  // from here on only the copy is believed

  wr.id = entry.wr_id;
  wr.signaled = (entry.flags & device::kSignaled) != 0;
  wr.solicited = (entry.flags & device::kSolicited) != 0;
  wr.read_fence = (entry.flags & device::kReadFence) != 0;
  wr.local_fence = (entry.flags & device::kLocalFence) != 0;
  wr.remote_stag = {entry.remote_stag};
  wr.remote_to = entry.remote_to;
  wr.invalidate_stag = {entry.invalidate_stag};
  // The verbs' four octets are the first of eight; what the others say is the core's affair.
  wr.immediate.value = std::uint64_t{be32toh(entry.immediate)} << 32;
  const bool is_inline = (entry.flags & device::kInline) != 0;
  const bool valid = entry.opcode <= kSendOpcodeMax &&
                     (is_inline ? entry.inline_octets <= request_.inline_octets
                                : entry.sge_count <= request_.send_sges);
  // An entry that makes no sense becomes a WR that makes no sense: the core completes it in error.
  wr.opcode = valid ? static_cast<core::WorkOpcode>(entry.opcode) : core::WorkOpcode::Receive;
  if (!valid) return true;
  if (is_inline) {
    wr.inline_data = Octets(shared->inline_data(), entry.inline_octets);
  } else {
    std::memcpy(static_cast<void*>(sge_copy_.data()), shared->sges(),
                entry.sge_count * sizeof(core::SGE));
    wr.sges = std::span(sge_copy_).first(entry.sge_count);
  }
  if (entry.opcode >= device::SendOpcode::FetchAdd) {
    entry.opcode == device::SendOpcode::BindWindow ? take_binding(*shared, wr)
                                                   : take_operands(*shared, wr);
  }
  return true;
}

void QueuePair::take_binding(device::SendEntry& shared, core::SendWR& wr) {
  const device::BindEntry entry = *shared.binding();
  // Rights that no window has are the core's to refuse: it knows them all.
  binding_copy_ = {wr.remote_stag, {entry.region_stag}, entry.to, entry.octets, entry.access};
  wr.binding = &binding_copy_;
}

void QueuePair::take_operands(device::SendEntry& shared, core::SendWR& wr) {
  constexpr std::uint64_t kAllBits = ~std::uint64_t{0};
  const device::AtomicEntry entry = *shared.atomic();
  operand_copy_ = {};
  operand_copy_.data = entry.operand;
  if (wr.opcode == core::WorkOpcode::CompareSwap) {
    operand_copy_.data_mask = operand_copy_.compare_mask = kAllBits;
    operand_copy_.compare = entry.compare;
  }
  wr.operands = &operand_copy_;
}

void QueuePair::copy_receive(device::ReceiveEntry& shared, std::uint32_t sge_limit,
                             core::ReceiveWR& wr) {
  const device::ReceiveEntry entry = shared;
  const std::uint32_t sges = std::min(entry.sge_count, sge_limit);
  std::memcpy(static_cast<void*>(sge_copy_.data()), shared.sges(), sges * sizeof(core::SGE));
  wr.id = entry.wr_id;
  wr.sges = std::span(sge_copy_).first(sges);
}

bool QueuePair::take_own_receive(core::ReceiveWR& wr) {
  if (receive_.empty()) return false;
  const std::uint32_t index = receive_.consumed_own();
  copy_receive(*static_cast<device::ReceiveEntry*>(receive_.entry(index)), request_.receive_sges,
               wr);
  receive_.release(index + 1);
  return true;
}

bool QueuePair::take_receive(core::ReceiveWR& wr) {
  if (srq_ == nullptr) return take_own_receive(wr);
  device::ReceiveEntry* const next = srq_->next();
  if (next == nullptr) return false;
  copy_receive(*next, srq_->sges, wr);
  srq_->release();
  // One of a shared queue is free once taken; one of our own gives a completion, sooner or later.
  srq_->ring.count_silent();
  const bool below = srq_->ring.produced_seen() - srq_->ring.consumed_own() < srq_->limit;
  if (below && srq_->step(core::SRQInput::Below)) owner_.handle_srq_limit(*srq_);
  return true;
}

bool QueuePair::take_receive_to_flush(core::ReceiveWR& wr) {
  return srq_ == nullptr && take_own_receive(wr);
}

void QueuePair::complete(const core::Completion& completion) {
  const bool receive = completion.opcode == core::WorkOpcode::Receive;
  if (receive) ++owner_.all_arrivals.receives;
  // Posting order within the queue, so the oldest slot is the one that ends.
  if (!receive) send_.release(send_.consumed_own() + 1);
  if (!receive && !completion.signaled) return send_.count_silent();

  device::CompletionEntry entry = {};
  entry.wr_id = completion.id;
  entry.qp_cookie = request_.cookie;
  CompletionQueue& cq = receive ? receive_cq_ : send_cq_;
  if (cq.timed()) entry.timestamp_ns = static_cast<std::uint64_t>(owner_.exact_now().ns);
  entry.qp_number = name != 0 ? name : number_;
  entry.octets = completion.octets;
  entry.invalidated_stag = completion.invalidated_stag.value;
  entry.status = static_cast<device::CompletionStatus>(completion.status);
  entry.opcode = static_cast<device::CompletionOpcode>(completion.opcode);
  if (completion.solicited) entry.flags |= device::kSolicitedEvent;
  if (completion.invalidated) entry.flags |= device::kInvalidated;
  if (completion.with != core::Completion::With::Nothing) {
    const bool alone = completion.with == core::Completion::With::Immediate;
    entry.flags |= alone ? device::kImmediate | device::kOfWrite : device::kImmediate;
    entry.immediate = completion.immediate.value;
  }

  switch (cq.push(entry)) {
    case CompletionQueue::Pushed::Notify:
      return owner_.handle_cq_notify(cq);
    case CompletionQueue::Pushed::Hold:
      return owner_.handle_cq_hold(cq);
    case CompletionQueue::Pushed::Overflowed:
      return owner_.handle_cq_overflow(cq);
    case CompletionQueue::Pushed::WasOverflowed:
      return owner_.handle_completion_lost(*this);
    case CompletionQueue::Pushed::Quiet:
      return;
  }
}

bool QueuePair::read_written(std::uint8_t* target, Octets source, bool peek) {
  if (kept_writes != nullptr && kept_writes->read(target, source, peek, mover_)) return true;
  place_kept_writes();
  return false;
}

void QueuePair::handle_write_placed(std::size_t octets) {
  ++writes_placed_;
  ++owner_.all_arrivals.writes;
  if (octets > kFlagOctetsMax) {
    ++large_writes_;
    return;
  }
  if (send_cq_.nudge()) owner_.handle_cq_notify(send_cq_);
  if (receive_cq_.nudge()) owner_.handle_cq_notify(receive_cq_);
}

}  // namespace weft::engine
