// Queueing, waiting and the descriptors of an event channel.
#include "front/librdmacm/event_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "front/librdmacm/address.h"
#include "front/librdmacm/error.h"
#include "front/librdmacm/id.h"

namespace weft::front::cm {
namespace {

/// Holds a channel while a thread waits on it; also when the thread is cancelled.
class Waiter {
 public:
  explicit Waiter(EventChannel& channel) : channel_(channel) { channel_.add_reference(); }
  ~Waiter() { channel_.drop_reference(); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

 private:
  EventChannel& channel_;
};

/// -1: not inline or not possible; errno is set.
int epoll_over(int event_fd, int progress_fd) {
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) return -1;
  for (const int watched : {event_fd, progress_fd}) {
    epoll_event interest{};
    interest.events = EPOLLIN;
    if (epoll_ctl(fd, EPOLL_CTL_ADD, watched, &interest) != 0) {
      close_socket(fd);
      return -1;
    }
  }
  return fd;
}

}  // namespace

Event::Event(Id& owner_, rdma_cm_event_type type, int status_)
    : rdma_cm_event{}, owner(&owner_), private_data{} {
  id = &owner_;
  event = type;
  status = status_;
}

void Event::set_private_data(Octets data) {
  const std::size_t octets = std::min<std::size_t>(data.size(), 255);
  if (octets == 0) return;
  std::memcpy(private_data.data(), data.data(), octets);
  param.conn.private_data = private_data.data();
  param.conn.private_data_len = static_cast<std::uint8_t>(octets);
}

Result<EventChannel*> EventChannel::create(Manager& manager) {
  auto* channel = new (std::nothrow) EventChannel(manager);
  if (channel == nullptr) return Error{ENOMEM, "no memory for a channel"};
  // Not EFD_NONBLOCK: the flag belongs to the program, which may set it on our only descriptor.
  channel->event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  channel->fd = channel->event_fd_;
  if (channel->event_fd_ >= 0 && manager.is_inline()) {
    channel->fd = epoll_over(channel->event_fd_, manager.progress_fd());
  }
  if (channel->fd < 0) {
    const Error error{errno, "no descriptor for a channel"};
    channel->drop_reference();
    return error;
  }
  return channel;
}

EventChannel::~EventChannel() {
  // By the library call, as they were made: neither is a socket, and a thread sanitizer has to see
  // that the number is free again.
  if (fd >= 0 && fd != event_fd_) ::close(fd);
  if (event_fd_ >= 0) ::close(event_fd_);
}

void EventChannel::add_reference() {
  std::lock_guard lock(manager.mutex);
  ++references_;
}

void EventChannel::drop_reference() {
  {
    std::lock_guard lock(manager.mutex);
    if (--references_ > 0) return;
  }
  delete this;
}

void EventChannel::push(std::unique_ptr<Event> event) {
  queue_.push_back(std::move(event));
  // Cannot block: the count is that of the queue, far below its limit of 2^64.
  if (!manager.disowned()) eventfd_write(event_fd_, 1);
}

void EventChannel::consume() {
  // Cannot block: only called for an event that was counted, and only with the mutex held.
  if (manager.disowned()) return;  // the count is the parent's
  eventfd_t ignored;
  eventfd_read(event_fd_, &ignored);
}

std::unique_ptr<Event> EventChannel::pop() {
  if (queue_.empty()) return nullptr;
  auto event = std::move(queue_.front());
  queue_.pop_front();
  consume();
  return event;
}

std::unique_ptr<Event> EventChannel::try_next() {
  std::lock_guard lock(manager.mutex);
  auto event = pop();
  if (event != nullptr) {
    ++event->owner->unacknowledged;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) --event->owner->requests_queued;
  }
  return event;
}

Result<void> EventChannel::wait() {
  // ppoll and not poll: a sockets preload replaces poll with a function that may come back here.
  // No signal mask: a signal ends the wait, as it ends the kernel's.
  pollfd watched[2] = {{event_fd_, POLLIN, 0}, {manager.progress_fd(), POLLIN, 0}};
  timespec bound{};
  const timespec* timeout = nullptr;
  if (manager.is_inline()) {
    if (const int ms = manager.device().timeout_ms(); ms >= 0) {
      bound = {ms / 1000, ms % 1000 * 1'000'000L};
      timeout = &bound;
    }
  }
  if (ppoll(watched, manager.is_inline() ? 2 : 1, timeout, nullptr) < 0) {
    return Error{errno, "the wait for an event was interrupted"};
  }
  return {};
}

Result<std::unique_ptr<Event>> EventChannel::next() {
  if (manager.disowned()) return Error{EIO, "the channel is the parent process's"};
  const Waiter waiter(*this);
  const bool blocking = (syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK) == 0;
  for (;;) {
    manager.release_abandoned();
    if (auto event = try_next()) return event;
    if (manager.is_inline()) {
      manager.device().progress();
      if (auto event = try_next()) return event;
    }
    if (!blocking) return Error{EAGAIN, "no event"};
    if (auto waited = wait(); !waited) return waited.error();
  }
}

}  // namespace weft::front::cm
