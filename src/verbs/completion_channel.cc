// A list of CQs with events, and the descriptor that counts them.
#include "verbs/completion_channel.h"

namespace weft::verbs {

void CompletionChannel::notify(CompletionEventState& cq) {
  std::lock_guard guard(lock_);
  if (cq.pending++ == 0) {
    cq.next = nullptr;
    *last_link_ = &cq;
    last_link_ = &cq.next;
  }
  wake_.add(1);
}

CompletionEventState* CompletionChannel::pop_locked() {
  CompletionEventState* cq = first_;
  if (cq == nullptr) return nullptr;
  unlink_locked(*cq);
  ++cq->delivered;
  if (--cq->pending > 0) {  // to the end: no CQ starves the others
    cq->next = nullptr;
    *last_link_ = cq;
    last_link_ = &cq->next;
  }
  wake_.remove(1);
  return cq;
}

void CompletionChannel::unlink_locked(CompletionEventState& cq) {
  CompletionEventState** link = &first_;
  while (*link != &cq) link = &(*link)->next;
  *link = cq.next;
  if (last_link_ == &cq.next) last_link_ = link;
}

int CompletionChannel::get(void** owner) {
  WakeFd::Wait wait;
  struct Settled {  // however the thread leaves; cancelled, too
    CompletionChannel& channel;
    ~Settled() {
      std::lock_guard guard(channel.lock_);
      channel.wake_.settle();
    }
  } settled{*this};
  for (;;) {
    {
      std::lock_guard guard(lock_);
      if (CompletionEventState* cq = pop_locked()) {
        *owner = cq->owner;
        return 0;
      }
    }
    if (const int code = wake_.wait(wait, WakeFd::Waiting::Works); code != 0) return code;
  }
}

void CompletionChannel::hand(WakeFd::Taker taker, void* cookie) {
  std::lock_guard guard(lock_);
  wake_.hand(taker, cookie);
}

void CompletionChannel::acknowledge(CompletionEventState& cq, std::uint32_t events) {
  std::lock_guard guard(lock_);
  cq.acknowledged += events;
  acknowledged_.notify_all();
}

void CompletionChannel::retire(CompletionEventState& cq) {
  std::unique_lock guard(lock_);
  if (cq.pending > 0) {
    unlink_locked(cq);
    wake_.remove(cq.pending);
    cq.pending = 0;
  }
  // A program that acknowledges too much must not wait for ever, hence not "equal".
  acknowledged_.wait(guard, [&] {
    return static_cast<std::int32_t>(cq.delivered - cq.acknowledged) <= 0;
  });
}

}  // namespace weft::verbs
