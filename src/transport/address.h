// An IPv4 or IPv6 address with a port, as a value.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>

namespace weft::transport {

class Address {
 public:
  Address() { storage_ = {}; }  ///< unspecified: family AF_UNSPEC
  /// Copies an AF_INET or AF_INET6 address; anything else gives an unspecified one.
  explicit Address(const sockaddr* from);

  int family() const { return storage_.ss_family; }
  std::uint16_t port() const;           ///< host order
  void set_port(std::uint16_t port);
  bool is_any() const;                  ///< unspecified family, 0.0.0.0 or ::
  bool is_loopback() const;             ///< 127/8 or ::1
  const sockaddr* sockaddr_ptr() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const;             ///< 0 when unspecified
  /// The same host (ports not compared). IPv4-mapped IPv6 equals its IPv4.
  bool same_host(const Address&) const;
  /// An order of hosts, the same on every machine.
  bool is_before(const Address&) const;
  /// "127.0.0.1:7174", "[::1]:7174"; NUL terminated.
  std::array<char, 64> text() const;

 private:
  sockaddr_storage storage_;
};

}  // namespace weft::transport
