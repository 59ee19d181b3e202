// Sets of numbers: which epoll sets may hold sockets of ours, and what the program does not know.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::sockets {

/// Any thread.
class NumberSet {
 public:
  bool has(int fd) const {
    if (!any_.load(std::memory_order_relaxed) || !is_in_range(fd)) return false;
    return (word_of(fd).load(std::memory_order_relaxed) & bit_of(fd)) != 0;
  }
  void mark(int fd) {
    if (!is_in_range(fd) || has(fd)) return;
    word_of(fd).fetch_or(bit_of(fd), std::memory_order_relaxed);
    any_.store(true, std::memory_order_relaxed);
  }
  /// `fd`: one that it has.
  void unmark(int fd) { word_of(fd).fetch_and(~bit_of(fd), std::memory_order_relaxed); }
  /// The lowest that it has from `fd` on; -1: none.
  int next(unsigned fd) const {
    if (!any_.load(std::memory_order_relaxed) || fd >= kNumbers) return -1;
    for (std::size_t at = fd / 64; at != words_.size(); ++at) {
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
  static bool is_in_range(int fd) { return fd >= 0 && fd < kNumbers; }
  static std::uint64_t bit_of(int fd) { return std::uint64_t{1} << fd % 64; }
  const std::atomic<std::uint64_t>& word_of(int fd) const {
    return words_[static_cast<unsigned>(fd) / 64];
  }
  std::atomic<std::uint64_t>& word_of(int fd) { return words_[static_cast<unsigned>(fd) / 64]; }

  std::atomic<bool> any_{false};
  std::array<std::atomic<std::uint64_t>, kNumbers / 64> words_{};
};

/// No more than a hint: a set that is not here is waited for in the kernel as ever, and one that
/// outlived its set costs a little.
inline constinit NumberSet epoll_sets;

/// What our libraries have for themselves, above the program's (base/number_gate.h). Programs that
/// close all there is mean what they know.
inline constinit NumberSet hidden_numbers;

}  // namespace weft::sockets
