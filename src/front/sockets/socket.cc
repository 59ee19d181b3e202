// A socket's states: binding, listening, connecting, accepting, closing, and its readiness.
#include "front/sockets/socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>

#include "front/sockets/addresses.h"
#include "front/sockets/kernel.h"
#include "front/sockets/service.h"
#include "front/sockets/socket_wait.h"

namespace weft::sockets {
namespace {

/// Numbers below are the service's own descriptors.
constexpr std::uint64_t kFirstNumber = 16;
std::atomic<std::uint64_t> last_number{kFirstNumber};

constexpr int kResolveTimeoutMs = 5000;
/// How long who leaves waits for the peer to have read that.
constexpr auto kPeerPatience = std::chrono::milliseconds(200);
/// The kernel's limit on a backlog.
constexpr int kBacklogMax = 4096;

/// The errno of an attempt to connect that failed.
int errno_of(const ConnectionEvent& event) {
  if (event.type == RDMA_CM_EVENT_REJECTED) return ECONNREFUSED;
  if (event.status < 0 && event.status > -4096) return -event.status;
  if (event.type == RDMA_CM_EVENT_ADDR_ERROR || event.type == RDMA_CM_EVENT_ROUTE_ERROR) {
    return EHOSTUNREACH;
  }
  return event.type == RDMA_CM_EVENT_UNREACHABLE ? ETIMEDOUT : ECONNREFUSED;
}

/// Reads open at once that a connection asks for, each way: what keeps a stream of them going.
constexpr int kReadDepth = 16;

/// For accepting: as many Reads as both sides can do.
rdma_conn_param parameters(const std::array<std::uint8_t, ConnectData::kOctets>& data) {
  rdma_conn_param param{};
  param.private_data = data.data();
  param.private_data_len = static_cast<std::uint8_t>(data.size());
  param.responder_resources = RDMA_MAX_RESP_RES;
  param.initiator_depth = RDMA_MAX_INIT_DEPTH;
  param.flow_control = 1;
  param.retry_count = 7;
  param.rnr_retry_count = 7;
  return param;
}

}  // namespace

Socket::Socket(int family) : family_(family), number_(++last_number) {}

Socket::~Socket() = default;

Result<int> Socket::open_descriptor(int flags) {
  std::lock_guard lock(mutex_);
  nonblocking = (flags & SOCK_NONBLOCK) != 0;
  auto opened = mirror_.open(flags);
  if (opened && state_ == State::Connected) write_names();
  return opened;
}

void Socket::close_descriptor() {
  std::lock_guard lock(mutex_);
  mirror_.close();
}

int Socket::any_number() {
  std::lock_guard lock(mutex_);
  return near();
}

void Socket::add_number(int fd) {
  std::lock_guard lock(mutex_);
  numbers_.push_back(fd);
}

bool Socket::remove_number(int fd) {
  std::lock_guard lock(mutex_);
  std::erase(numbers_, fd);
  return numbers_.empty();
}

Result<void> Socket::make_id() {
  if (id_ != nullptr) return {};
  auto service = Service::get();
  if (!service) return service.error();
  auto id = (*service)->make_id(shared_from_this());
  if (!id) return id.error();
  id_ = *id;
  return {};
}

Result<void> Socket::bind(const sockaddr& address) {
  std::lock_guard lock(mutex_);
  if (state_ != State::Fresh) return Error{EINVAL, "bound already"};
  if (address.sa_family != family_) return Error{EAFNOSUPPORT, "an address of another family"};
  if (auto made = make_id(); !made) return made;
  int only = v6_only_ ? 1 : 0;
  if (family_ == AF_INET6) {
    rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only);
  }
  sockaddr_storage wanted =
      family_ == AF_INET6 && !v6_only_ ? unmapped(address) : shown_as(family_, address);
  if (rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&wanted)) != 0) {
    return Error{errno == ENODEV ? EADDRNOTAVAIL : errno, "the address cannot be bound"};
  }
  state_ = State::Bound;
  return {};
}

