// The service's thread.
#include "front/sockets/service.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "base/number_gate.h"
#include "base/signals.h"
#include "front/sockets/handed.h"
#include "front/sockets/kernel.h"
#include "front/sockets/no_memory.h"
#include "front/sockets/numbers.h"

namespace weft::sockets {
namespace {

/// What was closed and does not get its octets off for so long is reset.
constexpr auto kLingerMax = std::chrono::seconds(120);
/// Epoll's data of the descriptors that are no socket's; sockets count from 16.
constexpr std::uint64_t kChannel = 1, kWake = 2, kCompletions = 3, kQuestions = 4;
/// So many questions are answered before others have their turn.
constexpr int kQuestionsMax = 16;
/// Marks a completion channel that only the service's thread takes from.
constexpr std::uint64_t kItself = std::uint64_t{1} << 62;
/// How long after a thread of the program has served it is expected back.
constexpr int kStandBackMs = 1;
/// Marks the far end of a socket that was handed over.
constexpr std::uint64_t kRelay = std::uint64_t{1} << 63;

/// Sockets with completions, by their numbers, that the calling thread found itself.
struct Found {
  bool takes = false;
  unsigned count = 0;
  std::array<std::uint64_t, 64> numbers{};
};
constinit thread_local Found found_here;

/// Meanwhile the calling thread takes what it finds. It handles no signals then, so that it cannot
/// jump away from what it took; where it sleeps, and does handle them, this is not so.
class Taking {
 public:
  Taking() { found_here.takes = true; }
  ~Taking() { found_here.takes = false; }
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;
};

/// The calling thread is a service's.
constinit thread_local bool runs_here = false;

Mutex making;
std::atomic<Service*> instance{nullptr};  // changes with making held

/// What a socket cannot do for want of memory ends its connection, and no other.
template <typename Do>
void handle(Socket& socket, Do what) {
  if (!attempt(what)) attempt([&] { socket.handle_shortage(); });
}

/// Room for `count` more of them.
template <typename T>
void reserve_more(std::vector<T>& list, std::size_t count) {
  const std::size_t needed = list.size() + count;
  if (needed > list.capacity()) list.reserve(2 * needed);
}

/// Another thread may hold it across a fork, and what it was making stays behind: the child begins
/// with a new one. Taking it before the fork would have it wait for locks of the verbs that whoever
/// holds it may want.
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { new (&making) Mutex; });

}  // namespace

Result<Service*> Service::get() {
  std::lock_guard lock(making);
  if (Service* existing = Service::existing(); existing != nullptr) return existing;
  // In a child the parent's is left as it is: its mutex may be held for ever.
  auto* made = new (std::nothrow) Service;
  if (made == nullptr) return Error{ENOMEM, "no memory for the service"};
  if (auto started = made->start(); !started) {
    delete made;
    return started.error();
  }
  instance.store(made, std::memory_order_release);
  return made;
}

Service* Service::existing() {
  Service* service = instance.load(std::memory_order_acquire);
  return service != nullptr && service->made_in_ == fork_generation() ? service : nullptr;
}

