// A set of descriptors' numbers.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::sockets {

/// Numbers beyond the highest that it has room for are never in it. Any thread.
class NumberSet {
 public:
  bool has(int fd) const {
    if (fd < 0 || fd > last_.load(std::memory_order_relaxed)) return false;
    return (word_of(fd).load(std::memory_order_relaxed) & bit_of(fd)) != 0;
  }
  void mark(int fd) {
    if (fd < 0 || fd >= kNumbers || has(fd)) return;
    word_of(fd).fetch_or(bit_of(fd), std::memory_order_relaxed);
    int last = last_.load(std::memory_order_relaxed);
    while (last < fd && !last_.compare_exchange_weak(last, fd, std::memory_order_relaxed)) {
    }
  }
  void unmark(int fd) {
    if (has(fd)) word_of(fd).fetch_and(~bit_of(fd), std::memory_order_relaxed);
  }
  /// The lowest that it has from `fd` on; -1: none.
  int next(unsigned fd) const {
    const int last = last_.load(std::memory_order_relaxed);
    if (last < 0 || fd > static_cast<unsigned>(last)) return -1;
    for (std::size_t at = fd / 64; at <= static_cast<unsigned>(last) / 64; ++at) {
      std::uint64_t word = words_[at].load(std::memory_order_relaxed);
      if (at == fd / 64) word &= ~std::uint64_t{0} << fd % 64;
      if (word != 0) return static_cast<int>(at * 64) + std::countr_zero(word);
    }
    return -1;
  }
  void clear() {
    for (int fd = next(0); fd >= 0; fd = next(static_cast<unsigned>(fd) + 1)) unmark(fd);
  }

 private:
  static constexpr int kNumbers = 1024 * 1024;
  static std::uint64_t bit_of(int fd) { return std::uint64_t{1} << fd % 64; }
  const std::atomic<std::uint64_t>& word_of(int fd) const {
    return words_[static_cast<unsigned>(fd) / 64];
  }
  std::atomic<std::uint64_t>& word_of(int fd) { return words_[static_cast<unsigned>(fd) / 64]; }

  std::atomic<int> last_{-1};  ///< none beyond was ever in it
  std::array<std::atomic<std::uint64_t>, kNumbers / 64> words_{};
};

}  // namespace weft::sockets
