// Batches that were spliced: sent, and still read where they lie.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/time.h"
#include "engine/buffers.h"
#include "engine/pace_habit.h"
#include "engine/splice_habit.h"
#include "engine/staging_habit.h"

namespace weft::engine {

/// What is left of what a connection has spliced.
enum class SplicedState : std::uint8_t {
  None,
  SomeRead,  ///< less than before
  NoneRead,
};

/// What one connection has sent since something was spliced, and how much of that the core may be
/// told of: what lies behind octets that were spliced from where they lie is told of after them,
/// for WRs complete in order. What was staged, and copied, is told of at once; only its buffer has
/// to wait for the peer. Several such batches share a buffer, one behind the other.
///
/// Invariants: told <= sent; the batches kept are those that end behind what is known to be read,
/// the oldest first.
class SplicedBatches {
 public:
  /// `always`: SpliceHabit's. `always_stages`: StagingHabit's.
  explicit SplicedBatches(bool always, bool always_stages = false)
      : habit(always), staging(always_stages) {}

  /// The peer has to read some before there are more.
  bool full() const { return count_ == batches_.size(); }
  /// Else the peer has to read some before more is staged.
  bool may_stage() const { return begun_.batch != nullptr ? !full() : count_ < kStagedKept; }
  /// Are there any?
  bool keeps() const { return count_ != 0 || begun_.batch != nullptr; }
  /// Everything that was sent was told of.
  bool empty() const { return told_ == sent_; }

  /// The transport took so many octets more. `told_late`: when they were read. Returns how many may
  /// be told of now.
  std::size_t note_sent(std::size_t octets, bool told_late) {
    const bool first = empty();
    sent_ += octets;
    if (told_late) late_to_ = sent_;
    return told_late || !first ? 0 : tell(sent_);
  }
  /// All of it was sent. Not when full().
  void keep(std::unique_ptr<TransmitBuffer> batch) {
    batch->begin = 0;
    batches_[(first_ + count_++) % batches_.size()] = {std::move(batch), sent_};
  }
  /// The same of one that was staged, and leaves room for others. Not when full().
  void keep_staged(std::unique_ptr<TransmitBuffer> batch) {
    const std::size_t next =
        (batch->begin + batch->total + kPageOctets - 1) / kPageOctets * kPageOctets;
    const std::size_t more = std::max(batch->total, kUnfinishedOctetsMax);
    if (next + more > kTransmitStagingOctets) return keep(std::move(batch));
    batch->begin = next;
    begun_ = {std::move(batch), sent_};
  }
  /// The buffer that has room for another staged batch, or null.
  std::unique_ptr<TransmitBuffer> take_begun() { return std::move(begun_.batch); }
  /// Of what was sent, `held` octets at most may still be read from where they lie. Returns how
  /// many octets more may be told of.
  std::size_t release(std::size_t held, TransmitPool& pool) {
    const std::uint64_t open = sent_ - read_;
    read_ = sent_ - (held < open ? held : open);
    while (count_ != 0 && batches_[first_].end <= read_) pool.give_back_to_rest(take_first());
    if (begun_.batch != nullptr && begun_.end <= read_) {
      begun_.batch->begin = 0;
      pool.give_back_to_rest(take_begun());
    }
    return tell(read_ < late_to_ ? read_ : sent_);
  }
  /// As release(), whatever is held; the batches stay.
  std::size_t tell_all() { return tell(sent_); }
  /// The stream is over, but the peer may still read what was sent. What is staged from now on does
  /// not show there: those buffers get other pages.
  void abandon(TransmitPool& pool) {
    while (std::unique_ptr<TransmitBuffer> batch = count_ != 0 ? take_first() : take_begun()) {
      batch->begin = 0;
      // Memory that is locked keeps its pages. Then nobody else gets them.
      const bool fresh =
          ::madvise(batch->staging.data(), batch->staging.size(), MADV_DONTNEED) == 0;
      fresh ? pool.give_back(std::move(batch)) : pool.lose(std::move(batch));
    }
    told_ = sent_;
  }

  SpliceHabit habit;
  PaceHabit pace;
  StagingHabit staging;
  Instant next_look;  ///< not before: the answer costs a few microseconds
  std::optional<Instant> unknown_from;  ///< since then there was none

 private:
  /// Buffers, the begun one included: who stages has few under way, and keeps these while idle.
  static constexpr std::size_t kStagedKept = 2;

  struct Kept {
    std::unique_ptr<TransmitBuffer> batch;
    std::uint64_t end = 0;  ///< sent_ when it had been
  };
  /// Up to there. Returns how many octets more that are.
  std::size_t tell(std::uint64_t end) {
    const std::uint64_t before = std::exchange(told_, std::max(told_, end));
    return static_cast<std::size_t>(told_ - before);
  }
  std::unique_ptr<TransmitBuffer> take_first() {
    std::unique_ptr<TransmitBuffer> batch = std::move(batches_[first_].batch);
    first_ = (first_ + 1) % batches_.size();
    --count_;
    return batch;
  }

  std::array<Kept, 4> batches_;
  std::size_t first_ = 0, count_ = 0;
  Kept begun_;  ///< with room for more
  std::uint64_t sent_ = 0, told_ = 0;
  std::uint64_t read_ = 0;     ///< up to there, at least
  std::uint64_t late_to_ = 0;  ///< the end of what is told of when it was read
};

}  // namespace weft::engine
