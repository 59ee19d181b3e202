// Where a program waits for completion events of its CQs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/result.h"
#include "verbs/wake_fd.h"

namespace weft::verbs {

class CompletionChannel;

/// A CQ's part in its channel's queue: written only under the channel's lock.
struct CompletionEventState {
  void* owner = nullptr;             ///< what get() gives; set before the first event
  CompletionEventState* next = nullptr;
  std::uint32_t pending = 0;         ///< queued, not delivered; in the list while above 0
  std::uint32_t delivered = 0;       ///< counts wrap; what is owed: delivered - acknowledged
  std::uint32_t acknowledged = 0;
};

/// A queue of CQs that have events. It takes no memory per event: a CQ stands in it once and
/// counts.
///
/// Threads: any. The device calls notify with its progress lock held, so nothing here calls the
/// device with the channel's lock held.
class CompletionChannel {
 public:
  /// Called once, first.
  Result<void> open(device::Device& device, Numbers numbers) {
    return wake_.open(device, numbers);
  }
  int fd() const { return wake_.fd(); }

  /// One event more for this CQ.
  void notify(CompletionEventState& cq);
  /// The owner of the CQ with the oldest event, waiting for one as WakeFd::wait says. Returns 0 or
  /// the errno. Each one got must be acknowledged.
  int get(void** owner);
  /// See WakeFd::hand.
  void hand(WakeFd::Taker taker, void* cookie);
  void acknowledge(CompletionEventState& cq, std::uint32_t events);
  /// Takes back what was not delivered and waits until all that was is acknowledged. Called when
  /// the device gives no more events for this CQ.
  void retire(CompletionEventState& cq);

 private:
  CompletionEventState* pop_locked();
  void unlink_locked(CompletionEventState& cq);

  std::mutex lock_;
  std::condition_variable acknowledged_;
  CompletionEventState* first_ = nullptr;
  CompletionEventState** last_link_ = &first_;
  WakeFd wake_;
};

}  // namespace weft::verbs
