// The lock that makes one thread at a time the RNIC.
#pragma once

#include <atomic>
#include <mutex>

namespace weft::engine {

/// A mutex with two ways in. Control calls wait (`lock`); doorbells and polls only try, and give
/// way to waiting control calls, so that a program that polls without end cannot starve a
/// deregistration.
///
/// Nothing rung while the lock is held is lost: who rings first marks its QP and then tries; the
/// holder looks for marks after it has unlocked (Rnic::leave).
class ProgressLock {
 public:
  void lock() {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool try_lock() { return waiting_.load(std::memory_order_relaxed) == 0 && mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  std::atomic<int> waiting_{0};
};

}  // namespace weft::engine
