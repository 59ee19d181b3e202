// Which places of a work queue are free: what keeps a program that posts without polling from
// overfilling its CQ.
#pragma once

#include <atomic>
#include <cstdint>

#include "device/ring.h"

namespace weft::verbs {

/// A place is taken from its posting until the device has consumed the entry and, if that gave a
/// completion, until this was polled. So a queue has at most as many completions open as it has
/// places, and a CQ as deep as its queues together cannot overflow: a program may post until
/// ENOMEM and only then poll, as it may on RNICs whose libraries free a place with its completion.
///
/// Unlike there, an unsignalled request that succeeded needs nobody's poll: a program that signals
/// nothing is never stuck.
///
/// Threads: one poller at a time (the lock of the one CQ that gets this queue's completions); one
/// producer at a time.
class Places {
 public:
  void handle_polled() {
    polled_.store(polled_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// Is there a place for entry number `produced`? Ring: device::Ring, or what a test puts there.
  template <typename Ring>
  bool free(const Ring& ring, std::uint32_t produced) const {
    // Each entry comes back once, by one of two counts that only grow. So what the device does
    // between the two loads can hide a place, but not one whose completion this thread has polled;
    // and since both follow the release of the entry, the place may be written to.
    const std::uint32_t back = polled_.load(std::memory_order_acquire) + ring.silent_seen();
    return produced - back < ring.capacity();
  }

  /// How many were polled.
  std::uint32_t polled() const { return polled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> polled_{0};
};

}  // namespace weft::verbs
