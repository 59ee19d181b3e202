// Asking for memory before it is needed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

inline constexpr std::size_t kCacheLine = 64;

/// Has the cache lines of `octets` from `at` on brought, without waiting for them. No address is
/// wrong: one of nothing is as if it had not been given.
inline void prefetch(const void* at, std::size_t octets) {
  const auto first = reinterpret_cast<std::uintptr_t>(at);
  for (std::uintptr_t line = first & ~(kCacheLine - 1); line < first + octets; line += kCacheLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(line));
  }
}

}  // namespace weft
