// Queue pairs: the producer's side of the send and receive queues, and their lifetime.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/result.h"
#include "device/device.h"
#include "verbs/async_queue.h"
#include "verbs/cq.h"
#include "verbs/open_sends.h"
#include "verbs/pd.h"
#include "verbs/places.h"
#include "verbs/receive_queue.h"
#include "verbs/ring_place.h"
#include "verbs/spin_lock.h"
#include "verbs/srq.h"

namespace weft::verbs {

struct QPShape {
  PD* pd = nullptr;
  CQ* send_cq = nullptr;
  CQ* receive_cq = nullptr;
  SRQ* srq = nullptr;            ///< null: a receive queue of its own
  std::uint32_t send_depth = 0;  ///< 0 is made 1, as are the next three
  std::uint32_t receive_depth = 0;
  std::uint32_t send_sges = 0;
  std::uint32_t receive_sges = 0;
  std::uint32_t inline_octets = 0;
  bool signal_all = false;             ///< every send queue entry gives a completion
  bool one_thread = false;             ///< at a time posts: no locks are needed for that
  bool named = false;                  ///< may be paired: its public number is its name
  RingAllocator* allocator = nullptr;  ///< if not null, it outlives the QP, whose rings it places
};

/// Calls match `open use* close`. Threads: any; close excludes all others.
class QP {
 public:
  /// Error: EINVAL (a shape above the device's limits), ENOMEM.
  Result<void> open(const QPShape& shape, AsyncQueue& async, void* owner);
  /// Ends the connection if there is one, drops the queues and what completions of it were not yet
  /// polled. Waits for unacknowledged events.
  Result<void> close();

  Result<void> command(device::QPCommand command) {
    return shape_.pd->device().command_qp(number_, command);
  }
  /// Looks for a peer (device::Device::pair_qp); only of a QP that was opened as `named`.
  Result<void> pair(device::PairRequest request) {
    request.qp = number_;
    return shape_.pd->device().pair_qp(request);
  }
  Result<void> modify(const device::QPAttributes& attributes) {
    return shape_.pd->device().modify_qp(number_, attributes);
  }
  /// Drops the completions that were not polled yet.
  void purge();
  Result<device::QPStatus> status() { return shape_.pd->device().query_qp(number_); }

  /// One list of sends: `SendBatch (next commit)* finish`, then ring_send if finish says so. The
  /// send queue's lock is held in between; the doorbell is rung outside it, because it may run the
  /// protocol.
  class SendBatch {
   public:
    explicit SendBatch(QP& qp)
        : qp_(qp), guard_(qp.send_lock_), produced_(qp.send_.produced_own()), first_(produced_) {}
    /// Room for one entry with up to send_sges SGEs or inline_octets of data, or null when the
    /// queue is full.
    device::SendEntry* next() {
      if (!qp_.send_places_.free(qp_.send_, produced_)) return nullptr;
      return static_cast<device::SendEntry*>(qp_.send_.entry(produced_));
    }
    /// What next() gave is filled.
    void commit() {
      const auto& entry = *static_cast<const device::SendEntry*>(qp_.send_.entry(produced_));
      posted_.octets += entry.leaving_octets();
      if ((entry.flags & device::kSignaled) != 0) {
        ++list_.signaled;
        list_.covered = list_.silent;
        list_.silent = 0;
      } else {
        ++list_.silent;
      }
      ++produced_;
    }
    /// Takes back what was committed so far.
    void abort() { produced_ = first_; }
    /// Publishes what was committed. True: there is something, to ring for with posted().
    bool finish() {
      posted_.entries = list_.entries = produced_ - first_;
      const bool any = posted_.entries != 0;
      if (any) {
        posted_.open =
            qp_.open_sends_.open(qp_.send_places_.polled(), qp_.shape_.send_cq->empty_polls());
        qp_.open_sends_.add(list_);
        qp_.send_.publish(produced_);
      }
      guard_.unlock();
      return any;
    }
    const device::Posted& posted() const { return posted_; }

   private:
    QP& qp_;
    std::unique_lock<SpinLock> guard_;
    std::uint32_t produced_;
    std::uint32_t first_;
    OpenSends::List list_;
    device::Posted posted_;
  };
  void ring_send(const device::Posted& posted) { shape_.pd->device().ring_send(number_, posted); }

  /// As device::Device says of them. Once, and before the first copy_summed().
  Result<void> sum_sends();
  void copy_summed(std::uint8_t* target, Octets source) { sums_->copy(target, source); }
  Result<void> keep_writes(std::uint32_t stag, std::atomic<std::uint32_t>& count) {
    return shape_.pd->device().keep_writes(number_, stag, count);
  }
  bool read_written(std::uint8_t* target, Octets source, bool peek) {
    return shape_.pd->device().read_written(number_, target, source, peek);
  }

  /// Not with an SRQ.
  ReceiveQueue& receives() { return receives_; }
  void ring_receive() { shape_.pd->device().ring_receive(number_); }

  /// A completion of this QP was polled, or dropped: its place may be posted to again.
  void handle_polled(device::CompletionOpcode opcode) {
    if (opcode != device::CompletionOpcode::Receive) {
      send_places_.handle_polled();
    } else if (shape_.srq == nullptr) {
      receives_.handle_polled();
    }
  }

  device::QPNumber number() const { return number_; }
  /// What programs know it by: the device's number, or the name if it has one.
  std::uint32_t public_number() const { return public_number_; }
  /// As granted: at least what was asked for.
  const QPShape& shape() const { return shape_; }
  AsyncQueue& async() { return *async_; }
  AsyncEventState& async_events() { return async_events_; }

 private:
  SpinLock send_lock_;
  device::Ring send_;
  Places send_places_;
  OpenSends open_sends_;
  ReceiveQueue receives_;
  QPShape shape_;
  RingPlace send_place_, receive_place_;
  device::QPNumber number_ = 0;
  std::uint32_t public_number_ = 0;
  std::unique_ptr<device::Sums> sums_;
  AsyncQueue* async_ = nullptr;
  AsyncEventState async_events_;
};

}  // namespace weft::verbs
