// The processor's own counter of time: of two readings, roughly how long lies between them.
#pragma once

#include <cstdint>

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

namespace weft::engine {

/// A tick takes 0.1 to 0.5 ns on x86, and 1 to 60 ns on ARM. Those of two processors may differ.
#if defined(__x86_64__) || defined(__i386__)
inline constexpr bool kTicks = true;
inline std::uint64_t ticks() { return __rdtsc(); }
#elif defined(__aarch64__)
inline constexpr bool kTicks = true;
inline std::uint64_t ticks() {
  std::uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
}
#else
inline constexpr bool kTicks = false;  ///< there is none: always 0
inline std::uint64_t ticks() { return 0; }
#endif

}  // namespace weft::engine
