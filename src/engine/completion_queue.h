// A CQ on the device side: its ring, its armed state, its overflow.
#pragma once

#include <cstdint>

#include "core/qp/cq_state.h"
#include "device/device.h"
#include "engine/ring_memory.h"

namespace weft::engine {

/// Threads: the progress lock; the consumer reads the ring without it.
class CompletionQueue {
 public:
  CompletionQueue(device::CQNumber number, std::uint32_t depth, std::uint64_t cookie)
      : number_(number),
        cookie_(cookie),
        memory_(depth, sizeof(device::CompletionEntry)),
        ring_(memory_.data()) {}

  enum class Pushed : std::uint8_t { Quiet, Notify, Overflowed, WasOverflowed };
  /// Adds an entry. Notify: the consumer is owed an event. Overflowed: this entry was lost, the
  /// first one; the CQ is unusable from now on.
  Pushed push(const device::CompletionEntry&);

  /// Arms for the next completion. True: an entry that waits unread already gives the event.
  bool arm(bool solicited_only);
  /// An event without a completion: true if the CQ was armed for any, and no longer is.
  bool nudge();
  /// New memory of at least `depth` entries with the unread ones moved over. False: they do not
  /// fit.
  bool resize(std::uint32_t depth);

  device::CQNumber number() const { return number_; }
  std::uint64_t cookie() const { return cookie_; }
  device::Ring ring() const { return ring_; }
  std::uint32_t users = 0;  ///< QPs that complete here

 private:
  bool step(core::CQInput input);

  const device::CQNumber number_;
  const std::uint64_t cookie_;
  RingMemory memory_;
  device::Ring ring_;
  core::CQState state_ = core::CQState::Quiet;
};

}  // namespace weft::engine
