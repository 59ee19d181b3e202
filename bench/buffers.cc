// Pattern: word i of seed s is s * odd + i * another odd, so that shifted or stale data shows.
#include "bench/buffers.h"

#include <sys/mman.h>

#include <cstring>

#include "bench/leg.h"

namespace weft::bench {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr int kPoison = 0xA5;

std::uint64_t word_of(std::uint64_t seed, std::size_t index) {
  return (seed + 1) * 0x9E3779B97F4A7C15u + index * 0xD1342543DE82EF95u;
}

}  // namespace

Buffers::Buffers(std::size_t octets_max) : span_octets_((octets_max + 4095) / 4096 * 4096) {
  void* mapped = ::mmap(nullptr, octets(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                        0);
  if (mapped == MAP_FAILED) fail_errno("cannot map the buffers");
  base_ = static_cast<std::byte*>(mapped);
  // Every page is there before the first measurement.
  std::memset(source(), 0, 2 * span_octets_);
  std::memset(control(), 0, kControlOctets);
}

Buffers::~Buffers() { ::munmap(base_, octets()); }

void Buffers::prepare(std::uint64_t seed, std::size_t octets) {
  for (std::size_t at = 0; at < octets; at += kWord) {
    const std::uint64_t word = word_of(seed, at / kWord);
    std::memcpy(source() + at, &word, octets - at < kWord ? octets - at : kWord);
  }
  std::memset(target(), kPoison, octets);
}

void Buffers::verify(std::uint64_t seed, std::size_t octets) const {
  for (std::size_t at = 0; at < octets; at += kWord) {
    const std::uint64_t word = word_of(seed, at / kWord);
    const std::size_t part = octets - at < kWord ? octets - at : kWord;
    if (std::memcmp(target() + at, &word, part) != 0) {
      fail("wrong data: {} octets were expected, and those from {} on differ", octets, at);
    }
  }
}

}  // namespace weft::bench
