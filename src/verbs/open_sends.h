// How many sends a program has posted and does not know to be done.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::verbs {

/// A program learns by completions: the one of a signalled request also tells of the unsignalled
/// ones before it. Threads: the send queue's lock.
class OpenSends {
 public:
  /// A list of sends.
  struct List {
    std::uint32_t entries = 0;
    std::uint32_t signaled = 0;  ///< of them
    std::uint32_t covered = 0;   ///< unsignalled ones right before the last signalled one
    std::uint32_t silent = 0;    ///< unsignalled ones behind it
  };

  /// `polled`: how many of this queue's completions were, since ever. `empty_polls`: how often a
  /// poll of their CQ found nothing. Calls match `(open add)*`.
  ///
  /// What was open at the last post still counts if no poll has found nothing since: who polled
  /// once, and had all of a batch, is about to post the next batch and does not wait for anything.
  std::uint32_t open(std::uint32_t polled, std::uint32_t empty_polls) {
    // Unsignalled requests that failed give completions too: never mind who was first.
    if (static_cast<std::int32_t>(signaled_ - polled) < 0) signaled_ = polled;
    const std::uint32_t unread = signaled_ - polled;
    open_ = silent_ + (unread == 0 ? 0 : unread + covered_);
    if (empty_polls != empty_polls_) batch_ = 0;
    empty_polls_ = empty_polls;
    return std::max(open_, batch_);
  }
  void add(const List& list) {
    batch_ = std::max(batch_, open_ + list.entries);
    if (list.signaled == 0) {
      silent_ += list.silent;
      return;
    }
    signaled_ += list.signaled;
    // Of earlier signalled ones it is no longer known how many stood before each: at least none.
    covered_ = list.covered + (list.signaled == 1 ? silent_ : 0);
    silent_ = list.silent;
  }

 private:
  std::uint32_t signaled_ = 0;
  std::uint32_t covered_ = 0;
  std::uint32_t silent_ = 0;
  std::uint32_t open_ = 0;         ///< at the newest post, before it
  std::uint32_t batch_ = 0;        ///< the most that was open since a poll found nothing
  std::uint32_t empty_polls_ = 0;  ///< at the newest post
};

}  // namespace weft::verbs
