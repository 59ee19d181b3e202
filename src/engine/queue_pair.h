// A QP on the device side: its rings on one hand, the core's QP on the other.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "core/qp/qp.h"
#include "device/device.h"
#include "engine/answer_habit.h"
#include "engine/completion_queue.h"
#include "engine/gathering.h"
#include "engine/kept_writes.h"
#include "engine/ring_memory.h"
#include "engine/shared_receive_queue.h"

namespace weft::engine {

class Connection;
class QueuePair;

/// What a QP reports while the core is at work; handled after the core returned.
class QueuePairOwner {
 public:
  virtual void handle_cq_notify(CompletionQueue&) = 0;
  virtual void handle_cq_hold(CompletionQueue&) = 0;
  virtual void handle_cq_overflow(CompletionQueue&) = 0;
  /// It completes on a CQ that had overflowed before.
  virtual void handle_completion_lost(QueuePair&) = 0;
  virtual void handle_srq_limit(SharedReceiveQueue&) = 0;
  /// Read once for all that one call into the core completes.
  virtual Instant exact_now() = 0;

  Arrivals all_arrivals;  ///< counted by its QPs

 protected:
  ~QueuePairOwner() = default;
};

/// All that a QP needs of memory, taken before it is made.
struct QueuePairMemory {
  /// ENOMEM.
  static Result<QueuePairMemory> make(const device::QPRequest&, const core::QPConfig&);

  /// Pages of its own: of what a QP may have open only what it has open becomes real, and it does
  /// not lie between the small objects of others.
  struct Unmap {
    std::size_t octets;
    void operator()(void* p) const { ::munmap(p, octets); }
  };
  RingMemory send, receive;
  std::unique_ptr<std::uint8_t, Unmap> core;
  std::size_t core_octets() const { return core.get_deleter().octets; }
};

/// Translates ring entries to work requests and completions to CQ entries.
///
/// Invariants: a ring entry is copied, checked and used from the copy (its SGEs; inline octets stay
/// in the ring until their WR completes, and are snapshot into staging with their CRC); a send
/// queue slot is freed when its WR completes, a receive slot when it is taken; behind that the
/// ring's count of silent entries goes up if there is and will be no completion.
/// Threads: the progress lock, but for the atomics at the end.
class QueuePair final : public core::WorkQueues {
 public:
  QueuePair(device::QPNumber number, const device::QPRequest& request, const core::QPConfig& config,
            QueuePairOwner& owner, CompletionQueue& send_cq, CompletionQueue& receive_cq,
            SharedReceiveQueue* srq, core::Mover& mover, core::MemoryTable& memory,
            QueuePairMemory storage);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  core::QP& core() { return core_; }
  const core::QP& core() const { return core_; }
  /// All but what is only a place to copy to.
  void prefetch_whole() const {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(this);
    const auto* place = reinterpret_cast<const std::uint8_t*>(&sge_copy_);
    prefetch(begin, static_cast<std::size_t>(place - begin) + kCacheLine);
    prefetch(&core_, sizeof core_);
  }
  void prefetch_rings() const { send_.prefetch_indexes(); }
  device::QPNumber number() const { return number_; }
  device::QPFace face() const;
  CompletionQueue& send_cq() { return send_cq_; }
  CompletionQueue& receive_cq() { return receive_cq_; }
  /// The peer's Writes placed so far; and without those that may be a flag.
  std::uint32_t writes_placed() const { return writes_placed_; }
  std::uint32_t large_writes() const { return large_writes_; }
  SharedReceiveQueue* srq() { return srq_; }
  core::PD pd() const { return pd_; }
  std::uint64_t cookie() const { return request_.cookie; }
  /// SendsDrained is due: once for each time it was asked for.
  bool take_drained() {
    if (!drain_awaited || !core_.sends_drained()) return false;
    drain_awaited = false;
    return true;
  }
  /// How many entries of the send queue were not taken yet.
  std::uint32_t sends_pending() const { return send_.produced_seen() - sends_taken_; }
  /// A receive buffer is there to be taken.
  bool receive_pending() const;

