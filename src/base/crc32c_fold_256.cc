// CRC32C by folding 256 bits at a time, and by the crc32 instruction beside it; copying meanwhile.
#include "base/crc32c_fold.h"

#if defined(__x86_64__)

#include "base/assert.h"
#include "base/crc32c_fold_parts.h"

#define WEFT_FOLDS [[gnu::target("avx2,vpclmulqdq,pclmul,sse4.2")]]

namespace weft {
namespace {

using folding::Chains, folding::Copy, folding::Cursor, folding::kKey, folding::remainder;

constexpr std::size_t kVector = 32, kStride = 4 * kVector;
constexpr unsigned kVectorBits = 8 * kVector;

/// Moves 128 bits ahead: the first half, in front, by 64 more.
template <unsigned kBits>
WEFT_FOLDS inline __m256i keys() {
  return _mm256_broadcastsi128_si256(_mm_set_epi64x(kKey<kBits>, kKey<kBits + 64>));
}

/// Each 128 bits of `sum` moved ahead by what `keys` says, and `data`, which stands there, added.
WEFT_FOLDS inline __m256i fold(__m256i sum, __m256i keys, __m256i data) {
  return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(sum, keys, 0x00), data),
                          _mm256_clmulepi64_epi128(sum, keys, 0x11));
}

template <Copy kCopy>
WEFT_FOLDS inline __m256i vector(const Cursor<kCopy>& at, std::size_t ahead) {
  __m256i octets = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at.from + ahead));
  if constexpr (kCopy != Copy::None) {
    __asm__("" : "+x"(octets));  // not to be loaded again: what is stored is what is summed
  }
  if constexpr (kCopy == Copy::Cached) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at.to + ahead), octets);
  } else if constexpr (kCopy == Copy::Past) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(at.to + ahead), octets);
  }
  return octets;
}

/// Four, because a multiplication takes that long.
struct Sums {
  __m256i a, b, c, d;

  /// `state`, the register before, is added to the first 32 bits.
  template <Copy kCopy>
  WEFT_FOLDS Sums(std::uint32_t state, const Cursor<kCopy>& at)
      : a(_mm256_xor_si256(vector(at, 0),
                           _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(state))))),
        b(vector(at, kVector)),
        c(vector(at, 2 * kVector)),
        d(vector(at, 3 * kVector)) {}

  template <Copy kCopy>
  WEFT_FOLDS void add(const Cursor<kCopy>& at, std::size_t ahead) {
    const __m256i stride = keys<4 * kVectorBits>();
    a = fold(a, stride, vector(at, ahead));
    b = fold(b, stride, vector(at, ahead + kVector));
    c = fold(c, stride, vector(at, ahead + 2 * kVector));
    d = fold(d, stride, vector(at, ahead + 3 * kVector));
  }
  WEFT_FOLDS __m256i whole() const {
    return fold(a, keys<3 * kVectorBits>(),
                fold(b, keys<2 * kVectorBits>(), fold(c, keys<kVectorBits>(), d)));
  }
};

/// The register after all that was added.
WEFT_FOLDS inline std::uint32_t end_of(__m256i sum) {
  // The last 128 bits stay where they are, and the first come to them.
  const __m128i first = _mm256_castsi256_si128(sum), last = _mm256_extracti128_si256(sum, 1);
  const __m128i key = _mm_set_epi64x(kKey<128>, kKey<128 + 64>);
  const __m128i moved =
      _mm_xor_si128(_mm_clmulepi64_si128(first, key, 0x00), _mm_clmulepi64_si128(first, key, 0x11));
  return remainder(_mm_xor_si128(moved, last));
}

/// Of each block the vectors take five eighths, and meanwhile chains the others.
template <std::size_t kBlock, Copy kCopy>
WEFT_FOLDS std::uint32_t run_blocks(std::uint32_t state, Cursor<kCopy>& at) {
  constexpr std::size_t kFolded = kBlock / 8 * 5, kChain = kBlock / 8, kEnd = kFolded + kChain;
  constexpr std::size_t kWord = sizeof(std::uint64_t), kTurns = kFolded / kStride - 1;
  constexpr std::size_t kWordsPerTurn = kChain / kWord / kTurns;
  static_assert(kFolded % kStride == 0 && kChain % kWord == 0 && kWordsPerTurn > 0);
  for (; at.left >= kBlock; at.advance(kBlock)) {
    Sums sums(state, at);
    Chains chains{kFolded, kChain};
    for (std::size_t folded = kStride; folded < kFolded; folded += kStride) {
      sums.add(at, folded);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kWordsPerTurn; ++i) chains.step(at);
    }
    while (chains.ahead < kEnd) chains.step(at);
    state = chains.behind(end_of(sums.whole()), kKey<8 * kChain>, kKey<8 * 2 * kChain>,
                          kKey<8 * 3 * kChain>);
  }
  return state;
}

template <Copy kCopy>
WEFT_FOLDS std::uint32_t run(std::uint32_t state, Cursor<kCopy> at) {
  state = run_blocks<2048>(state, at);
  state = run_blocks<1024>(state, at);
  if (at.left < kStride) return folding::end(state, at);
  Sums sums(state, at);
  for (at.advance(kStride); at.left >= kStride; at.advance(kStride)) sums.add(at, 0);
  __m256i sum = sums.whole();
  for (; at.left >= kVector; at.advance(kVector)) {
    sum = fold(sum, keys<kVectorBits>(), vector(at, 0));
  }
  return folding::end(end_of(sum), at);
}

}  // namespace

std::uint32_t crc32c_extend_256(std::uint32_t state, Octets data) {
  weft_assert(data.size() >= kFoldOctetsMin);
  return run(state, Cursor<Copy::None>{data.data(), nullptr, data.size()});
}

std::uint32_t crc32c_copy_256(std::uint32_t state, MutableOctets target, Octets source) {
  weft_assert(source.size() >= kFoldOctetsMin && target.size() >= source.size());
  return run(state, Cursor<Copy::Cached>{source.data(), target.data(), source.size()});
}

std::uint32_t crc32c_copy_past_256(std::uint32_t state, MutableOctets target, Octets source) {
  weft_assert(source.size() >= kCopyPastOctetsMin && target.size() >= source.size());
  return folding::copy_past(state, target.data(), source, run<Copy::Past>);
}

}  // namespace weft

#endif
