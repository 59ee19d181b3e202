// Two ways to copy, by where the target lies: the C library's, and past the caches.
//
// For a source file that is compiled with -fno-builtin-memcpy: of at most one block GCC makes
// `rep movsq`, which is slow between places that are not equally aligned.
#pragma once

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/octets.h"
#include "base/prefetch.h"

namespace weft::engine {

/// More than this the C library copies by `rep movsb`.
inline constexpr std::size_t kStringlessOctetsMax = 2048;
/// By that a Zen copies at a tenth of its speed where the target lies at most so many octets behind
/// the source, modulo a page.
inline constexpr std::uintptr_t kStumblesWithin = 31, kPage = 4096;

inline bool stumbles(const std::uint8_t* target, const std::uint8_t* source) {
  const std::uintptr_t behind =
      reinterpret_cast<std::uintptr_t>(target) - reinterpret_cast<std::uintptr_t>(source);
  return behind % kPage - 1 < kStumblesWithin;
}

inline void copy(std::uint8_t* target, Octets source) {
  const bool in_blocks = source.size() > kStringlessOctetsMax && stumbles(target, source.data());
  while (in_blocks && source.size() > kStringlessOctetsMax) {
    std::memcpy(target, source.data(), kStringlessOctetsMax);
    target += kStringlessOctetsMax;
    source = source.subspan(kStringlessOctetsMax);
  }
  std::memcpy(target, source.data(), source.size());
}

/// Stores whole lines past the caches, without reading what they overwrite. The last line comes
/// behind all the others: who sees the last octet sees them all. `source` has at least one line.
[[gnu::noinline]] inline void copy_past(std::uint8_t* target, Octets source) {
#if defined(__x86_64__)
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(target) % kCacheLine;
  const std::size_t lines = (source.size() - head - 1) / kCacheLine;
  std::memcpy(target, source.data(), head);
  const auto* in = reinterpret_cast<const __m128i*>(source.data() + head);
  auto* out = reinterpret_cast<__m128i*>(target + head);
  for (std::size_t i = 0; i < lines; ++i, in += 4, out += 4) {
    const __m128i first = _mm_loadu_si128(in), second = _mm_loadu_si128(in + 1);
    const __m128i third = _mm_loadu_si128(in + 2), fourth = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, first);
    _mm_stream_si128(out + 1, second);
    _mm_stream_si128(out + 2, third);
    _mm_stream_si128(out + 3, fourth);
  }
  _mm_sfence();
  const std::size_t done = head + lines * kCacheLine;
  std::memcpy(target + done, source.data() + done, source.size() - done);
#else
  copy(target, source);
#endif
}

}  // namespace weft::engine
