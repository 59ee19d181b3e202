// What streams and listeners have in common: an owned descriptor, its addresses and its options.
#pragma once

#include <utility>

#include "transport/address.h"
#include "transport/tcp/syscalls.h"

namespace weft::transport {

/// An owned descriptor; -1 when there is none.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { close(); }

  int fd() const { return fd_; }
  void close() {
    if (fd_ >= 0) {
      raw::close(std::exchange(fd_, -1));
    }
  }

 private:
  int fd_;
};

/// Unspecified when the kernel does not say.
Address local_address(int fd);
Address peer_address(int fd);

/// Are these addresses of one host? Not where `local` is unspecified and it is not sure.
bool within_one_host(const Address& local, const Address& remote);

// Options. What is accepted has its listener's, which saves setting them each time; those that this
// kernel does not know are left out.

/// Of all connections. No octet waits for others that were sent and not acknowledged.
void send_at_once(int fd);
/// The same, before connecting: pauses between two tries, also those of a handshake, are bounded.
void bound_retransmission(int fd);
/// Of those that may leave this host. Within it one kernel has both ends, and tells each of the
/// other's: nobody has to ask whether the peer is there.
void notice_lost_peers(int fd);
/// Before connecting to another host: it may take kConnectTimeout at most.
void bound_connecting(int fd);
/// The one that does least. Over loopback there is no bottleneck to find: the search for one takes
/// half of the speed where the system's own paces (bbr), and up to a thirtieth of a small message's
/// time where it is cubic.
void choose_congestion_control_within_host(int fd);

}  // namespace weft::transport
