// A program's poll that found its CQ empty: whom it asks, and when it gives its processor up.
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "engine/crowding.h"
#include "engine/rnic.h"
#include "engine/rnic_entry.h"
#include "engine/ticks.h"

namespace weft::engine {

namespace {
/// Every so many direct polls the poller is asked too: listeners, handshakes, other streams. Polls
/// that ask nobody, for all were asked just now, are so much quicker that they count less.
constexpr std::uint32_t kPollerEvery = 64 * 4, kOfAsking = 4;
/// So many of many are served in a poll: its program comes again soon, and is seen to stay.
constexpr std::size_t kReadyOfMany = 24;
/// A poll that moves so much takes as long as so many that find nothing.
constexpr std::uint64_t kBulkOctets = 64 * 1024;
constexpr std::uint32_t kPollsPerBulk = 16;
}  // namespace

void Rnic::poll(device::CQNumber empty) {
  bool yields = false;
  Expected expected;
  const bool entered = Entry::try_enter(*this, [empty, &yields, &expected](Rnic& rnic) {
    // Counted only when this thread really was the RNIC: who finds the progress thread at work and
    // comes again at once does not make it stand back.
    rnic.note_empty_polls(1);
    rnic.note_consumer();
    rnic.in_poll_.store(true, std::memory_order_relaxed);
    yields = rnic.look_around(empty);
    rnic.in_poll_.store(false, std::memory_order_relaxed);
    // Who polls no CQ is about to sleep for an event.
    const bool sleeps = yields && empty != device::kNoCQ && Crowding::here().is_crowded();
    if (sleeps) expected = rnic.what_may_come();
  });
  if (yields) give_way(expected);
  if (entered) return;
  // Whoever holds the lock polls, perhaps, another CQ, or may be waiting for this very processor.
  others_turn_.ask();
  ::sched_yield();
}

/// What a poll does. True: give way then.
bool Rnic::look_around(device::CQNumber empty) {
  const std::uint32_t departures = this->departures();
  if (courtesy_.was_away()) poll_turn_ = kPollerEvery;  // the poller is asked now
  if (any_rung()) serve_rung();  // before the look at what came: a peer may wait for it
  const std::uint64_t moved = moved_;
  const bool asked = poll_directly(empty);
  if (moved_ - moved >= kBulkOctets) {
    // It is in a stream, and comes again.
    note_consumer(kPollsPerBulk);
    poll_turn_ += kPollerEvery / kPollsPerBulk;
  }
  const bool sent = this->departures() != departures;
  return (asked || sent) && courtesy_.note(arrivals_, sent);
}

/// Of few streams alone: they are all there is to poll, and a poll asks all of them.
Rnic::Expected Rnic::what_may_come() const {
  Expected expected;
  if (streaming_.size() > kDirectStreamsMax || !roll_.empty()) return expected;
  for (Connection* c : streaming_) {
    const auto writable = static_cast<short>(c->wants_write() ? POLLOUT : 0);
    expected.readiness[expected.count++] = {c->stream()->fd(),
                                            static_cast<short>(POLLIN | writable), 0};
  }
  ++expected.count;  // the poller
  return expected;
}

/// True: something came.
bool Rnic::sleep_for(Expected& expected) {
  const int error = errno;
  const timespec most = {0, static_cast<long>(Expected::kMost.count())};
  const std::span<pollfd> all = expected.room();
  polls_asleep_.fetch_add(1, std::memory_order_relaxed);
  // Interrupted or not: the next poll looks.
  static_cast<void>(poller_.sleep_among(all, &most, nullptr));
  polls_asleep_.fetch_sub(1, std::memory_order_relaxed);
  errno = error;
  return std::ranges::any_of(all, [](const pollfd& one) { return one.revents != 0; });
}

/// To who shares this processor, if there is somebody.
void Rnic::give_way(Expected expected) {
  using Clock = std::chrono::steady_clock;
  Crowding& crowding = Crowding::here();
  const auto now = [] { return Instant{Clock::now().time_since_epoch().count()}; };
  const Instant began = now();
  if (expected.count != 0) {
    const bool woken = sleep_for(expected);
    crowding.note_sleep();
    courtesy_.note_slept(now() - began, woken);
    if (!woken || now() - began > Courtesy::kNobody) return;
    // What was ready is not for this poll to take.
  }
  ::sched_yield();
  const Instant ended = now();
  courtesy_.note_yielded(ended - began);
  crowding.note_yield(began, ended, Crowding::taken, Crowding::waited);
}

// Neither is a read-modify-write: a few that get lost among many threads do not matter.
void Rnic::note_empty_polls(std::uint32_t polls) {
  empty_polls_.store(empty_polls() + polls, std::memory_order_relaxed);
}
void Rnic::note_consumer(std::uint32_t calls) {
  consumer_entries_.store(consumer_entries() + calls, std::memory_order_relaxed);
}

/// The program is about to sleep; if not in here, the progress thread has to be awake.
void Rnic::note_arming() {
  presence_.note_arming();
  polls_at_arming_.store(empty_polls(), std::memory_order_relaxed);
  if (sleep_habit_.note_arming()) nap_.interrupt();
  hasten_spliced();
}

/// Behind a poll that found the CQ empty: the program works on what is in it now.
void Rnic::note_much(device::CQNumber empty) {
  const auto cq = cqs_.find(empty);
  if (cq != cqs_.end() && cq->second->unread() >= kManyReady) presence_.note_much(now_);
}

/// False: whoever might have something was asked a moment ago.
bool Rnic::poll_directly(device::CQNumber empty) {
  const std::size_t streams = streaming_.size();
  const bool few = streams <= kDirectStreamsMax;
  const bool many = may_roll();
  const bool alone = settings_.engine == Placement::Inline;
  const bool all = streams == 1 || empty == device::kNoCQ || alone || others_turn_.come();
  if (few) {
    const bool asked = ask_streams(empty, all);
    poll_turn_ += asked ? kOfAsking : 1;
    if (poll_turn_ < kPollerEvery) return asked;
    poll_turn_ = 0;
  }
  tick();
  if (!few) look_at_spliced();
  // All that a look of the progress thread would bring is done here.
  if (presence_.note(now_) && nap_.push(now_)) leave_to_polls();
  std::array<epoll_event, 64> events;
  const std::span<epoll_event> room = std::span(events).first(many ? kReadyOfMany : events.size());
  std::size_t ready = (alone ? poller_.wait(0, room) : poller_.look(room)).size();
  if (few || (!all && streams <= kLevelStreamsMax)) {
    const auto can_wait = [&](const epoll_event& event) {
      Connection* c = find_connection(event.data.u64);
      if (c == nullptr || c->direct_slot == Connection::kNotListed) return false;
      // What is told of once is not passed over.
      if (hang_up_of(event.events) != HangUp::None || c->interest == Connection::kReadsByEdges) {
        return false;
      }
      // Few were asked just now: a second turn would keep the other one waiting.
      if (few) return true;
      // Of more, one that keeps Writes until they are read has to place those as more come.
      return (event.events & EPOLLOUT) == 0 && c->qp() != nullptr && c->qp()->keeps_writes() &&
             passes_over(*c, empty);
    };
    const auto end = events.begin() + static_cast<std::ptrdiff_t>(ready);
    const auto rest = std::remove_if(events.begin(), end, can_wait);
    ready = static_cast<std::size_t>(rest - events.begin());
  }
  serve_ready(std::span(events).first(ready));
  if (many || !roll_.empty()) {
    share_with_roll(std::span(events).first(ready));
    note_much(empty);
  }
  serve_timers();
  return true;
}

/// The clock is read when something arrives (Connection::receive_once): most polls find nothing.
/// False: nobody was asked, as all have just been, or are passed over.
bool Rnic::ask_streams(device::CQNumber empty, bool all) {
  bool any = streaming_.empty();
  // Who waits for small messages is not kept waiting by another one's turn.
  if (streaming_.size() == 2 && turn_is_short(*streaming_[0])) swap_direct();
  // By index: serving one may end it and change the list.
  for (std::size_t i = 0; i < streaming_.size(); ++i) {
    if (!all && passes_over(*streaming_[i], empty)) continue;
    any |= ask_stream(*streaming_[i]);
  }
  return any;
}

bool Rnic::ask_stream(Connection& c) {
  const std::uint64_t began = ticks();
  if (!c.ask_pause.is_over(began) && !c.wants_write()) return false;
  const std::uint32_t arrivals = arrivals_, departures = this->departures();
  c.handle_polled();
  if (arrivals_ != arrivals) {
    c.ask_pause.note_found();
  } else if (this->departures() == departures && c.brings_messages() && c.stream() != nullptr &&
             c.stream()->is_within_host()) {
    c.ask_pause.note_vain(began, ticks());
  }
  return true;
}

/// Who polls one CQ waits for its streams. Another one's can wait a few polls (PassedOver), unless
/// it is brisk.
bool Rnic::passes_over(Connection& c, device::CQNumber empty) const {
  QueuePair* qp = c.qp();
  const bool elsewhere =
      qp != nullptr && qp->send_cq().number() != empty && qp->receive_cq().number() != empty;
  if (elsewhere && !brisk_.is(&c, now_) && c.passed_over.once_more()) return true;
  c.passed_over.end();
  return false;
}

}  // namespace weft::engine
