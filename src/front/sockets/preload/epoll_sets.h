// Which epoll sets may hold sockets of ours.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace weft::sockets {

/// By number, and no more than a hint: a set that is not marked is waited for in the kernel as
/// ever, and a mark that outlived its set costs a little. Any thread.
class EpollSets {
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
  void unmark(int fd) { word_of(fd).fetch_and(~bit_of(fd), std::memory_order_relaxed); }

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

inline constinit EpollSets epoll_sets;

}  // namespace weft::sockets
