// Making kernel TCP sockets: connecting and listening.
#include "transport/tcp/tcp_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>

#include "transport/tcp/peer_socket.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp_stream.h"

namespace weft::transport {
namespace {

Error error_of(long result, const char* text) {
  return {static_cast<int>(-result), text};
}

class TCPListener final : public Listener {
 public:
  explicit TCPListener(Socket socket)
      : socket_(std::move(socket)), local_(local_address(socket_.fd())) {}

  Result<std::unique_ptr<Stream>> accept() override;
  int fd() const override { return socket_.fd(); }
  Address local() const override { return local_; }

 private:
  Socket socket_;
  Address local_;
};

Result<std::unique_ptr<Stream>> TCPListener::accept() {
  sockaddr_storage storage = {};
  socklen_t length = sizeof storage;
  auto* name = reinterpret_cast<sockaddr*>(&storage);
  const long fd = raw::accept(socket_.fd(), name, &length);
  if (fd >= 0) {
    return std::unique_ptr<Stream>(std::make_unique<TCPStream>(
        Socket(static_cast<int>(fd)), TCPStream::Origin::Accepted, local_, Address(name)));
  }
  switch (-fd) {
    case EAGAIN:
      return Error{EAGAIN, "no connection waits"};
    case EMFILE:
    case ENFILE:
      return error_of(fd, "no descriptor is left for an incoming connection");
    case ENOBUFS:
    case ENOMEM:
      return error_of(fd, "no memory is left for an incoming connection");
    default:
      // Linux reports here what befell the waiting connection (EPROTO, ENETDOWN, EHOSTUNREACH,
      // EPERM of a firewall ...): the listener is well.
      return Error{ECONNABORTED, "an incoming connection ended before it was accepted"};
  }
}

/// From the loopback to itself. Of other addresses of this host the kernel may choose another one:
/// to the second one of an interface it connects from the first.
bool is_kernels_choice(const Address& local, const Address& remote) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_loopback;
  const Address first_v4(reinterpret_cast<const sockaddr*>(&v4));
  const Address first_v6(reinterpret_cast<const sockaddr*>(&v6));
  return local.same_host(remote) && (local.same_host(first_v4) || local.same_host(first_v6));
}

Result<void> bind_source(int fd, const Address& local) {
  if (local.port() != 0) {
    raw::set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  } else {
    // The port is then chosen by connect(), which knows the destination: far more connections than
    // there are ports can leave one address.
    raw::set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  }
  const long result = raw::bind(fd, local.sockaddr_ptr(), local.length());
  if (result < 0) {
    return error_of(result, "the source address cannot be used");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Stream>> TCPTransport::connect(const Address& local, const Address& remote) {
  if (remote.length() == 0 || (local.length() != 0 && local.family() != remote.family())) {
    return Error{EAFNOSUPPORT, "source and destination must be of one family, IPv4 or IPv6"};
  }
  const long fd = raw::open_socket(remote.family(), SOCK_STREAM, IPPROTO_TCP);
  if (fd < 0) {
    return error_of(fd, "no TCP socket can be made");
  }
  Socket socket(static_cast<int>(fd));
  bound_retransmission(socket.fd());
  const bool within = within_one_host(local, remote);
  if (within) {
    choose_congestion_control_within_host(socket.fd());  // it starts its work with the connection
  } else {
    send_at_once(socket.fd());
    notice_lost_peers(socket.fd());
    bound_connecting(socket.fd());
  }
  const bool is_told = local.port() != 0 || !(local.is_any() || is_kernels_choice(local, remote));
  if (is_told) {
    if (auto bound = bind_source(socket.fd(), local); !bound) {
      return bound.error();
    }
  }
  const long result = raw::connect(socket.fd(), remote.sockaddr_ptr(), remote.length());
  if (result < 0 && result != -EINPROGRESS) {
    return error_of(result, "the destination cannot be reached");
  }
  using Origin = TCPStream::Origin;
  return std::unique_ptr<Stream>(std::make_unique<TCPStream>(
      std::move(socket), within ? Origin::ConnectingWithinHost : Origin::Connecting, Address(),
      remote));
}

Result<std::unique_ptr<Listener>> TCPTransport::listen(const Address& local,
                                                       const ListenOptions& options) {
  if (local.length() == 0) {
    return Error{EAFNOSUPPORT, "a listener needs an IPv4 or IPv6 address"};
  }
  const long fd = raw::open_socket(local.family(), SOCK_STREAM, IPPROTO_TCP);
  if (fd < 0) {
    return error_of(fd, "no TCP socket can be made");
  }
  Socket socket(static_cast<int>(fd));
  send_at_once(socket.fd());
  bound_retransmission(socket.fd());
  notice_lost_peers(socket.fd());
  if (local.is_loopback()) {
    choose_congestion_control_within_host(socket.fd());  // theirs whom it accepts
  }
  promise_to_copy(socket.fd());
  raw::set_option(socket.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (local.family() == AF_INET6) {
    raw::set_option(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, options.v6_only ? 1 : 0);
  }
  if (const long result = raw::bind(socket.fd(), local.sockaddr_ptr(), local.length());
      result < 0) {
    return error_of(result, "the address cannot be listened on");
  }
  // Only listen() finds a port taken when its owner has SO_REUSEADDR too.
  if (const long result = raw::listen(socket.fd(), std::max(options.backlog, 1)); result < 0) {
    return error_of(result, "the port has another listener");
  }
  return std::unique_ptr<Listener>(std::make_unique<TCPListener>(std::move(socket)));
}

}  // namespace weft::transport
