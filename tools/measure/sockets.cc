// Options are set before connecting, since the window scale is settled then.
#include "measure/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/sockets.h>

#include "measure/address.h"
#include "measure/basics.h"

namespace weft::measure {
namespace {

constexpr int kBacklog = 1024;

void switch_to_iwarp(int fd, int operations) {
  const int mode = IWARP_MODE_REQUIRED;
  if (::setsockopt(fd, SOL_IWARP, IWARP_MODE, &mode, sizeof mode) != 0) fail_errno("IWARP_MODE");
  if (::setsockopt(fd, SOL_IWARP, IWARP_OPERATIONS, &operations, sizeof operations) != 0) {
    fail_errno("IWARP_OPERATIONS");
  }
}

int make_socket(const Address& where, const SocketOptions& options) {
  const int fd = ::socket(where.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail_errno("socket");
  // The system has a limit, and takes what it allows.
  for (const int option : {SO_SNDBUF, SO_RCVBUF}) {
    if (options.buffer_octets == 0) break;
    if (::setsockopt(fd, SOL_SOCKET, option, &options.buffer_octets,
                     sizeof options.buffer_octets) != 0) {
      fail_errno("the size of a socket buffer");
    }
  }
  if (options.operations != 0) switch_to_iwarp(fd, options.operations);
  const std::string& congestion = options.congestion;
  if (!congestion.empty() && ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                                          static_cast<socklen_t>(congestion.size())) != 0) {
    fail_errno("congestion control " + congestion + " for plain TCP");
  }
  return fd;
}

void send_small_at_once(int fd) {
  const int on = 1;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) fail_errno("TCP_NODELAY");
}

}  // namespace

Listener open_listener(const std::string& address, const SocketOptions& options) {
  Address where = parse_address(address, 0);
  const int fd = make_socket(where, options);
  if (::bind(fd, where.get(), where.length) != 0) fail_errno("cannot bind to " + address);
  if (::listen(fd, kBacklog) != 0) fail_errno("listen");
  ::getsockname(fd, where.get(), &where.length);
  return {fd, port_of(where)};
}

int connect_socket(const std::string& address, std::uint16_t port, const SocketOptions& options) {
  Address where = parse_address(address, port);
  const int fd = make_socket(where, options);
  if (::connect(fd, where.get(), where.length) != 0) fail_errno("cannot connect to " + address);
  send_small_at_once(fd);
  return fd;
}

int accept_socket(int listener) {
  const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) fail_errno("accept");
  send_small_at_once(fd);
  return fd;
}

void close_at_once(int fd) {
  const linger at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(fd);
}

}  // namespace weft::measure
