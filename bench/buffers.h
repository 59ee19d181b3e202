// The memory both media send from and receive into, and the patterns that prove what arrived.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::bench {

/// One mapping: a control page, the source, the target. The layout is the same at both ends, so one
/// base address and one key tell a peer all of it. Single-threaded.
class Buffers {
 public:
  /// octets_max: the longest source or target, messages times batch included.
  explicit Buffers(std::size_t octets_max);
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  std::byte* base() const { return base_; }
  std::size_t octets() const { return kControlOctets + 2 * span_octets_; }

  /// For marks and credits; zero at first.
  std::byte* control() const { return base_; }
  std::byte* source() const { return base_ + kControlOctets; }
  std::byte* target() const { return source() + span_octets_; }
  std::size_t octets_max() const { return span_octets_; }

  /// Offsets from base() of what a peer writes to or reads.
  std::size_t source_offset() const { return kControlOctets; }
  std::size_t target_offset() const { return kControlOctets + span_octets_; }

  /// Fills the source with the pattern of `seed` and the target with what no pattern contains.
  void prepare(std::uint64_t seed, std::size_t octets);
  /// Throws Failure, naming the first wrong octet, unless the target holds the pattern of `seed`.
  void verify(std::uint64_t seed, std::size_t octets) const;

 private:
  static constexpr std::size_t kControlOctets = 4096;
  std::size_t span_octets_;
  std::byte* base_;
};

}  // namespace weft::bench
