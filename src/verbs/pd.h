// Protection domains: what ties memory to the queues that may use it.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/result.h"
#include "device/device.h"

namespace weft::verbs {

/// Counts who depends on an object, so that it cannot be destroyed under them. Threads: any.
class UseCount {
 public:
  void add() { count_.fetch_add(1, std::memory_order_relaxed); }
  void drop() { count_.fetch_sub(1, std::memory_order_release); }
  bool any() const { return count_.load(std::memory_order_acquire) != 0; }

 private:
  std::atomic<std::uint32_t> count_{0};
};

/// Calls match `open use* close`. Threads: any; close excludes all others.
class PD {
 public:
  Result<void> open(device::Device& device) {
    auto number = device.create_pd();
    if (!number) return number.error();
    device_ = &device;
    number_ = *number;
    return {};
  }
  /// EBUSY while a region or a queue belongs to it. From then on the device refuses whatever is
  /// asked of it.
  Result<void> close() {
    if (uses_.any()) return Error{EBUSY, "the protection domain is in use"};
    if (auto done = device_->destroy_pd(number_); !done) return done;
    number_ = 0;
    return {};
  }

  device::Device& device() { return *device_; }
  device::PDNumber number() const { return number_; }
  UseCount& uses() { return uses_; }

 private:
  device::Device* device_ = nullptr;
  device::PDNumber number_ = 0;
  UseCount uses_;
};

}  // namespace weft::verbs
