// A table from descriptor numbers to objects, whose answer for all other numbers is a look-up.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace weft::sockets {

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
    for (std::mutex& mutex : mutexes_) mutex.lock();
  }
  void unlock_all() {
    for (std::mutex& mutex : mutexes_) mutex.unlock();
  }

 private:
  static constexpr int kChunk = 1024, kChunks = 1024, kMutexes = 16;

  struct Entry {
    std::atomic<bool> used{false};
    Pointer object;
  };
  using Chunk = std::array<Entry, kChunk>;

  std::mutex& mutex_of(int fd) { return mutexes_[static_cast<unsigned>(fd % kMutexes)]; }

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
  std::array<std::mutex, kMutexes> mutexes_;
};

}  // namespace weft::sockets
