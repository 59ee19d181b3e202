// A lock for a few dozen instructions: what the posting and polling paths can afford.
#pragma once

#include <sched.h>

#include <atomic>

namespace weft::verbs {

/// Uncontended: one atomic exchange and one store. A waiter spins a moment and then yields, because
/// the holder may have lost its CPU. Not recursive. Lockable, so std::lock_guard takes it.
///
/// lock() (acquire) pairs with unlock() (release).
class SpinLock {
 public:
  void lock() {
    if (off_) return;
    if (!flag_.test_and_set(std::memory_order_acquire)) [[likely]] return;
    lock_contended();
  }
  void unlock() {
    if (!off_) flag_.clear(std::memory_order_release);
  }
  /// Whoever uses what it guards sees to it that nobody else does (a thread domain of the verbs):
  /// from now on it is none. Before anybody uses it.
  void turn_off() { off_ = true; }

 private:
  void lock_contended() {
    constexpr int kSpinsBeforeYield = 100;
    for (int spins = 0;;) {
      // Reading until it looks free keeps the cache line shared between the waiters.
      while (flag_.test(std::memory_order_relaxed)) {
        if (++spins < kSpinsBeforeYield) {
#if defined(__x86_64__) || defined(__i386__)
          __builtin_ia32_pause();
#endif
        } else {
          sched_yield();
        }
      }
      if (!flag_.test_and_set(std::memory_order_acquire)) return;
    }
  }

  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
  bool off_ = false;
};

}  // namespace weft::verbs
