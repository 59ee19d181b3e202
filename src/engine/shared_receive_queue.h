// An SRQ on the device side: receive buffers that several QPs draw from.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
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

  /// The receive that the next message gets, to be copied at once, or null; and that it was.
  ///
  /// Of few QPs in the order in which they were posted, as hardware has it. Where so many share the
  /// queue that nobody can know an order, the latest first: its memory was in use lately, while the
  /// oldest, of a thousand, is in no cache any more (docs/adr/0028).
  device::ReceiveEntry* next();
  void release();

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
  static constexpr std::size_t kOrderedUsersMax = 64;

  bool stack_posted();

  std::atomic<std::uint32_t> receive_wanted_{0};
  /// Copies of the ring's entries from the consumed one on, the latest last. A place of the ring is
  /// free when as many were used as were posted up to it, whichever they were.
  std::unique_ptr<std::uint8_t[]> stack_;
  std::uint32_t stacked_ = 0;
};

}  // namespace weft::engine
