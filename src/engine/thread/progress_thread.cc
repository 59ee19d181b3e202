// The loop of the background thread.
#include "engine/thread/progress_thread.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/signals.h"
#include "engine/rnic.h"
#include "engine/thread/deputy_look.h"
#include "engine/thread/pause.h"

namespace weft::engine {

namespace {
/// This many empty polls since the last look, and since a CQ was armed, mean that a consumer polls
/// in a loop. A program that polls once in a while, or once more before it sleeps or looks at
/// memory, or that finds a completion every time, makes fewer.
constexpr std::uint32_t kLoopPolls = 4;
/// As do this many calls of whatever kind. While we do the work, a program that is busy with what
/// we bring never finds its CQ empty.
constexpr std::uint32_t kLoopEntries = 16;
constexpr int kStandBackUs = 100;
/// Posts that have waited this long, and none came behind them, wait in vain. Each look takes the
/// program's processor for 10 us, so who goes on posting is trusted for longer and longer.
constexpr Duration kForgottenAfterMin = std::chrono::microseconds(250);
constexpr Duration kForgottenAfterMax = std::chrono::milliseconds(2);
constexpr int kForgottenAfterGrowth = 16;
/// The peer reads what was spliced of it in less time, or is busy with something else.
constexpr Duration kReadersPatience = std::chrono::microseconds(100);
/// Longer than it takes to give way where nobody else wants the processor.
constexpr Duration kNobodysTurn = std::chrono::microseconds(20);
/// Where either was so, it will be so for a while.
constexpr Duration kReadersRest = std::chrono::milliseconds(5);
/// Who had the processor for longer than a look takes computes. For so many times as long there is
/// no look then for what needs no program.
constexpr int kRestsOfTurn = 64;
constexpr Duration kRestMost = std::chrono::milliseconds(250);
/// The shortest slice the scheduler grants.
constexpr std::uint64_t kSliceNs = 100'000;

Instant now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return {std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec};
}

void sleep_for(int us) {
  const timespec time = {0, us * 1000L};
  nanosleep(&time, nullptr);
}

/// Nothing arrived; streams only became writable.
bool only_room_to_send(std::span<const epoll_event> ready) {
  return !ready.empty() && std::all_of(ready.begin(), ready.end(), [](const epoll_event& event) {
    return event.events == EPOLLOUT;
  });
}

/// Asks the scheduler for short turns, soon: what the thread does takes microseconds, and a program
/// that spins on memory for a peer's Write fills the processor the thread wants to run on. With a
/// shorter slice a waking thread may preempt one that has a longer one (Linux 6.12 and later; older
/// kernels ignore the value). Needs no privilege.
void ask_for_short_turns() {
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime_ns, deadline_ns, period_ns;
  } attributes = {};
  attributes.size = sizeof attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.runtime_ns = kSliceNs;
  // Failure only means that the default slice stays.
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

ProgressThread::ProgressThread(Rnic& rnic) : rnic_(rnic), forgotten_after_(kForgottenAfterMin) {
  // The new thread inherits the mask, and keeps it but for faults: a program's signals are its own.
  const NoSignals none;
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "weft");
}

ProgressThread::~ProgressThread() {
  stop_.store(true, std::memory_order_release);
  rnic_.place().close();
  rnic_.poller().wake();
  rnic_.nap().interrupt();
  thread_.join();
}

