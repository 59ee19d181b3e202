// CQ entries in, events out.
#include "engine/completion_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace weft::engine {

namespace {

/// Failed completions count as solicited (verbs draft §8.2.1).
core::CQInput input_for(const device::CompletionEntry& entry) {
  const bool solicited = (entry.flags & device::kSolicitedEvent) != 0 ||
                         entry.status != device::CompletionStatus::Success;
  return solicited ? core::CQInput::SolicitedCompletion : core::CQInput::Completion;
}

}  // namespace

bool CompletionQueue::step(core::CQInput input) {
  const core::CQTransition& row = core::cq_step(state_, input);
  state_ = row.to;
  return row.event;
}

CompletionQueue::Pushed CompletionQueue::push(const device::CompletionEntry& entry) {
  if (state_ == core::CQState::Overflowed) return Pushed::WasOverflowed;
  if (ring_.full()) {
    step(core::CQInput::Overflow);
    return Pushed::Overflowed;
  }
  const std::uint32_t index = ring_.produced_own();
  *static_cast<device::CompletionEntry*>(ring_.entry(index)) = entry;
  const bool fired = step(input_for(entry));
  if (fired) announced_ = first_untold();
  ring_.publish(index + 1);
  return fired ? Pushed::Notify : Pushed::Quiet;
}

std::uint32_t CompletionQueue::first_untold() const {
  const std::uint32_t end = ring_.produced_own();
  const std::uint32_t unread = std::min(end - ring_.consumed_seen(), ring_.capacity());
  return end - (announced_ ? std::min(unread, end - 1 - *announced_) : unread);
}

bool CompletionQueue::arm(bool solicited_only) {
  step(solicited_only ? core::CQInput::ArmSolicited : core::CQInput::ArmAny);
  // What waits unread fires at once (docs/adr/0002-arming-a-cq-that-is-not-empty.md).
  const std::uint32_t first = first_untold();
  for (std::uint32_t i = first; i != ring_.produced_own(); ++i) {
    if (!step(input_for(*static_cast<device::CompletionEntry*>(ring_.entry(i))))) continue;
    announced_ = first;
    return true;
  }
  return false;
}

bool CompletionQueue::nudge() {
  return state_ == core::CQState::ArmedAny && step(core::CQInput::Completion);
}

Result<void> CompletionQueue::resize(std::uint32_t depth) {
  const std::uint32_t fill = ring_.produced_own() - ring_.consumed_seen();
  if (fill > std::bit_ceil(depth)) {
    return Error{ENOSPC, "more completions wait than the new depth"};
  }
  Result<RingMemory> memory = make_memory(depth);
  if (!memory) return memory.error();
  device::Ring ring(memory->data());
  for (std::uint32_t i = 0; i < fill; ++i) {
    *static_cast<device::CompletionEntry*>(ring.entry(i)) =
        *static_cast<device::CompletionEntry*>(ring_.entry(ring_.consumed_seen() + i));
  }
  ring.publish(fill);
  if (announced_) announced_ = *announced_ - ring_.consumed_seen();
  memory_ = std::move(*memory);
  ring_ = ring;
  return {};
}

}  // namespace weft::engine
