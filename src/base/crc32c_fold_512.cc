// CRC32C by folding with carry-less multiplication, and copying meanwhile.
#include "base/crc32c_fold.h"

#include "base/assert.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#define WEFT_FOLDS [[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.2")]]

namespace weft {
namespace {

constexpr std::size_t kVector = 64, kStride = 4 * kVector;
constexpr unsigned kVectorBits = 8 * kVector;

/// x^exponent mod P, the coefficient of x^31 in bit 0, as all here is.
constexpr std::uint32_t power(unsigned exponent) {
  std::uint32_t remainder = 0x80000000u;
  for (; exponent > 0; --exponent) {
    remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78u : 0);
  }
  return remainder;
}

/// What moves 64 bits ahead. The product of two reflected numbers stands one bit too low, and the
/// remainder in the low half of its 64 bits means x^32 of itself: 33 less.
template <unsigned kBitsAhead>
constexpr long long kKey = power(kBitsAhead - 33);

/// Moves 128 bits ahead: the first half, in front, by 64 more.
template <unsigned kBits>
WEFT_FOLDS inline __m512i keys() {
  return _mm512_broadcast_i32x4(_mm_set_epi64x(kKey<kBits>, kKey<kBits + 64>));
}

/// Each 128 bits of `sum` moved ahead by what `keys` says, and `data`, which stands there, added.
WEFT_FOLDS inline __m512i fold(__m512i sum, __m512i keys, __m512i data) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, keys, 0x00),
                                   _mm512_clmulepi64_epi128(sum, keys, 0x11), data, kXorOfThree);
}

/// Reads the octets front to back, and writes them where kCopy says so.
template <bool kCopy>
struct Cursor {
  const std::uint8_t* from;
  std::uint8_t* to;
  std::size_t left;

  WEFT_FOLDS __m512i vector() {
    __m512i octets = _mm512_loadu_si512(from);
    if constexpr (kCopy) {
      __asm__("" : "+v"(octets));  // not to be loaded again: what is stored is what is summed
      _mm512_storeu_si512(to, octets);
    }
    advance(kVector);
    return octets;
  }
  template <typename Word>
  Word word() {
    Word octets;
    std::memcpy(&octets, from, sizeof octets);
    if constexpr (kCopy) {
      __asm__("" : "+r"(octets));  // likewise
      std::memcpy(to, &octets, sizeof octets);
    }
    advance(sizeof octets);
    return octets;
  }

 private:
  void advance(std::size_t octets) {
    from += octets;
    if constexpr (kCopy) to += octets;
    left -= octets;
  }
};

/// The register after 128 bits that have the remainder of all before, and nothing before them.
WEFT_FOLDS inline std::uint64_t remainder(__m128i bits) {
  const auto first = static_cast<std::uint64_t>(_mm_cvtsi128_si64(bits));
  const auto second = static_cast<std::uint64_t>(_mm_extract_epi64(bits, 1));
  return _mm_crc32_u64(_mm_crc32_u64(0, first), second);
}

template <bool kCopy>
WEFT_FOLDS std::uint32_t run(std::uint32_t state, Cursor<kCopy> at) {
  // The register before is added to the first 32 bits.
  const __m512i before = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m512i sum;
  if (at.left < kStride) {
    sum = _mm512_xor_si512(at.vector(), before);
  } else {
    // Four, because a multiplication takes that long.
    __m512i a = _mm512_xor_si512(at.vector(), before);
    __m512i b = at.vector(), c = at.vector(), d = at.vector();
    const __m512i stride = keys<4 * kVectorBits>();
    while (at.left >= kStride) {
      a = fold(a, stride, at.vector());
      b = fold(b, stride, at.vector());
      c = fold(c, stride, at.vector());
      d = fold(d, stride, at.vector());
    }
    sum = fold(a, keys<3 * kVectorBits>(), fold(b, keys<2 * kVectorBits>(),
                                                fold(c, keys<kVectorBits>(), d)));
  }
  while (at.left >= kVector) sum = fold(sum, keys<kVectorBits>(), at.vector());
  // The last 128 bits stay where they are, and the others come to them.
  const __m512i to_last = _mm512_set_epi64(0, 0, kKey<128>, kKey<128 + 64>, kKey<256>,
                                           kKey<256 + 64>, kKey<384>, kKey<384 + 64>);
  const __m512i moved = fold(sum, to_last, _mm512_setzero_si512());
  const __m128i last =
      _mm_xor_si128(_mm_xor_si128(_mm512_extracti32x4_epi32(moved, 0),
                                  _mm512_extracti32x4_epi32(moved, 1)),
                    _mm_xor_si128(_mm512_extracti32x4_epi32(moved, 2),
                                  _mm512_extracti32x4_epi32(sum, 3)));
  std::uint64_t wide = remainder(last);
  while (at.left >= 8) wide = _mm_crc32_u64(wide, at.template word<std::uint64_t>());
  auto after = static_cast<std::uint32_t>(wide);
  if (at.left >= 4) after = _mm_crc32_u32(after, at.template word<std::uint32_t>());
  while (at.left > 0) after = _mm_crc32_u8(after, at.template word<std::uint8_t>());
  return after;
}

}  // namespace

std::uint32_t crc32c_extend_folding(std::uint32_t state, Octets data) {
  weft_assert(data.size() >= kFoldOctetsMin);
  return run(state, Cursor<false>{data.data(), nullptr, data.size()});
}

std::uint32_t crc32c_copy_folding(std::uint32_t state, MutableOctets target, Octets source) {
  weft_assert(source.size() >= kFoldOctetsMin && target.size() >= source.size());
  return run(state, Cursor<true>{source.data(), target.data(), source.size()});
}

}  // namespace weft

#else  // processors that never fold

namespace weft {

std::uint32_t crc32c_extend_folding(std::uint32_t state, Octets) {
  weft_assert(false);
  return state;
}
std::uint32_t crc32c_copy_folding(std::uint32_t state, MutableOctets, Octets) {
  weft_assert(false);
  return state;
}

}  // namespace weft

#endif