void Socket::set_fallback(std::function<void(const SocketPtr&)> fallback) {
  std::lock_guard lock(mutex_);
  fallback_ = std::move(fallback);
}

Result<void> Socket::listen(int backlog) {
  std::lock_guard lock(mutex_);
  const int most = std::clamp(backlog, 1, kBacklogMax);
  if (state_ == State::Listening) {
    backlog_ = static_cast<unsigned>(most);
    return {};
  }
  if (state_ != State::Fresh && state_ != State::Bound) return Error{EINVAL, "connected"};
  if (auto made = make_id(); !made) return made;
  if (state_ == State::Fresh && family_ == AF_INET6) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    if (rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&any)) != 0) {
      return Error{errno, "no port to listen on"};
    }
  }
  backlog_ = static_cast<unsigned>(most);
  state_ = State::Listening;  // before requests can come
  if (rdma_listen(id_, most) != 0) {
    const int code = errno;
    state_ = State::Bound;
    return Error{code, "cannot listen"};
  }
  keep_addresses();
  expect_sharers();
  show();
  return {};
}

bool Socket::handle_request(rdma_cm_id* id, Octets private_data) {
  const auto offer = parse_connect_data(private_data);
  if (!offer) return false;
  LaneSize size;
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::Listening || closing_ || shut_ ||
        accepted_.size() + arriving_ > backlog_) {
      return false;
    }
    ++arriving_;
    size = size_;
  }
  auto connection = std::make_shared<Socket>(family_);
  {
    std::lock_guard lock(connection->mutex_);
    connection->state_ = State::Accepting;
    connection->size_ = size;
    connection->offer_ = *offer;
    auto lane = VerbsLane::create(*id, size);
    if (lane) {
      connection->lane_ = std::move(*lane);
      connection->id_ = id;
      connection->listener_ = shared_from_this();
      auto service = Service::get();  // which calls us, so it is there
      (*service)->adopt(id, connection);
      const auto data = encode(connection->stream().offer());
      rdma_conn_param param = parameters(data);
      if (rdma_accept(id, &param) == 0) return true;
      (*service)->adopt(id, nullptr);
      connection->lane_ = nullptr;
      connection->id_ = nullptr;
      connection->listener_ = nullptr;
    }
  }
  std::lock_guard lock(mutex_);
  --arriving_;
  return false;
}

void Socket::put_back(SocketPtr connection) {
  connection->close_descriptor();
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::Listening && !closing_) {
      accepted_.push_front(std::move(connection));
      show();
      notify();
    }
  }
  if (connection != nullptr) connection->close(false);
}

void Socket::enqueue(SocketPtr connection) {
  bool refused = false;
  {
    std::lock_guard lock(mutex_);
    --arriving_;
    refused = connection == nullptr || closing_ || state_ != State::Listening;
    if (!refused) {
      accepted_.push_back(connection);
      show();
      notify();
    }
  }
  if (refused && connection != nullptr) connection->close(false);
  give_away();
}

Result<SocketPtr> Socket::accept(bool blocking) {
  std::unique_lock lock(mutex_);
  if (state_ != State::Listening || shut_) return Error{EINVAL, "not listening"};
  if (accepted_.empty() && !shared_) {
    if (!blocking) return Error{EAGAIN, "no connection waits"};
    auto waited = wait(lock, deadline(true),
                       [this] { return !accepted_.empty() || closing_ || shut_ || shared_; });
    if (!waited) return waited.error();
    if (shut_) return Error{EINVAL, "shut meanwhile"};
    if (accepted_.empty() && !shared_) return Error{EBADF, "closed meanwhile"};
  }
  if (shared_) return Error{ESTALE, "they are handed out"};
  SocketPtr connection = std::move(accepted_.front());
  accepted_.pop_front();
  show();
  return connection;
}

