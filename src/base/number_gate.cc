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

/// The first number that is not the program's.
constexpr int kFirst = 2048;

// By number: a preload library of the same process may stand in front of libc's functions.
int duplicate_from(int fd, int first) {
  return static_cast<int>(::syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, first));
}

int duplicate_above(int fd) {
  const int made = duplicate_from(fd, kFirst);
  if (made >= 0) return made;
  rlimit limit = {};  // this process may have no such number, or has used them up
  ::syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit);
  const int first = static_cast<int>(std::min<rlim_t>(limit.rlim_cur / 2, kFirst));
  return fd < first ? duplicate_from(fd, first) : made;
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

int duplicate_out_of_the_way(int fd) {
  const int above = duplicate_above(fd);
  return above >= 0 ? above : duplicate_from(fd, 0);
}

int out_of_the_way(int fd) {
  if (fd < 0 || fd >= kFirst) return fd;
  const int moved = duplicate_above(fd);
  if (moved < 0) return fd;
  ::syscall(SYS_close, fd);
  return moved;
}

}  // namespace weft
