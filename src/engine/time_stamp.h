// When something was, by the processor's own counter: for who only has to know whether that is a
// while ago.
#pragma once

#include <cstdint>

#include "engine/ticks.h"

namespace weft::engine {

/// To read the counter takes a fraction of what it takes to ask the kernel's clock, be it only for
/// its last tick: that is a call to memory that is in no first-level cache.
class TimeStamp {
 public:
  void note() { at_ = ticks(); }
  /// Was it within the last millisecond? Always false where there is no such counter.
  bool is_fresh() const {
    // No counter of these is faster than 8 GHz. Those of two processors may differ: then it was
    // never.
    return kTicks && ticks() - at_ < kFresh;
  }

 private:
#if defined(__aarch64__)
  static constexpr std::uint64_t kFresh = 1 << 14;  // 16 us at 1 GHz to 0.9 ms at 18 MHz
#else
  static constexpr std::uint64_t kFresh = 1 << 20;  // 0.2 to 1 ms
#endif

  std::uint64_t at_ = 0;
};

}  // namespace weft::engine
