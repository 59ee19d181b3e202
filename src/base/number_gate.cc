// Numbers of descriptors that a thread has for a moment only.
#include "base/number_gate.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace weft {
namespace {

constexpr std::chrono::seconds kPatience{1};

constinit std::atomic<bool> taken{false};
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { taken = false; });

bool take() {
  return !taken.exchange(true, std::memory_order_acquire);
}

}  // namespace

NumberGate::NumberGate() {
  if (take()) return;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!take() && std::chrono::steady_clock::now() < end) sched_yield();
}

NumberGate::~NumberGate() {
  taken.store(false, std::memory_order_release);
}

// By number: a preload library of the same process may stand in front of libc's functions.
long out_of_the_way(long fd) {
  constexpr long kFirst = 2048;
  if (fd < 0 || fd >= kFirst) return fd;
  long moved = ::syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kFirst);
  if (moved < 0) {  // this process may have no such number, or has used them up
    rlimit limit = {};
    ::syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit);
    const long first = std::min(static_cast<long>(limit.rlim_cur / 2), kFirst);
    moved = fd < first ? ::syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, first) : moved;
  }
  if (moved < 0) return fd;
  ::syscall(SYS_close, fd);
  return moved;
}

}  // namespace weft
