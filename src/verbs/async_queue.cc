// A list of objects with events, and the descriptor that counts them.
#include "verbs/async_queue.h"

#include <bit>

namespace weft::verbs {

void AsyncQueue::notify(AsyncEventState& object, device::AsyncEventKind kind) {
  const std::uint32_t bit = 1u << static_cast<unsigned>(kind);
  std::lock_guard guard(lock_);
  if ((object.pending_kinds & bit) != 0) return;
  if (object.pending_kinds == 0) {
    object.next = nullptr;
    *last_link_ = &object;
    last_link_ = &object.next;
  }
  object.pending_kinds |= bit;
  wake_.add(1);
}

void AsyncQueue::unlink_locked(AsyncEventState& object) {
  AsyncEventState** link = &first_;
  while (*link != &object) link = &(*link)->next;
  *link = object.next;
  if (last_link_ == &object.next) last_link_ = link;
}

int AsyncQueue::get(Event* event) {
  WakeFd::Wait wait;
  for (;;) {
    {
      std::lock_guard guard(lock_);
      if (AsyncEventState* object = first_) {
        const int kind = std::countr_zero(object->pending_kinds);
        object->pending_kinds &= object->pending_kinds - 1;
        if (object->pending_kinds == 0) unlink_locked(*object);
        ++object->delivered;
        wake_.remove(1);
        *event = {object->owner, static_cast<device::AsyncEventKind>(kind)};
        return 0;
      }
    }
    if (const int code = wake_.wait(wait); code != 0) return code;
  }
}

void AsyncQueue::acknowledge(AsyncEventState& object) {
  std::lock_guard guard(lock_);
  ++object.acknowledged;
  acknowledged_.notify_all();
}

void AsyncQueue::retire(AsyncEventState& object) {
  std::unique_lock guard(lock_);
  if (object.pending_kinds != 0) {
    unlink_locked(object);
    wake_.remove(static_cast<std::uint32_t>(std::popcount(object.pending_kinds)));
    object.pending_kinds = 0;
  }
  acknowledged_.wait(guard, [&] {
    return static_cast<std::int32_t>(object.delivered - object.acknowledged) <= 0;
  });
}

}  // namespace weft::verbs
