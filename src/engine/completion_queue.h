// A CQ on the device side: its ring, its armed state, its overflow.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "core/qp/cq_state.h"
#include "device/device.h"
#include "engine/ring_memory.h"

namespace weft::engine {

/// With moderation an event that is owed to a CQ armed for any completion is kept back; its hold
/// begins with the first completion (or with the arming, if some wait unread) and ends with the
/// event. The owner keeps the time: after a push that says Hold, and an arm after which
/// wants_timer(), it calls hold_until().
///
/// Threads: the progress lock; the consumer reads the ring without it.
class CompletionQueue {
 public:
  CompletionQueue(device::CQNumber number, RingMemory memory, std::uint64_t cookie,
                  bool timed = true)
      : number_(number),
        cookie_(cookie),
        timed_(timed),
        memory_(std::move(memory)),
        ring_(memory_.ring()) {}
  static Result<RingMemory> make_memory(std::uint32_t depth, void* place = nullptr) {
    return RingMemory::make(device::completion_ring(depth), place);
  }

  enum class Pushed : std::uint8_t { Quiet, Notify, Hold, Overflowed, WasOverflowed };
  /// Adds an entry. Notify: the consumer is owed an event. Hold: a hold began, and its end is to be
  /// set. Overflowed: this entry was lost, the first one; the CQ is unusable from now on. The entry
  /// that fills the ring ends a hold: more could not come.
  Pushed push(const device::CompletionEntry&);

  /// Arms for the next completion. True: an entry that waits unread already gives the event. Each
  /// event accounts for one entry, the oldest unread that has none: who reads at least one entry
  /// per event never sleeps while entries wait, and who reads none gets no event without end.
  bool arm(bool solicited_only);
  /// An event without a completion: true if the CQ was armed for any, and no longer is. It does not
  /// wait for a hold to end.
  bool nudge();
  /// New memory of at least `depth` entries with the unread ones moved over. ENOSPC: they do not
  /// fit. ENOMEM. After an error all is as before. full_hold() may have become true.
  Result<void> resize(std::uint32_t depth, void* place = nullptr);

  void moderate(const device::CQModeration& moderation);
  Duration period() const { return std::chrono::microseconds(moderation_.period_us); }
  /// A hold has begun that ends with time, and no one has said when.
  bool wants_timer() const { return holding() && !deadline_ && moderation_.period_us != 0; }
  void hold_until(Instant deadline) { deadline_ = deadline; }
  /// When the hold ends; empty when none is under way.
  std::optional<Instant> deadline() const { return holding() ? deadline_ : std::nullopt; }
  /// A hold in a ring that has no room for more.
  bool full_hold() const { return holding() && ring_.full(); }
  /// Ends a hold: true if there was one, whose event is to be given now.
  bool end_hold();

  /// An event is owed to the next completion. Any thread may ask, and gets what was true lately.
  bool armed() const { return armed_.load(std::memory_order_relaxed); }
  /// How often it was armed so far. Any thread.
  std::uint32_t armings() const { return armings_.load(std::memory_order_relaxed); }
  device::CQNumber number() const { return number_; }
  std::uint64_t cookie() const { return cookie_; }
  /// Entries say when they were written.
  bool timed() const { return timed_; }
  device::Ring ring() const { return ring_; }
  /// How many entries there were so far, and whether the consumer has taken so many.
  std::uint32_t produced() const { return ring_.produced_own(); }
  bool is_read(std::uint32_t produced) const {
    return static_cast<std::int32_t>(ring_.consumed_seen() - produced) >= 0;
  }
  /// How many the consumer has not taken.
  std::uint32_t unread() const { return ring_.produced_own() - ring_.consumed_seen(); }
  std::uint32_t users = 0;  ///< QPs that complete here

 private:
  bool step(core::CQInput input);
  bool holding() const { return held_ != 0 && state_ == core::CQState::ArmedAny; }
  /// Counts an entry, with which `unread` wait, into the hold. False: its event is due.
  bool hold(const device::CompletionEntry&, std::uint32_t unread);
  /// Index of the oldest unread entry that no event accounts for; the next to be pushed if none.
  std::uint32_t first_untold() const;

  const device::CQNumber number_;
  const std::uint64_t cookie_;
  const bool timed_;
  RingMemory memory_;
  device::Ring ring_;
  core::CQState state_ = core::CQState::Quiet;
  std::atomic<bool> armed_{false};
  std::atomic<std::uint32_t> armings_{0};
  std::optional<std::uint32_t> announced_;  ///< the newest entry that an event accounts for
  bool moderated_ = false;
  device::CQModeration moderation_;
  std::uint32_t held_ = 0;  ///< completions since the arming; meaningless when not armed for any
  std::optional<Instant> deadline_;  ///< of the hold; as meaningless
};

}  // namespace weft::engine
