// An SRQ on the device side: receive buffers that several QPs draw from.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/memory/memory_table.h"
#include "core/qp/srq_state.h"
#include "device/device.h"
#include "engine/ring_memory.h"

namespace weft::engine {

class QueuePair;

/// Threads: the progress lock, but for wants_receive.
struct SharedReceiveQueue {
  SharedReceiveQueue(device::SRQNumber srq_number, core::PD srq_pd, RingMemory srq_memory,
                     std::uint32_t sge_limit, std::uint64_t srq_cookie)
      : number(srq_number),
        pd(srq_pd),
        sges(sge_limit),
        cookie(srq_cookie),
        memory(std::move(srq_memory)),
        ring(memory.ring()) {}
  static Result<RingMemory> make_memory(std::uint32_t depth, std::uint32_t sge_limit,
                                        void* place = nullptr) {
    return RingMemory::make(device::receive_ring(depth, sge_limit), place);
  }

  const device::SRQNumber number;
  const core::PD pd;
  const std::uint32_t sges;
  const std::uint64_t cookie;
  RingMemory memory;
  device::Ring ring;
  core::SRQState state = core::SRQState::Unarmed;
  std::uint32_t limit = 0;  ///< Armed: event when fewer are left
  std::vector<QueuePair*> users;

  /// True: the consumer is owed the limit event.
  bool step(core::SRQInput input) {
    const core::SRQTransition& row = core::srq_step(state, input);
    state = row.to;
    return row.event;
  }

  /// As QueuePair::want_receive: a stream of some user waits for a receive. The one who posts and
  /// takes the wish rings for all that wait.
  void want_receive() { receive_wanted_.exchange(1, std::memory_order_acq_rel); }
  bool take_wanted() { return receive_wanted_.exchange(0, std::memory_order_acq_rel) != 0; }

 private:
  std::atomic<std::uint32_t> receive_wanted_{0};
};

}  // namespace weft::engine
