// Plain TCP connections as measuring programs make them.
#pragma once

#include <cstdint>
#include <string>

namespace weft::measure {

struct Listener {
  int fd;
  std::uint16_t port;  ///< a free one
};
Listener open_listener(const std::string& address, std::uint32_t buffer_octets = 0,
                       const std::string& congestion = {});

/// A connected socket without Nagle's algorithm. buffer_octets: of both socket buffers, or 0 for
/// the system's own choice; congestion: empty for the system's.
int connect_socket(const std::string& address, std::uint16_t port, std::uint32_t buffer_octets = 0,
                   const std::string& congestion = {});
int accept_socket(int listener);

/// Ends a connection by reset, so that thousands of ended ones do not keep their ports.
void close_at_once(int fd);

}  // namespace weft::measure
