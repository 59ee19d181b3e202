// A small repeatable random generator: the same numbers from one seed on every machine and library.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace weft::transport {

/// SplitMix64: spreads a seed, and neighbouring seeds, over 64 bits.
constexpr std::uint64_t split_mix(std::uint64_t& state) {
  std::uint64_t mixed = (state += 0x9e3779b97f4a7c15u);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

/// xoshiro256**. Not for secrets. Threads: one at a time.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      word = split_mix(seed);
    }
  }

  constexpr std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// first..last, both included; last < first gives first. The modulo's bias is far below what a
  /// fault rate needs.
  constexpr std::uint64_t between(std::uint64_t first, std::uint64_t last) {
    const std::uint64_t drawn = next();
    if (last <= first) {
      return first;
    }
    const std::uint64_t count = last - first + 1;
    return count == 0 ? drawn : first + drawn % count;
  }

  /// True `per_million` times in a million. Draws in every case, so that one probability changed
  /// leaves the other draws as they were.
  constexpr bool chance(std::uint32_t per_million) { return next() % 1'000'000 < per_million; }

 private:
  std::array<std::uint64_t, 4> state_ = {};
};

}  // namespace weft::transport
