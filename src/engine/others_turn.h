// When a thread that polls one CQ asks the streams of other CQs too.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::engine {

/// In every eighth poll, and in the next one after somebody asked for it: polls may be rare.
class OthersTurn {
 public:
  static constexpr std::uint32_t kEvery = 8;

  /// At each poll, by one thread at a time: is it now?
  bool come() {
    if (++polls_ % kEvery != 0 && !asked_.load(std::memory_order_relaxed)) return false;
    asked_.store(false, std::memory_order_relaxed);
    return true;
  }
  /// Any thread.
  void ask() { asked_.store(true, std::memory_order_relaxed); }

 private:
  std::uint32_t polls_ = 0;
  std::atomic<bool> asked_{false};
};

}  // namespace weft::engine