Result<void> Service::start() {
  made_in_ = fork_generation();
  process_ = ::getpid();
  leave_numbers();
  channel_ = rdma_create_event_channel();
  if (channel_ == nullptr) return Error{errno, "no event channel"};
  epoll_ = out_of_the_way(kernel::epoll_create1(EPOLL_CLOEXEC));
  completions_ = out_of_the_way(kernel::epoll_create1(EPOLL_CLOEXEC));
  wake_ = out_of_the_way(kernel::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  kernel::fcntl(channel_->fd, F_SETFL, kernel::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kChannel;
  kernel::epoll_ctl(epoll_, EPOLL_CTL_ADD, channel_->fd, &event);
  event.data.u64 = kWake;
  int code = kernel::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) == 0 ? 0 : EMFILE;
  event.data.u64 = kCompletions;
  if (kernel::epoll_ctl(epoll_, EPOLL_CTL_ADD, completions_, &event) != 0) code = EMFILE;
  if (code == 0) open_questions();
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
  for (const int fd : {epoll_, completions_, wake_, questions_}) kernel::close(fd);
  rdma_destroy_event_channel(channel_);
  return Error{code, "no thread for the service"};
}

bool Service::is_service_thread() {
  return runs_here;
}

void Service::run() {
  pthread_setname_np(pthread_self(), "weft-sockets");
  runs_here = true;
  std::array<epoll_event, 64> events;
  for (;;) {
    beat();
    if (leaving_.load(std::memory_order_acquire) == Leaving::Asked) handle_leaving();
    int timeout_ms = stand_back_ms();
    bool keeps_time = connecting > 0 || !delayed_.empty();
    {
      std::lock_guard lock(mutex_);
      keeps_time = keeps_time || !dying_.empty();
    }
    if (keeps_time && timeout_ms < 0) timeout_ms = 50;
    const int count = wait(events.data(), static_cast<int>(events.size()), timeout_ms);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t what = events[static_cast<unsigned>(i)].data.u64;
      beat();
      if (what == kChannel) {
        handle_connection_events();
      } else if (what == kWake) {
        settle(wake_);
      } else if (what == kCompletions) {
        serve();
      } else if (what == kQuestions) {
        handle_questions();
      } else if ((what & kRelay) != 0) {
        handle_relay(what & ~kRelay);
      } else if (const SocketPtr socket = find_watched(what & ~kItself); socket != nullptr) {
        handle(*socket, [&] { socket->handle_completions(true); });
      }
    }
    if (count == 0 && keeps_time) handle_connection_events();
    handle_delayed();
    attempt([this] { sweep(); });
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
    copy.private_count = event.param.conn.private_data_len;
    std::copy_n(data, copy.private_count, copy.private_octets.begin());
  }
  rdma_cm_id* id = event.id;
  const bool is_request = event.event == RDMA_CM_EVENT_CONNECT_REQUEST;
  const SocketPtr socket = find(is_request ? event.listen_id : id);
  rdma_ack_cm_event(&event);
  if (!is_request) {
    if (socket != nullptr) handle(*socket, [&] { socket->handle_event(copy); });
    return;
  }
  if (socket != nullptr && socket->handle_request(id, copy.private_data())) return;
  rdma_reject(id, kRefusal.data(), static_cast<std::uint8_t>(kRefusal.size()));
  rdma_destroy_id(id);
}

SocketPtr Service::find_watched(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  const auto found = watched_.find(number);
  return found == watched_.end() ? nullptr : found->second.lock();
}

void Service::handle_relay(std::uint64_t number) {
  const SocketPtr socket = find_watched(number);
  if (socket != nullptr) handle(*socket, [&] { socket->handle_relay(); });
}

/// Without it a child goes on with a connection when its parent has closed it, and not before.
void Service::open_questions() {
  if (kernel::random(&id_, sizeof id_) != sizeof id_) return;
  const auto opened = sockets::open_questions(id_);
  if (!opened) return;
  questions_ = *opened;
  close_in_children(questions_);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kQuestions;
  kernel::epoll_ctl(epoll_, EPOLL_CTL_ADD, questions_, &event);
}

void Service::handle_questions() {
  for (int i = 0; i < kQuestionsMax; ++i) {
    const auto question = Question::take(questions_);
    if (!question) return;
    question->answer(answer(question->near()));
  }
}

Answer Service::answer(int near) {
  const auto end = near >= 0 ? read_end(near) : std::nullopt;
  if (!end || end->maker != id_) return Answer::No;
  const SocketPtr socket = find(end->number);
  if (socket == nullptr) return Answer::Yes;  // it has ended, which its end shows
  Answer word = Answer::NotNow;
  handle(*socket, [&] { word = socket->share_stream(near); });
  handle_relay(end->number);
  return word;
}

void Service::try_again(const SocketPtr& socket) {
  delayed_.push_back(socket);
}

/// Each may be delayed again.
void Service::handle_delayed() {
  for (const auto& one : std::exchange(delayed_, {})) {
    if (const SocketPtr socket = one.lock(); socket != nullptr) {
      handle(*socket, [&] { socket->handle_relay(); });
    }
  }
}

