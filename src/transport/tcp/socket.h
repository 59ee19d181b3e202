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

/// Options of every connection. Given to a listener, what it accepts inherits them, which saves
/// setting them each time. Options that this kernel does not know are left out.
void set_connection_options(int fd);

/// For a connection whose ends are one host, if they are: the congestion control that does least.
/// Over loopback there is no bottleneck to find. The search for one takes half of the speed where
/// the system's own paces (bbr), and up to a thirtieth of a small message's time where it is cubic.
void set_options_of_one_host(int fd, const Address& local, const Address& remote);

}  // namespace weft::transport
