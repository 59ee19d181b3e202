// CRC32C sums of what is about to be sent, made by the host while it copied it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/octets.h"

namespace weft::device {

/// A queue of sums, in the order in which what they are of will be sent. The host produces, the
/// device consumes; a sum that belongs to nothing that is sent is dropped. A wrong one is the
/// host's own loss: its peer finds the CRC false.
/// Threads: one of the host's, and whoever is the device.
class Sums {
 public:
  /// Of what is shorter the device makes its sum itself.
  static constexpr std::uint32_t kOctetsMin = 8 * 1024;

  // The host's.
  /// Copies what will be sent from `target` by one Write, and keeps the sum of each segment that
  /// the device is expected to cut from it. Before that Write is posted.
  void copy(std::uint8_t* target, Octets source);

  // The device's.
  /// The register after these octets, from 0, which is told once. `segment`: how long segments are
  /// cut, at most.
  std::optional<std::uint32_t> find(const std::uint8_t* place, std::uint32_t octets,
                                    std::uint32_t segment);
  /// Nothing of what was copied will be sent.
  void drop() { consumed_.store(produced_.load(std::memory_order_acquire)); }

 private:
  struct Sum {
    const std::uint8_t* place;
    std::uint32_t octets;
    std::uint32_t value;
  };

  std::array<Sum, 64> sums_;
  std::atomic<std::uint32_t> produced_{0}, consumed_{0};
  std::atomic<std::uint32_t> segment_{0};  ///< 0: nothing was cut yet
};

}  // namespace weft::device
