// A CQ on the device side: its ring, its armed state, its overflow.
#pragma once

#include <cstdint>
#include <optional>

#include "core/qp/cq_state.h"
#include "device/device.h"
#include "engine/ring_memory.h"

namespace weft::engine {

/// Threads: the progress lock; the consumer reads the ring without it.
class CompletionQueue {
 public:
  CompletionQueue(device::CQNumber number, RingMemory memory, std::uint64_t cookie)
      : number_(number), cookie_(cookie), memory_(std::move(memory)), ring_(memory_.data()) {}
  static Result<RingMemory> make_memory(std::uint32_t depth) {
    return RingMemory::make(depth, sizeof(device::CompletionEntry));
  }

  enum class Pushed : std::uint8_t { Quiet, Notify, Overflowed, WasOverflowed };
  /// Adds an entry. Notify: the consumer is owed an event. Overflowed: this entry was lost, the
  /// first one; the CQ is unusable from now on.
  Pushed push(const device::CompletionEntry&);

  /// Arms for the next completion. True: an entry that waits unread already gives the event. Each
  /// event accounts for one entry, the oldest unread that has none: who reads at least one entry
  /// per event never sleeps while entries wait, and who reads none gets no event without end.
  bool arm(bool solicited_only);
  /// An event without a completion: true if the CQ was armed for any, and no longer is.
  bool nudge();
  /// New memory of at least `depth` entries with the unread ones moved over. ENOSPC: they do not
  /// fit. ENOMEM. After an error all is as before.
  Result<void> resize(std::uint32_t depth);

  device::CQNumber number() const { return number_; }
  std::uint64_t cookie() const { return cookie_; }
  device::Ring ring() const { return ring_; }
  std::uint32_t users = 0;  ///< QPs that complete here

 private:
  bool step(core::CQInput input);
  /// Index of the oldest unread entry that no event accounts for; the next to be pushed if none.
  std::uint32_t first_untold() const;

  const device::CQNumber number_;
  const std::uint64_t cookie_;
  RingMemory memory_;
  device::Ring ring_;
  core::CQState state_ = core::CQState::Quiet;
  std::optional<std::uint32_t> announced_;  ///< the newest entry that an event accounts for
};

}  // namespace weft::engine
