// Connections of sockets as measuring programs make them: plain TCP, or in IWARP_MODE.
#pragma once

#include <cstdint>
#include <string>

namespace weft::measure {

struct SocketOptions {
  std::uint32_t buffer_octets = 0;  ///< of both socket buffers; 0: the system's own choice
  std::string congestion;           ///< control of it; empty: the system's
  int operations = 0;  ///< that may be open at once, of a socket in IWARP_MODE; 0: plain TCP
};

struct Listener {
  int fd;
  std::uint16_t port;  ///< a free one
};
Listener open_listener(const std::string& address, const SocketOptions& options = {});

/// A connected socket without Nagle's algorithm.
int connect_socket(const std::string& address, std::uint16_t port,
                   const SocketOptions& options = {});
int accept_socket(int listener);

/// Ends a connection by reset, so that thousands of ended ones do not keep their ports.
void close_at_once(int fd);

}  // namespace weft::measure
