// A listener that other processes have too.
//
// A server that listens, forks, and has its children accept: they cannot use the device. The
// first time a child wants connections it says so through its end of the pair; from then on the
// service of the listener's maker hands each connection to whoever takes it first, and carries its
// octets (socket_relay.cc). The maker's own accept takes from the same place.
#include <array>
#include <cerrno>

#include "front/sockets/handed.h"
#include "front/sockets/kernel.h"
#include "front/sockets/service.h"
#include "front/sockets/socket.h"

namespace weft::sockets {

void Socket::settle_names(const sockaddr_storage& local, const sockaddr_storage& peer) {
  local_ = local;
  peer_ = peer;
  made_in = born_in_ = fork_generation() - 1;  // of another process
}

void Socket::write_names() {
  const auto service = Service::get();
  if (!service || !mirror_.is_open()) return;
  sockets::write_names(mirror_.far(), {(*service)->id(), number_}, {local_, peer_});
}

/// So that a process that has the descriptor can say that it wants connections.
void Socket::expect_sharers() {
  auto service = Service::get();
  if (!service || !mirror_.is_open()) return;
  write_names();
  relay_waits_ = EPOLLIN;
  (*service)->watch_relay(shared_from_this(), mirror_.far(), relay_waits_, true);
}

void Socket::ask_for_connections(int fd) {
  if (!asked_.exchange(true)) kernel::send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// From now on an octet in the descriptor comes with a connection.
void Socket::share() {
  if (shared_) return;
  if (!numbers_.empty()) mirror_.show_readable(near(), false);
  shared_ = true;
  notify();
}

bool Socket::hand_listener_over() {
  if (mirror_.is_abandoned()) return false;
  auto service = Service::get();
  if (!service) return false;
  share();
  orphaned_ = true;
  wait_for_sharers(EPOLLIN | EPOLLOUT);  // the service's thread goes on
  return true;
}

void Socket::wait_for_sharers(std::uint32_t events) {
  if (events == relay_waits_) return;
  relay_waits_ = events;
  if (auto service = Service::get(); service) {
    (*service)->watch_relay(shared_from_this(), mirror_.far(), events, false);
  }
}

/// Whoever has the descriptor hears that there will be no more. The far end hears of its own
/// hang-up, for as long as it is looked at.
void Socket::end_sharing() {
  mirror_.show_hang_up();
  if (auto service = Service::get(); service) (*service)->ignore_relay(mirror_.far());
}

void Socket::handle_sharers() {
  bool gone = false;
  {
    std::lock_guard lock(mutex_);
    if (!mirror_.is_open()) return;
    std::array<char, 16> octets;
    while (kernel::recv(mirror_.far(), octets.data(), octets.size(), MSG_DONTWAIT) > 0) share();
    const bool hung_up = mirror_.is_abandoned();
    gone = orphaned_ && hung_up;
    if (hung_up && !orphaned_ && !shut_) {
      // Another process shut it, which holds for all.
      shut_ = true;
      end_sharing();
      notify();
    }
  }
  if (gone) return close(false);
  give_away();
}

/// Descriptors are short, and nobody tells when they no longer are. Room in the far end, which
/// there is, says nothing.
void Socket::give_away_later() {
  std::lock_guard lock(mutex_);
  wait_for_sharers(EPOLLIN);
  if (auto service = Service::get(); service) (*service)->try_again(shared_from_this());
}

/// Hands out the connections that wait. Only the service's thread calls it.
void Socket::give_away() {
  for (;;) {
    SocketPtr connection;
    int far = -1;
    {
      std::lock_guard lock(mutex_);
      if (!shared_ || closing_ || shut_ || !mirror_.is_open()) return;
      if (accepted_.empty()) return wait_for_sharers(EPOLLIN);
      connection = accepted_.front();
      far = mirror_.far();
    }
    const auto near = connection->open_descriptor(SOCK_CLOEXEC, Mirror::Near::Passed);
    if (!near) return give_away_later();
    connection->before_last_close(*near);
    const int code = hand(far, *near);
    if (code != 0 && code != EPIPE && code != ECONNRESET) {
      kernel::close(*near);
      connection->close_descriptor();
      if (code != EAGAIN) return give_away_later();
      std::lock_guard lock(mutex_);
      return wait_for_sharers(EPOLLIN | EPOLLOUT);
    }
    {
      std::lock_guard lock(mutex_);
      if (!accepted_.empty() && accepted_.front() == connection) accepted_.pop_front();
    }
    kernel::close(*near);
    if (code != 0 || !connection->hand_over()) connection->close(false);
  }
}

}  // namespace weft::sockets
