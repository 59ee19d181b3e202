// Numbers of descriptors that a thread has for a moment only.
#include "base/number_gate.h"

#include <pthread.h>
#include <sched.h>

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

NumberGate::NumberGate() : passed_(take()) {
  if (passed_) return;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!passed_ && std::chrono::steady_clock::now() < end) {
    sched_yield();
    passed_ = take();
  }
}

NumberGate::~NumberGate() {
  if (passed_) taken.store(false, std::memory_order_release);
}

}  // namespace weft
