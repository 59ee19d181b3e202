// What happens to a socket: completions, its readiness and who waits for it, and its end.
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include "front/sockets/calls.h"
#include "front/sockets/kernel.h"
#include "front/sockets/service.h"
#include "front/sockets/socket.h"
#include "front/sockets/socket_memory.h"

namespace weft::sockets {
namespace {

/// How long who leaves waits for the peer to have read that.
constexpr auto kPeerPatience = std::chrono::milliseconds(200);
/// So long a peer that reads nothing keeps what was written before a close waiting.
constexpr auto kHeldPatience = std::chrono::seconds(100);

}  // namespace

/// As TCP that closed: nothing comes any more, and the program has said that nothing goes. A peer
/// that has only gone is not that.
bool Socket::is_over() const {
  return stream().error() != 0 || (!stream().receiving() && stream().write_closed());
}

int Socket::tcp_state() {
  std::lock_guard lock(mutex_);
  switch (state_) {
    case State::Listening:
      return shut_ ? TCP_CLOSE : TCP_LISTEN;
    case State::Connecting:
      return TCP_SYN_SENT;
    case State::Connected:
      if (!relayed_) drive();
      if (is_over()) return TCP_CLOSE;
      if (!stream().receiving()) return TCP_CLOSE_WAIT;
      return stream().write_closed() ? TCP_FIN_WAIT2 : TCP_ESTABLISHED;
    default:
      return TCP_CLOSE;
  }
}

Result<void> Socket::shutdown(int how) {
  std::lock_guard lock(mutex_);
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return Error{EINVAL, "no direction"};
  if (state_ == State::Listening) {
    if (how == SHUT_WR) return {};
    shut_ = true;  // as the kernel: who waits in accept is told
    end_sharing();
    show();
    notify();
    return {};
  }
  if (relayed_) return Error{ESTALE, "another process uses it too"};
  if (state_ != State::Connected || is_over()) return Error{ENOTCONN, "not connected"};
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
    // Those of a socket that another process has are for the service's thread.
    if (!relaying_) lane_->hand_events(Service::take_found, this);
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
    settle_ = nullptr;
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

void Socket::handle_shortage() {
  std::lock_guard lock(mutex_);
  if (state_ == State::Connecting) {
    --Service::connecting;
    may_fall_back_ = false;
    refuse(ENOMEM);
  } else if (state_ == State::Connected) {
    stream().handle_failure(ENOMEM);
    if (!std::exchange(disconnecting_, true)) rdma_disconnect(id_);
  }
  notify();
  show();
}

bool Socket::finished() {
  std::lock_guard lock(mutex_);
  if (!closing_ || !waiters_.empty()) return false;
  if (state_ != State::Connected || abortive_ || stream().error() != 0) return true;
  if (stream().ended()) {
    end_connection();
  } else if (stream().held_octets() != 0) {
    if (!held_until_) held_until_ = Clock::now() + kHeldPatience;
    if (Clock::now() >= *held_until_) return true;
  }
  return gone_ && stream().ended();
}

bool Socket::begin_leaving() {
  {
    std::lock_guard lock(mutex_);
    if (closing_ || relaying_ || state_ != State::Connected) return false;
    if (!numbers_.empty()) mirror_.clear(near());
    show_always_ = false;
    for (const int fd : numbers_) {
      sockets().take(fd);
      kernel::close(fd);
    }
    numbers_.clear();
    if (!mirror_.is_abandoned() || mirror_.has_legacy()) return true;
  }
  go_on_leaving();
  return false;
}

bool Socket::go_on_leaving() {
  std::lock_guard lock(mutex_);
  if (state_ != State::Connected || abortive_) return true;
  waiters_.clear();  // and who waits now does so to the end
  if (relaying_) {
    // What this process wrote beside others is to be carried, too.
    const bool shared = is_shared();
    if (!mirror_.is_abandoned() && !shared) return true;
    drive();
    if (!relay() && !(shared && !mirror_.has_legacy() && relayed_in_.empty())) return false;
  }
  poll_queue();
  if (memory_ != nullptr && !memory_->drained()) poll_queue();
  if (memory_ != nullptr && !memory_->drained() && !stream().ended()) return nonblocking;
  stream().disconnect();  // again, where there was no room for it
  if (stream().error() != 0) return true;
  if (!stream().ended()) return false;
  end_connection();
  return gone_ || lane_->is_flushed();
}

void Socket::ask_device() {
  std::lock_guard lock(mutex_);
  ibv_qp_attr attributes;
  ibv_qp_init_attr as_made;
  if (id_ != nullptr && id_->qp != nullptr) {
    ibv_query_qp(id_->qp, &attributes, IBV_QP_STATE, &as_made);
  }
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
  const int own = made_wake_fd();
  for (const Waiter& waiter : waiters_) {
    if (waiter.wake_fd != own) wake(waiter.wake_fd);
  }
}

int Socket::begin_wait(int wake_fd) {
  std::lock_guard lock(mutex_);
  const bool connected = lane_ != nullptr && state_ == State::Connected && !relayed_;
  while (connected && arm()) {
  }
  waiters_.push_back({wake_fd, pthread_self()});  // the last that may fail
  return connected ? lane_->event_fd() : -1;
}

void Socket::stop_waiting(int wake_fd) {
  const auto own = std::find_if(waiters_.begin(), waiters_.end(),
                                [&](const Waiter& waiter) { return waiter.wake_fd == wake_fd; });
  if (own != waiters_.end()) waiters_.erase(own);
}

void Socket::end_wait(int wake_fd, bool readable) {
  std::lock_guard lock(mutex_);
  stop_waiting(wake_fd);
  if (!readable || lane_ == nullptr || relayed_) return;
  lane_->take_event();
  while (watched_ && state_ == State::Connected && arm()) {
  }
}

short Socket::events_now() const {
  int events = 0;
  switch (state_) {
    case State::Listening:
      if (shut_) return POLLOUT | POLLWRNORM | POLLHUP;
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
      if (settling_) return 0;
      events = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLRDHUP | POLLHUP;
      return static_cast<short>(events | (error_ != 0 ? POLLERR : 0));
    default:
      return POLLOUT | POLLWRNORM | POLLHUP;
  }
}

short Socket::poll_events(short asked, Clock::time_point now, Clock::duration age) {
  std::lock_guard lock(mutex_);
  if (relayed_) return 0;  // who asks looks again (has_moved)
  if (state_ == State::Connected && now - asked_at_ >= age && (events_now() & asked) != asked) {
    asked_at_ = now;
    drive();
  }
  return static_cast<short>(events_now() & (asked | POLLERR | POLLHUP));
}

void Socket::watch() {
  std::lock_guard lock(mutex_);
  if (relayed_) return;
  show_always_ = true;
  show();
}

void Socket::show() {
  if (memory_ != nullptr) advance_memory();
  if (!show_always_ || !mirror_.is_open() || numbers_.empty()) return;
  if (state_ == State::Connected && !watched_) serve_in_background();
  if (shared_) return;  // what lies in it is handed out
  const short events = events_now();
  // First: it makes readable as well, and is one event, not two of which a waiter sees the first.
  if ((events & POLLRDHUP) != 0) mirror_.show_end();
  mirror_.show_readable(near(), (events & POLLIN) != 0);
  // Who is told of edges hears of more behind what is there.
  const std::uint64_t there = state_ == State::Connected   ? stream().readable_octets()
                              : state_ == State::Listening ? accepted_.size()
                                                           : 0;
  if (there > shown_ && shown_ != 0) mirror_.show_more(near());
  shown_ = there;
  // Nobody waits to write to a listener, and a full one could not be asked for connections.
  if (state_ != State::Listening) mirror_.show_writable(near(), (events & POLLOUT) != 0);
  if ((events & POLLHUP) != 0 && state_ != State::Fresh && state_ != State::Bound) {
    mirror_.show_hang_up();
  }
}

}  // namespace weft::sockets
