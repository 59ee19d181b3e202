// The manager of the process, and what the device reports to it.
#include "front/librdmacm/manager.h"

#include <pthread.h>

#include <cstdio>
#include <new>

#include "front/librdmacm/event_channel.h"
#include "front/librdmacm/find_runtime.h"
#include "front/librdmacm/gone_device.h"
#include "front/librdmacm/id.h"

namespace weft::front::cm {
namespace {

/// Of this process. Never freed: the device may report until the process ends.
constinit std::atomic<Manager*> current{nullptr};
constinit std::mutex creation;

Error mixed_installation() {
  static constinit std::atomic_flag said;
  if (!said.test_and_set()) {
    std::fputs("weft: librdmacm.so.1 and libibverbs.so.1 are not from the same build of weft; "
               "put both from one build in front, with LD_LIBRARY_PATH or weft run.\n",
               stderr);
  }
  return {ENOSYS, "libibverbs.so.1 is not from the same build"};
}

/// What the program sees in rdma_cm_event::status: a negative errno, or in persona ib the reason of
/// the InfiniBand CM's REJ (IBA 12.6.7.2), which is positive. To that CM a peer that ends its QP
/// the hard way has disconnected like any other; but the sockets have to know of a stream that
/// broke iWARP's rules.
int shown_status(const Id& id, rdma_cm_event_type type, const device::ConnectionEvent& event) {
  constexpr int kInvalidServiceID = 8, kConsumerDefined = 28;
  using device::ConnectionEventKind;
  const bool broken = event.error == EPROTO || event.error == EREMOTEIO;
  if (type == RDMA_CM_EVENT_DISCONNECTED && id.is_ib() && !broken) return 0;
  if (type != RDMA_CM_EVENT_REJECTED) return -event.error;
  const bool nobody_listens =
      event.kind == ConnectionEventKind::Failed && event.error == ECONNREFUSED;
  if (id.is_ib()) return nobody_listens ? kInvalidServiceID : kConsumerDefined;
  return event.error == 0 ? -ECONNREFUSED : -event.error;
}

}  // namespace

Result<Manager*> Manager::get() {
  if (Manager* manager = current.load(std::memory_order_acquire)) return manager;
  std::lock_guard lock(creation);
  if (Manager* manager = current.load(std::memory_order_relaxed)) return manager;
  verbs::Runtime* runtime = find_runtime();
  if (runtime == nullptr || runtime->abi_version() != verbs::Runtime::kABIVersion) {
    return mixed_installation();
  }
  auto device = runtime->device();
  if (!device) return device.error();  // and the runtime has said why
  auto* manager = new (std::nothrow) Manager(*runtime, **device);
  if (manager == nullptr) return Error{ENOMEM, "no memory for the connection manager"};
  runtime->set_connection_events(manager);
  static bool fork_handled = false;
  if (!fork_handled) {
    fork_handled = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
  }
  current.store(manager, std::memory_order_release);
  return manager;
}

Manager::Manager(verbs::Runtime& runtime, device::Device& device)
    : runtime_(runtime), device_(&device), progress_fd_(device.progress_fd()) {}

void Manager::before_fork() {
  creation.lock();
  if (Manager* manager = current.load(std::memory_order_relaxed)) {
    manager->verbs_devices_.lock();
    manager->mutex.lock();
  }
}

void Manager::after_fork_in_parent() {
  if (Manager* manager = current.load(std::memory_order_relaxed)) {
    manager->mutex.unlock();
    manager->verbs_devices_.unlock();
  }
  creation.unlock();
}

void Manager::after_fork_in_child() {
  if (Manager* parents = current.exchange(nullptr, std::memory_order_relaxed)) {
    parents->disowned_ = true;
    parents->device_ = &gone_device();
    parents->progress_fd_ = -1;
    parents->mutex.unlock();
    parents->verbs_devices_.unlock();
  }
  creation.unlock();
}

bool Manager::add(Id& id) try {
  id.handle = ++last_handle_;
  ids_.emplace(id.handle, &id);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void Manager::remove(Id& id) {
  ids_.erase(id.handle);
}

void Manager::queue(Event* event) {
  event->owner->home->push(std::unique_ptr<Event>(event));
}

void Manager::release_abandoned() {
  std::vector<device::ConnectionNumber> abandoned;
  {
    std::lock_guard lock(mutex);
    abandoned.swap(abandoned_);
  }
  for (const device::ConnectionNumber connection : abandoned) {
    // The peer may be gone already, and then there is nothing to reject.
    static_cast<void>(device_->reject(connection, {}));
  }
}

void Manager::leave_ruin(EventChannel* channel) {
  constexpr std::size_t kRuinsMax = 16;
  ruins_.push_back(channel);
  if (ruins_.size() <= kRuinsMax) return;
  delete ruins_.front();
  ruins_.pop_front();
}

void Manager::give_connection(std::uint64_t handle, device::ConnectionNumber connection) {
  std::lock_guard lock(mutex);
  const auto found = ids_.find(handle);
  if (found != ids_.end()) found->second->connection = connection;
}

void Manager::handle_connection_event(const device::ConnectionEvent& event) {
  using device::ConnectionEventKind;
  std::lock_guard lock(mutex);
  const auto found = ids_.find(event.cookie);
  Id* id = found == ids_.end() ? nullptr : found->second;
  if (event.kind == ConnectionEventKind::Requested) return handle_request(id, event);
  if (id == nullptr) return;  // destroyed in the meantime
  if (id->state == IdState::Listening) return handle_unanswered_end(*id, event);

  const bool starting = id->state == IdState::Connecting || id->state == IdState::Accepting;
  rdma_cm_event_type type;
  switch (event.kind) {
    case ConnectionEventKind::Established:
      if (!starting) return;
      type = RDMA_CM_EVENT_ESTABLISHED;
      id->state = IdState::Established;
      break;
    case ConnectionEventKind::Disconnected:
      if (id->state != IdState::Established) return;
      type = RDMA_CM_EVENT_DISCONNECTED;
      id->state = IdState::Disconnected;
      break;
    default:
      if (!starting) return;
      // As the kernel's iw_cm names the ends of an attempt to connect; a passive id has one only.
      if (id->state == IdState::Accepting) {
        type = RDMA_CM_EVENT_CONNECT_ERROR;
      } else if (event.kind == ConnectionEventKind::Rejected || event.error == ECONNREFUSED ||
                 event.error == ECONNRESET) {
        type = RDMA_CM_EVENT_REJECTED;
      } else if (event.error == ETIMEDOUT) {
        type = RDMA_CM_EVENT_UNREACHABLE;
      } else {
        type = RDMA_CM_EVENT_CONNECT_ERROR;
      }
      id->state = IdState::Failed;
  }
  id->connection = event.connection;  // may precede the return of connect
  auto* report = new Event(*id, type, shown_status(*id, type, event));
  report->set_private_data(event.private_data);
  report->has_depths = event.has_depths;
  report->peer_ird = event.peer_ird;
  report->peer_ord = event.peer_ord;
  if (event.kind == ConnectionEventKind::Established) {
    report->has_addresses = event.local.ss_family != AF_UNSPEC;
    report->local = event.local;
    report->peer = event.peer;
  }
  queue(report);
}

void Manager::handle_request(Id* listener, const device::ConnectionEvent& event) {
  if (listener == nullptr || listener->state != IdState::Listening ||
      listener->requests_queued >= listener->backlog) {
    abandoned_.push_back(event.connection);
    return;
  }
  auto* request = new Event(*listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
  request->connection = event.connection;
  request->set_private_data(event.private_data);
  request->has_depths = event.has_depths;
  request->peer_ird = event.peer_ird;
  request->peer_ord = event.peer_ord;
  request->has_addresses = true;
  request->local = event.local;
  request->peer = event.peer;
  ++listener->requests_queued;
  queue(request);
}

void Manager::handle_unanswered_end(Id& listener, const device::ConnectionEvent& event) {
  // The peer left before the program saw its request: it need not see it. If it has seen it, accept
  // tells.
  const auto dropped = listener.home->take_if([&](const Event& queued) {
    return queued.owner == &listener && queued.connection == event.connection;
  });
  listener.requests_queued -= static_cast<unsigned>(dropped.size());
}

}  // namespace weft::front::cm
