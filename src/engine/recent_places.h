// Where payload was placed lately, and so what caches may still hold.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::engine {

/// Remembers where the last 32 MiB were placed, about what a processor's last cache holds of one
/// program's (docs/adr/0027-cold-places-are-written-past-the-caches.md). It knows a place by the
/// block that it begins in, and of two blocks a multiple of 64 MiB apart only the one noted last.
///
/// Threads: any. Two at once may each miss what the other notes.
class RecentPlaces {
 public:
  static constexpr std::uint64_t kReachOctets = 32 * 1024 * 1024;
  /// Of what is at least so long no two begin in the same block, one behind the other.
  static constexpr std::uint64_t kBlockOctets = 16 * 1024;

  /// `octets` are placed at `place`. True: its block was noted within the last kReachOctets.
  bool note(const std::uint8_t* place, std::size_t octets) {
    const std::uint64_t block = reinterpret_cast<std::uintptr_t>(place) / kBlockOctets;
    const std::uint64_t total = octets_.load(std::memory_order_relaxed);
    octets_.store(total + octets, std::memory_order_relaxed);
    const std::uint64_t now = (total / kBlockOctets + kReachBlocks) & kTimeMask;
    std::atomic<std::uint64_t>& entry = entries_[block % entries_.size()];
    const std::uint64_t before = entry.load(std::memory_order_relaxed);
    entry.store(block << kTimeBits | now, std::memory_order_relaxed);
    const bool is_same = before >> kTimeBits == (block & kBlockMask);
    return is_same && ((now - before) & kTimeMask) < kReachBlocks;
  }

 private:
  // An entry: the block's number, less what no address has, and when, in blocks noted so far.
  static constexpr unsigned kTimeBits = 24;
  static constexpr std::uint64_t kTimeMask = (1u << kTimeBits) - 1;
  static constexpr std::uint64_t kBlockMask = ~std::uint64_t{0} >> kTimeBits;
  static constexpr std::uint64_t kReachBlocks = kReachOctets / kBlockOctets;

  std::atomic<std::uint64_t> octets_{0};
  std::array<std::atomic<std::uint64_t>, 2 * kReachBlocks> entries_{};
};

}  // namespace weft::engine
