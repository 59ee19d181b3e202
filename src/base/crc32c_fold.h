// The ways of crc32c_extend() and crc32c_copy(); internal to base.
//
// Folding takes 32 or 64 octets at a time, and copies them meanwhile if wanted: what no library
// does. A CRC is the remainder of the data as a polynomial over GF(2), so 128 bits that stand n
// bits before others can be added to them once they are multiplied by x^n mod P, which 64-bit
// halves take a carry-less multiplication each for. The remainder of what is left is that of the
// whole.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/octets.h"

namespace weft {

/// Fewer octets are not worth folding.
inline constexpr std::size_t kFoldOctetsMin = 128;
/// Fewer are not worth to be stored past the caches.
inline constexpr std::size_t kCopyPastOctetsMin = 1024;

#if defined(__x86_64__)

/// Whether this processor has what that takes (VPCLMULQDQ with AVX-512, or with AVX2).
inline bool can_fold_512() {
  return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f");
}
inline bool can_fold_256() {
  return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2");
}

/// Of kFoldOctetsMin octets at least, those past the caches of kCopyPastOctetsMin, where
/// can_fold_512().
std::uint32_t crc32c_extend_512(std::uint32_t state, Octets data);
std::uint32_t crc32c_copy_512(std::uint32_t state, MutableOctets target, Octets source);
std::uint32_t crc32c_copy_past_512(std::uint32_t state, MutableOctets target, Octets source);

/// Likewise where can_fold_256().
std::uint32_t crc32c_extend_256(std::uint32_t state, Octets data);
std::uint32_t crc32c_copy_256(std::uint32_t state, MutableOctets target, Octets source);
std::uint32_t crc32c_copy_past_256(std::uint32_t state, MutableOctets target, Octets source);

#else  // processors that never fold

inline bool can_fold_512() {
  return false;
}
inline bool can_fold_256() {
  return false;
}
inline std::uint32_t crc32c_extend_512(std::uint32_t state, Octets) {
  return weft_assert(false), state;
}
inline std::uint32_t crc32c_extend_256(std::uint32_t state, Octets) {
  return weft_assert(false), state;
}
inline std::uint32_t crc32c_copy_512(std::uint32_t state, MutableOctets, Octets) {
  return weft_assert(false), state;
}
inline std::uint32_t crc32c_copy_past_512(std::uint32_t state, MutableOctets, Octets) {
  return weft_assert(false), state;
}
inline std::uint32_t crc32c_copy_256(std::uint32_t state, MutableOctets, Octets) {
  return weft_assert(false), state;
}
inline std::uint32_t crc32c_copy_past_256(std::uint32_t state, MutableOctets, Octets) {
  return weft_assert(false), state;
}

#endif

/// Anywhere: the crc32 instruction for short pieces, ISA-L for long ones; a copy before it, or
/// behind it where that is to be placed.
std::uint32_t crc32c_extend_unfolded(std::uint32_t state, Octets data);
std::uint32_t crc32c_copy_unfolded(std::uint32_t state, MutableOctets target, Octets source);
std::uint32_t crc32c_place_unfolded(std::uint32_t state, MutableOctets target, Octets source);

}  // namespace weft
