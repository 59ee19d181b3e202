// A table from descriptor numbers to objects, whose answer for all other numbers is a look-up.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "front/sockets/mutex.h"

namespace weft::sockets {

/// Numbers from here on have no place in a table.
inline constexpr int kNumbersMax = 1024 * 1024;

/// Any thread. Look-ups of numbers that are not there take no lock. Lives for ever: never
/// destroyed, so that calls of a program's last moments find it.
template <typename T>
class FdTable {
 public:
  using Pointer = std::shared_ptr<T>;

  Pointer find(int fd) {
    Entry* entry = at(fd);
    if (entry == nullptr || !entry->used.load(std::memory_order_acquire)) return nullptr;
    std::lock_guard lock(mutex_of(fd));
    return entry->object;
  }

  bool has(int fd) const {
    const Entry* entry = at(fd);
    return entry != nullptr && entry->used.load(std::memory_order_acquire);
  }

  /// Gives what was there before. False: the number is beyond the table, or there is no memory.
  bool set(int fd, Pointer object, Pointer* before = nullptr) {
    Entry* entry = make(fd);
    if (entry == nullptr) return false;
    std::lock_guard lock(mutex_of(fd));
    const bool used = object != nullptr;
    std::swap(entry->object, object);
    entry->used.store(used, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
    if (before != nullptr) *before = std::move(object);
    return true;
  }

  /// Another number: something has changed since. Read before find(), it says how long the answer
  /// holds.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  Pointer take(int fd) {
    Pointer before;
    if (has(fd)) set(fd, nullptr, &before);
    return before;
  }

  /// Takes `object` out of the number, where it still is, and calls `act()`. Who closes the number
  /// takes it out first, so meanwhile it is open.
  template <typename Act>
  bool take_from(int fd, const Pointer& object, Act act) {
    Pointer before;  // goes without the mutex
    Entry* entry = at(fd);
    if (entry == nullptr) return false;
    std::lock_guard lock(mutex_of(fd));
    if (entry->object != object) return false;
    std::swap(entry->object, before);
    entry->used.store(false, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
    act();
    return true;
  }

  /// Calls visit(fd, object) for all there are, one after the other.
  template <typename Visit>
  void for_each(Visit visit) {
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (chunks_[static_cast<unsigned>(chunk)].load(std::memory_order_acquire) == nullptr) {
        continue;
      }
      for (int i = 0; i < kChunk; ++i) {
        const int fd = chunk * kChunk + i;
        if (Pointer object = find(fd); object != nullptr) visit(fd, object);
      }
    }
  }

  // Across a fork, so that the child's table is of a moment when nobody was in it.
  void lock_all() {
    for (Mutex& mutex : mutexes_) mutex.lock();
  }
  void unlock_all() {
    for (Mutex& mutex : mutexes_) mutex.unlock();
  }

 private:
  static constexpr int kChunk = 1024, kChunks = kNumbersMax / kChunk, kMutexes = 16;

  struct Entry {
    std::atomic<bool> used{false};
    Pointer object;
  };
  using Chunk = std::array<Entry, kChunk>;

  Mutex& mutex_of(int fd) { return mutexes_[static_cast<unsigned>(fd % kMutexes)]; }

  Entry* at(int fd) const {
    if (fd < 0 || fd >= kChunk * kChunks) return nullptr;
    Chunk* chunk = chunks_[static_cast<unsigned>(fd / kChunk)].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &(*chunk)[static_cast<unsigned>(fd % kChunk)];
  }

  Entry* make(int fd) {
    if (fd < 0 || fd >= kChunk * kChunks) return nullptr;
    auto& slot = chunks_[static_cast<unsigned>(fd / kChunk)];
    if (slot.load(std::memory_order_acquire) == nullptr) {
      auto* made = new (std::nothrow) Chunk;
      if (made == nullptr) return nullptr;
      Chunk* none = nullptr;
      if (!slot.compare_exchange_strong(none, made)) delete made;
    }
    return at(fd);
  }

  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
  std::atomic<std::uint64_t> generation_{0};
  std::array<Mutex, kMutexes> mutexes_;
};

}  // namespace weft::sockets
