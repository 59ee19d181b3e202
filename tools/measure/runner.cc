// Loops of the threads: busy, or asleep in poll(2).
#include "measure/runner.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <mutex>
#include <thread>

namespace weft::measure {
namespace {

/// Nothing at all has moved for so long: somebody hangs.
constexpr std::uint64_t kStallNs = 60'000'000'000u;
constexpr int kSliceMs = 200;
/// Looking at the line costs a system call.
constexpr unsigned kLookEvery = 4096;

}  // namespace

void pin(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    if (errno == EINVAL) fail("--pin: this process may not run on any of these CPUs");
    fail_errno("--pin");
  }
}

void Crew::watch(bool watches, std::uint64_t last_progress_ns) {
  if (interrupted()) throw Interrupted();
  if (failed_.load(std::memory_order_relaxed)) throw Abandoned();
  if (watches) line_.check_peer();
  // Both sides may share one CPU, and whoever is awaited may be waiting for it.
  std::this_thread::yield();
  if (now_ns() - last_progress_ns > kStallNs) {
    fail("no message has moved for {} s", kStallNs / 1'000'000'000u);
  }
}

void Crew::turn_polling(std::vector<Runner*> mine, bool watches) {
  // A blocking call that moved nothing has waited long enough by itself.
  const unsigned look_every = plan_.wait == Wait::Block ? 1 : kLookEvery;
  unsigned idle = 0, turns = 0;
  std::uint64_t last_progress = now_ns();
  while (!mine.empty()) {
    bool moved = false, ended = false;
    for (Runner* one : mine) {
      moved |= one->step();
      ended |= one->done();
    }
    if (ended) std::erase_if(mine, [](const Runner* one) { return one->done(); });
    if (moved) {
      idle = 0;
      if (++turns % kLookEvery == 0) {
        last_progress = now_ns();
        watch(false, last_progress);
      }
    } else if (++idle % look_every == 0) {
      // One that was just moving has its time noted late; the limit is generous.
      if (idle == look_every) last_progress = now_ns();
      watch(watches, last_progress);
    }
  }
}

bool Crew::sleep(const std::vector<Runner*>& mine) {
  if (plan_.wait == Wait::Block) {
    // A peer that is gone wakes us too: what is posted completes, with an error. So does a signal.
    mine.front()->woken();
    if (interrupted()) throw Interrupted();
    return true;
  }
  std::vector<pollfd> waiting;
  waiting.reserve(mine.size());
  for (const Runner* one : mine) waiting.push_back({one->descriptor(), one->events(), 0});
  const int ready = ::poll(waiting.data(), waiting.size(), kSliceMs);
  if (ready < 0 && errno != EINTR) fail_errno("poll");
  for (std::size_t i = 0; ready > 0 && i < waiting.size(); ++i) {
    if (waiting[i].revents != 0) mine[i]->woken();
  }
  return ready > 0;
}

void Crew::turn_sleeping(std::vector<Runner*> mine, bool watches) {
  std::uint64_t last_progress = now_ns();
  unsigned turns = 0;
  while (!mine.empty()) {
    const auto step_all = [&] {
      bool moved = false;
      for (Runner* one : mine) {
        while (!one->done() && one->step()) {
          moved = true;
          if (++turns % kLookEvery == 0) watch(false, now_ns());
        }
      }
      return moved;
    };
    const bool before = step_all();
    std::erase_if(mine, [](const Runner* one) { return one->done(); });
    if (mine.empty()) return;
    for (Runner* one : mine) one->arm();
    const bool after = step_all();
    if (before || after) last_progress = now_ns();
    // What came before the arming brings no event. Else the next thing is to sleep: to arm a second
    // time without one tells weft that its own thread is needed.
    if (after) continue;
    if (!sleep(mine)) watch(watches, last_progress);
  }
}

void Crew::work(std::size_t thread) {
  std::vector<Runner*> mine;
  for (std::size_t i = thread; i < runners_.size(); i += plan_.threads) {
    mine.push_back(runners_[i].get());
  }
  const bool watches = thread == 0;
  if (plan_.wait == Wait::Event || (plan_.wait == Wait::Block && plan_.over != Over::TCP)) {
    turn_sleeping(std::move(mine), watches);
  } else {
    turn_polling(std::move(mine), watches);
  }
}

void Crew::run() {
  failed_ = false;
  if (plan_.threads == 1) return work(0);
  std::mutex lock;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < plan_.threads; ++i) {
      threads.emplace_back([&, i] {
        try {
          if (!cpus_.empty()) pin({cpus_[i % cpus_.size()]});
          work(i);
        } catch (...) {
          const std::lock_guard guard(lock);
          if (first == nullptr) first = std::current_exception();
          failed_ = true;
        }
      });
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace weft::measure
