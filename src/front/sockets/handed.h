// What another process needs of a socket: its names, and connections of a listener.
//
// A process that was forked or executed with our descriptors has only one end of each UNIX pair.
// The names that TCP would tell are written on the other end, as its own (abstract) address, where
// every process can read them. A listener's end carries descriptors: its maker hands each
// connection to whoever reads first, so that the kernel wakes and chooses, as it does for TCP.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "front/sockets/socket.h"

namespace weft::sockets {

struct Names {
  sockaddr_storage local{}, peer{};
};

/// Which socket of which process the end of a pair belongs to.
struct End {
  std::uint64_t maker = 0, number = 0;
};

/// Names an end of a pair, as no other is named.
void write_names(int far, const End& end, const Names& names);
/// Reads them from the other end. Nothing: it is no such pair.
std::optional<Names> read_names(int near);
std::optional<End> read_end(int near);

/// Hands `near` to whoever reads from the other end of `far`. 0 or an errno; EAGAIN: not now.
int hand(int far, int near);
/// Takes what was handed: a descriptor, or -1 and errno as accept has it. Waits unless the
/// descriptor is set not to.
int take_handed(int listener, bool cloexec);

/// Enters a descriptor that came from another process, if its other end tells names.
SocketPtr adopt(int fd);
/// accept4 on a listener whose connections are handed out.
int accept_handed(int listener, sockaddr* address, socklen_t* octets, int flags);

}  // namespace weft::sockets
