// Batches that were spliced: sent, and still read where they lie.
#pragma once

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/time.h"
#include "engine/buffers.h"
#include "engine/splice_habit.h"

namespace weft::engine {

/// What is left of what a connection has spliced.
enum class SplicedState : std::uint8_t {
  None,
  SomeRead,  ///< less than before
  NoneRead,
};

/// What one connection has sent since something was spliced, and how much of that the core may be
/// told of: what lies behind spliced octets is told of after them, for WRs complete in order.
///
/// Invariants: told <= sent; the batches kept are those that end behind what was told, the oldest
/// first.
class SplicedBatches {
 public:
  /// `always`: SpliceHabit's.
  explicit SplicedBatches(bool always) : habit(always) {}

  /// The peer has to read some before there are more.
  bool full() const { return count_ == batches_.size(); }
  /// Everything that was sent was told of.
  bool empty() const { return told_ == sent_; }

  /// The transport took so many octets more.
  void note_sent(std::size_t octets) { sent_ += octets; }
  /// All of it was sent. Not when full().
  void keep(std::unique_ptr<TransmitBuffer> batch) {
    batches_[(first_ + count_++) % batches_.size()] = {std::move(batch), sent_};
  }
  /// Of what was sent, `held` octets at most may still be read from where they lie. `goes_on`:
  /// another batch is being spliced. Returns how many octets more may be told of.
  std::size_t release(std::size_t held, bool goes_on, TransmitPool& pool) {
    const std::uint64_t open = sent_ - told_;
    std::uint64_t free = sent_ - (held < open ? held : open);
    while (count_ != 0 && batches_[first_].end <= free) pool.give_back_to_rest(take_first());
    if (count_ == 0 && !goes_on) free = sent_;  // the rest was copied
    return static_cast<std::size_t>(free - std::exchange(told_, free));
  }
  /// As release(), whatever is held; the batches stay.
  std::size_t tell_all() { return static_cast<std::size_t>(sent_ - std::exchange(told_, sent_)); }
  /// The stream is over, but the peer may still read what was sent. What is staged from now on does
  /// not show there: those buffers get other pages.
  void abandon(TransmitPool& pool) {
    while (count_ != 0) {
      std::unique_ptr<TransmitBuffer> batch = take_first();
      // Memory that is locked keeps its pages. Then nobody else gets them.
      const bool fresh =
          ::madvise(batch->staging.data(), batch->staging.size(), MADV_DONTNEED) == 0;
      fresh ? pool.give_back(std::move(batch)) : pool.lose(std::move(batch));
    }
    told_ = sent_;
  }

  SpliceHabit habit;
  Instant next_look;  ///< not before: the answer costs a few microseconds
  std::optional<Instant> unknown_from;  ///< since then there was none

 private:
  struct Kept {
    std::unique_ptr<TransmitBuffer> batch;
    std::uint64_t end = 0;  ///< sent_ when it had been
  };
  std::unique_ptr<TransmitBuffer> take_first() {
    std::unique_ptr<TransmitBuffer> batch = std::move(batches_[first_].batch);
    first_ = (first_ + 1) % batches_.size();
    --count_;
    return batch;
  }

  std::array<Kept, 4> batches_;
  std::size_t first_ = 0, count_ = 0;
  std::uint64_t sent_ = 0, told_ = 0;
};

}  // namespace weft::engine
