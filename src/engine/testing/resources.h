// Test-only: what a process uses.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "engine/testing/side.h"

namespace weft::engine::testing {

/// Open descriptors of this process. By system call: a library's own would look to ThreadSanitizer
/// like a use of the descriptor, unordered with the engine's.
inline int count_descriptors() {
  constexpr int kLooked = 4096;
  int count = 0;
  for (int fd = 0; fd < kLooked; ++fd) {
    if (::syscall(SYS_fcntl, fd, F_GETFD) >= 0) ++count;
  }
  return count;
}

/// Does somebody run although nothing happens? Looks for a third of a second.
inline bool spins(Side& side) {
  constexpr std::chrono::milliseconds kLook{300};
  if (side.rnic.progress_fd() < 0) {
    const auto cpu = [] {
      timespec ts;
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
      return std::chrono::seconds(ts.tv_sec) + std::chrono::nanoseconds(ts.tv_nsec);
    };
    const auto before = cpu();
    std::this_thread::sleep_for(kLook);
    return cpu() - before > kLook / 3;
  }
  const auto end = std::chrono::steady_clock::now() + kLook;
  int wakes = 0;
  while (std::chrono::steady_clock::now() < end) {
    pollfd watched = {side.rnic.progress_fd(), POLLIN, 0};
    if (::poll(&watched, 1, 10) > 0) ++wakes;
    side.rnic.progress();
  }
  return wakes > 20;
}

}  // namespace weft::engine::testing