/// Any thread, several at once: what one takes the other does not find.
bool Service::serve() {
  std::array<epoll_event, 64> ready;
  const int count = kernel::epoll_wait(completions_, ready.data(), ready.size(), 0);
  bool shown = false;
  for (int i = 0; i < count; ++i) {
    shown = serve_watched(ready[static_cast<unsigned>(i)].data.u64) || shown;
  }
  if (count > 0) tell_the_dying();
  return shown;
}

// What was served may have been all that a closed socket waited for.
void Service::tell_the_dying() {
  if (has_dying_.load(std::memory_order_relaxed)) wake(wake_);
}

bool Service::serve_watched(std::uint64_t number) {
  const SocketPtr socket = find_watched(number);
  bool shown = false;
  if (socket != nullptr) handle(*socket, [&] { shown = socket->handle_completions(false); });
  return shown;
}

bool Service::take_found(void* socket) {
  if (!found_here.takes || found_here.count == found_here.numbers.size()) return false;
  found_here.numbers[found_here.count++] = static_cast<Socket*>(socket)->number();
  return true;
}

bool Service::look() {
  const Taking taking;
  sockets::look();
  return found_here.count != 0;
}

bool Service::serve_found() {
  const Taking taking;
  // What others found waits longer already.
  bool shown = serve();
  if (found_here.count == 0) return shown;
  // Serving one may find more.
  for (unsigned i = 0; i < found_here.count; ++i) {
    shown = serve_watched(found_here.numbers[i]) || shown;
  }
  found_here.count = 0;
  tell_the_dying();
  return shown;
}

bool Service::begin_serving() {
  if (serving_.load(std::memory_order_relaxed) ||
      serving_.exchange(true, std::memory_order_seq_cst)) {
    return false;
  }
  turns_.fetch_add(1, std::memory_order_relaxed);
  // Pairs with stand_back_ms: either it sees that somebody serves, or this that it is not muted.
  if (!muted_.load(std::memory_order_seq_cst)) mute(true);
  return true;
}

void Service::end_serving() {
  turns_.fetch_add(1, std::memory_order_relaxed);
  serving_.store(false, std::memory_order_seq_cst);
  // Pairs with stand_back_ms: either it sees that nobody serves, or this that it sleeps.
  if (awaited_.load(std::memory_order_seq_cst) && awaited_.exchange(false)) wake(wake_);
}

void Service::mute(bool on) {
  std::lock_guard lock(muting_);
  if (muted_.load(std::memory_order_relaxed) == on) return;
  muted_.store(on, std::memory_order_seq_cst);
  if (on) {
    // The thread is not awake to see it, and need not be before the first turn ends.
    awaited_.store(true, std::memory_order_seq_cst);
  } else if (serving_.load(std::memory_order_seq_cst)) {
    muted_.store(true, std::memory_order_relaxed);
    return;
  }
  // What came meanwhile lies in completions_, by level: the thread wakes for it at once.
  epoll_event event{};
  event.events = on ? 0u : std::uint32_t{EPOLLIN};
  event.data.u64 = kCompletions;
  kernel::epoll_ctl(epoll_, EPOLL_CTL_MOD, completions_, &event);
}

/// How long the thread leaves the watched sockets to the program's; -1: until end_serving wakes it,
/// or they are its own again.
///
/// While it sleeps without end somebody serves or the set is not muted, so nothing is left lying:
/// who ends serving sees awaited_, or has ended before serving_ was asked here. With nobody serving
/// it comes back after kStandBackMs, and takes over unless somebody came or went since.
int Service::stand_back_ms() {
  if (!muted_.load(std::memory_order_seq_cst)) return -1;
  const std::uint32_t turns = turns_.load(std::memory_order_relaxed);
  if (turns != std::exchange(turns_seen_, turns)) return kStandBackMs;
  if (!serving_.load(std::memory_order_seq_cst)) {
    mute(false);
    return muted_.load(std::memory_order_relaxed) ? kStandBackMs : -1;
  }
  awaited_.store(true, std::memory_order_seq_cst);
  return serving_.load(std::memory_order_seq_cst) ? -1 : kStandBackMs;
}

