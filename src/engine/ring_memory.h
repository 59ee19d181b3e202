// Memory for one ring. Anonymous here; the offload process will use shared memory instead.
#pragma once

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "device/ring.h"

namespace weft::engine {

/// A formatted, empty ring of at least `depth` entries of at least `entry_octets`.
class RingMemory {
 public:
  RingMemory() = default;
  RingMemory(std::uint32_t depth, std::size_t entry_octets) {
    const std::uint32_t capacity = std::bit_ceil(depth);
    const auto stride = static_cast<std::uint32_t>((entry_octets + 63) / 64 * 64);
    void* storage = std::aligned_alloc(64, device::Ring::storage_octets(capacity, stride));
    weft_assert(storage != nullptr);
    device::Ring::format(storage, capacity, stride);
    storage_.reset(storage);
  }
  void* data() const { return storage_.get(); }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> storage_;
};

}  // namespace weft::engine
