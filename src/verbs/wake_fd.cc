// An eventfd, and an epoll descriptor around it when the engine is inline.
#include "verbs/wake_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace weft::verbs {

WakeFd::~WakeFd() {
  if (program_fd_ >= 0 && program_fd_ != event_fd_) close(program_fd_);
  if (event_fd_ >= 0) close(event_fd_);
}

Result<void> WakeFd::open(device::Device& device) {
  device_ = &device;
  event_fd_ = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (event_fd_ < 0) return Error{errno, "no descriptor for events"};
  program_fd_ = event_fd_;
  const int progress_fd = device.progress_fd();
  if (progress_fd < 0) return {};

  program_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (program_fd_ < 0) return Error{errno, "no descriptor for events"};
  for (int fd : {event_fd_, progress_fd}) {
    epoll_event interest{};
    interest.events = EPOLLIN;
    interest.data.fd = fd;
    if (epoll_ctl(program_fd_, EPOLL_CTL_ADD, fd, &interest) != 0) {
      return Error{errno, "the events' descriptor cannot be watched"};
    }
  }
  return {};
}

void WakeFd::add(std::uint32_t events) {
  const std::uint64_t count = events;
  // Cannot fail: the count stays far below 2^64 and the descriptor is ours.
  [[maybe_unused]] const ssize_t written = write(event_fd_, &count, sizeof count);
}

void WakeFd::remove(std::uint32_t events) {
  for (; events > 0; --events) {
    std::uint64_t one;
    // Does not block even on a blocking descriptor: by the invariant the count is above zero.
    if (read(event_fd_, &one, sizeof one) < 0 && errno == EINTR) ++events;
  }
}

int WakeFd::wait(unsigned* attempt) {
  const int progress_fd = device_->progress_fd();
  if (progress_fd >= 0 && (*attempt)++ == 0) {
    device_->progress();
    return 0;
  }
  const int flags = fcntl(program_fd_, F_GETFL);
  if (flags < 0) return errno;
  if ((flags & O_NONBLOCK) != 0) return EAGAIN;
  pollfd watched[2] = {{event_fd_, POLLIN, 0}, {progress_fd, POLLIN, 0}};
  const int count = progress_fd >= 0 ? 2 : 1;
  if (poll(watched, static_cast<nfds_t>(count), count == 2 ? device_->timeout_ms() : -1) < 0) {
    return errno;
  }
  if (count == 2) device_->progress();
  return 0;
}

}  // namespace weft::verbs
