// Progress: readiness, timers; who gets to be the RNIC, and when.
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

#include "engine/rnic.h"
#include "engine/rnic_entry.h"
#include "engine/rnic_listener.h"

namespace weft::engine {

namespace {
constexpr int kAcceptsPerTurn = 64;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
/// More that was received and sent in a turn is of a stream, whose next part comes anyway.
constexpr std::uint64_t kLittleOctets = 16 * 1024;
}  // namespace

HangUp Rnic::hang_up_of(std::uint32_t events) {
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) return HangUp::Whole;
  return (events & EPOLLRDHUP) != 0 ? HangUp::Half : HangUp::None;
}

void Rnic::tick() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  now_.ns = std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
  now_is_exact_ = true;
  now_stamp_.note();
}

/// Some milliseconds behind at most, mostly in no time, and never backwards: enough for
/// streams, whose deadlines are seconds away. Who is brisk just now is a matter of less.
void Rnic::tick_roughly() {
  if (!now_stamp_.is_fresh()) {
    timespec ts;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    now_.ns = std::max(now_.ns, std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec);
    now_stamp_.note();
  }
  now_is_exact_ = false;
  if (brisk_.any(now_)) tick();
}

Instant Rnic::exact_now() {
  if (!now_is_exact_) tick();
  return now_;
}

int Rnic::progress_fd() const {
  return settings_.engine == Placement::Inline ? poller_.fd() : -1;
}

void Rnic::progress() {
  Entry entry(*this);
  std::array<epoll_event, 64> events;
  serve_ready(poller_.wait(0, events));
  serve_timers();
}

bool Rnic::progress_events(std::span<const epoll_event> ready) {
  Entry entry(*this);
  serve_unasked(ready);
  serve_timers();
  return !splicing_.empty();
}

bool Rnic::progress_edges() {
  Entry entry(*this);
  std::array<epoll_event, 64> events;
  serve_unasked(poller_.look(events));
  serve_timers();
  return !splicing_.empty();
}

SplicedState Rnic::progress_spliced() {
  Entry entry(*this);
  asks_on_and_on_ = true;
  std::array<epoll_event, 64> events;
  serve_unasked(poller_.look(events));
  const bool some_read = look_at_spliced();
  serve_timers();
  asks_on_and_on_ = false;
  return splicing_.empty() ? SplicedState::None
         : some_read       ? SplicedState::SomeRead
                           : SplicedState::NoneRead;
}

void Rnic::leave_spliced() {
  Entry entry(*this);
  hasten_spliced();
}

/// The program makes no call.
void Rnic::serve_unasked(std::span<const epoll_event> ready) {
  const auto writes = [this] {
    const QueuePair* qp = find_qp(answer_habit_.qp());
    return qp == nullptr ? 0 : qp->writes_placed();
  };
  const std::uint32_t before = writes(), all_answered = all_answered_;
  const std::uint64_t moved = moved_;
  serve_ready(ready);
  if (all_answered_ != all_answered && moved_ - moved <= kLittleOctets) {
    answered_.store(answered() + 1, std::memory_order_relaxed);
  }
  const std::uint32_t placed = writes() - before;
  if (placed != 0) answer_habit_.note_unasked(placed, read_clock());
}

int Rnic::timeout_ms() {
  const std::int64_t deadline = deadline_ns_.load(std::memory_order_seq_cst);
  if (deadline == kNoDeadline) return -1;
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  const Duration left{deadline - (std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec)};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, 60'000));
}

void Rnic::prefetch_ready(std::span<const epoll_event> ready, std::size_t at) {
  const auto ahead = [&](std::size_t by) {
    return at + by < ready.size() ? index_.at(ready[at + by].data.u64) : nullptr;
  };
  // The first ones had nobody before them.
  for (std::size_t by = 1; at == 0 && by < kWholeAhead; ++by) {
    if (const Connection* c = ahead(by)) c->prefetch_whole();
  }
  prefetch_ahead(ahead);
}

