// The lock that makes one thread at a time the RNIC.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::engine {

/// Two ways in. Control calls and the progress thread wait (`lock`), first come, first served: a
/// busy progress thread cannot keep a deregistration out by locking again at once. Doorbells and
/// polls only try, and give way to all who wait, so that a program that polls without end cannot
/// either.
///
/// Nothing rung while the lock is held is lost: who rings first marks its QP and then tries; the
/// holder looks for marks after it has unlocked (Rnic::Entry::leave). Both sides are sequentially
/// consistent, so one of them sees the other.
class ProgressLock {
 public:
  void lock() {
    const std::uint32_t ticket = next_.fetch_add(1, std::memory_order_seq_cst);
    for (;;) {
      const std::uint32_t serving = serving_.load(std::memory_order_seq_cst);
      if (serving == ticket) break;
      serving_.wait(serving, std::memory_order_acquire);
    }
    held_here = this;
  }
  bool try_lock() {
    std::uint32_t free = serving_.load(std::memory_order_seq_cst);
    if (!next_.compare_exchange_strong(free, free + 1, std::memory_order_seq_cst)) return false;
    held_here = this;
    return true;
  }
  /// For a signal handler: what it interrupted holds it.
  bool is_held_here() const { return held_here == this; }
  void unlock() {
    held_here = nullptr;
    const std::uint32_t served = serving_.fetch_add(1, std::memory_order_seq_cst) + 1;
    // Who draws a ticket after this look finds its number in serving_, and does not wait.
    if (next_.load(std::memory_order_seq_cst) != served) serving_.notify_all();
  }

 private:
  [[gnu::tls_model(
      "initial-exec")]] static inline constinit thread_local const ProgressLock* held_here =
      nullptr;

  std::atomic<std::uint32_t> next_{0};     ///< the next ticket to be drawn
  std::atomic<std::uint32_t> serving_{0};  ///< the ticket that is in; == next_: nobody
};

}  // namespace weft::engine
