// Numeric addresses as sockets take them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

namespace weft::measure {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// Throws Failure unless `text` is an IPv4 or IPv6 address in digits.
Address parse_address(const std::string& text, std::uint16_t port);

/// In host order.
std::uint16_t port_of(const Address& address);

}  // namespace weft::measure
