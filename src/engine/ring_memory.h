// Memory for one ring. Anonymous here; the offload process will use shared memory instead.
#pragma once

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/result.h"
#include "device/ring.h"

namespace weft::engine {

/// A formatted, empty ring.
class RingMemory {
 public:
  RingMemory() = default;
  /// Of at least `depth` entries of at least `entry_octets`. ENOMEM.
  static Result<RingMemory> make(std::uint32_t depth, std::size_t entry_octets) {
    const std::uint32_t capacity = std::bit_ceil(depth);
    const auto stride = static_cast<std::uint32_t>((entry_octets + 63) / 64 * 64);
    void* storage = std::aligned_alloc(64, device::Ring::storage_octets(capacity, stride));
    if (storage == nullptr) return Error{ENOMEM, "no memory for a queue of this depth"};
    device::Ring::format(storage, capacity, stride);
    RingMemory memory;
    memory.storage_.reset(storage);
    return memory;
  }
  void* data() const { return storage_.get(); }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> storage_;
};

}  // namespace weft::engine
