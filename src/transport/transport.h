// A reliable stream of octets in each direction, and how to get one. Knows no iWARP.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "transport/address.h"

namespace weft::transport {

/// What one send or receive did.
struct IOResult {
  enum class Kind : std::uint8_t {
    Moved,       ///< `octets` > 0 moved
    WouldBlock,  ///< nothing now; readiness will tell. `error`, if any: why it could not be seen
    Closed,      ///< receive: the peer's FIN, nothing more will come
    Lost,        ///< reset, time-out or another end of the connection: `error` is the errno
    BadMemory,   ///< part of the caller's memory is not mapped (EFAULT); nothing moved
  } kind = Kind::WouldBlock;
  std::size_t octets = 0;
  int error = 0;
};

/// One connection. Non-blocking throughout.
///
/// Ends: Closed and Lost stay. What came before a reset can be received after send() said Lost.
/// After our own close_gracefully(), send() says Lost (EPIPE); after our own reset(), both say Lost
/// (ECONNABORTED). Moving nothing (no pieces, or only empty ones) is WouldBlock or the end's state.
///
/// Readiness: fd() becomes readable (level triggered) when receive() may make progress, and
/// writable when send() may; a transport without a kernel socket gives an eventfd that is readable
/// when either may, and always writable: so after readiness try both.
/// Destruction closes: gracefully if nothing unread is lost by it, else as the kernel does (reset).
/// Threads: one at a time (the engine's progress lock).
class Stream {
 public:
  virtual ~Stream() = default;

  /// Connecting finished? Empty result: established. EINPROGRESS: not yet (wait for writability).
  /// Any other error: it failed (ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH ...), for ever.
  virtual Result<void> connected() = 0;
  /// Was it, if it is ever, when it was made? Then waiting for writability is a detour.
  virtual bool connects_at_once() const { return false; }
  virtual IOResult send(std::span<const iovec> pieces) = 0;
  virtual IOResult receive(std::span<const iovec> pieces) = 0;
  /// Is the peer known to take whatever arrives out of its socket, at once: a stream of this
  /// transport's on this host? Asks the kernel (some 10 us).
  virtual bool peer_copies() { return false; }
  /// Would splice() save a copy? Asks the kernel, but rarely.
  virtual bool can_splice() { return false; }
  /// As send(), of octets that stay what they are until held() does not count them any more. What
  /// was not taken has to be offered again, before all else and by splice(): it may be under way.
  virtual IOResult splice(std::span<const iovec> pieces) { return send(pieces); }
  /// How many of the octets sent last, at most, may still be read from where they lie. Asks
  /// the kernel (some 3 us). Nothing tells when there are fewer: ask again.
  virtual std::size_t held() { return 0; }
  /// FIN after what send() took. receive() goes on.
  virtual void close_gracefully() = 0;
  /// RST (or its like), at once; both directions are dead.
  virtual void reset() = 0;
  /// Effective MSS now: peer's MSS less options, path MTU. At least 128.
  virtual std::size_t emss() = 0;
  /// -1 after reset() of a kernel socket, and for a simulation.
  virtual int fd() const = 0;
  /// Readiness can be watched by edges (EPOLLET), with EPOLLRDHUP for the FIN: whatever arrives
  /// after a receive that gave less than it was asked for, or said WouldBlock without an error,
  /// makes an edge.
  virtual bool has_edges() const { return false; }
  /// The peer is known to be on this host: what it sends is here when its call returns.
  virtual bool is_within_host() const { return false; }
  virtual Address local() const = 0;  ///< these two also after the end
  virtual Address peer() const = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  /// The next connection; EAGAIN when none waits; another error concerns that one connection only
  /// (ECONNABORTED) or the process (EMFILE): listening goes on.
  virtual Result<std::unique_ptr<Stream>> accept() = 0;
  virtual int fd() const = 0;
  virtual Address local() const = 0;
};

struct ListenOptions {
  int backlog = 128;
  bool v6_only = false;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// Begins to connect. `local`: source address and port, each may be unspecified (any).
  /// Errors at once: EADDRNOTAVAIL, EADDRINUSE, ENETUNREACH, EAFNOSUPPORT, EMFILE ... and, when it
  /// is known so soon, what connected() would say (ECONNREFUSED).
  virtual Result<std::unique_ptr<Stream>> connect(const Address& local, const Address& remote) = 0;
  /// EADDRINUSE when another owner (RDMA or plain TCP) has the port, EADDRNOTAVAIL, EACCES ...
  virtual Result<std::unique_ptr<Listener>> listen(const Address& local, const ListenOptions&) = 0;
};

}  // namespace weft::transport
