// Doorbells: what was posted is served, now or with a later call, and may be waited behind.
#include <sched.h>

#include <chrono>

#include "engine/rnic.h"
#include "engine/rnic_entry.h"

namespace weft::engine {

void Rnic::mark_rung(QueuePair& qp) {
  if (qp.rung.exchange(true, std::memory_order_acq_rel)) return;  // already on the stack
  QueuePair* head = rung_.load(std::memory_order_relaxed);
  do {
    qp.next_rung = head;
  } while (!rung_.compare_exchange_weak(head, &qp, std::memory_order_seq_cst));
}

void Rnic::ring_shared_receive(device::SRQNumber number) {
  SharedReceiveQueue* srq =
      number < kSRQCountMax ? srqs_[number].load(std::memory_order_acquire) : nullptr;
  if (srq == nullptr || !srq->take_wanted()) return;
  srq_rung_.store(true, std::memory_order_seq_cst);
  Entry::try_enter(*this, [](Rnic&) {});
}

/// Posts to an SRQ while streams wait for a receive: all that wait get their chance, in no order.
/// Who still finds nothing asks for the next ring.
void Rnic::serve_shared() {
  if (!srq_rung_.load(std::memory_order_relaxed)) return;
  srq_rung_.store(false, std::memory_order_seq_cst);
  // In place: serving one neither adds a connection nor removes one, and a doorbell has nobody to
  // tell that there is no memory for a list.
  for (auto& [number, connection] : connections_) {
    if (connection->held_back() && connection->qp()->srq() != nullptr) connection->serve();
  }
}

void Rnic::serve_rung() {
  serve_shared();
  if (rung_.load(std::memory_order_seq_cst) == nullptr) return;
  tick();
  gathered_left_.store(gathered_left() + 1, std::memory_order_relaxed);
  QueuePair* qp = rung_.exchange(nullptr, std::memory_order_seq_cst);
  while (qp != nullptr) {
    QueuePair* next = qp->next_rung;
    qp->rung.store(false, std::memory_order_seq_cst);  // before serving: a later ring counts again
    serve(*qp);
    qp = next;
  }
}

/// Not by way of the stack: if it is there too, it is served once more, and has nothing.
void Rnic::serve_now(QueuePair& qp) {
  tick_roughly();
  serve(qp);
}

void Rnic::serve(QueuePair& qp) {
  qp.gathering.handle_served(forgotten_, company_);
  if (qp.searching || qp.core().peer_gone()) {
    tick();
    rendezvous_.handle_work(qp);
  }
  if (qp.connection != nullptr) {
    qp.connection->serve();
  } else {
    qp.core().flush(now_);
  }
}

void Rnic::ring_send(device::QPNumber number, const device::Posted& posted) {
  QueuePair* qp = find_qp(number);
  if (qp == nullptr) return;
  // Who waits at memory for the answer to each post makes no call behind it, signalled or not.
  const bool in_stream = Gathering::in_stream(posted) && !answer_habit_.is_answered(number);
  if (in_stream && gather(*qp, posted)) {
    if (answer_habit_.is_another_answered(number)) answer_habit_.miss_post();
    mark_rung(*qp);
    // Pairs with end_watch: one of the two sees what the other did.
    if (!watched_.load(std::memory_order_seq_cst) && !watched_.exchange(true)) wake_waiter();
    return;
  }
  note_consumer();
  const bool lone = !in_stream || qp->gathering.is_lone(company_);
  Duration wait{};
  const auto serve_it = [&](Rnic& rnic) {
    const Instant began = rnic.answer_habit_.is_timed() ? rnic.read_clock() : rnic.now_;
    rnic.serve_now(*qp);
    wait = rnic.answer_wait(*qp, lone, began);
  };
  // Mostly the RNIC is idle, and nobody has to be told whom to serve.
  if (Entry::try_enter(*this, serve_it)) {
    if (wait != Duration::zero()) await_answer(number, wait);
    return;
  }
  answer_habit_.miss_post();
  mark_rung(*qp);
  Entry::try_enter(*this, [](Rnic&) {});
}

/// How long this post, which was served, stays for its answer. Who is in a stream of posts, or
/// armed a CQ, waits for something else.
Duration Rnic::answer_wait(QueuePair& qp, bool lone, Instant began) {
  if (settings_.engine == Placement::Inline || !lone || qp.send_cq().armed() ||
      qp.receive_cq().armed()) {
    if (answer_habit_.note_other_post()) nap_.interrupt();
    return {};
  }
  using Advice = AnswerHabit::Advice;
  const Advice advice =
      answer_habit_.note_post(qp.number(), qp.writes_placed(), all_arrivals, began);
  if (advice == Advice::Wake) nap_.interrupt();
  return advice == Advice::Yes ? answer_habit_.wait() : Duration::zero();
}

/// On behalf of a program that looks at memory as soon as its post returns (AnswerHabit).
void Rnic::await_answer(device::QPNumber number, Duration wait) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + wait;
  std::uint32_t looks = 0;
  bool found = false, over = false;
  // The last look comes behind the time: one may end with others' turn.
  for (bool last = false; !found && !over && !last;) {
    last = Clock::now() >= end;
    bool yields = false;
    const bool entered = Entry::try_enter(*this, [&](Rnic& rnic) {
      ++looks;
      yields = rnic.look_around(device::kNoCQ);
      const QueuePair* qp = rnic.find_qp(number);
      AnswerHabit& habit = rnic.answer_habit_;
      over = qp == nullptr || qp->connection == nullptr || habit.qp() != number ||
             habit.is_over(qp->writes_placed(), rnic.all_arrivals);
      found = !over && habit.has_come(qp->writes_placed());
      if (found || last) habit.tell(found, rnic.read_clock());
      if (!found && (over || last)) rnic.courtesy_.note_leaving();
    });
    if (yields) {
      give_way({});
    } else if (!entered) {
      ::sched_yield();
    }
  }
  // As polls: the progress thread stands back from a program that comes for all it waits for.
  if (found) return note_empty_polls(looks);
  nap_.interrupt();
}

/// May this post, in a stream of them, be left lying until the program calls again? Who armed a CQ
/// may be about to sleep.
bool Rnic::gather(QueuePair& qp, const device::Posted& posted) {
  if (settings_.engine == Placement::Inline || qp.send_cq().armed() || qp.receive_cq().armed()) {
    return false;
  }
  const std::uint32_t armings = qp.send_cq().armings() + qp.receive_cq().armings();
  if (!qp.gathering.may_wait(posted, armings, empty_polls(), company_)) return false;
  // Not a read-modify-write: nobody counts, it only has to change.
  gathered_.store(gathered_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

void Rnic::end_watch() {
  watched_.store(false, std::memory_order_seq_cst);
  if (rung()) watched_.store(true, std::memory_order_relaxed);
}

void Rnic::serve_forgotten(std::uint32_t gathered) {
  if (!lock_.try_lock()) return;
  forgotten_ = gathered == this->gathered();
  serve_rung();
  forgotten_ = false;
  Entry::leave(*this);
}

void Rnic::ring_receive(device::QPNumber number) {
  QueuePair* qp = find_qp(number);
  if (qp == nullptr) return;
  if (!qp->wants_receive()) return;
  mark_rung(*qp);
  Entry::try_enter(*this, [](Rnic&) {});
}

}  // namespace weft::engine
