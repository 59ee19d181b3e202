// Queueing, waiting and the descriptors of an event channel.
#include "front/librdmacm/event_channel.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/signals.h"
#include "front/librdmacm/address.h"
#include "front/librdmacm/error.h"
#include "front/librdmacm/id.h"

namespace weft::front::cm {

/// Holds a channel while a thread waits on it; also when the thread is cancelled.
class EventChannel::Waiter {
 public:
  /// With a reference, which it drops.
  explicit Waiter(EventChannel& channel) : channel_(channel) {}
  ~Waiter() {
    {
      std::lock_guard lock(channel_.manager.mutex);
      if (!channel_.manager.disowned()) channel_.wake_->settle();
    }
    channel_.drop_reference();
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

 private:
  EventChannel& channel_;
};

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
  const auto opened = channel->wake_->open(manager.device(), manager.runtime().numbers());
  if (!opened) {
    channel->drop_reference();
    return opened.error();
  }
  channel->fd = channel->wake_->fd();
  return channel;
}

void EventChannel::add_reference() {
  std::lock_guard lock(manager.mutex);
  ++references_;
}

bool EventChannel::try_add_reference() {
  std::lock_guard lock(manager.mutex);
  if (references_ == 0) return false;
  ++references_;
  return true;
}

void EventChannel::drop_reference() {
  bool ruin = false;
  {
    std::lock_guard lock(manager.mutex);
    if (--references_ > 0) return;
    ruin = destroyed_;
  }
  if (!ruin) {
    delete this;
    return;
  }
  wake_.reset();  // nobody gets at it any more; without the mutex, since closing may be cancelled
  std::lock_guard lock(manager.mutex);
  manager.leave_ruin(this);
}

void EventChannel::destroy() {
  {
    std::lock_guard lock(manager.mutex);
    destroyed_ = true;
  }
  drop_reference();
}

void EventChannel::push(std::unique_ptr<Event> event) {
  queue_.push_back(std::move(event));
  if (!manager.disowned()) wake_->add(1);
}

void EventChannel::consume() {
  if (!manager.disowned()) wake_->remove(1);  // else the count is the parent's
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

Error EventChannel::be_left_waiting() {
  do {
    ::ppoll(nullptr, 0, nullptr, nullptr);
  } while (handlers_restart());
  return {errno, "the wait for an event was interrupted"};
}

Result<std::unique_ptr<Event>> EventChannel::next() {
  if (manager.disowned()) return Error{EIO, "the channel is the parent process's"};
  if (!try_add_reference()) return be_left_waiting();
  const Waiter waiter(*this);
  for (verbs::WakeFd::Wait wait;;) {
    manager.release_abandoned();
    if (auto event = try_next()) return event;
    if (const int code = wake_->wait(wait, verbs::WakeFd::Waiting::Works); code != 0) {
      return Error{code, "no event"};
    }
  }
}

}  // namespace weft::front::cm
