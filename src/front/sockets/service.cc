// The service's thread.
#include "front/sockets/service.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <new>

#include "front/sockets/kernel.h"

namespace weft::sockets {
namespace {

/// What was closed and does not get its octets off for so long is reset.
constexpr auto kLingerMax = std::chrono::seconds(120);
/// Epoll's data of the two descriptors that are no socket's; sockets count from 16.
constexpr std::uint64_t kChannel = 1, kWake = 2;
/// Marks the far end of a socket that was handed over.
constexpr std::uint64_t kRelay = std::uint64_t{1} << 63;

std::mutex making;
Service* instance = nullptr;  // with making held
unsigned instance_made_in = 0;

/// Threads of a library take no signals of the program.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    for (int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Result<Service*> Service::get() {
  std::lock_guard lock(making);
  if (instance != nullptr && instance_made_in == fork_generation()) return instance;
  // In a child the parent's is left as it is: its mutex may be held for ever.
  auto* made = new (std::nothrow) Service;
  if (made == nullptr) return Error{ENOMEM, "no memory for the service"};
  if (auto started = made->start(); !started) {
    delete made;
    return started.error();
  }
  instance = made;
  instance_made_in = fork_generation();
  return instance;
}

Service* Service::existing() {
  std::lock_guard lock(making);
  return instance != nullptr && instance_made_in == fork_generation() ? instance : nullptr;
}

Result<void> Service::start() {
  made_in_ = fork_generation();
  channel_ = rdma_create_event_channel();
  if (channel_ == nullptr) return Error{errno, "no event channel"};
  epoll_ = kernel::epoll_create1(EPOLL_CLOEXEC);
  wake_ = kernel::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  kernel::fcntl(channel_->fd, F_SETFL, kernel::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kChannel;
  kernel::epoll_ctl(epoll_, EPOLL_CTL_ADD, channel_->fd, &event);
  event.data.u64 = kWake;
  int code = kernel::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) == 0 ? 0 : EMFILE;
  if (code == 0) {
    const NoSignals none;
    pthread_t thread;
    code = pthread_create(
        &thread, nullptr,
        [](void* self) -> void* {
          static_cast<Service*>(self)->run();
          return nullptr;
        },
        this);
    if (code == 0) pthread_detach(thread);
  }
  if (code == 0) return {};
  kernel::close(epoll_);
  kernel::close(wake_);
  rdma_destroy_event_channel(channel_);
  return Error{code, "no thread for the service"};
}

void Service::run() {
  pthread_setname_np(pthread_self(), "weft-sockets");
  std::array<epoll_event, 64> events;
  for (;;) {
    int timeout_ms = -1;
    {
      std::lock_guard lock(mutex_);
      if (!dying_.empty() || connecting > 0) timeout_ms = 50;
    }
    const int count = wait(events.data(), static_cast<int>(events.size()), timeout_ms);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t what = events[static_cast<unsigned>(i)].data.u64;
      if (what == kChannel) {
        handle_connection_events();
      } else if (what == kWake) {
        settle(wake_);
      } else {
        handle_readable(what);
      }
    }
    if (count == 0) handle_connection_events();
    sweep();
  }
}

int Service::wait(epoll_event* events, int count, int timeout_ms) {
  if (relays_ == 0) return kernel::epoll_wait(epoll_, events, count, timeout_ms);
  // What is ready already needs no place.
  if (const int ready = kernel::epoll_wait(epoll_, events, count, 0); ready != 0) return ready;
  pollfd fd{epoll_, POLLIN, 0};
  const timespec limit{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  sleep(&fd, 1, timeout_ms < 0 ? nullptr : &limit);
  return kernel::epoll_wait(epoll_, events, count, 0);
}

void Service::handle_connection_events() {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_, &event) == 0) handle_event(*event);
}

/// Acknowledges first: destroying an id waits for its events.
void Service::handle_event(rdma_cm_event& event) {
  ConnectionEvent copy;
  copy.type = event.event;
  copy.status = event.status;
  if (event.param.conn.private_data != nullptr) {
    const auto* data = static_cast<const std::uint8_t*>(event.param.conn.private_data);
    copy.private_data.assign(data, data + event.param.conn.private_data_len);
  }
  rdma_cm_id* id = event.id;
  const bool is_request = event.event == RDMA_CM_EVENT_CONNECT_REQUEST;
  const SocketPtr socket = find(is_request ? event.listen_id : id);
  rdma_ack_cm_event(&event);
  if (!is_request) {
    if (socket != nullptr) socket->handle_event(copy);
    return;
  }
  if (socket != nullptr && socket->handle_request(id, copy.private_data)) return;
  rdma_reject(id, kRefusal.data(), static_cast<std::uint8_t>(kRefusal.size()));
  rdma_destroy_id(id);
}

