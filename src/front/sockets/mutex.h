// A mutex that a signal handler can ask about.
#pragma once

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

namespace weft::sockets {

/// How many the calling thread has, or is about to get. In a handler: what it interrupted has them.
/// initial-exec: another one would be a call in each lock() and unlock().
[[gnu::tls_model("initial-exec")]] inline constinit thread_local unsigned mutexes_held = 0;

/// A posted operation takes one, so it costs one atomic exchange and a store where std::mutex costs
/// two exchanges and two calls. Who has to sleep pays for it: it makes all threads' stores and
/// loads take their order (membarrier(2)). Whoever unlocks sees to it that the mutex lasts until
/// that returns.
class Mutex {
 public:
  void lock() {
    ++mutexes_held;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!take()) [[unlikely]]
      wait();
  }
  void unlock() {
    word_.store(kFree, std::memory_order_release);
    // Pairs with order() in wait(): the sleeper sees that it is free, or is seen here.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    --mutexes_held;
  }

 private:
  static constexpr std::uint32_t kFree = 0, kHeld = 1;
  static constexpr int kSpins = 100;

  bool take() { return word_.exchange(kHeld, std::memory_order_acquire) == kFree; }

  [[gnu::noinline]] void wait() {
    for (int spins = 0; spins < kSpins; ++spins) {
      if (word_.load(std::memory_order_relaxed) == kFree && take()) return;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
    const int code = errno;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    constexpr timespec kLookAgain{0, 1'000'000};
    const timespec* limit = order() ? nullptr : &kLookAgain;
    while (!take()) {
      ::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, kHeld, limit, nullptr, 0);
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    errno = code;
  }
  [[gnu::noinline]] void wake() {
    const int code = errno;
    ::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    errno = code;
  }
  /// A full barrier in every thread of the process. False: the kernel has none, or forbids it.
  static bool order() {
    const auto barrier = [](int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; };
    return barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
           (barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
            barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
  }

  std::atomic<std::uint32_t> word_{kFree};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace weft::sockets
