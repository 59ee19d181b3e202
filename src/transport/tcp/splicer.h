// Octets that leave as the pages they lie in: within a host TCP needs no copy of them.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>

#include "transport/tcp/peer_socket.h"

namespace weft::transport {

/// Sends by vmsplice(2) and splice(2): the socket gets references to the caller's pages, over
/// loopback the receiver's socket gets the same, and only its recv copies. So the pages may be
/// written to again when the peer has read them, which PeerSocket tells.
///
/// Threads: one at a time.
class Splicer {
 public:
  /// Null: not to this peer, or not in this process just now.
  static std::unique_ptr<Splicer> open(int fd, const Address& local, const Address& peer);
  ~Splicer();
  Splicer(const Splicer&) = delete;
  Splicer& operator=(const Splicer&) = delete;

  /// Octets of `pieces` that the socket took, or minus the errno. What it did not take has to be
  /// offered again, before anything else is sent: some of it is under way.
  long send(int fd, std::span<const iovec> pieces);
  /// Is something of what was offered under way, and not taken yet?
  bool under_way() const { return piped_ != 0; }
  /// Octets sent last that the peer may not have read yet. `fin_sent`: behind them.
  std::size_t held(int fd, bool fin_sent);

 private:
  Splicer(Socket from, Socket to, PeerSocket peer);

  Socket from_, to_;  ///< the ends of a pipe
  PeerSocket peer_;
  std::size_t piped_ = 0;  ///< octets in it
};

}  // namespace weft::transport
