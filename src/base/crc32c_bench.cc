// CRC32C beside memcpy: at an FPDU's header, an Ethernet FPDU's payload, and a large one.
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/crc32c.h"

namespace weft {
namespace {

/// Source and target of a copy, both warm.
struct Buffers {
  explicit Buffers(std::size_t octets) : source(octets, 0x5a), target(octets) {}
  std::vector<std::uint8_t> source;
  std::vector<std::uint8_t> target;
};

void count_octets(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void copy_only(benchmark::State& state) {
  Buffers buffers(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    std::memcpy(buffers.target.data(), buffers.source.data(), buffers.source.size());
    benchmark::ClobberMemory();
  }
  count_octets(state);
}

template <std::uint32_t (*Extend)(std::uint32_t, Octets)>
void crc_only(benchmark::State& state) {
  Buffers buffers(static_cast<std::size_t>(state.range(0)));
  std::uint32_t crc = kCRC32CStart;
  for (auto _ : state) {
    crc = Extend(crc, buffers.source);  // each depends on the last: latency counts, as in an FPDU
    benchmark::DoNotOptimize(crc);
  }
  count_octets(state);
}

void copy_then_crc(benchmark::State& state) {
  Buffers buffers(static_cast<std::size_t>(state.range(0)));
  std::uint32_t crc = kCRC32CStart;
  for (auto _ : state) {
    std::memcpy(buffers.target.data(), buffers.source.data(), buffers.source.size());
    benchmark::ClobberMemory();
    crc = crc32c_extend(crc, buffers.target);
    benchmark::DoNotOptimize(crc);
  }
  count_octets(state);
}

void crc_copy(benchmark::State& state) {
  Buffers buffers(static_cast<std::size_t>(state.range(0)));
  std::uint32_t crc = kCRC32CStart;
  for (auto _ : state) {
    crc = crc32c_copy(crc, buffers.target, buffers.source);
    benchmark::DoNotOptimize(crc);
    benchmark::ClobberMemory();
  }
  count_octets(state);
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const int octets : {20, 64, 256, 1428, 4096, 8900, 65536, 4 << 20}) bench->Arg(octets);
}

BENCHMARK(copy_only)->Apply(sizes);
BENCHMARK(crc_only<crc32c_extend>)->Name("crc_hosted")->Apply(sizes);
BENCHMARK(crc_only<crc32c_extend_portable>)->Name("crc_portable")->Apply(sizes);
BENCHMARK(crc_copy)->Apply(sizes);
BENCHMARK(copy_then_crc)->Apply(sizes);

}  // namespace
}  // namespace weft
