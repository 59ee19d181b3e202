// Posting receives: the same for a QP's own receive queue and for a shared one.
#pragma once

#include <cstdint>
#include <mutex>

#include "device/entries.h"
#include "device/ring.h"
#include "verbs/places.h"
#include "verbs/spin_lock.h"

namespace weft::verbs {

/// The producer's side of a receive ring. Threads: any number post; they take turns by the lock.
class ReceiveQueue {
 public:
  void open(const device::Ring& ring, std::uint32_t sges_max) {
    ring_ = ring;
    sges_max_ = sges_max;
  }
  /// One thread at a time posts.
  void turn_lock_off() { lock_.turn_off(); }
  std::uint32_t depth() const { return ring_.capacity(); }
  /// A completion of a receive was polled. Not of a shared queue, whose places are free once taken.
  void handle_polled() { places_.handle_polled(); }
  std::uint32_t sges_max() const { return sges_max_; }

  /// One list of receives: `Batch (next commit)* finish`. Holds the queue's lock until finish.
  class Batch {
   public:
    explicit Batch(ReceiveQueue& queue)
        : queue_(queue), guard_(queue.lock_), produced_(queue.ring_.produced_own()) {
      first_ = produced_;
    }
    /// Room for one entry with up to sges_max SGEs, or null when the queue is full.
    device::ReceiveEntry* next() {
      if (!queue_.places_.free(queue_.ring_, produced_)) return nullptr;
      return static_cast<device::ReceiveEntry*>(queue_.ring_.entry(produced_));
    }
    void commit() { ++produced_; }
    /// Publishes what was committed. True: there is something, ring the doorbell.
    bool finish() {
      const bool any = produced_ != first_;
      if (any) queue_.ring_.publish(produced_);
      guard_.unlock();
      return any;
    }

   private:
    ReceiveQueue& queue_;
    std::unique_lock<SpinLock> guard_;
    std::uint32_t produced_;
    std::uint32_t first_;
  };

 private:
  SpinLock lock_;
  device::Ring ring_;
  Places places_;
  std::uint32_t sges_max_ = 0;
};

}  // namespace weft::verbs
