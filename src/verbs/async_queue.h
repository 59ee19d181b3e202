// The asynchronous events of one opened device: what goes wrong outside any work request.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/result.h"
#include "device/device.h"
#include "verbs/wake_fd.h"

namespace weft::verbs {

class AsyncQueue;

/// An object's part in the queue (CQ, QP, SRQ): written only under the queue's lock.
struct AsyncEventState {
  void* owner = nullptr;           ///< what get() gives; set before the first event
  AsyncEventState* next = nullptr;
  std::uint32_t pending_kinds = 0; ///< bit per device::AsyncEventKind; in the list while not 0
  std::uint32_t delivered = 0;     ///< counts wrap
  std::uint32_t acknowledged = 0;
};

/// A queue of objects that have events. It takes no memory per event: a kind that is still
/// undelivered is not queued twice for one object.
///
/// Threads: as CompletionChannel.
class AsyncQueue {
 public:
  struct Event {
    void* owner = nullptr;
    device::AsyncEventKind kind = device::AsyncEventKind::CQError;
  };

  /// Called once, first.
  Result<void> open(device::Device& device, Numbers numbers) {
    return wake_.open(device, numbers);
  }
  int fd() const { return wake_.fd(); }

  void notify(AsyncEventState& object, device::AsyncEventKind kind);
  /// The oldest event, waiting for one as WakeFd::wait says. Returns 0 or the errno.
  int get(Event* event);
  void acknowledge(AsyncEventState& object);
  /// Takes back what was not delivered and waits until all that was is acknowledged. Called when
  /// the device gives no more events for this object.
  void retire(AsyncEventState& object);

 private:
  void unlink_locked(AsyncEventState& object);

  std::mutex lock_;
  std::condition_variable acknowledged_;
  AsyncEventState* first_ = nullptr;
  AsyncEventState** last_link_ = &first_;
  WakeFd wake_;
};

}  // namespace weft::verbs