  // core::WorkQueues
  bool take_send(core::SendWR& wr) override;
  bool send_pending() const override { return sends_pending() != 0; }
  bool take_receive(core::ReceiveWR& wr) override;
  bool take_receive_to_flush(core::ReceiveWR& wr) override;
  void complete(const core::Completion&) override;
  void handle_write_placed(std::size_t octets) override;
  std::optional<std::uint32_t> sum_of(const std::uint8_t* place, std::uint32_t octets,
                                      std::uint32_t segment) override {
    return sums == nullptr ? std::nullopt : sums->find(place, octets, segment);
  }
  bool keep_write(STag stag, std::uint8_t* target, Octets run) override {
    return kept_writes != nullptr && kept_writes->stag() == stag.value &&
           kept_writes->keep(target, run, mover_);
  }
  /// What is kept lies in memory that is needed now.
  void place_kept_writes() {
    if (keeps_writes()) kept_writes->place(mover_);
  }
  bool keeps_writes() const { return kept_writes != nullptr && !kept_writes->empty(); }
  bool read_written(std::uint8_t* target, Octets source, bool peek);

  device::Sums* sums = nullptr;             ///< null: the host makes none
  std::unique_ptr<KeptWrites> kept_writes;  ///< null: all are placed at once
  Connection* connection = nullptr;  ///< the one it is bound to, or null
  std::uint32_t name = 0;            ///< by which a peer finds it; 0: none (rendezvous.h)
  bool searching = false;            ///< for that peer
  device::PairPatience patience;     ///< with that peer
  bool drain_awaited = false;        ///< SendsDrained is to be reported
  bool last_receive_reported = false;
  bool completion_lost = false;  ///< and for that the QP is to end
  bool fatal_reported = false;  ///< QPFatal was, which says all about the Terminate that follows

  /// Doorbell: set by whoever rings, cleared by whoever serves. `next_rung` links the rung ones.
  std::atomic<bool> rung{false};
  QueuePair* next_rung = nullptr;
  Gathering gathering;
  /// Posting a receive needs attention: a message is held back, or the QP flushes what is posted.
  ///
  /// The consumer publishes an entry and then reads the flag (wants_receive); the engine sets the
  /// flag and then looks at the ring (want_receive). Both are read-modify-writes, so the later one
  /// sees what the earlier one released and no receive is left lying.
  void want_receive() {
    if (srq_ != nullptr) srq_->want_receive();
    receive_wanted_.exchange(1, std::memory_order_acq_rel);
  }
  void unwant_receive() { receive_wanted_.store(0, std::memory_order_relaxed); }
  bool wants_receive() { return receive_wanted_.fetch_or(0, std::memory_order_acq_rel) != 0; }

 private:
  std::atomic<std::uint32_t> receive_wanted_{0};
  void take_operands(device::SendEntry& shared, core::SendWR& wr);
  void take_binding(device::SendEntry& shared, core::SendWR& wr);
  void copy_receive(device::ReceiveEntry& shared, std::uint32_t sge_limit, core::ReceiveWR& wr);
  bool take_own_receive(core::ReceiveWR& wr);

  const device::QPNumber number_;
  const device::QPRequest request_;
  const core::PD pd_;
  QueuePairOwner& owner_;
  core::Mover& mover_;
  CompletionQueue& send_cq_;
  CompletionQueue& receive_cq_;
  std::uint32_t large_writes_ = 0;
  std::uint32_t writes_placed_ = 0;
  SharedReceiveQueue* const srq_;
  QueuePairMemory storage_;
  device::Ring send_, receive_;
  std::uint32_t sends_taken_ = 0;
  std::array<core::SGE, core::kSGECountMax> sge_copy_;
  wire::AtomicOperands operand_copy_;
  core::WindowBinding binding_copy_;
  core::QP core_;
};

}  // namespace weft::engine
