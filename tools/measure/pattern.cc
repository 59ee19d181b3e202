// Eight octets at a time: verifying must not take much longer than copying.
#include "measure/pattern.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "measure/basics.h"

namespace weft::measure {
namespace {

/// splitmix64: neighbouring inputs give unlike outputs.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;
constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::uint64_t kSettleNs = 1'000'000'000;

}  // namespace

void fill_pattern(std::span<std::byte> place, std::uint64_t seed, std::uint64_t number) {
  std::uint64_t word = mix(mix(seed) + number);
  for (std::size_t at = 0; at < place.size(); at += kWord) {
    std::memcpy(place.data() + at, &word, std::min(kWord, place.size() - at));
    word += kStep;
  }
}

std::size_t find_wrong(std::span<const std::byte> place, std::uint64_t seed, std::uint64_t number) {
  std::uint64_t word = mix(mix(seed) + number);
  for (std::size_t at = 0; at < place.size(); at += kWord) {
    const std::size_t octets = std::min(kWord, place.size() - at);
    if (std::memcmp(place.data() + at, &word, octets) != 0) {
      const auto* expected = reinterpret_cast<const std::byte*>(&word);
      const auto* seen = place.data() + at;
      return at +
             static_cast<std::size_t>(std::mismatch(seen, seen + octets, expected).first - seen);
    }
    word += kStep;
  }
  return place.size();
}

void expect_pattern(std::span<const std::byte> place, std::uint64_t seed, std::uint64_t number) {
  const std::size_t wrong = find_wrong(place, seed, number);
  if (wrong != place.size()) fail("wrong data: octet {} of message {}", wrong, number);
}

void expect_pattern_soon(std::span<const std::byte> place, std::uint64_t seed,
                         std::uint64_t number) {
  const std::uint64_t begin = now_ns();
  while (find_wrong(place, seed, number) != place.size()) {
    if (now_ns() - begin > kSettleNs) return expect_pattern(place, seed, number);
  }
}

std::byte last_octet(std::span<std::byte> place) {
  auto& last = reinterpret_cast<unsigned char&>(place.back());
  // Acquire pairs with whatever placed the octets, the peer's device or our own engine.
  return std::byte{std::atomic_ref(last).load(std::memory_order_acquire)};
}

}  // namespace weft::measure
