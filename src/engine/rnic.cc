// The RNIC's resources: PD, MR, CQ, SRQ, QP.
#include "engine/rnic.h"

#include <sys/mman.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "engine/rnic_entry.h"
#include "engine/rnic_listener.h"
#include "engine/thread/progress_thread.h"

namespace weft::engine {

namespace {

constexpr std::uint32_t kQPSlotMask = kQPCountMax - 1;
constexpr Error kNoPD{EINVAL, "no such protection domain"};

/// Random octets from the kernel, for STags that nobody can guess.
std::uint64_t random64() {
  std::uint64_t value = 0;
  while (::getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

/// Zeroed memory of which only what is touched becomes real: a million regions cost nothing unused.
std::uint8_t* reserve_memory(std::size_t octets) {
  void* p = ::mmap(nullptr, octets, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(p);
}

void release_memory_table(std::uint8_t* storage) {
  if (storage != nullptr) ::munmap(storage, core::MemoryTable::storage_octets(kRegionCountMax));
}

}  // namespace

class Rnic::ThreadHolder {
 public:
  explicit ThreadHolder(Rnic& rnic) : thread(rnic) {}
  ProgressThread thread;
};

Rnic::Rnic(const Settings& settings, device::Events& events, transport::Transport& transport)
    : settings_(settings),
      events_(events),
      transport_(transport),
      memory_storage_(reserve_memory(core::MemoryTable::storage_octets(kRegionCountMax)),
                      release_memory_table),
      pd_users_(1, 1),
      srqs_(new std::atomic<SharedReceiveQueue*>[kSRQCountMax]()),
      qps_(new std::atomic<QueuePair*>[kQPCountMax]()),
      qp_generations_(kQPCountMax, 0) {}

Rnic::~Rnic() {
  thread_.reset();
  connections_.clear();
  if (null_memory_ != nullptr) ::munmap(null_memory_, 2 * core::kNullOctets);
  for (std::uint32_t slot = 0; slot < kQPCountMax; ++slot) {
    delete qps_[slot].load(std::memory_order_relaxed);
  }
  for (std::uint32_t number = 0; number < kSRQCountMax; ++number) {
    delete srqs_[number].load(std::memory_order_relaxed);
  }
}

Result<void> Rnic::start() {
  if (memory_storage_ == nullptr) return Error{ENOMEM, "no address space for the memory table"};
  memory_.emplace(
      MutableOctets(memory_storage_.get(), core::MemoryTable::storage_octets(kRegionCountMax)),
      kRegionCountMax);
  if (const Result<void> opened = poller_.open(); !opened) return opened;
  GuardedMover::install_handler();
  tick();
  if (settings_.engine == Placement::Thread) {
    nap_.open();
    thread_ = std::make_unique<ThreadHolder>(*this);
  }
  return {};
}

Result<device::PDNumber> Rnic::create_pd() try {
  Entry entry(*this);
  for (device::PDNumber pd = 1; pd < pd_users_.size(); ++pd) {
    if (pd_users_[pd] == 0) {
      pd_users_[pd] = 1;
      return pd;
    }
  }
  if (pd_users_.size() >= kPDCountMax) return Error{ENOMEM, "too many protection domains"};
  pd_users_.push_back(1);
  return static_cast<device::PDNumber>(pd_users_.size() - 1);
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
}

bool Rnic::is_pd(device::PDNumber pd) const {
  return pd != 0 && pd < pd_users_.size() && pd_users_[pd] != 0;
}

Result<void> Rnic::destroy_pd(device::PDNumber pd) {
  Entry entry(*this);
  if (!is_pd(pd)) return kNoPD;
  if (pd_users_[pd] != 1 || memory_->region_count({pd}) != 0) {
    return Error{EBUSY, "the protection domain is still used by a region, window, QP or SRQ"};
  }
  pd_users_[pd] = 0;
  return {};
}

Result<core::RegionAttributes> Rnic::region_attributes(const device::RegionRequest& r) {
  static_assert(int{device::kNull} == int{core::kNull} &&
                int{device::kZeroBased} == int{core::kZeroBased});
  if (!is_pd(r.pd)) return kNoPD;
  if ((r.access & device::kNull) != 0) {
    if (null_memory_ == nullptr) null_memory_ = reserve_memory(2 * core::kNullOctets);
    if (null_memory_ == nullptr) return Error{ENOMEM, "no address space for a null region"};
    return core::RegionAttributes{
        .pd = {r.pd}, .access = r.access, .address = null_memory_, .octets = r.octets};
  }
  return core::RegionAttributes{
      .pd = {r.pd},
      .stream = {r.qp},
      .access = r.access,
      .base_to = (r.access & device::kZeroBased) != 0 ? 0 : r.base_to,
      .address = reinterpret_cast<std::uint8_t*>(static_cast<std::uintptr_t>(r.address)),
      .octets = r.octets};
}

Result<std::uint32_t> Rnic::register_region(const device::RegionRequest& request) {
  GuardedMover::install_handler();
  Entry entry(*this);
  const auto attributes = region_attributes(request);
  if (!attributes) return attributes.error();
  const Result<STag> stag = memory_->register_region(*attributes, random64());
  if (!stag) return stag.error();
  return stag->value;
}

Result<void> Rnic::reregister_region(std::uint32_t stag, const device::RegionRequest& request) {
  GuardedMover::install_handler();
  Entry entry(*this);
  const auto attributes = region_attributes(request);
  if (!attributes) return attributes.error();
  const std::optional<core::RegionAttributes> before = memory_->find({stag});
  end_keeping(stag);
  if (const Result<void> done = memory_->reregister({stag}, *attributes); !done) return done;
  // The same memory with other rights is the program's to take back no more than before.
  const bool moved = before && (before->address != attributes->address ||
                                before->octets != attributes->octets);
  if (moved) end_users_of(*before);
  return {};
}

Result<void> Rnic::deregister_region(std::uint32_t stag) {
  // The lock is what "waits for placement under way" means here: placement happens under it.
  Entry entry(*this);
  const std::optional<core::RegionAttributes> region = memory_->find({stag});
  if (const Result<void> done = memory_->deregister({stag}); !done) return done;
  end_keeping(stag);
  if (region) end_users_of(*region);
  return {};
}

/// Streams with something unsent in memory that was a region's: the program may do with it what it
/// likes when the call returns.
void Rnic::end_users_of(const core::RegionAttributes& gone) {
  if ((gone.access & core::kNull) != 0) return;  // what is referenced of a null region stays
  for (auto& [number, connection] : connections_) {
    if (connection->misses(gone, *memory_)) {
      connection->handle_memory_gone();
      connection->serve();
    }
  }
}

Result<std::uint32_t> Rnic::allocate_window(device::PDNumber pd, device::WindowKind kind) {
  static_assert(static_cast<int>(device::WindowKind::Type2) ==
                static_cast<int>(core::WindowKind::Type2));
  Entry entry(*this);
  if (!is_pd(pd)) return kNoPD;
  const Result<STag> stag =
      memory_->allocate_window({pd}, static_cast<core::WindowKind>(kind), random64());
  if (!stag) return stag.error();
  return stag->value;
}

Result<void> Rnic::deallocate_window(std::uint32_t stag) {
  // As with a region, the lock is what waits for placement under way. No batch of ours references a
  // window: what a peer reads through it is sent or copied before the lock is released.
  Entry entry(*this);
  return memory_->deallocate_window({stag});
}

Result<device::CQFace> Rnic::create_cq(std::uint32_t depth, std::uint64_t cookie, void* place,
                                       bool timed) try {
  if (depth == 0 || depth > device::kCQDepthMax) return Error{EINVAL, "impossible CQ depth"};
  Result<RingMemory> memory = CompletionQueue::make_memory(depth, place);
  if (!memory) return memory.error();
  Entry entry(*this);
  if (cqs_.size() >= kCQCountMax) return Error{ENOMEM, "too many CQs"};
  const device::CQNumber number = next_cq_++;
  auto cq = std::make_unique<CompletionQueue>(number, std::move(*memory), cookie, timed);
  const device::CQFace face{number, cq->ring()};
  // So that handle_cq_overflow has room, in the middle of a connection's work.
  if (overflowed_.capacity() <= cqs_.size()) overflowed_.reserve(2 * cqs_.size() + 8);
  cqs_.emplace(number, std::move(cq));
  return face;
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
}

Result<void> Rnic::destroy_cq(device::CQNumber number) {
  Entry entry(*this);
  const auto it = cqs_.find(number);
  if (it == cqs_.end()) return Error{EINVAL, "no such CQ"};
  if (it->second->users != 0) return Error{EBUSY, "the CQ is still used by a QP"};
  std::erase(overflowed_, it->second.get());
  std::erase(moderated_, it->second.get());
  cqs_.erase(it);
  return {};
}

Result<device::CQFace> Rnic::resize_cq(device::CQNumber number, std::uint32_t depth, void* place) {
  if (depth == 0 || depth > device::kCQDepthMax) return Error{EINVAL, "impossible CQ depth"};
  Entry entry(*this);
  const auto it = cqs_.find(number);
  if (it == cqs_.end()) return Error{EINVAL, "no such CQ"};
  if (const Result<void> resized = it->second->resize(depth, place); !resized)
    return resized.error();
  if (it->second->full_hold() && it->second->end_hold()) handle_cq_notify(*it->second);
  return device::CQFace{number, it->second->ring()};
}

Result<void> Rnic::moderate_cq(device::CQNumber number,
                               const device::CQModeration& moderation) try {
  Entry entry(*this);
  const auto it = cqs_.find(number);
  if (it == cqs_.end()) return Error{EINVAL, "no such CQ"};
  CompletionQueue* cq = it->second.get();
  if (moderation.period_us != 0) {
    if (const Result<void> opened = poller_.open_timer(); !opened) return opened;
  }
  if (moderation.off()) {
    std::erase(moderated_, cq);
  } else if (std::find(moderated_.begin(), moderated_.end(), cq) == moderated_.end()) {
    moderated_.push_back(cq);
  }
  cq->moderate(moderation);
  if (cq->end_hold()) handle_cq_notify(*cq);
  return {};
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
}

Result<device::SRQFace> Rnic::create_srq(device::PDNumber pd, std::uint32_t depth,
                                         std::uint32_t sges, std::uint64_t cookie,
                                         void* place) try {
  if (depth == 0 || depth > device::kQueueDepthMax || sges == 0 || sges > device::kSGECountMax) {
    return Error{EINVAL, "impossible SRQ depth or SGE count"};
  }
  Result<RingMemory> memory = SharedReceiveQueue::make_memory(depth, sges, place);
  if (!memory) return memory.error();
  Entry entry(*this);
  if (!is_pd(pd)) return kNoPD;
  for (device::SRQNumber number = 1; number < kSRQCountMax; ++number) {
    if (srqs_[number].load(std::memory_order_relaxed) != nullptr) continue;
    auto srq = std::make_unique<SharedReceiveQueue>(number, core::PD{pd}, std::move(*memory), sges,
                                                    cookie);
    const device::SRQFace face{number, srq->ring, sges};
    srqs_[number].store(srq.release(), std::memory_order_release);
    ++pd_users_[pd];
    return face;
  }
  return Error{ENOMEM, "too many SRQs"};
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
}

Result<void> Rnic::destroy_srq(device::SRQNumber number) {
  Entry entry(*this);
  SharedReceiveQueue* srq = find_srq(number);
  if (srq == nullptr) return Error{EINVAL, "no such SRQ"};
  if (!srq->users.empty()) return Error{EBUSY, "the SRQ is still used by a QP"};
  --pd_users_[srq->pd.value];
  srqs_[number].store(nullptr, std::memory_order_release);
  delete srq;
  return {};
}

Result<void> Rnic::set_srq_limit(device::SRQNumber number, std::uint32_t limit) {
  Entry entry(*this);
  SharedReceiveQueue* srq = find_srq(number);
  if (srq == nullptr) return Error{EINVAL, "no such SRQ"};
  if (limit > srq->ring.capacity()) return Error{EINVAL, "SRQ limit beyond its depth"};
  srq->limit = limit;
  srq->step(limit != 0 ? core::SRQInput::Arm : core::SRQInput::Disarm);
  return {};
}

SharedReceiveQueue* Rnic::find_srq(device::SRQNumber number) {
  return number < kSRQCountMax ? srqs_[number].load(std::memory_order_acquire) : nullptr;
}

Result<device::QPFace> Rnic::create_qp(const device::QPRequest& request) try {
  if (request.send_depth == 0 || request.send_depth > device::kQueueDepthMax ||
      (request.srq == 0 &&
       (request.receive_depth == 0 || request.receive_depth > device::kQueueDepthMax)) ||
      request.send_sges == 0 || request.send_sges > device::kSGECountMax ||
      request.receive_sges == 0 || request.receive_sges > device::kSGECountMax ||
      request.inline_octets > device::kInlineOctetsMax) {
    return Error{EINVAL, "impossible QP depth, SGE count or inline size"};
  }
  Entry entry(*this);
  const auto send_cq = cqs_.find(request.send_cq);
  const auto receive_cq = cqs_.find(request.receive_cq);
  if (send_cq == cqs_.end() || receive_cq == cqs_.end()) return Error{EINVAL, "no such CQ"};
  if (!is_pd(request.pd)) return kNoPD;
  SharedReceiveQueue* srq = nullptr;
  if (request.srq != 0) {
    srq = find_srq(request.srq);
    if (srq == nullptr) return Error{EINVAL, "no such SRQ"};
  }
  if (qp_count_ >= kQPCountMax - 1) return Error{ENOMEM, "too many QPs"};
  // Slots are reused as late as possible, and then under another generation.
  while (qp_search_ == 0 || qps_[qp_search_].load(std::memory_order_relaxed) != nullptr) {
    qp_search_ = (qp_search_ + 1) & kQPSlotMask;
  }
  const std::uint32_t slot = qp_search_;
  qp_search_ = (qp_search_ + 1) & kQPSlotMask;
  const device::QPNumber number = (std::uint32_t{qp_generations_[slot]} << 16) | slot;

  core::QPConfig config;
  config.pd = {request.pd};
  config.receive_pd = srq != nullptr ? srq->pd : core::PD{request.pd};
  config.stream = {number};
  config.send_depth = request.send_depth;
  config.send_sges = request.send_sges;
  config.receive_sges = srq != nullptr ? srq->sges : request.receive_sges;
  config.ord_max = config.ird_max = device::kReadDepthMax;
  config.strict_receive = settings_.strict_receive;
  config.complete_placed = settings_.complete_placed;
  config.close_timeout = settings_.close_timeout;
  Result<QueuePairMemory> storage = QueuePairMemory::make(request, config);
  if (!storage) return storage.error();
  auto qp = std::make_unique<QueuePair>(
      number, request, config, static_cast<QueuePairOwner&>(*this), *send_cq->second,
      *receive_cq->second, srq, mover_, *memory_, std::move(*storage));
  if (srq != nullptr) srq->users.push_back(qp.get());
  ++send_cq->second->users;
  ++receive_cq->second->users;
  ++pd_users_[request.pd];
  ++qp_count_;
  const device::QPFace face = qp->face();
  qps_[slot].store(qp.release(), std::memory_order_release);
  return face;
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
}

Result<void> Rnic::destroy_qp(device::QPNumber number) {
  Entry entry(*this);
  QueuePair* qp = find_qp(number);
  if (qp == nullptr) return Error{EINVAL, "no such QP"};
  serve_rung();  // it may be on that stack
  rendezvous_.forget(*qp);
  if (qp->connection != nullptr) qp->connection->detach_qp();
  --qp->send_cq().users;
  --qp->receive_cq().users;
  --pd_users_[qp->pd().value];
  if (qp->srq() != nullptr) std::erase(qp->srq()->users, qp);
  if (qp->kept_writes != nullptr) keepers_.erase(qp->kept_writes->stag());
  const std::uint32_t slot = number & kQPSlotMask;
  qps_[slot].store(nullptr, std::memory_order_release);
  ++qp_generations_[slot];
  --qp_count_;
  delete qp;
  return {};
}

Result<void> Rnic::take_sums(device::QPNumber number, device::Sums& sums) {
  Entry entry(*this);
  QueuePair* qp = find_qp(number);
  if (qp == nullptr) return Error{EINVAL, "no such QP"};
  qp->sums = &sums;
  return {};
}

Result<void> Rnic::keep_writes(device::QPNumber number, std::uint32_t stag,
                               std::atomic<std::uint32_t>& count) try {
  Entry entry(*this);
  QueuePair* qp = find_qp(number);
  if (qp == nullptr) return Error{EINVAL, "no such QP"};
  const std::optional<core::RegionAttributes> region = memory_->find({stag});
  if (!region || (region->access & (core::kRemoteRead | core::kRemoteAtomic | core::kNull)) != 0) {
    return Error{EINVAL, "no region that only its owner reads"};
  }
  if (qp->kept_writes != nullptr || keepers_.contains(stag)) {
    return Error{EINVAL, "the QP keeps another region's Writes, or another QP this one's"};
  }
  auto kept = std::make_unique<KeptWrites>(stag, count);
  keepers_.emplace(stag, qp);
  qp->kept_writes = std::move(kept);
  return {};
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
}

bool Rnic::read_written(device::QPNumber number, std::uint8_t* target, Octets source, bool peek) {
  QueuePair* qp = find_qp(number);
  if (lock_.is_held_here()) {
    if (qp != nullptr && qp->kept_writes != nullptr) qp->kept_writes->peek(target, source);
    return qp != nullptr && qp->kept_writes != nullptr;
  }
  lock_.lock();
  const bool read = qp != nullptr && qp->read_written(target, source, peek);
  Entry::leave(*this);
  return read;
}

/// The region goes, or becomes another: what it was is to be whole.
void Rnic::end_keeping(std::uint32_t stag) {
  const auto found = keepers_.find(stag);
  if (found == keepers_.end()) return;
  found->second->place_kept_writes();
  found->second->kept_writes.reset();
  keepers_.erase(found);
}

Result<void> Rnic::command_qp(device::QPNumber number, device::QPCommand command) {
  Entry entry(*this);
  QueuePair* qp = find_qp(number);
  if (qp == nullptr) return Error{EINVAL, "no such QP"};
  if (command == device::QPCommand::Fail || command == device::QPCommand::Reset) {
    rendezvous_.stop_search(*qp);
  }
  Result<void> result;
  switch (command) {
    case device::QPCommand::Close:
      if (qp->connection != nullptr) qp->connection->await_spliced();
      result = qp->core().close(now_);
      break;
    case device::QPCommand::Terminate:
      result = qp->core().terminate(now_);
      break;
    case device::QPCommand::Fail:
      result = qp->core().fail(now_);
      break;
    case device::QPCommand::Reset:
      result = qp->core().reset(now_);
      if (qp->sums != nullptr) qp->sums->drop();
      break;
  }
  if (qp->core().state() == core::QPState::Error) {
    if (qp->connection != nullptr) qp->connection->abort_setup("the QP was moved to Error");
    if (qp->srq() == nullptr) qp->want_receive();
  } else if (qp->core().state() == core::QPState::Idle) {
    qp->unwant_receive();
    qp->drain_awaited = false;
    qp->last_receive_reported = qp->fatal_reported = false;
  }
  serve(*qp);
  tell_last_receive(*qp);
  return result;
}

/// Who is in Error without a stream takes no receive of its SRQ any more. Of the others the end of
/// the stream tells; and a paired QP whose peer has left is in Error only for us.
void Rnic::tell_last_receive(QueuePair& qp) {
  const bool over = qp.core().state() == core::QPState::Error && qp.connection == nullptr &&
                    !qp.core().peer_gone();
  if (qp.srq() == nullptr || !over || std::exchange(qp.last_receive_reported, true)) return;
  report_async(device::AsyncEventKind::LastReceive, qp);
}

Result<void> Rnic::modify_qp(device::QPNumber number, const device::QPAttributes& wanted) try {
  Entry entry(*this);
  QueuePair* qp = find_qp(number);
  if (qp == nullptr) return Error{EINVAL, "no such QP"};
  core::QP& core = qp->core();
  if (wanted.remote_access) core.set_remote_access(*wanted.remote_access);
  if (wanted.ord) core.set_ord(*wanted.ord);
  if (wanted.patience) rendezvous_.set_patience(*qp, *wanted.patience);
  if (!wanted.sends_paused) return {};
  core.pause_sends(*wanted.sends_paused);
  qp->drain_awaited = *wanted.sends_paused && wanted.tell_drained;
  serve(*qp);
  if (qp->take_drained()) report_async(device::AsyncEventKind::SendsDrained, *qp);
  return {};
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
}

Result<device::QPStatus> Rnic::query_qp(device::QPNumber number) {
  Entry entry(*this);
  QueuePair* qp = find_qp(number);
  if (qp == nullptr) return Error{EINVAL, "no such QP"};
  core::QP& core = qp->core();
  device::QPStatus status;
  status.state = static_cast<device::QPState>(core.state());
  status.sends_drained = core.sends_drained();
  status.peer_gone = core.peer_gone();
  status.ird = core.stream().ird;
  status.ord = core.stream().ord;
  if (const auto sent = core.terminate_sent()) {
    status.has_terminate_sent = true;
    status.terminate_sent = static_cast<std::uint16_t>(*sent);
  }
  if (const auto received = core.terminate_received()) {
    status.has_terminate_received = true;
    status.terminate_received = static_cast<std::uint16_t>(*received);
  }
  return status;
}

QueuePair* Rnic::find_qp(device::QPNumber number) {
  QueuePair* qp = qps_[number & kQPSlotMask].load(std::memory_order_acquire);
  return qp != nullptr && qp->number() == number ? qp : nullptr;
}

QueuePair* Rnic::find_qp(const device::ConnectRequest& request) {
  QueuePair* named = request.by_name ? rendezvous_.find(request.qp) : nullptr;
  return named != nullptr ? named : find_qp(request.qp);
}

Result<void> Rnic::arm_cq(device::CQNumber number, bool solicited_only) {
  Entry entry(*this);
  const auto it = cqs_.find(number);
  if (it == cqs_.end()) return Error{EINVAL, "no such CQ"};
  CompletionQueue& cq = *it->second;
  note_arming();
  if (cq.arm(solicited_only)) {
    handle_cq_notify(cq);
  } else if (cq.wants_timer()) {
    handle_cq_hold(cq);
  }
  return {};
}

void Rnic::handle_cq_notify(CompletionQueue& cq) {
  events_.handle_completion_event(cq.cookie());
}

void Rnic::handle_cq_hold(CompletionQueue& cq) {
  const Instant deadline = exact_now() + cq.period();
  cq.hold_until(deadline);
  // An earlier one, even of a hold that is over, comes first and sets the next: so the timer is set
  // about once in a period, not once in a hold.
  if (hold_timer_ && *hold_timer_ <= deadline) return;
  hold_timer_ = deadline;
  set_timer();
}

void Rnic::handle_cq_overflow(CompletionQueue& cq) {
  overflowed_.push_back(&cq);
}

void Rnic::handle_completion_lost(QueuePair& qp) {
  // Of one that is ending, nobody counts on them any more.
  if (is_ending(qp)) return;
  qp.completion_lost = some_completion_lost_ = true;
}

void Rnic::handle_srq_limit(SharedReceiveQueue& srq) {
  events_.handle_async_event({device::AsyncEventKind::SRQLimit, srq.cookie});
}

void Rnic::report(const device::ConnectionEvent& event) {
  if ((event.cookie & kRendezvousCookie) != 0) return rendezvous_.note(event);
  if (exits_) return;
  events_.handle_connection_event(event);
}

void Rnic::report_end(const device::ConnectionEvent& end, QueuePair& qp) {
  const CompletionQueue &sends = qp.send_cq(), &receives = qp.receive_cq();
  const bool all_read = sends.is_read(sends.produced()) && receives.is_read(receives.produced());
  if (all_read || exits_ || (end.cookie & kRendezvousCookie) != 0) return report(end);
  try {
    late_ends_.add(end, {sends.number(), sends.produced()},
                   {receives.number(), receives.produced()}, now_);
  } catch (const std::bad_alloc&) {
    return report(end);  // rather early than never
  }
  wake_at(*late_ends_.deadline());
}

void Rnic::report_async(device::AsyncEventKind kind, QueuePair& qp) {
  const bool srq_event = kind == device::AsyncEventKind::SRQLimit;
  events_.handle_async_event({kind, srq_event ? qp.srq()->cookie : qp.cookie()});
}

}  // namespace weft::engine
