// Octets between a stream and another process.
//
// A device of this process cannot be used by its children. When a server accepts, forks, and closes
// its copy, the child holds our descriptor, an ordinary UNIX socket; so the child reads and writes
// that, also after exec, and this process carries the octets on. One more copy each way.
//
// A child that uses a connection which its parent has not closed asks for it (ask.h). Then it is
// the same, but that the parent's own calls go that way too: what waits in one is woken, and goes
// on at the descriptor (Socket::wait, calls.cc).
#include <sys/stat.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <utility>

#include "front/sockets/kernel.h"
#include "front/sockets/service.h"
#include "front/sockets/socket.h"

namespace weft::sockets {
namespace {

constexpr std::size_t kPieceOctets = 64 * 1024;

iovec part_of(std::vector<std::uint8_t>& octets) {
  return {octets.data(), octets.size()};
}

}  // namespace

void Socket::before_last_close(int fd) {
  end_memory();
  std::lock_guard lock(mutex_);
  if (relayed_) return;
  if (state_ == State::Listening && !shared_) mirror_.show_readable(fd, false);
  if (state_ == State::Connected) mirror_.clear(fd);
  if (state_ == State::Listening || state_ == State::Connected) show_always_ = false;
}

bool Socket::hand_over() {
  std::lock_guard lock(mutex_);
  if (state_ == State::Listening) return hand_listener_over();
  if (state_ != State::Connected) return false;
  if (relayed_) return true;
  // A process that was quick has come and gone already.
  if (mirror_.is_abandoned() && !mirror_.has_legacy()) return false;
  if (!start_relaying()) return false;
  // The other process may be gone already: then it is closed as if nobody had it.
  return !relay();
}

Result<void> Socket::start_relaying() {
  auto service = Service::get();
  if (!service) return service.error();
  set_relaying(true);
  // From now on the service's thread alone takes its completions.
  if (std::exchange(watched_, false)) {
    (*service)->unwatch(*this, lane_->event_fd());
    lane_->hand_events(nullptr, nullptr);
  }
  kernel::fcntl(mirror_.far(), F_SETFL, O_RDWR | O_NONBLOCK);
  relay_waits_ = EPOLLIN;
  (*service)->watch_relay(shared_from_this(), mirror_.far(), relay_waits_, true);
  serve_in_background();
  return {};
}

namespace {
/// Two numbers of one socket of the kernel's.
bool are_same(int one, int other) {
  struct stat first {
  }, second{};
  return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}
}  // namespace

Answer Socket::share_stream(int asked_for) {
  std::lock_guard lock(mutex_);
  if (relayed_ || closing_) return Answer::Yes;  // it is as it is
  // Its last number is being closed.
  if (state_ == State::Connected && numbers_.empty()) return Answer::NotNow;
  // An abstract address may be called like another one: only who has the socket may ask for it.
  if (!numbers_.empty() && !are_same(near(), asked_for)) return Answer::No;
  if (state_ != State::Connected || memory_ != nullptr || !maps_.empty()) return Answer::No;
  // The descriptor says that the peer has ended, and so takes nothing any more, not even what came
  // before the end. That is this process's to read.
  if (mirror_.shows_end() && stream().readable_octets() != 0) {
    mirror_.take_octets(near());
    return Answer::NotNow;
  }
  mirror_.clear(near());
  if (mirror_.shows_hang_up()) return Answer::Yes;
  keep_timeouts();
  show_always_ = false;
  if (!start_relaying()) return Answer::No;
  in_use_ = true;
  made_in = fork_generation() - 1;
  notify();
  return Answer::Yes;
}

/// The kernel's calls on the descriptor are to wait no longer than ours.
void Socket::keep_timeouts() {
  const auto keep = [&](int name, const std::optional<Clock::duration>& limit) {
    if (!limit) return;
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(*limit).count();
    const timeval value{us / 1'000'000, us % 1'000'000};
    kernel::setsockopt(near(), SOL_SOCKET, name, &value, sizeof value);
  };
  keep(SO_RCVTIMEO, receive_wait_);
  keep(SO_SNDTIMEO, send_wait_);
}

void Socket::begin_first_use(int fd) {
  // Only a connection has a peer.
  if (peer_.ss_family != 0 && sockets::begin_use(fd)) in_use_ = true;
}

void Socket::set_relaying(bool on) {
  if (relaying_ == on) return;
  relaying_ = on;
  relayed_ = true;
  if (auto service = Service::get(); service) (*service)->count_relays(on ? 1 : -1);
}

bool Socket::end_with_process() {
  {
    std::lock_guard lock(mutex_);
    if (!relayed_ || mirror_.is_abandoned()) return relayed_;
    if (!is_shared()) return false;
    if (mirror_.has_legacy() || !relayed_in_.empty()) return true;
  }
  close(false);
  return false;
}

void Socket::handle_relay() {
  if (is_listening()) return handle_sharers();
  {
    std::lock_guard lock(mutex_);
    if (!relaying_) return;
    drive();
    if (!relay()) return;
  }
  close(false);
}

/// Moves what can be moved. True: the other process has gone, and all it wrote is sent.
bool Socket::relay() {
  while (relay_out()) {
  }
  while (relay_in()) {
  }
  // What it writes from now on nobody would read: it is to hear so, as TCP's writer does.
  if (!stream().sending() && !std::exchange(relay_heard_end_, true)) {
    kernel::shutdown(mirror_.far(), SHUT_RD);
  }
  const bool gone = mirror_.is_abandoned();
  std::uint32_t waits = 0;
  // Not for what could not be taken: that comes when there is room, and would be told of for ever.
  if (!relay_heard_end_ && relayed_in_.empty() && stream().can_write()) waits |= EPOLLIN;
  if (!relayed_out_.empty() && !gone) waits |= EPOLLOUT;
  const bool over = gone && relayed_in_.empty() && (relay_heard_end_ || stream().ended());
  if (over) {
    set_relaying(false);
    return true;
  }
  // A hang-up is told whatever is asked for: who has gone is not asked while the stream has to go
  // on.
  const bool ignored = gone && waits == 0;
  if (waits != relay_waits_ || ignored) {
    relay_waits_ = waits;
    if (auto service = Service::get(); service && ignored) {
      (*service)->ignore_relay(mirror_.far());
    } else if (service) {
      (*service)->watch_relay(shared_from_this(), mirror_.far(), waits, false);
    }
  }
  return false;
}

/// One piece to the other process. False: nothing more now.
bool Socket::relay_out() {
  if (relayed_out_.empty()) {
    if (stream().readable_octets() == 0) {
      if (!stream().receiving() && !relay_told_end_) {
        kernel::shutdown(mirror_.far(), SHUT_WR);
        relay_told_end_ = true;
      }
      return false;
    }
    relayed_out_.resize(kPieceOctets);
    const iovec room = part_of(relayed_out_);
    Cursor to({&room, 1});
    relayed_out_.resize(stream().read(to, false));
  }
  const ssize_t sent = kernel::send(mirror_.far(), relayed_out_.data(), relayed_out_.size(),
                                    MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) relayed_out_.clear();  // nobody reads any more
  if (sent <= 0) return false;
  relayed_out_.erase(relayed_out_.begin(), relayed_out_.begin() + sent);
  return true;
}

/// One piece to the stream. False: nothing more now.
bool Socket::relay_in() {
  if (relayed_in_.empty()) {
    if (relay_heard_end_ || !stream().can_write()) return false;
    relayed_in_.resize(kPieceOctets);
    const ssize_t got =
        kernel::recv(mirror_.far(), relayed_in_.data(), relayed_in_.size(), MSG_DONTWAIT);
    const int code = errno;
    relayed_in_.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    if (got < 0 && code == EAGAIN) return false;
    if (got <= 0) {
      relay_heard_end_ = true;
      stream().shutdown_write();
      return false;
    }
  }
  const iovec part = part_of(relayed_in_);
  Cursor from({&part, 1});
  const std::size_t taken = stream().write(from);
  relayed_in_.erase(relayed_in_.begin(), relayed_in_.begin() + static_cast<long>(taken));
  if (!stream().sending()) relayed_in_.clear();
  return taken != 0;
}

}  // namespace weft::sockets
