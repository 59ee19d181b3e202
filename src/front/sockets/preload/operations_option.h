// The socket option IWARP_OPERATIONS.
#pragma once

#include <sys/socket.h>

namespace weft::sockets {

/// As setsockopt and getsockopt: 0, or -1 and errno. EISCONN: it listens or is connected already.
int set_operations(int fd, const void* value, socklen_t octets);
int get_operations(int fd, void* value, socklen_t* octets);

}  // namespace weft::sockets
