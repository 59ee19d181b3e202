// What the kernel tells of a connection's other end, where that is a socket of the same host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/tcp/socket.h"

namespace weft::transport {

/// The socket at the other end, by sock_diag(7), which asks for no privilege.
/// Threads: one at a time.
class PeerSocket {
 public:
  /// Empty: this network namespace has no such socket, the kernel does not say, or whoever has the
  /// socket is another user or has not promised to copy.
  static std::optional<PeerSocket> find(int fd, const Address& local, const Address& peer);

  /// Is there such a socket, of whatever user, that has promised to copy?
  static bool copies(int fd, const Address& local, const Address& peer);

  struct Unread {
    enum class Kind : std::uint8_t {
      Known,
      Gone,     ///< closed, and the kernel has let go of what was in it; or it only waits for the
                ///< end of a connection that was ended from here (TIME_WAIT)
      Unknown,  ///< the kernel does not say
    } kind = Kind::Unknown;
    std::size_t octets = 0;
  };
  /// How many octets wait there to be read, acknowledged or not. Never fewer than there are.
  Unread unread();

 private:
  struct Seen;
  struct Both;
  static std::optional<PeerSocket> look(int fd, const Address& local, const Address& peer,
                                        Both& seen);
  PeerSocket(Socket diag, const Address& local, const Address& peer);
  std::optional<Seen> ask(const Address& its, const Address& others, std::uint64_t cookie);

  Socket diag_;
  Address local_, peer_;
  std::uint32_t asked_ = 0;   ///< number of the last question
  std::uint64_t cookie_ = 0;  ///< of the peer's socket: the kernel gives each number once
};

/// Tells every PeerSocket that looks at this end: what arrives here is only ever copied out of the
/// socket (recv), never passed on as the pages that it lies in (splice, a BPF socket map). Who sent
/// it may then write to its memory again when it was read. A listener's holds for all whom it
/// accepts.
///
/// The promise is a pair of IP options that mean nothing to TCP and that sock_diag shows.
void promise_to_copy(int fd);

}  // namespace weft::transport
