// Completion queues.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/result.h"
#include "device/device.h"
#include "verbs/async_queue.h"
#include "verbs/completion_channel.h"
#include "verbs/pd.h"
#include "verbs/ring_place.h"
#include "verbs/spin_lock.h"

namespace weft::verbs {

/// The consumer's side of a CQ. Calls match `open use* close`.
///
/// Threads: any. Polling threads take turns by the consumer lock; close excludes all others.
/// Polling takes no memory and makes no system call of its own.
class CQ {
 public:
  /// channel may be null: then there are no completion events. `owner` comes back from the event
  /// queues. `allocator`, if not null, outlives this and gives the memory of the ring, here and in
  /// resize. `timed`: somebody reads the completions' timestamps. Error: EINVAL (depth not in
  /// 1..kCQDepthMax), ENOMEM.
  Result<void> open(device::Device& device, std::uint32_t depth, CompletionChannel* channel,
                    AsyncQueue& async, void* owner, RingAllocator* allocator = nullptr,
                    bool timed = true);
  /// EBUSY while a QP uses it. Waits for unacknowledged events.
  Result<void> close();

  /// Hands up to `max` completions, oldest first, to handle(const device::CompletionEntry&) and
  /// frees them. When there are none the calling thread helps the protocol along and looks once
  /// more. Returns how many. `handle` runs under the consumer lock: it copies and returns.
  template <typename Handle>
  std::uint32_t poll(std::uint32_t max, Handle&& handle) {
    if (max == 0) return 0;
    if (const std::uint32_t count = drain(max, handle); count != 0) return count;
    device_->poll(number_);
    const std::uint32_t count = drain(max, handle);
    if (count == 0) note_empty_poll();
    return count;
  }
  /// How often a program's poll found nothing. Several pollers may lose each other's counts: it
  /// only has to change.
  std::uint32_t empty_polls() const { return empty_polls_.load(std::memory_order_relaxed); }

  // One by one, as extended CQs are polled: `(begin_walk advance* end_walk)*`. The consumer lock is
  // held from a begin_walk that gave an entry until end_walk.

  /// The oldest completion, or null (then the walk has not begun).
  const device::CompletionEntry* begin_walk();
  /// The next one, or null. What was given last is a copy, valid until advance or end_walk: its
  /// place is free already, since programs post in the middle of a walk.
  const device::CompletionEntry* advance();
  void end_walk();

  Result<void> arm(bool solicited_only) { return device_->arm_cq(number_, solicited_only); }
  /// Keeps what is unread; ENOSPC when that is more than `depth`. Error: as open.
  Result<void> resize(std::uint32_t depth);
  /// See device::Device::moderate_cq.
  Result<void> moderate(const device::CQModeration& moderation) {
    return device_->moderate_cq(number_, moderation);
  }
  /// Drops the unread completions of a QP that goes or begins anew, by its public number.
  void purge(std::uint32_t qp);

  std::uint32_t depth() const { return ring_.capacity(); }
  device::CQNumber number() const { return number_; }
  CompletionChannel* channel() { return channel_; }
  CompletionEventState& completion_events() { return completion_events_; }
  AsyncQueue& async() { return *async_; }
  AsyncEventState& async_events() { return async_events_; }
  UseCount& uses() { return uses_; }

 private:
  /// Whose queue a completion is of.
  struct Origin {
    std::uint64_t qp_cookie;
    device::CompletionOpcode opcode;
  };
  /// Tells the QP that this completion is no longer unread. The QP is there: one that goes takes
  /// its completions along.
  static void give_place_back(const Origin& origin);
  /// It is needed to give the place back, and by who answers what came.
  static void prefetch_origin(std::uint64_t qp_cookie);
  static constexpr std::uint32_t kOriginsAhead = 4;

  const device::CompletionEntry& entry(std::uint32_t index) const {
    return *static_cast<const device::CompletionEntry*>(ring_.entry(index));
  }

  template <typename Handle>
  std::uint32_t drain(std::uint32_t max, Handle& handle) {
    std::lock_guard guard(consumer_);
    const std::uint32_t first = ring_.consumed_own();
    const std::uint32_t unread = ring_.produced_seen() - first;
    return unread == 0 ? 0 : take(first, std::min(unread, max), handle);
  }
  /// Under the lock.
  template <typename Handle>
  [[gnu::noinline]] std::uint32_t take(std::uint32_t first, std::uint32_t count, Handle& handle) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i + kOriginsAhead < count) prefetch_origin(entry(first + i + kOriginsAhead).qp_cookie);
      const device::CompletionEntry& polled = entry(first + i);
      handle(polled);
      const Origin origin{polled.qp_cookie, polled.opcode};
      // First the room here, then the place there: who posts to it finds the room.
      ring_.release(first + i + 1);
      give_place_back(origin);
    }
    return count;
  }

  void note_empty_poll() { empty_polls_.store(empty_polls() + 1, std::memory_order_relaxed); }

  SpinLock consumer_;
  std::atomic<std::uint32_t> empty_polls_{0};
  device::CompletionEntry walked_ = {};  ///< what the walk gave last
  device::Ring ring_;
  RingAllocator* allocator_ = nullptr;
  RingPlace place_;
  device::Device* device_ = nullptr;
  device::CQNumber number_ = 0;
  CompletionChannel* channel_ = nullptr;
  AsyncQueue* async_ = nullptr;
  CompletionEventState completion_events_;
  AsyncEventState async_events_;
  UseCount uses_;
};

}  // namespace weft::verbs
