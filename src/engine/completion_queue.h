// A CQ on the device side: its ring, its armed state, its overflow.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/qp/cq_state.h"
#include "device/device.h"
#include "engine/ring_memory.h"

namespace weft::engine {

/// Threads: push under the progress lock; arm from any thread (see state_).
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

  /// Arms for the next completion. The consumer polls dry, arms, and polls again, so only what is
  /// pushed after this fires (verbs draft §8.2.1).
  void arm(bool solicited_only);
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
  /// Changed by compare-and-swap: arm comes from the consumer's thread without the progress lock.
  std::atomic<core::CQState> state_{core::CQState::Quiet};
};

}  // namespace weft::engine
