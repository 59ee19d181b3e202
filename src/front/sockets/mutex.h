// A mutex that a signal handler can ask about.
#pragma once

#include <atomic>
#include <mutex>

namespace weft::sockets {

/// How many the calling thread has, or is about to get. In a handler: what it interrupted has them.
inline constinit thread_local unsigned mutexes_held = 0;

class Mutex {
 public:
  void lock() {
    ++mutexes_held;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    --mutexes_held;
  }

 private:
  std::mutex mutex_;
};

}  // namespace weft::sockets