void Rnic::serve_ready(std::span<const epoll_event> ready) {
  const bool many = ready.size() >= kManyReady;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const epoll_event& event = ready[i];
    if (many) prefetch_ready(ready, i);
    // A key may be stale: an earlier event of this round ended its owner.
    if (Connection* connection = find_connection(event.data.u64)) {
      connection->handle_ready(hang_up_of(event.events));
    } else if (auto it = listeners_.find(event.data.u64); it != listeners_.end()) {
      accept_all(*it->second);
    }
  }
}

void Rnic::accept_all(ListenerSlot& slot) try {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    auto accepted = slot.listener->accept();
    if (!accepted) {
      const int error = accepted.error().code;
      if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS) pause(slot);
      if (error == ECONNABORTED) continue;
      return;
    }
    if (slot.places->half_open >= kHalfOpenMax) {
      (*accepted)->reset();
      continue;
    }
    const device::ConnectionNumber number = next_key_++;
    const core::StartupConfig config = startup_config({});
    auto connection = std::make_unique<Connection>(number, static_cast<ConnectionOwner&>(*this),
                                                   std::move(*accepted), config, slot.cookie,
                                                   slot.places);
    Connection& c = *connection;
    add_connection(std::move(connection));
    // Read here only when no other one's Request is awaited: an earlier one, found missing a moment
    // ago, may just be coming. The poller tells of both in the order in which they came, and
    // programs pair the connections of two ends by that order (perftest with -q).
    handle_deadline(c);
    if (slot.places->half_open == 1 && !begin_at_once(c)) return pause(slot);
    handle_interest(c);
    // Its Request is here: the program is told before anybody else is looked for. Not where it is
    // the program that has to look again.
    if (c.awaits_consumer() && settings_.engine == Placement::Thread) return;
  }
} catch (const std::bad_alloc&) {
  pause(slot);  // the one that there was no memory for is closed
}

/// Before anybody watches it. False: there is no memory; it has ended, and nobody hears of it.
bool Rnic::begin_at_once(Connection& c) try {
  c.handle_ready(HangUp::None);
  return true;
} catch (const std::bad_alloc&) {
  c.release();
  return false;
}

void Rnic::add_connection(std::unique_ptr<Connection> connection) {
  // So that list_direct, in the middle of a connection's work, has room without asking for it, and
  // handle_interest for the dead; and the timers, at any time.
  if (timed_.capacity() <= connections_.size()) timed_.reserve(2 * connections_.size() + 8);
  if (streaming_.capacity() <= connections_.size()) streaming_.reserve(2 * connections_.size() + 8);
  if (splicing_.capacity() <= connections_.size()) splicing_.reserve(2 * connections_.size() + 8);
  if (roll_.capacity() <= connections_.size()) roll_.reserve(2 * connections_.size() + 8);
  if (dead_.capacity() <= connections_.size()) dead_.reserve(2 * connections_.size() + 8);
  if (index_.reserve(connections_.size() + 1)) {
    for (auto& [number, other] : connections_) index_.put(number, other.get());
  }
  const device::ConnectionNumber number = connection->number();
  const auto [place, added] = connections_.emplace(number, std::move(connection));
  index_.put(number, place->second.get());
}

/// Out of descriptors or memory: the connection stays in the backlog and the port would be readable
/// without end, so look again in a while.
void Rnic::pause(ListenerSlot& slot) {
  // To change what is watched needs nothing of the kernel that it could be short of.
  static_cast<void>(poller_.modify(slot.listener->fd(), 0, slot.number));
  slot.paused_until = now_ + kAcceptPause;
  if (!next_deadline_ || *slot.paused_until < *next_deadline_) next_deadline_ = slot.paused_until;
}

void Rnic::handle_deadline(Connection& c) {
  const std::optional<Instant> deadline = c.deadline();
  if (deadline) wake_at(*deadline);
}

void Rnic::handle_brisk(const Connection& c) {
  if (streaming_.size() > 1) brisk_.note(&c, exact_now());
}

bool Rnic::turn_is_short(const Connection& c) const {
  return streaming_.size() > 1 && brisk_.other_than(&c, now_);
}

void Rnic::wake_at(Instant deadline) {
  if (next_deadline_ && *next_deadline_ <= deadline) return;
  next_deadline_ = deadline;
  deadline_moved_ = true;
}

