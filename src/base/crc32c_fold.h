// The ways of crc32c_extend() and crc32c_copy(); internal to base.
//
// Folding takes 64 octets at a time, and copies them meanwhile if wanted: what no library does.
// A CRC is the remainder of the data as a polynomial over GF(2), so 128 bits that stand n bits
// before others can be added to them once they are multiplied by x^n mod P, which 64-bit halves
// take a carry-less multiplication each for. The remainder of what is left is that of the whole.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/octets.h"

namespace weft {

/// Fewer octets are not worth folding.
inline constexpr std::size_t kFoldOctetsMin = 128;

/// Whether this processor has what that takes (AVX-512 and VPCLMULQDQ).
inline bool can_fold() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

/// Of kFoldOctetsMin octets at least, where can_fold().
std::uint32_t crc32c_extend_folding(std::uint32_t state, Octets data);
std::uint32_t crc32c_copy_folding(std::uint32_t state, MutableOctets target, Octets source);

/// Anywhere: the crc32 instruction for short pieces, ISA-L for long ones, a copy before it.
std::uint32_t crc32c_extend_unfolded(std::uint32_t state, Octets data);
std::uint32_t crc32c_copy_unfolded(std::uint32_t state, MutableOctets target, Octets source);

}  // namespace weft
