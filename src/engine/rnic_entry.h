// How a thread becomes the RNIC for a moment, and leaves it with nothing undone.
#pragma once

#include <cerrno>

#include "engine/rnic.h"

namespace weft::engine {

/// For calls that run out of memory, which they notice before they have changed anything.
inline constexpr Error kOutOfMemory{ENOMEM, "out of memory"};

/// Holds the progress lock. On leaving: doorbells, lost CQ entries and dead connections are dealt
/// with, the lock is dropped, and then whatever was rung meanwhile is served too, but not without
/// end: a thread that others keep busy hands over to whoever waits in the poller.
class Rnic::Entry {
 public:
  explicit Entry(Rnic& rnic) : rnic_(rnic) {
    rnic_.lock_.lock();
    rnic_.tick();
    // What was posted before this call comes before it: a disconnect must not find it unsent.
    if (rnic_.rung()) rnic_.serve_rung();
  }
  ~Entry() { leave(rnic_); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  /// Runs `work` if the lock is free or becomes free in time; otherwise the holder does what was
  /// rung. Never waits. False: it was not free. `work` calls tick() if it needs the time.
  template <typename Work>
  static bool try_enter(Rnic& rnic, Work work) {
    if (!rnic.lock_.try_lock()) return false;
    work(rnic);
    leave(rnic);
    return true;
  }

 private:
  friend class Rnic;
  static constexpr int kRoundsMax = 8;

  static void leave(Rnic& rnic) {
    for (int round = 0;; ++round) {
      if (rnic.any_rung()) rnic.serve_rung();
      if (rnic.has_loose_ends()) rnic.end_loose();
      rnic.publish_deadline();
      rnic.lock_.unlock();
      // Pairs with mark_rung: who rang after serve_rung and failed to get the lock is seen here.
      if (!rnic.any_rung()) return;
      if (round == kRoundsMax) return rnic.poller_.wake();
      if (!rnic.lock_.try_lock()) return;
      rnic.tick();
    }
  }

  Rnic& rnic_;
};

}  // namespace weft::engine