Result<void> Socket::start_connecting(const sockaddr& address) {
  if (auto made = make_id(); !made) return made;
  sockaddr_storage target = unmapped(address);
  state_ = State::Connecting;
  ++Service::connecting;
  if (rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&target), kResolveTimeoutMs) !=
      0) {
    const int code = errno;
    --Service::connecting;
    refuse(code);
    return Error{code, "cannot resolve the address"};
  }
  return {};
}

Result<void> Socket::connect(const sockaddr& address, bool blocking) {
  std::unique_lock lock(mutex_);
  if (address.sa_family != family_) return Error{EAFNOSUPPORT, "an address of another family"};
  switch (state_) {
    case State::Connected:
    case State::Listening:
      return Error{EISCONN, "connected already"};
    case State::Connecting:
      if (!blocking) return Error{EALREADY, "connecting already"};
      break;
    case State::Refused:
      state_ = State::Fresh;  // as with TCP, it may try again
      error_ = 0;
      [[fallthrough]];
    default:
      if (auto started = start_connecting(address); !started) return started;
  }
  show();
  if (!blocking) return Error{EINPROGRESS, "connecting"};
  auto waited =
      wait(lock, deadline(false), [this] { return state_ != State::Connecting || closing_; });
  if (!waited) return Error{waited.error().code == EAGAIN ? EINPROGRESS : EINTR, "connecting"};
  if (state_ == State::Connected) return {};
  const int code = error_ != 0 ? error_ : ECONNABORTED;
  error_ = 0;
  return Error{code, "the connection was refused"};
}

void Socket::handle_event(const ConnectionEvent& event) {
  SocketPtr listener;
  SocketPtr stands;
  std::function<void(const SocketPtr&)> instead;
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::Connecting) {
      handle_connecting(event);
      if (state_ != State::Connecting) --Service::connecting;
    } else if (state_ == State::Accepting) {
      listener = std::move(listener_);
      if (event.type == RDMA_CM_EVENT_ESTABLISHED) {
        established(offer_);
        stands = shared_from_this();
      } else {
        gone_ = true;
      }
    } else if (event.type == RDMA_CM_EVENT_DISCONNECTED ||
               event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
      // What came before the end is in the CQ already.
      if (lane_ != nullptr) {
        if (state_ == State::Connected) poll_queue();
        // A peer that broke the protocol below did not end its stream.
        if (event.status == -EPROTO) stream().handle_failure(ECONNRESET);
        stream().handle_closed();
      }
      gone_ = true;
    }
    // Closed before it stood: it leaves at once.
    if (state_ == State::Connected && closing_ && !stream().ended()) {
      stream().disconnect();
      serve_in_background();
    }
    if (state_ == State::Connected || !may_fall_back_) fallback_ = nullptr;
    if (state_ == State::Refused) instead.swap(fallback_);
    if (instead == nullptr) {
      show();
      notify();
    }
  }
  if (instead != nullptr) return instead(shared_from_this());
  if (listener == nullptr) return;
  listener->enqueue(stands);
  if (stands == nullptr) close(false);
}

void Socket::handle_connecting(const ConnectionEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (rdma_resolve_route(id_, kResolveTimeoutMs) != 0) refuse(errno);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return open_connection();
    case RDMA_CM_EVENT_ESTABLISHED:
      if (const auto peer = parse_connect_data(event.private_data); peer) {
        return established(*peer);
      }
      may_fall_back_ = false;
      return refuse(ECONNREFUSED);  // iWARP, but no rsocket
    default:
      if (event.type == RDMA_CM_EVENT_REJECTED && is_refusal(event.private_data)) {
        may_fall_back_ = false;
      }
      return refuse(errno_of(event));
  }
}

