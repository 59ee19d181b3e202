// CRC32C at memory speed: the crc32 instruction for short pieces, folding or ISA-L for long ones.
#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/crc32c.h"
#include "base/crc32c_fold.h"
#include "base/prefetch.h"

namespace weft {
namespace {

/// ISA-L counts octets in an int.
constexpr std::size_t kLibraryOctetsMax = std::size_t{1} << 30;

/// What is asked for at once, two blocks ahead: the processor's own prefetching begins anew with
/// each page (Xeon, Sapphire Rapids, folding over 256 MiB: 14.3 GB/s without, 16.0 with; blocks of
/// 1 KiB 15.6, of 4 KiB 14.2).
constexpr std::size_t kAheadOctets = 2048;

/// ISA-L's crc32_iscsi takes and returns the bare register, as our state is: no complement at
/// either end. It chooses among its own kernels (VPCLMULQDQ, PCLMULQDQ, SSE4.2) at its first call.
std::uint32_t extend_library(std::uint32_t state, const std::uint8_t* p, std::size_t octets) {
  while (octets > 0) {
    const std::size_t piece = std::min(octets, kLibraryOctetsMax);
    // It only reads; its prototype is older than its const.
    state = crc32_iscsi(const_cast<std::uint8_t*>(p), static_cast<int>(piece), state);
    p += piece;
    octets -= piece;
  }
#if defined(__x86_64__)
  // Its widest kernel leaves the upper halves of the vector registers dirty, and every SSE
  // instruction after that waits for them: 1000 cycles per 4 KiB message (Xeon, Sapphire Rapids).
  if (__builtin_cpu_supports("avx")) __asm__ volatile("vzeroupper");
#endif
  return state;
}

#if defined(__x86_64__)
/// Below this, ISA-L does not fold and one chain of crc32 instructions is two to three times as
/// fast (EPYC family 26: 64 octets 5 against 17 ns, 192 octets 16 against 34 ns); at 256 ISA-L is
/// ahead (18 against 22 ns) and it stays there. Hence no three-way kernel of our own.
constexpr std::size_t kShortOctets = 256;

[[gnu::target("sse4.2")]] std::uint32_t extend_short(std::uint32_t state, const std::uint8_t* p,
                                                     std::size_t octets) {
  std::uint64_t wide = state;
  for (; octets >= 8; octets -= 8, p += 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  state = static_cast<std::uint32_t>(wide);
  if (octets & 4) {
    std::uint32_t word;
    std::memcpy(&word, p, 4);
    state = __builtin_ia32_crc32si(state, word);
    p += 4;
  }
  for (octets &= 3; octets > 0; --octets, ++p) state = __builtin_ia32_crc32qi(state, *p);
  return state;
}
#endif

}  // namespace

std::uint32_t crc32c_extend(std::uint32_t state, Octets data) {
  if (data.size() >= kFoldOctetsMin) {
    if (can_fold_512()) return crc32c_extend_512(state, data);
    if (can_fold_256()) return crc32c_extend_256(state, data);
  }
  return crc32c_extend_unfolded(state, data);
}

std::uint32_t crc32c_extend_unfolded(std::uint32_t state, Octets data) {
#if defined(__x86_64__)
  // One load and one branch that never changes its mind: cheaper than a pointer that has to be
  // initialised before anyone's first call.
  if (!__builtin_cpu_supports("sse4.2")) return crc32c_extend_portable(state, data);
  if (data.size() < kShortOctets) return extend_short(state, data.data(), data.size());
#endif
  return extend_library(state, data.data(), data.size());
}

std::uint32_t crc32c_extend_ahead(std::uint32_t state, Octets data) {
  while (!data.empty()) {
    const Octets block = data.first(std::min(kAheadOctets, data.size()));
    prefetch(block.data() + 2 * kAheadOctets, kAheadOctets);
    state = crc32c_extend(state, block);
    data = data.subspan(block.size());
  }
  return state;
}

}  // namespace weft
