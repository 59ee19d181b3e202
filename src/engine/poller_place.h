// Who waits in the poller: one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::engine {

/// A place for one. Of two threads in the poller the kernel would wake either for what came, and
/// the wake-up meant for one would be taken by the other.
///
/// Threads: any.
class PollerPlace {
 public:
  /// False: somebody has it, or it is closed.
  bool try_take() {
    std::uint32_t seen = word_.load(std::memory_order_seq_cst);
    return (seen & kFlags) == 0 &&
           word_.compare_exchange_strong(seen, seen | kTaken, std::memory_order_seq_cst);
  }
  bool taken() const { return (word_.load(std::memory_order_seq_cst) & kTaken) != 0; }
  /// Somebody waits for whoever has it.
  bool awaited() const { return (word_.load(std::memory_order_seq_cst) & kAwaited) != 0; }
  /// True: somebody awaited it.
  bool leave() {
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    // A new turn: who awaits the end of this one sees it, though the place be taken and awaited
    // again meanwhile.
    while (!word_.compare_exchange_weak(seen, ((seen | kFlags) + 1) | (seen & kClosed),
                                        std::memory_order_seq_cst)) {
    }
    if ((seen & kAwaited) == 0) return false;
    word_.notify_all();
    return true;
  }
  /// Waits until whoever has it leaves. Returns at once when nobody has it, or it is closed.
  /// `hurry` is to make it leave, and runs when it is sure to tell.
  template <typename Hurry>
  void await(Hurry hurry) {
    std::uint32_t seen = word_.load(std::memory_order_seq_cst);
    do {
      if ((seen & kTaken) == 0 || (seen & kClosed) != 0) return;
    } while (!word_.compare_exchange_weak(seen, seen | kAwaited, std::memory_order_seq_cst));
    hurry();
    word_.wait(seen | kAwaited, std::memory_order_seq_cst);
  }
  void await() {
    await([] {});
  }
  /// Nobody takes it any more, and nobody waits for it.
  void close() {
    word_.fetch_or(kClosed, std::memory_order_seq_cst);
    word_.notify_all();
  }

  /// Says that it is wanted, and not only awaited; until take_wish(), by who takes it or gives up.
  void wish() { wished_.store(true, std::memory_order_seq_cst); }
  bool take_wish() { return wished() && wished_.exchange(false); }
  bool wished() const { return wished_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kTaken = 1, kAwaited = 2, kClosed = 4;
  static constexpr std::uint32_t kFlags = kTaken | kAwaited | kClosed;

  std::atomic<std::uint32_t> word_{0};  ///< flags, and above them a count of turns
  std::atomic<bool> wished_{false};
};

}  // namespace weft::engine
