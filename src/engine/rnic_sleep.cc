// A program's thread that waits for an event, and is the RNIC meanwhile (docs/adr/0014).
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "engine/rnic.h"
#include "engine/rnic_entry.h"

namespace weft::engine {

/// In the poller on behalf of a queue of events; also left when the thread is cancelled there.
class Rnic::Sleeper {
 public:
  Sleeper(Rnic& rnic, const std::atomic<std::uint32_t>& events) : rnic_(rnic) {
    // Pairs with end_sleep: one of the two sees what the other did.
    rnic_.sleeper_.store(&events, std::memory_order_seq_cst);
    turn_ = ++rnic_.sleeper_turn_;
  }
  ~Sleeper() {
    if (rnic_.sleeper_turn_ == turn_) leave(rnic_);
  }
  static void leave(Rnic& rnic) {
    rnic.sleeper_.store(nullptr, std::memory_order_seq_cst);
    rnic.sleeper_awake_.store(false, std::memory_order_relaxed);
    rnic.place_.leave();
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

 private:
  Rnic& rnic_;
  std::uint32_t turn_;
};

/// Whoever is there makes room for who comes later. No wish of this thread's is left behind: the
/// progress thread would stand back from it for ever.
bool Rnic::take_place() {
  constexpr int kAttempts = 4;  // others may want it as well
  bool taken = place_.try_take();
  for (int attempt = 0; !taken && attempt < kAttempts; ++attempt) {
    place_.await([this] {
      place_.wish();
      poller_.wake();
    });
    taken = place_.try_take();
  }
  place_.take_wish();
  return taken;
}

/// Another thread posts, and only the progress thread looks after what it leaves lying.
bool Rnic::leave_to_thread() {
  nap_.interrupt();  // which had been told that this one sleeps in here
  return false;
}

/// Leaves nothing lying, and takes the place. False: another thread does the work.
bool Rnic::begin_sleep() {
  if (settings_.engine == Placement::Inline) return false;
  if (watched()) {
    // This is the next call that posts have waited for.
    if (rung()) Entry::try_enter(*this, [](Rnic&) {});
    end_watch();
    if (watched()) return leave_to_thread();
  }
  if (!take_place()) return false;
  // Who began to gather meanwhile may have woken nobody.
  if (watched()) {
    place_.leave();
    return leave_to_thread();
  }
  watch_again();
  sleep_habit_.note_sleep();
  // As a poll that found nothing: the progress thread stands back from a program that comes often.
  note_empty_polls(1);
  return true;
}

using Clock = std::chrono::steady_clock;

device::Slept Rnic::sleep(const std::atomic<std::uint32_t>& events, const sigset_t& mask) {
  if (!begin_sleep()) return device::Slept::NotHere;
  Sleeper sleeper(*this, events);
  if (events.load(std::memory_order_seq_cst) != 0) {
    look_habit_.note_wait({}, true);
    return awake();
  }
  if (!look_habit_.is_worth()) return sleep_unseen(events, mask);
  return is_soon(events) ? awake() : sleep_now(mask);
}

/// Without a look.
device::Slept Rnic::sleep_unseen(const std::atomic<std::uint32_t>& events,
                                 const sigset_t& mask) {
  const Clock::time_point began = Clock::now();
  const device::Slept slept = sleep_now(mask);
  look_habit_.note_wait(Clock::now() - began, events.load(std::memory_order_relaxed) != 0);
  return slept;
}

device::Slept Rnic::sleep_now(const sigset_t& mask) {
  if (!poller_.sleep(timeout_ms(), mask)) return device::Slept::Interrupted;
  sleeper_awake_.store(true, std::memory_order_relaxed);
  progress();
  return awake();
}

device::Slept Rnic::awake() const {
  return place_.wished() ? device::Slept::NotHere : device::Slept::Look;
}

/// Looks for a moment. True: there is something to do instead of sleeping.
bool Rnic::is_soon(const std::atomic<std::uint32_t>& events) {
  sleeper_awake_.store(true, std::memory_order_relaxed);
  const Clock::time_point end = Clock::now() + LookHabit::kLook;
  bool found = false;
  // The last poll comes behind the time: a poll may end with others' turn.
  for (bool last = false; !found && !last && !place_.wished();) {
    last = Clock::now() >= end;
    poll(device::kNoCQ);
    found = events.load(std::memory_order_relaxed) != 0;
  }
  if (found || !place_.wished()) look_habit_.tell(found);
  if (found) return true;
  Entry::try_enter(*this, [](Rnic& rnic) { rnic.courtesy_.note_leaving(); });
  // Who saw it awake gave no sign. Pairs with end_sleep and wake_waiter: one of the two sees what
  // the other did.
  sleeper_awake_.store(false, std::memory_order_seq_cst);
  return events.load(std::memory_order_seq_cst) != 0 || watched() || place_.wished();
}

namespace {

/// The earlier of the two; `wait` empty, `ms` below 0: never.
const timespec* earlier(const timespec* wait, int ms, timespec& room) {
  if (ms < 0) return wait;
  room = {ms / 1000, ms % 1000 * 1'000'000L};
  const bool sooner =
      wait != nullptr &&
      (wait->tv_sec < room.tv_sec || (wait->tv_sec == room.tv_sec && wait->tv_nsec < room.tv_nsec));
  return sooner ? wait : &room;
}

}  // namespace

device::Slept Rnic::sleep_among(const device::Watched& watched) {
  using device::Slept;
  if (watched.count > device::kWatchedMax || !begin_sleep()) return Slept::NotHere;
  // Events are counted in their descriptors: this thread does not say for which it waits.
  Sleeper sleeper(*this, no_events_);
  std::array<pollfd, device::kWatchedMax + 1> all;
  std::copy_n(watched.fds, watched.count, all.begin());
  timespec room{};
  const auto ready = poller_.sleep_among(std::span(all).first(watched.count + 1),
                                         earlier(watched.wait, timeout_ms(), room), watched.mask);
  if (!ready) return ready.error().code == EINTR ? Slept::Interrupted : Slept::NotHere;
  std::copy_n(all.begin(), watched.count, watched.fds);
  sleeper_awake_.store(true, std::memory_order_relaxed);
  // A deadline of the RNIC's own may have come instead.
  if (*ready || timeout_ms() == 0) progress();
  return awake();
}

void Rnic::abandon_sleep() {
  ++sleeper_turn_;
  Sleeper::leave(*this);
}

/// A program that sends nothing between two events only takes what comes. None is a
/// read-modify-write: what gets lost between two threads does not matter.
void Rnic::note_told() {
  const std::uint32_t left = departures();
  if (left == left_by_told_.load(std::memory_order_relaxed)) return;
  left_by_told_.store(left, std::memory_order_relaxed);
  told_.store(told() + 1, std::memory_order_relaxed);
}

bool Rnic::end_sleep(const std::atomic<std::uint32_t>& events) {
  if (!sleeps_for(events)) return note_told(), false;
  // Awake, it makes progress, maybe this very progress, and looks at its queue afterwards.
  if (!sleeper_awake_.load(std::memory_order_seq_cst)) poller_.wake();
  return true;
}

}  // namespace weft::engine