/// Whoever waits has to end earlier than it thought.
void Rnic::publish_deadline() {
  const std::int64_t deadline = next_deadline_ ? next_deadline_->ns : kNoDeadline;
  if (!std::exchange(deadline_moved_, false)) {
    deadline_ns_.store(deadline, std::memory_order_relaxed);
    return;
  }
  deadline_ns_.store(deadline, std::memory_order_seq_cst);
  wake_waiter();
}

/// After a change that who takes the place sees: is somebody in it who did not?
void Rnic::wake_waiter() {
  if (settings_.engine == Placement::Inline) return poller_.wake();
  if (place_.taken() && !sleeper_awake_.load(std::memory_order_seq_cst)) poller_.wake();
}

/// Events that moderation has kept back for long enough.
void Rnic::serve_holds() {
  if (!hold_timer_ || *hold_timer_ > now_) return;
  hold_timer_.reset();
  for (CompletionQueue* cq : moderated_) {
    const std::optional<Instant> deadline = cq->deadline();
    if (!deadline) continue;
    if (*deadline <= now_) {
      if (cq->end_hold()) handle_cq_notify(*cq);
    } else if (!hold_timer_ || *deadline < *hold_timer_) {
      hold_timer_ = deadline;
    }
  }
  set_timer();
}

void Rnic::set_timer() {
  const bool splice_first = splice_timer_ && (!hold_timer_ || *splice_timer_ < *hold_timer_);
  poller_.set_timer(splice_first ? splice_timer_ : hold_timer_);
}

void Rnic::note_spliced(Connection& c) {
  if (!std::exchange(c.on_splice_list, true)) splicing_.push_back(&c);
  const bool sleeps = c.qp()->send_cq().armed() || c.qp()->receive_cq().armed();
  if (splice_timer_ && sleeps) return hasten_spliced();
  if (splice_timer_ && !may_put_off_spliced()) return;
  splice_pause_ = sleeps ? kSplicePauseMin : kSplicePauseOfPolls;
  splice_timer_ = exact_now() + splice_pause_;
  entries_at_splice_timer_ = consumer_entries();
  set_timer();
}

/// A program that posts asks as it sends: the thread is to come when it has stopped, and not beside
/// it, where it would take its processor. Nor does the thread need a timer that asks on and on.
bool Rnic::may_put_off_spliced() {
  const bool is_asked =
      asks_on_and_on_ || (splicing_.size() == 1 && consumer_entries() != entries_at_splice_timer_);
  return is_asked && exact_now() + kSplicePauseOfPolls / 2 >= *splice_timer_;
}

/// Who has asked is about to sleep.
void Rnic::hasten_spliced() {
  if (!splice_timer_ || splice_pause_ == kSplicePauseMin) return;
  splice_pause_ = kSplicePauseMin;
  splice_timer_ = exact_now() + splice_pause_;
  set_timer();
}

/// Nothing tells that a peer has read what was spliced: one looks again and again. True: something
/// was read since, or nothing is left.
bool Rnic::look_at_spliced() {
  bool some_read = false;
  for (std::size_t i = 0; i < splicing_.size();) {  // who is served may come again, at the end
    Connection& c = *splicing_[i];
    const SplicedState state = c.handle_spliced();
    some_read = some_read || state != SplicedState::NoneRead;
    if (state != SplicedState::None) {
      ++i;
      continue;
    }
    c.on_splice_list = false;
    splicing_[i] = splicing_.back();
    splicing_.pop_back();
  }
  return some_read;
}

void Rnic::serve_spliced() {
  if (!splice_timer_ || *splice_timer_ > now_) return;
  const bool some_read = look_at_spliced();
  splice_pause_ = some_read ? kSplicePauseMin : std::min(2 * splice_pause_, kSplicePauseMax);
  splice_timer_.reset();
  if (!splicing_.empty()) splice_timer_ = exact_now() + splice_pause_;
  set_timer();
}

void Rnic::serve_late_ends() {
  if (late_ends_.empty()) return;
  late_ends_.serve(
      now_,
      [this](const LateEnds::Mark& mark) {
        const auto it = cqs_.find(mark.cq);
        return it == cqs_.end() || it->second->is_read(mark.produced);
      },
      [this](const device::ConnectionEvent& end) { report(end); });
}

