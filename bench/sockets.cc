// Who listens tells where.
#include "bench/sockets.h"

#include <unistd.h>

namespace weft::bench {

int open_connection(Medium::Role role, const std::string& address, Control& control,
                    std::uint32_t buffer_octets, const std::string& congestion) {
  if (role == Medium::Role::Leader) {
    const auto port = control.get<std::uint16_t>();
    return connect_socket(address, port, buffer_octets, congestion);
  }
  const Listener listener = open_listener(address, buffer_octets, congestion);
  control.put(listener.port);
  const int fd = accept_socket(listener.fd);
  ::close(listener.fd);
  return fd;
}

}  // namespace weft::bench
