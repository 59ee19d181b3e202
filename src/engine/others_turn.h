// When a thread that polls one CQ asks the streams of other CQs too.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::engine {

/// How often a stream was passed over, in polls of CQs that are not its own. So where its own is
/// polled as often, it gets its turns in those polls alone.
class PassedOver {
 public:
  static constexpr std::uint8_t kMost = 7;

  /// At a poll of another CQ. False: it was often enough.
  bool once_more() { return ++times_ <= kMost; }
  void end() { times_ = 0; }

 private:
  std::uint8_t times_ = 0;
};

/// Polls may be rare: then the next one asks all streams.
class OthersTurn {
 public:
  /// At each poll, by one thread at a time: is it now?
  bool come() {
    if (!asked_.load(std::memory_order_relaxed)) return false;
    asked_.store(false, std::memory_order_relaxed);
    return true;
  }
  /// Any thread.
  void ask() { asked_.store(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> asked_{false};
};

}  // namespace weft::engine