void Rnic::serve_timers() {
  serve_holds();
  serve_spliced();
  if (!next_deadline_ || *next_deadline_ > now_) return;
  next_deadline_.reset();
  timed_.clear();
  for (auto& [number, connection] : connections_) timed_.push_back(connection.get());
  for (Connection* connection : timed_) {
    connection->handle_timeout();
    const std::optional<Instant> deadline = connection->deadline();
    if (deadline && (!next_deadline_ || *deadline < *next_deadline_)) next_deadline_ = deadline;
  }
  rendezvous_.handle_timeouts();
  serve_late_ends();
  for (const auto deadline : {rendezvous_.deadline(), late_ends_.deadline()}) {
    if (deadline && (!next_deadline_ || *deadline < *next_deadline_)) next_deadline_ = deadline;
  }
  for (auto& [number, slot] : listeners_) {
    if (!slot->paused_until) continue;
    slot->paused_until.reset();
    static_cast<void>(poller_.modify(slot->listener->fd(), EPOLLIN, number));
  }
}

/// A CQ lost a completion: every QP that uses it ends (verbs draft §8.3).
void Rnic::fault_overflowed() {
  while (!overflowed_.empty()) {
    CompletionQueue* cq = overflowed_.back();
    overflowed_.pop_back();
    events_.handle_async_event({device::AsyncEventKind::CQError, cq->cookie()});
    for (std::uint32_t slot = 1; slot < kQPCountMax && cq->users != 0; ++slot) {
      QueuePair* qp = qps_[slot].load(std::memory_order_relaxed);
      if (qp == nullptr || (&qp->send_cq() != cq && &qp->receive_cq() != cq)) continue;
      //= SEC-07
      // Only the users of this CQ are hurt; other streams go on.
      fault(*qp);
    }
  }
  if (!std::exchange(some_completion_lost_, false)) return;
  for (std::uint32_t slot = 1; slot < kQPCountMax; ++slot) {
    QueuePair* qp = qps_[slot].load(std::memory_order_relaxed);
    // It came to the CQ, or began anew, after that had overflowed.
    if (qp != nullptr && std::exchange(qp->completion_lost, false)) fault(*qp);
  }
}

bool Rnic::is_ending(QueuePair& qp) {
  const core::QPState state = qp.core().state();
  return state == core::QPState::Terminate || state == core::QPState::Error;
}

/// Its completions get lost: the QP ends, whether it has a stream yet or not.
void Rnic::fault(QueuePair& qp) {
  // Its end is known already: often it is the flushing that overfills the CQ.
  if (is_ending(qp)) return;
  qp.fatal_reported = true;
  report_async(device::AsyncEventKind::QPFatal, qp);
  rendezvous_.stop_search(qp);
  if (qp.core().state() == core::QPState::Idle) {
    if (qp.connection != nullptr) qp.connection->abort_setup("the CQ of the QP overflowed");
    static_cast<void>(qp.core().fail(now_));  // Idle can always fail
    if (qp.srq() == nullptr) qp.want_receive();
  } else {
    qp.core().handle_local_error(wire::TermError::RDMAPStreamCatastrophic, now_);
  }
  if (qp.connection != nullptr) qp.connection->serve();
  tell_last_receive(qp);
}

std::size_t Rnic::receive_buffers_lent() {
  Entry entry(*this);
  return receive_buffers_.borrowed();
}

void Rnic::prepare_exit() {
  Entry entry(*this);
  exits_ = true;
  receive_buffers_.keep_all();
  transmit_buffers_.keep_all();
}

void Rnic::end_loose() {
  rendezvous_.settle();
  fault_overflowed();
  end_unwatched();
  serve_late_ends();
  bury();
}

void Rnic::bury() {
  if (dead_.empty() || exits_) return;
  for (const device::ConnectionNumber number : dead_) {
    const auto entry = connections_.find(number);
    index_.remove(number, entry->second.get());
    if (entry->second->on_splice_list) std::erase(splicing_, entry->second.get());
    connections_.erase(entry);
  }
  dead_.clear();
}

}  // namespace weft::engine
