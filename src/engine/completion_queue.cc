// CQ entries in, events out.
#include "engine/completion_queue.h"

#include <bit>

namespace weft::engine {

bool CompletionQueue::step(core::CQInput input) {
  // Always a read-modify-write, also where the state stays: push publishes an entry and then steps,
  // the consumer arms and then polls. Whichever steps later reads what the earlier one released, so
  // either the second poll sees the entry or push sees the armed state.
  core::CQState from = state_.load(std::memory_order_relaxed);
  while (true) {
    const core::CQTransition& row = core::cq_step(from, input);
    if (state_.compare_exchange_weak(from, row.to, std::memory_order_acq_rel)) return row.event;
  }
}

CompletionQueue::Pushed CompletionQueue::push(const device::CompletionEntry& entry) {
  if (state_.load(std::memory_order_relaxed) == core::CQState::Overflowed) {
    return Pushed::WasOverflowed;
  }
  if (ring_.full()) {
    step(core::CQInput::Overflow);
    return Pushed::Overflowed;
  }
  const std::uint32_t index = ring_.produced_own();
  *static_cast<device::CompletionEntry*>(ring_.entry(index)) = entry;
  ring_.publish(index + 1);
  const bool solicited = (entry.flags & device::kSolicitedEvent) != 0 ||
                         entry.status != device::CompletionStatus::Success;
  return step(solicited ? core::CQInput::SolicitedCompletion : core::CQInput::Completion)
             ? Pushed::Notify
             : Pushed::Quiet;
}

void CompletionQueue::arm(bool solicited_only) {
  step(solicited_only ? core::CQInput::ArmSolicited : core::CQInput::ArmAny);
}

bool CompletionQueue::resize(std::uint32_t depth) {
  const std::uint32_t fill = ring_.produced_own() - ring_.consumed_seen();
  if (fill > std::bit_ceil(depth)) return false;
  RingMemory memory(depth, sizeof(device::CompletionEntry));
  device::Ring ring(memory.data());
  for (std::uint32_t i = 0; i < fill; ++i) {
    *static_cast<device::CompletionEntry*>(ring.entry(i)) =
        *static_cast<device::CompletionEntry*>(ring_.entry(ring_.consumed_seen() + i));
  }
  ring.publish(fill);
  memory_ = std::move(memory);
  ring_ = ring;
  return true;
}

}  // namespace weft::engine
