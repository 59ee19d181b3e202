// The background thread that makes progress while no consumer does.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/time.h"
#include "engine/look_habit.h"

namespace weft::engine {

class Rnic;

/// Waits in the poller and serves what comes. While a consumer polls its CQ in a loop (and so does
/// the work itself, without a thread switch), or sleeps for an event and does the work whenever it
/// wakes, it keeps out of the way and only looks in now and then.
class ProgressThread {
 public:
  explicit ProgressThread(Rnic& rnic);
  ~ProgressThread();  ///< stops and joins
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

 private:
  void run();
  /// Remembers what consumers did so far.
  void look();
  /// Have they polled in a loop since the last look?
  bool consumers_poll() const;
  /// Returns once consumers have stopped polling in a loop.
  void stand_back();
  /// Until the RNIC's next deadline.
  Duration time_left() const;
  /// Asks on and on as long as peers read what was spliced, the program does not come for it, and
  /// nobody else wants the processor. To sleep in between, by a timer, takes longer than they do to
  /// read, and such a short timer 20 us of a virtual machine.
  void stay_with_readers();
  /// What goes to and fro between this program, or this thread, and a peer.
  struct Exchange {
    LookHabit habit;
    Instant at;  ///< its last part
    bool looks = true;
  };
  /// A program that waits at its descriptors was just told of an event, and answers that, mostly at
  /// once; or a peer's Read was answered. Then the peer goes on: so this thread looks for a moment
  /// before it sleeps, as a program does that waits in here (docs/adr/0036).
  void stay_in(Exchange&);
  enum class Next : std::uint8_t {
    Came,       ///< as soon as it could
    Told,       ///< a part of the other exchange
    Late,       ///< not soon, or it would have come as soon to a sleeper
    OthersWork  ///< the program does the work itself, or all is over
  };
  Next look_for_next(const Exchange&);
  /// Are there posts that wait for their program's next call, and does it not come?
  void look_after_posts();

  Rnic& rnic_;
  std::uint32_t polls_seen_ = 0, armings_seen_ = 0, entries_seen_ = 0;
  std::uint32_t gathered_seen_ = 0, left_seen_ = 0;
  Instant looked_;            ///< after posts
  Duration forgotten_after_;  ///< so long later again
  Instant stays_from_;        ///< with readers, and not before
  Exchange told_, answered_;
  Instant answers_from_;  ///< in answered_, and not before
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace weft::engine