SocketPtr Service::find(rdma_cm_id* id) {
  std::lock_guard lock(mutex_);
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : found->second;
}

SocketPtr Service::find(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  for (const auto& [id, socket] : ids_) {
    if (socket->number() == number) return socket;
  }
  return nullptr;
}

Result<rdma_cm_id*> Service::make_id(SocketPtr socket) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) != 0) {
    return Error{errno, "no connection id"};
  }
  if (attempt([&] { adopt(id, std::move(socket)); })) return id;
  rdma_destroy_id(id);
  return Error{ENOMEM, "no memory for a connection id"};
}

void Service::adopt(rdma_cm_id* id, SocketPtr socket) {
  std::lock_guard lock(mutex_);
  // Its end is to need no memory.
  reserve_more(dying_, ids_.size() + 1);
  reserve_more(discarded_, ids_.size() + 1);
  if (leaving_.load(std::memory_order_relaxed) == Leaving::No) {
    reserve_more(leavers_, ids_.size() + 1);
  }
  ids_[id] = std::move(socket);
}

void Service::disown(rdma_cm_id* id) {
  std::lock_guard lock(mutex_);
  ids_.erase(id);
}

void Service::watch(const SocketPtr& socket, int event_fd, bool itself) {
  {
    std::lock_guard lock(mutex_);
    watched_[socket->number()] = socket;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = socket->number() | (itself ? kItself : 0);
  kernel::epoll_ctl(itself ? epoll_ : completions_, EPOLL_CTL_ADD, event_fd, &event);
}

void Service::watch_relay(const SocketPtr& socket, int far, std::uint32_t events, bool first) {
  if (first) {
    std::lock_guard lock(mutex_);
    watched_[socket->number()] = socket;
  }
  epoll_event event{};
  event.events = events;
  event.data.u64 = socket->number() | kRelay;
  if (!first && kernel::epoll_ctl(epoll_, EPOLL_CTL_MOD, far, &event) == 0) return;
  kernel::epoll_ctl(epoll_, EPOLL_CTL_ADD, far, &event);  // new, or ignored meanwhile
}

void Service::ignore_relay(int far) {
  kernel::epoll_ctl(epoll_, EPOLL_CTL_DEL, far, nullptr);
}

void Service::unwatch(const Socket& socket, int event_fd) {
  // By hand: a child may hold a copy of the descriptor, and then closing it does not remove it.
  for (const int set : {epoll_, completions_}) {
    kernel::epoll_ctl(set, EPOLL_CTL_DEL, event_fd, nullptr);
  }
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
    has_dying_.store(true, std::memory_order_relaxed);
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
    for (const Dying& dying : dying_) dying_sockets.push_back(dying.socket);
    dead.reserve(dying_.size());
    if (!discarded_.empty()) {
      reserve_more(discarded, ids_.size());  // what comes next has room, too; the last to fail
      discarded.swap(discarded_);
    }
  }
  // They take their own mutex, which comes before ours.
  std::erase_if(dying_sockets, [](const SocketPtr& socket) { return !socket->finished(); });
  beat();
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
    has_dying_.store(!dying_.empty(), std::memory_order_relaxed);
  }
  for (auto& [id, lane] : discarded) {
    beat();
    lane.reset();
    rdma_destroy_id(id);
  }
  for (Dying& dying : dead) {
    beat();
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

bool Service::has_left_behind() {
  std::vector<SocketPtr> watched;
  {
    std::lock_guard lock(mutex_);
    for (const auto& entry : watched_) watched.push_back(entry.second.lock());
  }
  // They take their own mutex, which comes before ours.
  return std::any_of(watched.begin(), watched.end(), [](const SocketPtr& socket) {
    return socket != nullptr && socket->end_with_process();
  });
}

void Service::drain(Clock::duration patience) {
  const auto last = Clock::now() + patience;
  for (;;) {
    bool empty = !has_left_behind();
    {
      std::lock_guard lock(mutex_);
      empty = empty && dying_.empty();
    }
    if (empty) return;
    if (Clock::now() > last) return;
    const timespec moment{0, 1'000'000};
    kernel::ppoll(nullptr, 0, &moment);
  }
}

}  // namespace weft::sockets
