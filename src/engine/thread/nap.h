// A short sleep that another thread may end.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace weft::engine {

/// Threads: one waits; any interrupts.
class Nap {
 public:
  /// Up to `us` microseconds, below a second.
  void wait(int us) {
    word_.store(kAsleep, std::memory_order_seq_cst);
    const timespec time = {0, us * 1000L};
    ::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, kAsleep, &time, nullptr, 0);
    std::uint32_t asleep = kAsleep;
    word_.compare_exchange_strong(asleep, kAwake, std::memory_order_seq_cst);
  }
  /// Ends a wait; does nothing when there is none.
  void interrupt() {
    std::uint32_t asleep = kAsleep;
    if (word_.load(std::memory_order_relaxed) != kAsleep ||
        !word_.compare_exchange_strong(asleep, kInterrupted, std::memory_order_seq_cst)) {
      return;
    }
    ::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  /// By the one who waits: was the last wait interrupted?
  bool take_interruption() {
    std::uint32_t interrupted = kInterrupted;
    return word_.compare_exchange_strong(interrupted, kAwake, std::memory_order_seq_cst);
  }

 private:
  static constexpr std::uint32_t kAwake = 0, kAsleep = 1, kInterrupted = 2;
  std::atomic<std::uint32_t> word_{kAwake};
};

}  // namespace weft::engine
