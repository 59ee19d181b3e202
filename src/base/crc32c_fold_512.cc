// CRC32C by folding 512 bits at a time, and copying meanwhile or using the crc32 instruction, too.
#include "base/crc32c_fold.h"

#if defined(__x86_64__)

#include <algorithm>

#include "base/assert.h"
#include "base/crc32c_fold_parts.h"

#define WEFT_FOLDS [[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.2")]]

namespace weft {
namespace {

using folding::Chains, folding::Copy, folding::Cursor, folding::kKey;

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

/// One vector of four, of which each stands behind the one before.
WEFT_FOLDS inline __m512i whole(__m512i a, __m512i b, __m512i c, __m512i d) {
  return fold(a, keys<3 * kVectorBits>(),
              fold(b, keys<2 * kVectorBits>(), fold(c, keys<kVectorBits>(), d)));
}

/// The register after all that was added.
WEFT_FOLDS inline std::uint32_t end_of(__m512i sum) {
  // The last 128 bits stay where they are, and the others come to them.
  const __m512i to_last = _mm512_set_epi64(0, 0, kKey<128>, kKey<128 + 64>, kKey<256>,
                                           kKey<256 + 64>, kKey<384>, kKey<384 + 64>);
  const __m512i moved = fold(sum, to_last, _mm512_setzero_si512());
  return folding::remainder(_mm_xor_si128(
      _mm_xor_si128(_mm512_extracti32x4_epi32(moved, 0), _mm512_extracti32x4_epi32(moved, 1)),
      _mm_xor_si128(_mm512_extracti32x4_epi32(moved, 2), _mm512_extracti32x4_epi32(sum, 3))));
}

/// The register before is added to the first 32 bits.
WEFT_FOLDS inline __m512i first_of(std::uint32_t state) {
  return _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
}

/// A turn: four vectors, and behind each a step of three chains.
constexpr std::size_t kChainOctets = 4 * sizeof(std::uint64_t), kTurn = kStride + 3 * kChainOctets;
/// Fewer turns are not worth their end, and more than the most have it as well.
constexpr std::size_t kTurnsMin = 8, kTurnsMax = 128;
/// The key of as many times a chain's octets of a turn.
constexpr auto kKeysOfTurns = folding::keys_of<8 * kChainOctets, 3 * kTurnsMax>();

/// The vectors' octets come first. Not for copies: stores of words between those of vectors take
/// longer than what is gained.
WEFT_FOLDS inline std::uint32_t run_turns(std::uint32_t state, Cursor<Copy::None> at,
                                          std::size_t turns) {
  Chains chains{turns * kStride, turns * kChainOctets};
  const Cursor<Copy::None> words = at;
  __m512i a = _mm512_xor_si512(vector(at), first_of(state));
  __m512i b = vector(at), c = vector(at), d = vector(at);
  const __m512i stride = keys<4 * kVectorBits>();
  for (std::size_t turn = 1; turn < turns; ++turn) {
    a = fold(a, stride, vector(at));
    chains.step(words);
    b = fold(b, stride, vector(at));
    chains.step(words);
    c = fold(c, stride, vector(at));
    chains.step(words);
    d = fold(d, stride, vector(at));
    chains.step(words);
  }
  for (int i = 0; i < 4; ++i) chains.step(words);
  return chains.behind(end_of(whole(a, b, c, d)), kKeysOfTurns[turns], kKeysOfTurns[2 * turns],
                       kKeysOfTurns[3 * turns]);
}

/// Returns how many octets were not worth it: the last ones.
WEFT_FOLDS [[gnu::noinline]] std::size_t run_all_turns(std::uint32_t* state, Octets data) {
  Cursor<Copy::None> at{data.data(), nullptr, data.size()};
  while (at.left >= kTurnsMin * kTurn) {
    const std::size_t turns = std::min(at.left / kTurn, kTurnsMax);
    *state = run_turns(*state, at, turns);
    at.advance(turns * kTurn);
  }
  return at.left;
}

template <Copy kCopy>
WEFT_FOLDS std::uint32_t run(std::uint32_t state, Cursor<kCopy> at) {
  __m512i sum;
  if (at.left < kStride) {
    sum = _mm512_xor_si512(vector(at), first_of(state));
  } else {
    // Four, because a multiplication takes that long.
    __m512i a = _mm512_xor_si512(vector(at), first_of(state));
    __m512i b = vector(at), c = vector(at), d = vector(at);
    const __m512i stride = keys<4 * kVectorBits>();
    while (at.left >= kStride) {
      a = fold(a, stride, vector(at));
      b = fold(b, stride, vector(at));
      c = fold(c, stride, vector(at));
      d = fold(d, stride, vector(at));
    }
    sum = whole(a, b, c, d);
  }
  while (at.left >= kVector) sum = fold(sum, keys<kVectorBits>(), vector(at));
  return folding::end(end_of(sum), at);
}

}  // namespace

std::uint32_t crc32c_extend_512(std::uint32_t state, Octets data) {
  weft_assert(data.size() >= kFoldOctetsMin);
  if (data.size() >= kTurnsMin * kTurn) data = data.last(run_all_turns(&state, data));
  const Cursor<Copy::None> at{data.data(), nullptr, data.size()};
  return at.left < kVector ? folding::end(state, at) : run(state, at);
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
