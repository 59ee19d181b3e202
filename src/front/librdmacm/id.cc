// Life of ids and channels.
#include "front/librdmacm/id.h"

#include <new>

#include "front/libibverbs/export.h"
#include "front/librdmacm/address.h"
#include "front/librdmacm/error.h"

namespace weft::front::cm {

Result<Id*> Id::create(Manager& manager, EventChannel* home, void* context,
                       rdma_port_space port_space) {
  auto* id = new (std::nothrow) Id(manager);
  if (id == nullptr) return Error{ENOMEM, "no memory for an id"};
  id->synchronous = home == nullptr;
  if (home == nullptr) {
    auto own = EventChannel::create(manager);
    if (!own) {
      delete id;
      return own.error();
    }
    home = *own;  // whose first reference becomes the id's
  } else {
    home->add_reference();
  }
  id->home = home;
  id->channel = home;
  id->context = context;
  id->ps = port_space;
  id->qp_type =
      port_space == RDMA_PS_UDP || port_space == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
  {
    std::lock_guard lock(manager.mutex);
    if (manager.add(*id)) return id;
  }
  home->drop_reference();
  delete id;
  return Error{ENOMEM, "no memory for an id"};
}

void Id::destroy(Id* id) {
  Manager& manager = id->manager;
  {
    std::lock_guard lock(manager.mutex);
    manager.remove(*id);
  }
  id->end_connection();
  manager.release_abandoned();
  id->acknowledge_kept_event();
  std::vector<std::unique_ptr<Event>> undelivered;
  {
    std::unique_lock lock(manager.mutex);
    undelivered = id->home->take_if([&](const Event& event) { return event.owner == id; });
    // Threads of the parent process acknowledge nothing here.
    if (!manager.disowned()) id->wait_acknowledged(lock);
  }
  for (const auto& event : undelivered) {
    if (event->connection != 0) static_cast<void>(manager.device().reject(event->connection, {}));
  }
  id->drop_port();
  manager.verbs_devices().release(id->bound);
  id->home->drop_reference();
  delete id;
}

/// After Manager::remove, so that nothing changes the state any more.
void Id::end_connection() {
  device::Device& device = manager.device();
  if (listener != 0) static_cast<void>(device.close_listener(listener));
  if (connection == 0) return;
  // Any of these may find that the connection is over already.
  if (state == IdState::Requested) {
    static_cast<void>(device.reject(connection, {}));
    return;
  }
  if (state == IdState::Established) static_cast<void>(device.disconnect(connection));
  static_cast<void>(device.release(connection));
}

IdState Id::current_state() {
  std::lock_guard lock(manager.mutex);
  return state;
}

void Id::set_state(IdState to) {
  std::lock_guard lock(manager.mutex);
  state = to;
}

bool Id::advance(IdState from, IdState to) {
  std::lock_guard lock(manager.mutex);
  if (state != from) return false;
  state = to;
  return true;
}

Result<void> Id::bind_device(const verbs::Interface& interface) {
  auto device = manager.verbs_devices().acquire(interface);
  if (!device) return device.error();
  manager.verbs_devices().release(bound);  // that of the wildcard's or an earlier attempt
  bound = *device;
  verbs = bound->context;
  pd = bound->pd;
  port_num = 1;
  return {};
}

Result<void> Id::reserve_port() {
  port_picked = port_of(source()) == 0;
  auto holder = hold_port(route.addr.src_storage, v6_only);
  if (!holder) return holder.error();
  drop_port();
  port_holder = *holder;
  return {};
}

void Id::drop_port() {
  close_socket(port_holder);
  port_holder = -1;
}

void Id::report(rdma_cm_event_type type, int status) {
  auto* event_made = new Event(*this, type, status);
  std::lock_guard lock(manager.mutex);
  manager.queue(event_made);
}

void Id::acknowledge_kept_event() {
  if (event == nullptr) return;
  acknowledge(static_cast<Event*>(event));
  event = nullptr;
}

void Id::wait_acknowledged(std::unique_lock<std::mutex>& lock) {
  acknowledged.wait(lock, [this] { return unacknowledged == 0; });
}

void acknowledge(Event* event) {
  Manager& manager = event->owner->manager;
  {
    std::lock_guard lock(manager.mutex);
    // Notified with the mutex held: once it is free, the waiter may free the owner.
    if (--event->owner->unacknowledged == 0) event->owner->acknowledged.notify_all();
  }
  delete event;
}

}  // namespace weft::front::cm

using namespace weft::front::cm;

WEFT_EXPORT rdma_event_channel* rdma_create_event_channel() {
  auto manager = Manager::get();
  if (!manager) return fail(manager.error()), nullptr;
  auto channel = EventChannel::create(**manager);
  if (!channel) return fail(channel.error()), nullptr;
  return *channel;
}

WEFT_EXPORT void rdma_destroy_event_channel(rdma_event_channel* channel) {
  if (channel != nullptr) EventChannel::of(channel).destroy();
}

WEFT_EXPORT int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                               rdma_port_space ps) {
  if (id == nullptr) return fail(EINVAL);
  if (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP && ps != RDMA_PS_IB && ps != RDMA_PS_IPOIB) {
    return fail(EPROTONOSUPPORT);
  }
  auto manager = Manager::get();
  if (!manager) return fail(manager.error());
  EventChannel* home = channel != nullptr ? &EventChannel::of(channel) : nullptr;
  if (home != nullptr && &home->manager != *manager) return fail(EIO);  // the parent process's
  auto made = Id::create(**manager, home, context, ps);
  if (!made) return fail(made.error());
  *id = *made;
  return 0;
}

WEFT_EXPORT int rdma_destroy_id(rdma_cm_id* id) {
  if (id == nullptr) return fail(EINVAL);
  Id::destroy(&Id::of(id));
  return 0;
}

WEFT_EXPORT int rdma_migrate_id(rdma_cm_id* public_id, rdma_event_channel* channel) {
  if (public_id == nullptr) return fail(EINVAL);
  Id& id = Id::of(public_id);
  if (id.manager.disowned()) return fail(EIO);
  EventChannel* target;
  if (channel != nullptr) {
    target = &EventChannel::of(channel);
    if (&target->manager != &id.manager) return fail(EIO);
    target->add_reference();
  } else {
    auto own = EventChannel::create(id.manager);
    if (!own) return fail(own.error());
    target = *own;
  }
  if (id.synchronous) id.acknowledge_kept_event();
  EventChannel* left;
  {
    std::unique_lock lock(id.manager.mutex);
    left = id.home;
    for (auto& event : left->take_if([&](const Event& queued) { return queued.owner == &id; })) {
      target->push(std::move(event));
    }
    id.home = target;
    id.channel = target;
    id.synchronous = channel == nullptr;
    // After the call no thread may still be at an event that the old channel gave out.
    id.wait_acknowledged(lock);
  }
  left->drop_reference();
  return 0;
}
