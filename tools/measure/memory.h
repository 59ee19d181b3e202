// The memory of one connection's end: what is sent from, and what is received into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::measure {

/// Which of an end's buffers are used at all.
struct BuffersUsed {
  bool sources = true, targets = true;
};

/// One mapping: a control page, then `sources` and `targets` buffers of `octets_max` each. Buffers
/// of a leg lie side by side from the beginning, each on a cache line of its own. Those that are
/// used are touched once, so that no page is new while it is measured; large ones lie in large
/// pages where the kernel has them for who asks.
class Memory {
 public:
  Memory(std::uint64_t octets_max, std::size_t sources, std::size_t targets, BuffersUsed used = {});
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  static constexpr std::size_t kControlOctets = 4096;

  /// Messages of a leg are so far apart.
  static constexpr std::uint64_t stride(std::uint64_t octets) { return (octets + 63) / 64 * 64; }

  std::byte* base() const { return base_; }
  std::size_t octets() const { return octets_; }
  std::byte* control() const { return base_; }
  /// Offsets from base(), which are the same at a peer with the same plan.
  std::size_t source_offset(std::size_t i, std::uint64_t octets) const {
    return kControlOctets + i * stride(octets);
  }
  std::size_t target_offset(std::size_t i, std::uint64_t octets) const {
    return targets_at_ + i * stride(octets);
  }
  std::span<std::byte> source(std::size_t i, std::uint64_t octets) const {
    return {base_ + source_offset(i, octets), octets};
  }
  std::span<std::byte> target(std::size_t i, std::uint64_t octets) const {
    return {base_ + target_offset(i, octets), octets};
  }

 private:
  std::size_t targets_at_, octets_;
  std::byte* base_;
};

}  // namespace weft::measure
