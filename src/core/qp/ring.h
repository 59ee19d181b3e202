// A FIFO of fixed capacity in borrowed storage: how the QP keeps its open work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "base/assert.h"

namespace weft::core {

/// First in, first out. An entry keeps its address from push() to its pop(), and slot(entry)
/// numbers it 0..capacity-1, so that side arrays can belong to it.
///
/// Invariant: size() <= capacity(). push() when full and front() when empty are our bugs.
template <typename T>
class Ring {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  static constexpr std::size_t storage_octets(std::uint32_t capacity) {
    return capacity * sizeof(T);
  }
  Ring() = default;
  /// `storage` aligned for T, storage_octets(capacity) octets, outlives the ring. Not touched
  /// before there are entries: an idle QP costs no memory for what it might have open.
  Ring(std::uint8_t* storage, std::uint32_t capacity)
      : entries_(reinterpret_cast<T*>(storage)), capacity_(capacity) {}

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == capacity_; }
  std::uint32_t size() const { return count_; }
  std::uint32_t capacity() const { return capacity_; }

  T& front() { return entries_[first_]; }
  T& back() { return (*this)[count_ - 1]; }
  /// The i-th oldest.
  T& operator[](std::uint32_t i) { return entries_[wrapped(i)]; }
  const T& operator[](std::uint32_t i) const { return entries_[wrapped(i)]; }
  std::uint32_t slot(const T& entry) const {
    return static_cast<std::uint32_t>(&entry - entries_);
  }

  /// Adds a fresh entry at the back.
  T& push() {
    weft_assert(!full());
    T* const entry = ::new (static_cast<void*>(entries_ + wrapped(count_))) T{};
    ++count_;
    return *entry;
  }
  void pop() {
    weft_assert(!empty());
    --count_;
    // Where one is open at a time it is always the first: one place in the cache and not all.
    first_ = count_ == 0 || first_ + 1 == capacity_ ? 0 : first_ + 1;
  }
  /// Takes the newest entry back.
  void pop_back() {
    weft_assert(!empty());
    --count_;
  }
  void clear() { first_ = count_ = 0; }

 private:
  std::uint32_t wrapped(std::uint32_t i) const {
    const std::uint32_t at = first_ + i;
    return at < capacity_ ? at : at - capacity_;
  }

  T* entries_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace weft::core