void ProgressThread::run() {
  ask_for_short_turns();
  take_faults();  // which belong to the guard

  std::array<epoll_event, 64> events;
  look();
  while (!stop_.load(std::memory_order_acquire)) {
    if (!rnic_.place().try_take()) {
      // A program's thread sleeps in the poller. When it gets up it will often be back soon.
      rnic_.place().await();
      stand_back();
      continue;
    }
    rnic_.watch_again();  // what polls are not about to ask
    const bool watched = rnic_.watched();
    const bool edges = rnic_.watches_edges();
    std::span<const epoll_event> ready;
    bool any = false, timer_due = false;
    if (edges) {
      any = rnic_.poller().await(watched ? forgotten_after_ : time_left());
    } else {
      ready = watched ? rnic_.poller().wait_briefly(forgotten_after_, events, timer_due)
                      : rnic_.poller().wait(rnic_.timeout_ms(), events);
      any = !ready.empty();
    }
    const bool displaced = rnic_.place().leave();
    // The first edges came meanwhile, and nobody else is told of them.
    if (any && !edges && rnic_.watches_edges()) rnic_.progress_events(ready);
    if (watched) look_after_posts();
    if (displaced || consumers_poll()) {
      stand_back();
    } else if (only_room_to_send(ready) && rnic_.consumer_entries() != entries_seen_) {
      // A consumer that keeps the stream full comes back by itself, to post or to poll.
      sleep_for(kStandBackUs);
      look();
      continue;
    }
    look();
    // To go in only to look would send what waits for the posts behind it.
    if (watched && !any && !timer_due && rnic_.timeout_ms() != 0) continue;
    // After standing back `ready` may be stale; serving a stream that has nothing is harmless.
    const std::uint32_t told = rnic_.told(), answered = rnic_.answered();
    if (edges ? rnic_.progress_edges() : rnic_.progress_events(ready)) stay_with_readers();
    if (rnic_.told() != told) {
      stay_in(told_);
    } else if (rnic_.answered() != answered && now() >= answers_from_) {
      stay_in(answered_);
    }
  }
}

void ProgressThread::stay_with_readers() {
  if (rnic_.has_left_to_polls()) return;  // others wait to be watched
  Instant read = now();
  if (read < stays_from_) return;
  const std::uint32_t entries = rnic_.consumer_entries(), gathered = rnic_.gathered();
  const auto program_comes = [&] {
    return rnic_.consumer_entries() != entries || rnic_.gathered() != gathered ||
           rnic_.place().taken();
  };
  while (!stop_.load(std::memory_order_acquire) && !program_comes()) {
    const SplicedState state = rnic_.progress_spliced();
    if (state == SplicedState::None) return;
    const Instant asked = now();
    if (state == SplicedState::SomeRead) read = asked;
    ::sched_yield();
    const Instant back = now();
    if (asked - read <= kReadersPatience && back - asked <= kNobodysTurn) continue;
    stays_from_ = back + kReadersRest;
    return rnic_.leave_spliced();
  }
}

void ProgressThread::stay_in(Exchange& exchange) {
  const Instant time = now();
  if (!exchange.looks) exchange.habit.note_wait(time - exchange.at, true);
  exchange.at = time;
  while ((exchange.looks = exchange.habit.is_worth())) {
    look();
    const Next next = look_for_next(exchange);
    if (next == Next::Told) return stay_in(told_);
    if (next != Next::OthersWork) exchange.habit.tell(next == Next::Came);
    if (next != Next::Came) return;
    exchange.at = now();
  }
}

ProgressThread::Next ProgressThread::look_for_next(const Exchange& exchange) {
  const bool by_program = &exchange == &told_;
  const std::uint32_t told = rnic_.told(), answered = rnic_.answered();
  const auto programs_calls = [this] {
    return rnic_.consumer_entries() + rnic_.gathered() + rnic_.armings();
  };
  DeputyLook look(exchange.at);
  while (!stop_.load(std::memory_order_acquire)) {
    const std::uint32_t calls = programs_calls();
    const Instant given = now();
    ::sched_yield();
    const Instant back = now();
    const bool busy = rnic_.consumer_entries() - entries_seen_ >= kLoopEntries ||
                      rnic_.has_poll_asleep() || rnic_.presence().is_at_work(back);
    // To ask would send posts that wait for others.
    const bool gathers = rnic_.watched();
    if (busy || gathers || rnic_.place().taken() || rnic_.has_left_to_polls()) {
      return Next::OthersWork;
    }
    const bool programs = programs_calls() != calls;
    if (!look.goes_on(given, back, programs)) {
      const Duration turn = back - given;
      if (!by_program && !programs && turn > LookHabit::kLook) {
        answers_from_ = back + std::min(kRestsOfTurn * turn, kRestMost);
      }
      return Next::Late;
    }
    rnic_.progress_edges();
    if (rnic_.told() != told) return by_program ? Next::Came : Next::Told;
    if (by_program || rnic_.answered() == answered) continue;
    return look.others_had_turns() ? Next::Late : Next::Came;
  }
  return Next::OthersWork;
}

