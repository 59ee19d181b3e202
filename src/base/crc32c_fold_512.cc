// CRC32C by folding 512 bits at a time, and copying meanwhile.
#include "base/crc32c_fold.h"

#if defined(__x86_64__)

#include "base/assert.h"
#include "base/crc32c_fold_parts.h"

#define WEFT_FOLDS [[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.2")]]

namespace weft {
namespace {

using folding::Copy, folding::Cursor, folding::kKey;

constexpr std::size_t kVector = 64, kStride = 4 * kVector;
constexpr unsigned kVectorBits = 8 * kVector;

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

template <Copy kCopy>
WEFT_FOLDS inline __m512i vector(Cursor<kCopy>& at) {
  __m512i octets = _mm512_loadu_si512(at.from);
  if constexpr (kCopy != Copy::None) {
    __asm__("" : "+v"(octets));  // not to be loaded again: what is stored is what is summed
  }
  if constexpr (kCopy == Copy::Cached) {
    _mm512_storeu_si512(at.to, octets);
  } else if constexpr (kCopy == Copy::Past) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(at.to), octets);
  }
  at.advance(kVector);
  return octets;
}

template <Copy kCopy>
WEFT_FOLDS std::uint32_t run(std::uint32_t state, Cursor<kCopy> at) {
  // The register before is added to the first 32 bits.
  const __m512i before = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m512i sum;
  if (at.left < kStride) {
    sum = _mm512_xor_si512(vector(at), before);
  } else {
    // Four, because a multiplication takes that long.
    __m512i a = _mm512_xor_si512(vector(at), before);
    __m512i b = vector(at), c = vector(at), d = vector(at);
    const __m512i stride = keys<4 * kVectorBits>();
    while (at.left >= kStride) {
      a = fold(a, stride, vector(at));
      b = fold(b, stride, vector(at));
      c = fold(c, stride, vector(at));
      d = fold(d, stride, vector(at));
    }
    sum = fold(a, keys<3 * kVectorBits>(),
               fold(b, keys<2 * kVectorBits>(), fold(c, keys<kVectorBits>(), d)));
  }
  while (at.left >= kVector) sum = fold(sum, keys<kVectorBits>(), vector(at));
  // The last 128 bits stay where they are, and the others come to them.
  const __m512i to_last = _mm512_set_epi64(0, 0, kKey<128>, kKey<128 + 64>, kKey<256>,
                                           kKey<256 + 64>, kKey<384>, kKey<384 + 64>);
  const __m512i moved = fold(sum, to_last, _mm512_setzero_si512());
  const __m128i last = _mm_xor_si128(
      _mm_xor_si128(_mm512_extracti32x4_epi32(moved, 0), _mm512_extracti32x4_epi32(moved, 1)),
      _mm_xor_si128(_mm512_extracti32x4_epi32(moved, 2), _mm512_extracti32x4_epi32(sum, 3)));
  return folding::end(folding::remainder(last), at);
}

}  // namespace

std::uint32_t crc32c_extend_512(std::uint32_t state, Octets data) {
  weft_assert(data.size() >= kFoldOctetsMin);
  return run(state, Cursor<Copy::None>{data.data(), nullptr, data.size()});
}

std::uint32_t crc32c_copy_512(std::uint32_t state, MutableOctets target, Octets source) {
  weft_assert(source.size() >= kFoldOctetsMin && target.size() >= source.size());
  return run(state, Cursor<Copy::Cached>{source.data(), target.data(), source.size()});
}

std::uint32_t crc32c_copy_past_512(std::uint32_t state, MutableOctets target, Octets source) {
  weft_assert(source.size() >= kCopyPastOctetsMin && target.size() >= source.size());
  return folding::copy_past(state, target.data(), source, run<Copy::Past>);
}

}  // namespace weft

#endif