void Socket::open_connection() {
  auto lane = VerbsLane::create(*id_, size_);
  if (!lane) {
    may_fall_back_ = false;  // the peer is not to blame
    return refuse(lane.error().code);
  }
  lane_ = std::move(*lane);
  const auto data = encode(stream().offer());
  rdma_conn_param param = parameters(data);
  ibv_device_attr device{};
  if (ibv_query_device(id_->verbs, &device) == 0) {
    const auto depth = [](int most) {
      return static_cast<std::uint8_t>(std::clamp(most, 1, kReadDepth));
    };
    param.responder_resources = depth(device.max_qp_rd_atom);
    param.initiator_depth = depth(device.max_qp_init_rd_atom);
  }
  if (rdma_connect(id_, &param) != 0) refuse(errno);
}

void Socket::established(const ConnectData& peer) {
  state_ = State::Connected;
  keep_addresses();
  write_names();
  stream().start(peer);
  drive();
}

void Socket::keep_addresses() {
  local_ = shown_as(family_, *rdma_get_local_addr(id_));
  if (state_ == State::Connected) peer_ = shown_as(family_, *rdma_get_peer_addr(id_));
}

void Socket::refuse(int error) {
  state_ = State::Refused;
  error_ = error;
  auto service = Service::get();
  if (service && id_ != nullptr) (*service)->discard(id_, std::move(lane_));
  id_ = nullptr;
}

Result<void> Socket::shutdown(int how) {
  std::lock_guard lock(mutex_);
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return Error{EINVAL, "no direction"};
  if (state_ == State::Listening) {
    if (how == SHUT_WR) return {};
    shut_ = true;  // as the kernel: who waits in accept is told
    show();
    notify();
    return {};
  }
  if (state_ != State::Connected) return Error{ENOTCONN, "not connected"};
  if (how != SHUT_WR) stream().shutdown_read();
  if (how != SHUT_RD) stream().shutdown_write();
  serve_in_background();
  show();
  notify();
  return {};
}

/// What is still to be sent leaves without the program's calls.
void Socket::serve_in_background() {
  if (lane_ == nullptr) return;
  if (!watched_) {
    auto service = Service::get();
    if (!service) return;
    (*service)->watch(shared_from_this(), lane_->event_fd(), relaying_);
    watched_ = true;
  }
  while (arm()) {
  }
}

void Socket::close(bool blocking) {
  end_jumped_sleep();
  std::deque<SocketPtr> unclaimed;
  bool waits = blocking;
  end_memory();
  {
    std::lock_guard lock(mutex_);
    if (closing_) return;
    closing_ = true;
    fallback_ = nullptr;
    // A signal handler may end the process while the thread it interrupted waits for this socket.
    // Not by its wake descriptor, which a thread that exits may have lost already.
    std::erase_if(waiters_, [](const Waiter& waiter) {
      return pthread_equal(waiter.thread, pthread_self()) != 0;
    });
    unclaimed.swap(accepted_);
    waits = waits || state_ == State::Listening || state_ == State::Bound;
    if (orphaned_) waits = false;  // the service's thread itself closes it
    if (state_ == State::Connected && !abortive_ && !stream().ended()) {
      stream().disconnect();
      serve_in_background();
    }
    mirror_.close();
    notify();
    if (id_ == nullptr) return;
  }
  for (const SocketPtr& connection : unclaimed) connection->close(false);
  if (auto service = Service::get(); service) (*service)->bury(shared_from_this(), waits);
}

bool Socket::finished() {
  std::lock_guard lock(mutex_);
  if (!closing_ || !waiters_.empty()) return false;
  if (state_ != State::Connected || abortive_ || stream().error() != 0) return true;
  if (stream().ended()) end_connection();
  return gone_ && stream().ended();
}

void Socket::destroy() {
  std::lock_guard lock(mutex_);
  set_relaying(false);
  if (watched_ && lane_ != nullptr) {
    if (auto service = Service::get(); service) (*service)->unwatch(*this, lane_->event_fd());
  }
  if (state_ == State::Connecting) --Service::connecting;
  for (Map& map : maps_) ibv_dereg_mr(map.region);
  maps_.clear();
  memory_.reset();
  lane_.reset();
  if (id_ != nullptr) rdma_destroy_id(id_);
  id_ = nullptr;
  state_ = State::Closed;
}

