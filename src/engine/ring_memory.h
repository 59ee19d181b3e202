// Memory for one ring: anonymous, or lent by the host.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/result.h"
#include "device/ring.h"
#include "device/ring_shape.h"

namespace weft::engine {

/// A formatted, empty ring.
class RingMemory {
 public:
  RingMemory() = default;
  /// `place`: memory of the host's that outlives this; null: our own. ENOMEM; EINVAL: the place is
  /// not aligned.
  static Result<RingMemory> make(const device::RingShape& shape, void* place = nullptr) {
    RingMemory memory;
    if (place == nullptr) {
      memory.own_.reset(std::aligned_alloc(device::kRingAlignment, shape.octets()));
      place = memory.own_.get();
      if (place == nullptr) return Error{ENOMEM, "no memory for a queue of this depth"};
    } else if (reinterpret_cast<std::uintptr_t>(place) % device::kRingAlignment != 0) {
      return Error{EINVAL, "the memory for a queue is not aligned"};
    }
    memory.ring_ = device::Ring::format(place, shape.capacity, shape.stride);
    return memory;
  }
  /// Its geometry is what was asked for, whatever the memory says since.
  device::Ring ring() const { return ring_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> own_;
  device::Ring ring_;
};

}  // namespace weft::engine
