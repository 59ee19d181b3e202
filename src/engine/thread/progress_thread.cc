// The loop of the background thread.
#include "engine/thread/progress_thread.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>

#include "engine/rnic.h"

namespace weft::engine {

namespace {
/// This many empty polls since the last look mean that a consumer polls in a loop. A program that
/// polls once in a while, or that finds a completion every time, makes fewer.
constexpr std::uint32_t kLoopPolls = 16;
constexpr int kStandBackUsMin = 100;
constexpr int kStandBackUsMax = 1000;

/// A program's signals are its own: ours only takes faults, which belong to the guard.
void block_signals() {
  sigset_t set;
  sigfillset(&set);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    sigdelset(&set, fault);
  }
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace

ProgressThread::ProgressThread(Rnic& rnic) : rnic_(rnic) {
  // The mask is inherited, so that no signal can reach the new thread before it has its own.
  sigset_t set, old;
  sigfillset(&set);
  pthread_sigmask(SIG_SETMASK, &set, &old);
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "weft");
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

ProgressThread::~ProgressThread() {
  stop_.store(true, std::memory_order_release);
  rnic_.poller().wake();
  thread_.join();
}

void ProgressThread::run() {
  block_signals();
  sigset_t faults;
  sigemptyset(&faults);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    sigaddset(&faults, fault);
  }
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);

  std::array<epoll_event, 64> events;
  std::uint32_t seen = rnic_.empty_polls();
  while (!stop_.load(std::memory_order_acquire)) {
    const std::span<const epoll_event> ready = rnic_.poller().wait(rnic_.timeout_ms(), events);
    const std::uint32_t polls = rnic_.empty_polls();
    if (polls - seen >= kLoopPolls) stand_back();
    seen = rnic_.empty_polls();
    // After standing back `ready` may be stale; serving a stream that has nothing is harmless.
    rnic_.progress_events(ready);
  }
}

void ProgressThread::stand_back() {
  int pause_us = kStandBackUsMin;
  std::uint32_t seen = rnic_.empty_polls();
  while (!stop_.load(std::memory_order_acquire)) {
    const timespec pause = {0, pause_us * 1000L};
    nanosleep(&pause, nullptr);
    const std::uint32_t polls = rnic_.empty_polls();
    if (polls - seen < kLoopPolls) return;
    seen = polls;
    pause_us = std::min(pause_us * 2, kStandBackUsMax);
  }
}

}  // namespace weft::engine
