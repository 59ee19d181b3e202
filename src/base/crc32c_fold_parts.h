// What the ways of folding have in common; only for them, on x86-64.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/octets.h"
#include "base/prefetch.h"

namespace weft::folding {

/// `remainder` (1) times x^exponent mod P, the coefficient of x^31 in bit 0, as all here is.
constexpr std::uint32_t power(std::size_t exponent, std::uint32_t remainder = 0x80000000u) {
  for (; exponent > 0; --exponent) {
    remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78u : 0);
  }
  return remainder;
}

/// What moves 64 bits ahead. The product of two reflected numbers stands one bit too low, and the
/// remainder in the low half of its 64 bits means x^32 of itself: 33 less.
template <std::size_t kBitsAhead>
constexpr long long kKey = power(kBitsAhead - 33);

/// The same for 0 to kMost times kBitsAhead; there is none for 0.
template <std::size_t kBitsAhead, std::size_t kMost>
constexpr std::array<std::uint32_t, kMost + 1> keys_of() {
  std::array<std::uint32_t, kMost + 1> keys{};
  keys[1] = power(kBitsAhead - 33);
  for (std::size_t i = 2; i <= kMost; ++i) keys[i] = power(kBitsAhead, keys[i - 1]);
  return keys;
}

/// Where the octets go besides: to a copy, or to one that is stored past the caches.
enum class Copy { None, Cached, Past };

/// Reads octets, each once, and writes them as kCopy says.
template <Copy kCopy>
struct Cursor {
  const std::uint8_t* from;
  std::uint8_t* to;
  std::size_t left;

  /// 64 bits of a whole line, so many octets ahead.
  std::uint64_t word(std::size_t ahead) const {
    const auto octets = load<std::uint64_t>(ahead);
    if constexpr (kCopy == Copy::Past) {
      _mm_stream_si64(reinterpret_cast<long long*>(to + ahead), static_cast<long long>(octets));
    } else if constexpr (kCopy == Copy::Cached) {
      std::memcpy(to + ahead, &octets, sizeof octets);
    }
    return octets;
  }
  /// Of a line that is not whole.
  template <typename Word>
  Word next() {
    const Word octets = load<Word>(0);
    if constexpr (kCopy != Copy::None) std::memcpy(to, &octets, sizeof octets);
    advance(sizeof octets);
    return octets;
  }
  void advance(std::size_t octets) {
    from += octets;
    if constexpr (kCopy != Copy::None) to += octets;
    left -= octets;
  }

 private:
  template <typename Word>
  Word load(std::size_t ahead) const {
    Word octets;
    std::memcpy(&octets, from + ahead, sizeof octets);
    if constexpr (kCopy != Copy::None) {
      __asm__("" : "+r"(octets));  // not to be loaded again: what is stored is what is summed
    }
    return octets;
  }
};

/// The register after 128 bits that have the remainder of all before, and nothing before them.
[[gnu::target("sse4.2")]] inline std::uint32_t remainder(__m128i bits) {
  const auto first = static_cast<std::uint64_t>(_mm_cvtsi128_si64(bits));
  const auto second = static_cast<std::uint64_t>(_mm_extract_epi64(bits, 1));
  return static_cast<std::uint32_t>(_mm_crc32_u64(_mm_crc32_u64(0, first), second));
}

/// Three registers after nothing else, because a crc32 instruction takes three cycles. A processor
/// has a unit of its own for it, so it goes on while others fold. The octets of one end where those
/// of the next begin.
struct Chains {
  std::size_t ahead, apart;  ///< in octets: where the first goes on, and the next from there
  std::uint64_t a = 0, b = 0, c = 0;

  template <Copy kCopy>
  [[gnu::target("sse4.2"), gnu::always_inline]] void step(const Cursor<kCopy>& at) {
    a = _mm_crc32_u64(a, at.word(ahead));
    b = _mm_crc32_u64(b, at.word(ahead + apart));
    c = _mm_crc32_u64(c, at.word(ahead + 2 * apart));
    ahead += sizeof a;
  }

  /// The register after `before` and the octets of all three. `once` to `thrice`: the keys of as
  /// many times `apart`.
  [[gnu::target("sse4.2,pclmul")]] std::uint32_t behind(std::uint32_t before, long long once,
                                                        long long twice, long long thrice) const {
    const __m128i moved = _mm_xor_si128(product(before, thrice),
                                        _mm_xor_si128(product(a, twice), product(b, once)));
    const auto first = static_cast<std::uint64_t>(_mm_cvtsi128_si64(moved));
    return static_cast<std::uint32_t>(_mm_crc32_u64(0, first) ^ c);
  }

 private:
  [[gnu::target("pclmul")]] static __m128i product(std::uint64_t state, long long key) {
    return _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(state)),
                                _mm_cvtsi64_si128(key), 0x00);
  }
};

/// What is too short to be folded.
template <Copy kCopy>
[[gnu::target("sse4.2")]] std::uint32_t end(std::uint32_t state, Cursor<kCopy> at) {
  std::uint64_t wide = state;
  while (at.left >= 8) wide = _mm_crc32_u64(wide, at.template next<std::uint64_t>());
  auto after = static_cast<std::uint32_t>(wide);
  if (at.left >= 4) after = _mm_crc32_u32(after, at.template next<std::uint32_t>());
  while (at.left > 0) after = _mm_crc32_u8(after, at.template next<std::uint8_t>());
  return after;
}

/// Runs `fold(state, at)` over all but the octets before the first whole line of the copy.
template <typename Fold>
std::uint32_t copy_past(std::uint32_t state, std::uint8_t* to, Octets source, Fold fold) {
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % kCacheLine;
  state = end(state, Cursor<Copy::Cached>{source.data(), to, head});
  state = fold(state, Cursor<Copy::Past>{source.data() + head, to + head, source.size() - head});
  _mm_sfence();
  return state;
}

}  // namespace weft::folding