void Service::handle_readable(std::uint64_t number) {
  SocketPtr socket;
  {
    std::lock_guard lock(mutex_);
    const auto found = watched_.find(number & ~kRelay);
    if (found != watched_.end()) socket = found->second.lock();
  }
  if (socket == nullptr) return;
  if ((number & kRelay) != 0) {
    socket->handle_relay();
  } else {
    socket->handle_completions();
  }
}

SocketPtr Service::find(rdma_cm_id* id) {
  std::lock_guard lock(mutex_);
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : found->second;
}

Result<rdma_cm_id*> Service::make_id(SocketPtr socket) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) != 0) {
    return Error{errno, "no connection id"};
  }
  adopt(id, std::move(socket));
  return id;
}

void Service::adopt(rdma_cm_id* id, SocketPtr socket) {
  std::lock_guard lock(mutex_);
  ids_[id] = std::move(socket);
}

void Service::watch(const SocketPtr& socket, int event_fd) {
  {
    std::lock_guard lock(mutex_);
    watched_[socket->number()] = socket;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = socket->number();
  kernel::epoll_ctl(epoll_, EPOLL_CTL_ADD, event_fd, &event);
}

void Service::watch_relay(const SocketPtr& socket, int far, std::uint32_t events, bool first) {
  if (first) {
    std::lock_guard lock(mutex_);
    watched_[socket->number()] = socket;
  }
  epoll_event event{};
  event.events = events;
  event.data.u64 = socket->number() | kRelay;
  kernel::epoll_ctl(epoll_, first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, far, &event);
}

void Service::unwatch(const Socket& socket, int event_fd) {
  // By hand: a child may hold a copy of the descriptor, and then closing it does not remove it.
  kernel::epoll_ctl(epoll_, EPOLL_CTL_DEL, event_fd, nullptr);
  std::lock_guard lock(mutex_);
  watched_.erase(socket.number());
}

void Service::discard(rdma_cm_id* id, std::unique_ptr<VerbsLane> lane) {
  {
    std::lock_guard lock(mutex_);
    ids_.erase(id);
    discarded_.emplace_back(id, std::move(lane));
  }
  wake(wake_);
}

void Service::bury(SocketPtr socket, bool wait) {
  const auto wake_fd = wait ? own_wake_fd() : Result<int>(-1);
  const int waiter = wake_fd ? *wake_fd : -1;
  bool done = false;
  {
    std::lock_guard lock(mutex_);
    dying_.push_back({std::move(socket), Clock::now() + kLingerMax, waiter, &done});
  }
  wake(wake_);
  if (waiter < 0) return;
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (done) return;
    }
    pollfd fd{waiter, POLLIN, 0};
    kernel::ppoll(&fd, 1, nullptr);
    settle(waiter);
  }
}

/// Destroys what is finished. Without the mutex: destroying calls the verbs.
void Service::sweep() {
  std::vector<Dying> dead;
  std::vector<SocketPtr> dying_sockets;
  decltype(discarded_) discarded;
  {
    std::lock_guard lock(mutex_);
    discarded.swap(discarded_);
    for (const Dying& dying : dying_) dying_sockets.push_back(dying.socket);
  }
  // They take their own mutex, which comes before ours.
  std::erase_if(dying_sockets, [](const SocketPtr& socket) { return !socket->finished(); });
  std::sort(dying_sockets.begin(), dying_sockets.end());
  {
    std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    const auto alive = std::stable_partition(dying_.begin(), dying_.end(), [&](const Dying& dying) {
      return !std::binary_search(dying_sockets.begin(), dying_sockets.end(), dying.socket) &&
             now < dying.last;
    });
    dead.assign(std::make_move_iterator(alive), std::make_move_iterator(dying_.end()));
    dying_.erase(alive, dying_.end());
  }
  for (auto& [id, lane] : discarded) {
    lane.reset();
    rdma_destroy_id(id);
  }
  for (Dying& dying : dead) {
    forget(dying.socket);
    dying.socket->destroy();
    if (dying.wake_fd < 0) continue;
    std::lock_guard lock(mutex_);
    *dying.done = true;
    wake(dying.wake_fd);
  }
}

void Service::forget(const SocketPtr& socket) {
  std::lock_guard lock(mutex_);
  watched_.erase(socket->number());
  std::erase_if(ids_, [&](const auto& entry) { return entry.second == socket; });
}

void Service::drain(Clock::duration patience) {
  const auto last = Clock::now() + patience;
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (dying_.empty()) return;
    }
    if (Clock::now() > last) return;
    const timespec moment{0, 1'000'000};
    kernel::ppoll(nullptr, 0, &moment);
  }
}

}  // namespace weft::sockets
