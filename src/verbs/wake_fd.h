// The descriptor that tells a program "an event is waiting": of a completion channel, or of a
// context's asynchronous events.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "device/device.h"

namespace weft::verbs {

/// Counts the events of a queue in an eventfd, so that the program's own poll(), O_NONBLOCK and
/// signals work as with a kernel device.
///
/// Invariant: the eventfd's count is the number of queued events. The owner keeps it by calling add
/// and remove under the lock of its queue; nobody else reads the eventfd.
///
/// When the engine runs inline, fd() is an epoll descriptor over the eventfd and the device's
/// progress descriptor: the program then also wakes when there is protocol work, calls for an event
/// and by that does the work. It may find none; with O_NONBLOCK that is EAGAIN.
class WakeFd {
 public:
  WakeFd() = default;
  WakeFd(const WakeFd&) = delete;
  WakeFd& operator=(const WakeFd&) = delete;
  ~WakeFd();

  /// Called once, first. Error: errno of the system call. The device outlives this object.
  Result<void> open(device::Device& device);

  /// For the program: it may poll it and set O_NONBLOCK, and never reads it.
  int fd() const { return program_fd_; }

  void add(std::uint32_t events);
  void remove(std::uint32_t events);

  /// Waits until an event may be there. Called without the queue's lock, after the queue was found
  /// empty, again and again until it is not; `*attempt` is 0 before the first time.
  /// Returns 0 (look again), EAGAIN (the program set O_NONBLOCK), EINTR (a signal), or another
  /// errno.
  int wait(unsigned* attempt);

 private:
  device::Device* device_ = nullptr;
  int event_fd_ = -1;
  int program_fd_ = -1;
};

}  // namespace weft::verbs
