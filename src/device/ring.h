// A single-producer single-consumer ring of fixed-size entries in borrowed, position-independent
// memory: what SQ, RQ, SRQ and CQ are made of.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/prefetch.h"

namespace weft::device {

/// The shared part, at the front of the ring's memory. Indexes count entries and wrap at 2^32;
/// produced - consumed is the fill.
struct RingControl {
  alignas(64) std::atomic<std::uint32_t> produced;  ///< written by the producer only (release)
  alignas(64) std::atomic<std::uint32_t> consumed;  ///< written by the consumer only (release)
  /// Of a work queue: entries consumed that give no completion; written by the consumer only.
  std::atomic<std::uint32_t> silent;
  alignas(64) std::uint32_t capacity;  ///< a power of two
  std::uint32_t stride;                ///< octets per entry, a multiple of 64
};
static_assert(sizeof(RingControl) == 192);

/// One side's view of a ring. Copies its geometry at construction and never reads it again: the
/// other side may be another process.
///
/// Threads: one producer and one consumer at a time; each side brings its own lock if it has
/// several threads. produced (release) pairs with the consumer's acquire and the other way round.
class Ring {
 public:
  static std::size_t storage_octets(std::uint32_t capacity, std::uint32_t stride) {
    return sizeof(RingControl) + std::size_t{capacity} * stride;
  }
  /// Lays a new, empty ring into `storage` (aligned to 64, storage_octets() long). The view of it
  /// that it returns has the geometry from here, not from the memory, which others may write.
  ///
  /// capacity  a power of two. stride  a positive multiple of 64.
  static Ring format(void* storage, std::uint32_t capacity, std::uint32_t stride);

  Ring() = default;
  explicit Ring(void* storage)
      : Ring(storage, static_cast<RingControl*>(storage)->capacity,
             static_cast<RingControl*>(storage)->stride) {}

  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t stride() const { return stride_; }
  void* entry(std::uint32_t index) const {
    return entries_ + std::size_t{index & (capacity_ - 1)} * stride_;
  }

  /// What tells how full it is, into the cache.
  void prefetch_indexes() const { prefetch(control_, 2 * kCacheLine); }

  // Producer.
  std::uint32_t produced_own() const { return control_->produced.load(std::memory_order_relaxed); }
  std::uint32_t consumed_seen() const { return control_->consumed.load(std::memory_order_acquire); }
  std::uint32_t silent_seen() const { return control_->silent.load(std::memory_order_acquire); }
  bool full() const { return produced_own() - consumed_seen() >= capacity_; }
  void publish(std::uint32_t produced) {
    control_->produced.store(produced, std::memory_order_release);
  }

  // Consumer. A producer in another process may write anything: read produced_seen() once for each
  // round and treat a fill above capacity() as the producer's failure; entry() stays inside the
  // ring for every index. (A consumer that lies looks to the producer like a full ring, or lets it
  // overwrite entries, which only harms the liar.)
  std::uint32_t consumed_own() const { return control_->consumed.load(std::memory_order_relaxed); }
  std::uint32_t produced_seen() const { return control_->produced.load(std::memory_order_acquire); }
  bool empty() const { return produced_seen() == consumed_own(); }
  void release(std::uint32_t consumed) {
    control_->consumed.store(consumed, std::memory_order_release);
  }
  /// After the release() of an entry that gives no completion: who sees the count may reuse it.
  void count_silent() {
    control_->silent.store(control_->silent.load(std::memory_order_relaxed) + 1,
                           std::memory_order_release);
  }

 private:
  Ring(void* storage, std::uint32_t capacity, std::uint32_t stride)
      : control_(static_cast<RingControl*>(storage)),
        entries_(static_cast<std::uint8_t*>(storage) + sizeof(RingControl)),
        capacity_(capacity),
        stride_(stride) {}

  RingControl* control_ = nullptr;
  std::uint8_t* entries_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t stride_ = 0;
};

}  // namespace weft::device
