// Asking for memory before it is needed.
#pragma once

#include <cstddef>

namespace weft {

inline constexpr std::size_t kCacheLine = 64;

/// Has the cache lines of `octets` from `at` on brought, without waiting for them. No address is
/// wrong: one of nothing is as if it had not been given.
inline void prefetch(const void* at, std::size_t octets) {
  const auto* first = static_cast<const unsigned char*>(at);
  for (std::size_t done = 0; done < octets; done += kCacheLine) __builtin_prefetch(first + done);
}

}  // namespace weft
