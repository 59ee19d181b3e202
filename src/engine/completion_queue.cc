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
  armed_.store(state_ == core::CQState::ArmedAny || state_ == core::CQState::ArmedSolicited,
               std::memory_order_relaxed);
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
  if (moderated_ && hold(entry, unread() + 1)) {
    ring_.publish(index + 1);
    return wants_timer() ? Pushed::Hold : Pushed::Quiet;
  }
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
  armings_.store(armings() + 1, std::memory_order_relaxed);
  // Who arms again and again would otherwise put a hold's end off for ever.
  if (holding()) return false;
  held_ = 0;
  deadline_.reset();
  step(solicited_only ? core::CQInput::ArmSolicited : core::CQInput::ArmAny);
  // What waits unread fires at once (docs/adr/0002-arming-a-cq-that-is-not-empty.md).
  const std::uint32_t first = first_untold();
  for (std::uint32_t i = first; i != ring_.produced_own(); ++i) {
    const auto& entry = *static_cast<const device::CompletionEntry*>(ring_.entry(i));
    if (moderated_ && hold(entry, unread())) continue;
    if (!step(input_for(entry))) continue;
    announced_ = first;
    return true;
  }
  return false;
}

bool CompletionQueue::nudge() {
  return state_ == core::CQState::ArmedAny && step(core::CQInput::Completion);
}

bool CompletionQueue::hold(const device::CompletionEntry& entry, std::uint32_t unread) {
  if (state_ != core::CQState::ArmedAny) return false;
  if (entry.status != device::CompletionStatus::Success) return false;
  ++held_;
  return held_ != moderation_.count && unread < ring_.capacity();
}

bool CompletionQueue::end_hold() {
  if (!holding()) return false;
  // The consumer may have read all that the event is about.
  const std::uint32_t first = first_untold();
  if (first != ring_.produced_own()) announced_ = first;
  return step(core::CQInput::Completion);
}

void CompletionQueue::moderate(const device::CQModeration& moderation) {
  moderation_ = moderation;
  moderated_ = !moderation.off();
}

Result<void> CompletionQueue::resize(std::uint32_t depth, void* place) {
  const std::uint32_t fill = unread();
  if (fill > std::bit_ceil(depth)) {
    return Error{ENOSPC, "more completions wait than the new depth"};
  }
  Result<RingMemory> memory = make_memory(depth, place);
  if (!memory) return memory.error();
  device::Ring ring = memory->ring();
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
