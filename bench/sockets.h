// Plain TCP connections as the bench makes them.
#pragma once

#include <string>

#include "bench/control.h"
#include "bench/medium.h"

namespace weft::bench {

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

/// One connection between the two ends: the follower listens and tells the port by control.
int open_connection(Medium::Role role, const std::string& address, Control& control,
                    std::uint32_t buffer_octets, const std::string& congestion);

/// Ends a connection by reset, so that thousands of ended ones do not keep their ports.
void close_at_once(int fd);

}  // namespace weft::bench
