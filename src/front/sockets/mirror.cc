// Readiness by a pair of UNIX sockets.
#include "front/sockets/mirror.h"

#include <array>
#include <cerrno>

#include "front/sockets/kernel.h"

namespace weft::sockets {
namespace {

/// One message of this size in the smallest send buffer leaves the socket not writable.
constexpr std::size_t kFillOctets = 2048;
/// More octets than these say nothing that fewer do not.
constexpr unsigned kOctetsMax = 16;

}  // namespace

Result<int> Mirror::open(int flags) {
  int ends[2] = {-1, -1};
  if (kernel::socketpair(SOCK_STREAM | SOCK_CLOEXEC, ends) != 0) {
    return Error{errno, "no descriptor for a socket"};
  }
  const int smallest = 1;
  kernel::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &smallest, sizeof smallest);
  if ((flags & SOCK_CLOEXEC) == 0) kernel::fcntl(ends[0], F_SETFD, 0);
  if ((flags & SOCK_NONBLOCK) != 0) kernel::fcntl(ends[0], F_SETFL, O_RDWR | O_NONBLOCK);
  far_ = ends[1];
  return ends[0];
}

void Mirror::close() {
  if (far_ >= 0) kernel::close(far_);
  far_ = -1;
}

void Mirror::show_readable(int near, bool readable) {
  if (far_ < 0 || readable == (octets_ != 0) || ended_) return;
  if (readable) return show_more(near);
  std::array<char, kOctetsMax> octets;
  kernel::recv(near, octets.data(), octets.size(), MSG_DONTWAIT);
  octets_ = 0;
}

void Mirror::show_more(int) {
  if (far_ < 0 || octets_ == kOctetsMax || ended_) return;
  if (kernel::send(far_, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) ++octets_;
}

void Mirror::show_writable(int near, bool writable) {
  if (far_ < 0 || writable != full_ || hung_up_) return;
  std::array<char, kFillOctets> octets{};
  if (writable) {
    kernel::recv(far_, octets.data(), octets.size(), MSG_DONTWAIT);
  } else {
    kernel::send(near, octets.data(), octets.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  full_ = !writable;
}

void Mirror::clear(int near) {
  show_readable(near, false);
  show_writable(near, true);
  const int usual = 256 * 1024;
  kernel::setsockopt(near, SOL_SOCKET, SO_SNDBUF, &usual, sizeof usual);
}

bool Mirror::is_abandoned() const {
  if (far_ < 0 || hung_up_) return true;
  pollfd fd{far_, 0, 0};
  const timespec at_once{};
  return kernel::ppoll(&fd, 1, &at_once) != 0 && (fd.revents & (POLLHUP | POLLERR)) != 0;
}

void Mirror::show_end() {
  if (far_ < 0 || ended_) return;
  kernel::shutdown(far_, SHUT_WR);
  ended_ = true;
}

void Mirror::show_hang_up() {
  if (far_ < 0 || hung_up_) return;
  show_end();
  kernel::shutdown(far_, SHUT_RDWR);
  hung_up_ = true;
}

}  // namespace weft::sockets