Duration ProgressThread::time_left() const {
  const int ms = rnic_.timeout_ms();
  return ms < 0 ? std::chrono::hours(1) : std::chrono::milliseconds(ms);
}

void ProgressThread::look_after_posts() {
  const Instant time = now();
  if (time - looked_ < forgotten_after_) return;
  looked_ = time;
  const std::uint32_t gathered = rnic_.gathered(), left = rnic_.gathered_left();
  const bool more_came = std::exchange(gathered_seen_, gathered) != gathered;
  const bool some_left = std::exchange(left_seen_, left) != left;
  // Who posts as seldom as that keeps its own posts waiting.
  const Duration longer = forgotten_after_ + forgotten_after_ / kForgottenAfterGrowth;
  forgotten_after_ =
      more_came && some_left ? std::min(longer, kForgottenAfterMax) : kForgottenAfterMin;
  if (more_came) return;
  rnic_.rung() ? rnic_.serve_forgotten(gathered) : rnic_.end_watch();
}

void ProgressThread::look() {
  polls_seen_ = rnic_.empty_polls();
  armings_seen_ = rnic_.armings();
  entries_seen_ = rnic_.consumer_entries();
}

bool ProgressThread::consumers_poll() const {
  if (rnic_.consumer_entries() - entries_seen_ >= kLoopEntries) return true;
  if (rnic_.presence().is_at_work(now()) || rnic_.has_poll_asleep()) return true;
  const std::uint32_t polls = rnic_.empty_polls();
  const bool armed = rnic_.armings() != armings_seen_;
  const std::uint32_t since_arming = armed ? polls - rnic_.polls_at_arming() : kLoopPolls;
  return std::min(polls - polls_seen_, since_arming) >= kLoopPolls;
}

void ProgressThread::stand_back() {
  Pause pause;
  bool arms = false;
  look();
  while (!stop_.load(std::memory_order_acquire)) {
    // Who stays puts off the end of the nap in its polls, so we are not woken to look. Who sleeps
    // between them leaves its processor idle, and there the timer is the next to expire.
    const bool pushed =
        !arms && pause.is_longest() && rnic_.nap().can_be_pushed() && rnic_.presence().stays(now());
    const bool slept = pushed ? !rnic_.nap().wait_pushed() : !rnic_.nap().wait(pause.us());
    // Who polls seldom is enough to keep us away, and should not keep other streams waiting.
    rnic_.others_turn().ask();
    // One poll is enough to go on, even of a program that arms: one that had much to send or
    // receive takes long, and may still be under way. And who answers a hundred requests between
    // two polls posts faster than one that waits at memory ever does.
    const auto busily = kLoopEntries * static_cast<std::uint32_t>(pause.us() / kStandBackUs);
    const std::uint32_t calls = rnic_.consumer_entries() - entries_seen_;
    const bool comes = rnic_.empty_polls() != polls_seen_ || calls >= busily ||
                       rnic_.is_polled() || rnic_.presence().is_at_work(now());
    if ((slept || !comes) && !rnic_.place().wished()) return;
    if (pushed) {
      pause = {};  // it does not stay any more: has it stopped?
    } else {
      pause.go_on(rnic_.watched(), calls);
    }
    arms = rnic_.armings() != armings_seen_;
    look();
  }
}

}  // namespace weft::engine
