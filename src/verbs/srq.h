// Shared receive queues.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/result.h"
#include "device/device.h"
#include "verbs/async_queue.h"
#include "verbs/pd.h"
#include "verbs/receive_queue.h"
#include "verbs/ring_place.h"

namespace weft::verbs {

/// Calls match `open use* close`. Threads: any; close excludes all others.
class SRQ {
 public:
  /// `allocator` as for CQ::open. Error: EINVAL (depth not in 1..kQueueDepthMax, sges not in
  /// 1..kSGECountMax), ENOMEM.
  Result<void> open(PD& pd, std::uint32_t depth, std::uint32_t sges, AsyncQueue& async, void* owner,
                    RingAllocator* allocator = nullptr);
  /// EBUSY while a QP uses it. Waits for unacknowledged events.
  Result<void> close();

  /// One event when fewer than `limit` receives are left; 0 disarms. EINVAL above the depth.
  Result<void> set_limit(std::uint32_t limit);
  /// As set; 0 when not armed or when the event has come.
  std::uint32_t limit() const { return limit_.load(std::memory_order_relaxed); }
  /// The device's: the limit event came.
  void handle_limit_reached() { limit_.store(0, std::memory_order_relaxed); }

  ReceiveQueue& receives() { return receives_; }
  void ring() { pd_->device().ring_shared_receive(number_); }

  device::SRQNumber number() const { return number_; }
  PD& pd() { return *pd_; }
  AsyncQueue& async() { return *async_; }
  AsyncEventState& async_events() { return async_events_; }
  UseCount& uses() { return uses_; }

 private:
  ReceiveQueue receives_;
  RingPlace place_;
  PD* pd_ = nullptr;
  device::SRQNumber number_ = 0;
  std::atomic<std::uint32_t> limit_{0};
  AsyncQueue* async_ = nullptr;
  AsyncEventState async_events_;
  UseCount uses_;
};

}  // namespace weft::verbs
