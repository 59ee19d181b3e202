// A program's thread that waits for an event, and is the RNIC meanwhile (docs/adr/0014).
#include "engine/rnic.h"
#include "engine/rnic_entry.h"

namespace weft::engine {

/// In the poller on behalf of a queue of events; also left when the thread is cancelled there.
class Rnic::Sleeper {
 public:
  Sleeper(Rnic& rnic, const std::atomic<std::uint32_t>& events) : rnic_(rnic) {
    rnic_.place_.take_wish();  // this one's own
    // Pairs with end_sleep: one of the two sees what the other did.
    rnic_.sleeper_.store(&events, std::memory_order_seq_cst);
  }
  ~Sleeper() {
    rnic_.sleeper_.store(nullptr, std::memory_order_seq_cst);
    rnic_.sleeper_awake_.store(false, std::memory_order_relaxed);
    rnic_.place_.leave();
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

 private:
  Rnic& rnic_;
};

/// Whoever is there makes room for who comes later.
bool Rnic::take_place() {
  constexpr int kAttempts = 4;  // others may want it as well
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (place_.try_take()) return true;
    place_.await([this] {
      place_.wish();
      poller_.wake();
    });
  }
  place_.take_wish();
  return place_.try_take();
}

device::Slept Rnic::sleep(const std::atomic<std::uint32_t>& events) {
  using device::Slept;
  if (settings_.engine == Placement::Inline) return Slept::NotHere;
  if (watched()) {
    // This is the next call that posts have waited for.
    if (rung()) Entry::try_enter(*this, [](Rnic&) {});
    end_watch();
    // Another thread posts, and only the progress thread looks after what it leaves lying.
    if (watched()) return Slept::NotHere;
  }
  if (!take_place()) return Slept::NotHere;
  slept_at_arming_.store(armings(), std::memory_order_relaxed);
  Sleeper sleeper(*this, events);
  // As a poll that found nothing: the progress thread stands back from a program that comes often.
  empty_polls_.fetch_add(1, std::memory_order_relaxed);
  if (events.load(std::memory_order_seq_cst) != 0) return Slept::Look;
  const auto ready = poller_.sleep(timeout_ms(), sleeper_events_);
  if (!ready) return Slept::Interrupted;
  sleeper_awake_.store(true, std::memory_order_relaxed);
  progress_events(*ready);
  return place_.wished() ? Slept::NotHere : Slept::Look;
}

bool Rnic::end_sleep(const std::atomic<std::uint32_t>& events) {
  if (!sleeps_for(events)) return false;
  // Awake, it makes progress, maybe this very progress, and looks at its queue afterwards.
  if (!sleeper_awake_.load(std::memory_order_relaxed)) poller_.wake();
  return true;
}

}  // namespace weft::engine