/// Polling an empty CQ is not free: a device that runs its protocol in such polls takes many of
/// them for the sign that its own thread is not needed. Who waits in a call of ours does the work
/// anyway; a program that waits elsewhere leaves the armed CQ to the service.
///
/// Before both sides know the connection stands nothing is taken from it: what a fast peer has sent
/// may only be judged once we know its offer.
bool Socket::drive() {
  if (lane_ == nullptr || state_ != State::Connected) return false;
  if (watched_ && lane_->is_armed()) return false;
  return poll_queue();
}

/// Arms the CQ. True: there were completions before that, and it may have to be armed again.
bool Socket::arm() {
  if (lane_->is_armed()) return false;
  lane_->arm();
  return poll_queue();
}

/// Who leaves first leaves the connection's end to the peer, which answers a Disconnect with it; a
/// peer whose program does not look has taken all that was sent after a while, without it.
void Socket::end_connection() {
  if (disconnecting_ || gone_) return;
  if (stream().peer_is_behind()) {
    if (!left_) left_ = Clock::now() + kPeerPatience;
    if (Clock::now() < *left_) return;
  }
  disconnecting_ = true;
  rdma_disconnect(id_);
}

bool Socket::poll_queue(int most) {
  end_jumped_sleep();
  bool any = lane_->drive(most);
  // Who took the event that armed it for the service arms it again, until nothing came meanwhile.
  while (watched_ && !lane_->is_armed()) {
    lane_->arm();
    if (!lane_->drive()) break;
    any = true;
  }
  // Over by either side's word, or failed: the connection beneath goes too.
  if (state_ == State::Connected && stream().ended()) end_connection();
  if (any) {
    show();
    notify();
  }
  return any;
}

bool Socket::handle_completions(bool relays) {
  bool shown = false;
  {
    std::lock_guard lock(mutex_);
    // Left to the service's thread, which has the channel among its own by now.
    if (lane_ == nullptr || (relaying_ && !relays)) return false;
    const unsigned before = mirror_.changes();
    lane_->take_event();
    drive();
    while (arm()) {
    }
    shown = mirror_.changes() != before;
  }
  if (relays) handle_relay();
  return shown;
}

void Socket::notify() {
  if (waiters_.empty()) return;
  // The calling thread looks for itself.
  const auto own = own_wake_fd();
  for (const Waiter& waiter : waiters_) {
    if (!own || waiter.wake_fd != *own) wake(waiter.wake_fd);
  }
}

int Socket::begin_wait(int wake_fd) {
  std::lock_guard lock(mutex_);
  waiters_.push_back({wake_fd, pthread_self()});
  if (lane_ == nullptr || state_ != State::Connected) return -1;
  while (arm()) {
  }
  return lane_->event_fd();
}

void Socket::stop_waiting(int wake_fd) {
  const auto own = std::find_if(waiters_.begin(), waiters_.end(),
                                [&](const Waiter& waiter) { return waiter.wake_fd == wake_fd; });
  if (own != waiters_.end()) waiters_.erase(own);
}

void Socket::end_wait(int wake_fd, bool readable) {
  std::lock_guard lock(mutex_);
  stop_waiting(wake_fd);
  if (!readable || lane_ == nullptr) return;
  lane_->take_event();
  while (watched_ && state_ == State::Connected && arm()) {
  }
}

