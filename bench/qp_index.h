// Which of many connections a completion's QP number names, in one look at memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "measure/basics.h"

namespace weft::bench {

/// By linear probing in a table that is half full at most. 0 is no QP's number.
class QPIndex {
 public:
  explicit QPIndex(std::size_t most) : entries_(std::bit_ceil(2 * most + 1)) {}

  void put(std::uint32_t qp_num, std::size_t index) {
    entries_[find(qp_num)] = {qp_num, static_cast<std::uint32_t>(index)};
  }
  std::size_t at(std::uint32_t qp_num) const {
    const Entry& entry = entries_[find(qp_num)];
    if (entry.qp_num != qp_num) measure::fail("a completion of QP {}, none of ours", qp_num);
    return entry.index;
  }
  void clear() { entries_.assign(entries_.size(), {}); }

 private:
  struct Entry {
    std::uint32_t qp_num = 0, index = 0;
  };
  /// Its own place, or the empty one that it would have.
  std::size_t find(std::uint32_t qp_num) const {
    std::size_t at = qp_num & (entries_.size() - 1);
    while (entries_[at].qp_num != qp_num && entries_[at].qp_num != 0) {
      at = (at + 1) & (entries_.size() - 1);
    }
    return at;
  }

  std::vector<Entry> entries_;
};

}  // namespace weft::bench
