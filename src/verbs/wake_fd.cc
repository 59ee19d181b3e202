// An eventfd, and an epoll descriptor around it when the engine is inline.
//
// System calls by number where a lock is held: libc's are cancellation points. And for what may get
// another number: ThreadSanitizer would see one half of that.
#include "verbs/wake_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace weft::verbs {

namespace {

// Cannot fail: the count stays far below 2^64 and the descriptor is ours.
void write_count(int fd, std::uint64_t count) {
  ::syscall(SYS_write, fd, &count, sizeof count);
}

/// As ppoll and not poll: a sockets preload replaces poll with a function that may come back here.
int wait_for(pollfd* watched, nfds_t count, int timeout_ms, const sigset_t& mask) {
  const timespec bound = {timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  return ::ppoll(watched, count, timeout_ms < 0 ? nullptr : &bound, &mask) < 0 ? errno : 0;
}

}  // namespace

WakeFd::~WakeFd() {
  if (program_fd_ >= 0 && program_fd_ != event_fd_) close(program_fd_);
  if (event_fd_ >= 0) close(event_fd_);
}

Result<void> WakeFd::open(device::Device& device, Numbers numbers) {
  device_ = &device;
  event_fd_ = make_descriptor(
      numbers, [] { return ::syscall(SYS_eventfd2, 0, EFD_SEMAPHORE | EFD_CLOEXEC); });
  if (event_fd_ < 0) return Error{errno, "no descriptor for events"};
  program_fd_ = event_fd_;
  const int progress_fd = device.progress_fd();
  if (progress_fd < 0) return {};

  program_fd_ =
      make_descriptor(numbers, [] { return ::syscall(SYS_epoll_create1, EPOLL_CLOEXEC); });
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
  queued_.fetch_add(events, std::memory_order_seq_cst);
  if ((taker_ != nullptr && taker_(taker_cookie_)) || device_->end_sleep(queued_)) {
    uncounted_ += events;
  } else {
    write_count(event_fd_, events);
  }
}

void WakeFd::remove(std::uint32_t events) {
  queued_.fetch_sub(events, std::memory_order_relaxed);
  const std::uint32_t uncounted = std::min(events, uncounted_);
  uncounted_ -= uncounted;
  for (events -= uncounted; events > 0; --events) {
    std::uint64_t one;
    // Does not block even on a blocking descriptor: by the invariant the count is above zero.
    if (::syscall(SYS_read, event_fd_, &one, sizeof one) < 0 && errno == EINTR) ++events;
  }
}

void WakeFd::hand(Taker taker, void* cookie) {
  taker_ = taker;
  taker_cookie_ = cookie;
  settle();
}

void WakeFd::settle() {
  if (uncounted_ > 0) write_count(event_fd_, uncounted_);
  uncounted_ = 0;
}

int WakeFd::wait(Wait& wait, Waiting how) {
  if (device_->progress_fd() >= 0 && !wait.progressed_) {
    wait.progressed_ = true;
    device_->progress();
    return 0;
  }
  const long flags = ::syscall(SYS_fcntl, program_fd_, F_GETFL);
  if (flags < 0) return errno;
  if ((flags & O_NONBLOCK) != 0) return EAGAIN;
  if (!wait.none_) wait.none_.emplace();
  const sigset_t& mask = wait.none_->before();
  int code = sleep(how, mask);
  // One that came while this worked for the device ends the wait as well.
  const bool in_vain = code == 0 && queued_.load(std::memory_order_relaxed) == 0;
  if (in_vain && takes_signal(mask)) code = EINTR;
  return code == EINTR && handlers_restart() ? 0 : code;
}

int WakeFd::sleep(Waiting how, const sigset_t& mask) {
  if (device_->progress_fd() >= 0) return sleep_inline(mask);
  if (how == Waiting::Works) {
    const device::Slept slept = device_->sleep(queued_, mask);
    if (slept != device::Slept::NotHere) return slept == device::Slept::Look ? 0 : EINTR;
    // It worked before it had to leave, maybe for this queue.
    if (queued_.load(std::memory_order_relaxed) > 0) return 0;
  }
  pollfd watched = {event_fd_, POLLIN, 0};
  return wait_for(&watched, 1, -1, mask);
}

int WakeFd::sleep_inline(const sigset_t& mask) {
  pollfd watched[2] = {{event_fd_, POLLIN, 0}, {device_->progress_fd(), POLLIN, 0}};
  if (const int code = wait_for(watched, 2, device_->timeout_ms(), mask); code != 0) return code;
  device_->progress();
  return 0;
}

}  // namespace weft::verbs