short Socket::events_now() const {
  int events = 0;
  switch (state_) {
    case State::Listening:
      if (shut_) return POLLIN | POLLRDNORM | POLLRDHUP | POLLHUP;
      if (shared_) return mirror_.is_readable(near()) ? POLLIN | POLLRDNORM : 0;
      return accepted_.empty() ? 0 : POLLIN | POLLRDNORM;
    case State::Connecting:
    case State::Accepting:
      return 0;
    case State::Connected:
      if (stream().can_read()) events |= POLLIN | POLLRDNORM;
      if (stream().can_write()) events |= POLLOUT | POLLWRNORM;
      if (!stream().receiving() || stream().read_closed()) events |= POLLRDHUP;
      // As TCP has it: a peer that left is heard by reading; both directions are over when we have
      // ended ours too.
      if (!stream().receiving() && stream().write_closed()) events |= POLLHUP;
      if (stream().error() != 0) events |= error_told_ ? POLLHUP : POLLHUP | POLLERR;
      return static_cast<short>(events);
    case State::Refused:
      events = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLRDHUP | POLLHUP;
      return static_cast<short>(events | (error_ != 0 ? POLLERR : 0));
    default:
      return POLLOUT | POLLWRNORM | POLLHUP;
  }
}

short Socket::poll_events(short asked, bool drives) {
  std::lock_guard lock(mutex_);
  if (drives && state_ == State::Connected && (events_now() & asked) == 0) drive();
  return static_cast<short>(events_now() & (asked | POLLERR | POLLHUP));
}

void Socket::watch() {
  std::lock_guard lock(mutex_);
  show_always_ = true;
  show();
}

void Socket::show() {
  if (memory_ != nullptr) advance_memory();
  if (!show_always_ || !mirror_.is_open() || numbers_.empty()) return;
  if (state_ == State::Connected && !watched_) serve_in_background();
  if (shared_) return;  // what lies in it is handed out
  const short events = events_now();
  mirror_.show_readable(near(), (events & POLLIN) != 0);
  if (state_ == State::Connected) {
    const std::uint64_t unread = stream().readable_octets();
    if (unread > shown_octets_ && shown_octets_ != 0) mirror_.show_more(near());
    shown_octets_ = unread;
  }
  // Nobody waits to write to a listener, and a full one could not be asked for connections.
  if (state_ != State::Listening) mirror_.show_writable(near(), (events & POLLOUT) != 0);
  if ((events & POLLRDHUP) != 0) mirror_.show_end();
  if ((events & POLLHUP) != 0 && state_ != State::Fresh && state_ != State::Bound) {
    mirror_.show_hang_up();
  }
}

Socket::State Socket::state() {
  std::lock_guard lock(mutex_);
  return state_;
}

Result<void> Socket::local_address(sockaddr* address, socklen_t* octets) {
  std::lock_guard lock(mutex_);
  sockaddr_storage local = local_;
  if (local.ss_family == 0 && id_ != nullptr && rdma_get_local_addr(id_)->sa_family != 0) {
    local = shown_as(family_, *rdma_get_local_addr(id_));
  }
  local.ss_family = static_cast<sa_family_t>(family_);
  give(local, address, octets);
  return {};
}

Result<void> Socket::peer_address(sockaddr* address, socklen_t* octets) {
  std::lock_guard lock(mutex_);
  if (state_ != State::Connected || (stream().ended() && gone_)) {
    return Error{ENOTCONN, "not connected"};
  }
  give(peer_, address, octets);
  return {};
}

int Socket::take_error() {
  std::lock_guard lock(mutex_);
  if (state_ == State::Connected) drive();
  if (state_ == State::Connected && stream().error() != 0 && !error_told_) {
    error_told_ = true;
    return stream().error();
  }
  return std::exchange(error_, 0);
}

std::uint64_t Socket::readable_octets() {
  std::lock_guard lock(mutex_);
  if (state_ != State::Connected) return 0;
  drive();
  return stream().readable_octets();
}

void Socket::set_timeouts(bool receiving, std::optional<Clock::duration> limit) {
  std::lock_guard lock(mutex_);
  (receiving ? receive_wait_ : send_wait_) = limit;
}

std::optional<Clock::duration> Socket::timeout(bool receiving) const {
  std::lock_guard lock(mutex_);
  return receiving ? receive_wait_ : send_wait_;
}

Deadline Socket::deadline(bool receiving) const {
  const auto& limit = receiving ? receive_wait_ : send_wait_;
  if (!limit) return {};
  return Clock::now() + *limit;
}

}  // namespace weft::sockets
