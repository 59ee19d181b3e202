// Laying out a ring's memory.
#include "device/ring.h"

#include <new>

namespace weft::device {

Ring Ring::format(void* storage, std::uint32_t capacity, std::uint32_t stride) {
  weft_assert(capacity != 0 && (capacity & (capacity - 1)) == 0);
  weft_assert(stride != 0 && stride % 64 == 0);
  auto* control = new (storage) RingControl;
  control->produced.store(0, std::memory_order_relaxed);
  control->consumed.store(0, std::memory_order_relaxed);
  control->silent.store(0, std::memory_order_relaxed);
  control->capacity = capacity;
  control->stride = stride;
  return Ring(storage, capacity, stride);
}

}  // namespace weft::device
