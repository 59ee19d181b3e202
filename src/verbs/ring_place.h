// Memory that a program brings for the rings of its queues.
#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"
#include "device/ring_shape.h"

namespace weft::verbs {

enum class RingKind : std::uint8_t { Send, Receive, SharedReceive, Completion };

/// A program's own allocator. Threads: as many as make and destroy queues. It is called with no
/// lock of ours held, for it may do anything.
class RingAllocator {
 public:
  /// Memory aligned to device::kRingAlignment; null: the device is to take its own. Errors: ENOMEM,
  /// EINVAL.
  virtual Result<void*> allocate(RingKind, std::size_t octets) = 0;
  /// Of what allocate gave and was not null.
  virtual void release(RingKind, void* memory) = 0;

 protected:
  ~RingAllocator() = default;
};

/// The memory for one ring, given back at the end of this: so not before the device let go of it.
class RingPlace {
 public:
  RingPlace() = default;
  /// Without an allocator the place is the device's affair.
  static Result<RingPlace> take(RingAllocator* allocator, RingKind kind,
                                const device::RingShape& shape) {
    RingPlace place;
    if (allocator == nullptr) return place;
    const auto memory = allocator->allocate(kind, shape.octets());
    if (!memory) return memory.error();
    place.allocator_ = allocator;
    place.kind_ = kind;
    place.memory_ = *memory;
    return place;
  }
  RingPlace(RingPlace&& other) noexcept { *this = std::move(other); }
  RingPlace& operator=(RingPlace&& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(kind_, other.kind_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~RingPlace() { give_back(); }

  void* memory() const { return memory_; }
  void give_back() {
    if (void* const memory = std::exchange(memory_, nullptr)) allocator_->release(kind_, memory);
  }

 private:
  RingAllocator* allocator_ = nullptr;
  RingKind kind_ = RingKind::Send;
  void* memory_ = nullptr;
};

}  // namespace weft::verbs
