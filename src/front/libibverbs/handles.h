// What programs may import: found by the number that they read as `handle`.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace weft::front {

/// One ibv_open_device and all contexts that were imported of it; never reused. 0: none.
using Opening = std::uint64_t;

/// A thing of the device's that several C objects may stand for: the one that made it, and those
/// that imported it. Any of them may destroy the thing, and then the others can but be unimported.
///
/// It lives while it is listed or somebody holds a reference, whichever is longer.
template <typename Derived>
class Shared {
 public:
  void add_reference() { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop_reference() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete static_cast<Derived*>(this);
    }
  }

 private:
  template <typename>
  friend class HandleTable;
  std::atomic<std::uint32_t> references_{1};  ///< its maker's
  Opening opening_ = 0;                       ///< not 0: listed
  std::uint32_t handle_ = 0;
  Derived* previous_ = nullptr;
  Derived* next_ = nullptr;
};

/// All that exist of one kind. Threads: any; before_fork and after_fork stand around a fork, so
/// that the child does not find it locked.
template <typename T>
class HandleTable {
 public:
  /// Never destroyed: a program may leave main() with objects that it has not destroyed.
  static HandleTable& instance() {
    static auto* const table = new HandleTable;
    return *table;
  }

  void add(T* object, Opening opening, std::uint32_t handle) {
    std::lock_guard guard(lock_);
    object->add_reference();
    object->opening_ = opening;
    object->handle_ = handle;
    object->next_ = first_;
    if (first_ != nullptr) first_->previous_ = object;
    first_ = object;
  }
  /// It exists no more; who stands for it may still hold it.
  void remove(T* object) {
    {
      std::lock_guard guard(lock_);
      if (object->opening_ == 0) return;
      object->opening_ = 0;
      (object->previous_ != nullptr ? object->previous_->next_ : first_) = object->next_;
      if (object->next_ != nullptr) object->next_->previous_ = object->previous_;
    }
    object->drop_reference();
  }
  /// With a reference, or null. Takes as long as there are objects: importing is rare.
  T* find(Opening opening, std::uint32_t handle) {
    std::lock_guard guard(lock_);
    T* object = first_;
    while (object != nullptr && (object->opening_ != opening || object->handle_ != handle)) {
      object = object->next_;
    }
    if (object != nullptr) object->add_reference();
    return object;
  }

  void before_fork() { lock_.lock(); }
  void after_fork() { lock_.unlock(); }

 private:
  std::mutex lock_;
  T* first_ = nullptr;
};

}  // namespace weft::front
