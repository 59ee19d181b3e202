// A socket's states: binding, listening, connecting, accepting, and its names.
#include "front/sockets/socket.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "front/sockets/addresses.h"
#include "front/sockets/no_memory.h"
#include "front/sockets/service.h"
#include "front/sockets/socket_wait.h"

namespace weft::sockets {
namespace {

/// Numbers below are the service's own descriptors.
constexpr std::uint64_t kFirstNumber = 16;
std::atomic<std::uint64_t> last_number{kFirstNumber};

constexpr int kResolveTimeoutMs = 5000;
/// The kernel's limit on a backlog, and what is taken for a smaller one.
constexpr int kBacklogMax = 4096, kBacklogMin = 128;

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

Socket::Socket(int family) : family_(family), number_(++last_number) {
  numbers_.reserve(1);  // what has a descriptor has a place for its number
  waiters_.reserve(2);  // a signal handler may wait, too, that has interrupted malloc
}

Socket::~Socket() = default;

Result<int> Socket::open_descriptor(int flags, Mirror::Near near) {
  std::lock_guard lock(mutex_);
  nonblocking = (flags & SOCK_NONBLOCK) != 0;
  auto opened = mirror_.open(flags, near);
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

std::vector<int> Socket::numbers() {
  std::lock_guard lock(mutex_);
  return numbers_;
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

void Socket::set_settle(Settle settle) {
  std::lock_guard lock(mutex_);
  settle_ = std::move(settle);
}

Result<void> Socket::listen(int backlog) {
  std::lock_guard lock(mutex_);
  // Who finds a TCP backlog full tries again; here it would be refused.
  const int most = std::clamp(backlog, kBacklogMin, kBacklogMax);
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
  bool accepted = false;
  attempt([&] { accepted = accept_request(id, *offer, size); });
  if (accepted) return true;
  std::lock_guard lock(mutex_);
  --arriving_;
  return false;
}

bool Socket::accept_request(rdma_cm_id* id, const ConnectData& offer, const LaneSize& size) {
  auto connection = std::make_shared<Socket>(family_);
  std::lock_guard lock(connection->mutex_);
  connection->state_ = State::Accepting;
  connection->size_ = size;
  connection->offer_ = offer;
  auto lane = VerbsLane::create(*id, size);
  if (!lane) return false;
  auto service = Service::get();  // which calls us, so it is there
  (*service)->adopt(id, connection);
  connection->lane_ = std::move(*lane);
  connection->id_ = id;
  connection->listener_ = shared_from_this();
  const auto data = encode(connection->stream().offer());
  rdma_conn_param param = parameters(data);
  if (rdma_accept(id, &param) == 0) return true;
  (*service)->disown(id);
  connection->lane_ = nullptr;
  connection->id_ = nullptr;
  connection->listener_ = nullptr;
  return false;
}

void Socket::put_back(SocketPtr connection) {
  connection->close_descriptor();
  {
    std::lock_guard lock(mutex_);
    const bool kept = state_ == State::Listening && !closing_ &&
                      attempt([&] { accepted_.push_front(connection); });
    if (kept) {
      connection = nullptr;
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
    refused = refused || !attempt([&] { accepted_.push_back(connection); });
    if (!refused) {
      show();
      notify();
    }
  }
  if (refused && connection != nullptr) connection->close(false);
  give_away();
}

Result<SocketPtr> Socket::accept(bool blocking) {
  std::optional<NoSignals> none;
  std::unique_lock lock(mutex_);
  if (state_ != State::Listening || shut_) return Error{EINVAL, "not listening"};
  if (accepted_.empty() && !shared_) {
    if (!blocking) return Error{EAGAIN, "no connection waits"};
    auto waited = wait(lock, none, deadline(true),
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
  std::optional<NoSignals> none;
  std::unique_lock lock(mutex_);
  if (address.sa_family != family_) return Error{EAFNOSUPPORT, "an address of another family"};
  switch (state_) {
    case State::Connected:
      if (std::exchange(owes_word_, false)) return {};
      [[fallthrough]];
    case State::Listening:
      return Error{EISCONN, "connected already"};
    case State::Connecting:
      if (!blocking) return Error{EALREADY, "connecting already"};
      break;
    case State::Refused:
      if (settling_) return Error{EALREADY, "connecting already"};
      state_ = State::Fresh;  // as with TCP, it may try again
      if (const int code = std::exchange(error_, 0); std::exchange(owes_word_, false)) {
        return Error{code != 0 ? code : ECONNABORTED, "the attempt before was refused"};
      }
      [[fallthrough]];
    default:
      if (auto started = start_connecting(address); !started) return started;
  }
  show();
  owes_word_ = true;
  if (!blocking) return Error{EINPROGRESS, "connecting"};
  auto waited = wait(lock, none, deadline(false),
                     [this] { return state_ != State::Connecting || closing_; });
  if (!waited) return Error{waited.error().code == EAGAIN ? EINPROGRESS : EINTR, "connecting"};
  owes_word_ = false;
  if (state_ == State::Connected) return {};
  const int code = error_ != 0 ? error_ : ECONNABORTED;
  error_ = 0;
  return Error{code, "the connection was refused"};
}

void Socket::handle_event(const ConnectionEvent& event) {
  SocketPtr listener;
  SocketPtr stands;
  Settle settle;
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::Connecting) {
      handle_connecting(event);
      if (state_ != State::Connecting) --Service::connecting;
    } else if (state_ == State::Accepting) {
      listener = std::move(listener_);
      const bool stood =
          event.type == RDMA_CM_EVENT_ESTABLISHED && attempt([this] { established(offer_, true); });
      if (stood) {
        stands = shared_from_this();
      } else {
        gone_ = true;
      }
    } else if (event.type == RDMA_CM_EVENT_DISCONNECTED ||
               event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
      // What came before the end is in the CQ already.
      if (lane_ != nullptr) {
        if (state_ == State::Connected) poll_queue();
        // Who broke the protocol below, says that we did, or was lost did not end its stream.
        if (event.status == -EPROTO || event.status == -EREMOTEIO || event.status == -ECONNRESET) {
          stream().handle_failure(ECONNRESET);
        }
        stream().handle_closed();
      }
      gone_ = true;
    }
    // Closed before it stood: it leaves at once.
    if (state_ == State::Connected && closing_ && !stream().ended()) {
      stream().disconnect();
      serve_in_background();
    }
    if (state_ == State::Connected || state_ == State::Refused) settle.swap(settle_);
    settling_ = settle != nullptr;
    if (!settling_) {
      show();
      notify();
    }
  }
  if (settle != nullptr) {
    bool moved = false;
    attempt([&] { moved = settle(shared_from_this()); });
    return finish_settling(moved);
  }
  if (listener == nullptr) return;
  listener->enqueue(stands);
  if (stands == nullptr) close(false);
}

void Socket::finish_settling(bool moved) {
  if (moved) {
    moved_ = true;
    return close(false);  // who waits for it looks again
  }
  std::lock_guard lock(mutex_);
  settling_ = false;
  show();
  notify();
}

void Socket::handle_connecting(const ConnectionEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (rdma_resolve_route(id_, kResolveTimeoutMs) != 0) refuse(errno);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return open_connection();
    case RDMA_CM_EVENT_ESTABLISHED:
      if (const auto peer = parse_connect_data(event.private_data()); peer) {
        return established(*peer, false);
      }
      may_fall_back_ = false;
      return refuse(ECONNREFUSED);  // iWARP, but no rsocket
    default:
      if (event.type == RDMA_CM_EVENT_REJECTED && is_refusal(event.private_data())) {
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

void Socket::established(const ConnectData& peer, bool accepted) {
  state_ = State::Connected;
  keep_addresses();
  write_names();
  stream().start(peer, accepted);
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

Socket::State Socket::state() {
  std::lock_guard lock(mutex_);
  return state_;
}

sockaddr_storage Socket::local_address() {
  std::lock_guard lock(mutex_);
  sockaddr_storage local = local_;
  if (local.ss_family == 0 && id_ != nullptr && rdma_get_local_addr(id_)->sa_family != 0) {
    local = shown_as(family_, *rdma_get_local_addr(id_));
  }
  local.ss_family = static_cast<sa_family_t>(family_);
  return local;
}

Result<sockaddr_storage> Socket::peer_address() {
  std::lock_guard lock(mutex_);
  if (state_ == State::Connected && !relayed_) drive();
  if (state_ != State::Connected || is_over()) return Error{ENOTCONN, "not connected"};
  return peer_;
}

int Socket::take_error() {
  std::lock_guard lock(mutex_);
  if (state_ == State::Connected && !relayed_) drive();
  if (state_ == State::Connected && stream().error() != 0 && !error_told_) {
    error_told_ = true;
    return stream().error();
  }
  return std::exchange(error_, 0);
}

std::uint64_t Socket::readable_octets() {
  std::lock_guard lock(mutex_);
  if (state_ != State::Connected) return 0;
  if (!relayed_) drive();
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
