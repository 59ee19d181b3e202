// Addresses and options of a kernel TCP socket.
#include "transport/tcp/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <string_view>

#include "transport/tcp/tcp_transport.h"

namespace weft::transport {
namespace {

// Since Linux 6.15; older C libraries do not name it.
constexpr int kTCPRTOMaxMs = 44;

template <typename Call>
Address name_by(Call call, int fd) {
  sockaddr_storage storage = {};
  socklen_t length = sizeof storage;
  auto* name = reinterpret_cast<sockaddr*>(&storage);
  return call(fd, name, &length) < 0 ? Address() : Address(name);
}

}  // namespace

Address local_address(int fd) {
  return name_by(raw::local_name, fd);
}
Address peer_address(int fd) {
  return name_by(raw::peer_name, fd);
}

bool within_one_host(const Address& local, const Address& remote) {
  return remote.is_loopback() || local.same_host(remote);
}

void send_at_once(int fd) {
  // MPA hands over whole FPDUs: Nagle's waiting could only add a round trip.
  raw::set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

void bound_retransmission(int fd) {
  raw::set_option(fd, IPPROTO_TCP, kTCPRTOMaxMs, static_cast<int>(kRetransmitIntervalMax.count()));
}

void notice_lost_peers(int fd) {
  raw::set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  raw::set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(kKeepaliveIdle.count()));
  raw::set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, static_cast<int>(kKeepaliveInterval.count()));
  raw::set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveCount);
}

void bound_connecting(int fd) {
  const std::chrono::milliseconds patience = kConnectTimeout;
  raw::set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(patience.count()));
}

void choose_congestion_control_within_host(int fd) {
  // Every kernel has it, and every user may choose it.
  constexpr std::string_view kSimplest = "reno";
  raw::set_option(fd, IPPROTO_TCP, TCP_CONGESTION, kSimplest.data(), kSimplest.size());
}

}  // namespace weft::transport
