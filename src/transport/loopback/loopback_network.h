// A network in memory: for tests and for simulation.
#pragma once

#include <cstddef>
#include <memory>

#include "transport/transport.h"

namespace weft::transport {

struct LoopbackOptions {
  std::size_t buffer_octets = 64 * 1024;  ///< on the way in each direction, at least 1
  std::size_t emss = 1460;                ///< what emss() says, at least 128
  /// An eventfd for each end and listener. Without: fd() is -1, no system calls, as many
  /// connections as memory holds; the simulation calls and sees.
  bool readiness = true;
  /// Unmapped memory gives BadMemory at the price of a system call per piece; otherwise SIGSEGV.
  bool guard_memory = false;
};

/// A world of its own: every address is local to it, and connections meet only its own listeners.
///
/// Rules, the kernel's where it has any:
/// - connect() gives a stream at once; connected() then says established, before anybody
///   accepts, or ECONNREFUSED: no listener has the address, or its backlog is full.
/// - A listener on a host is preferred to one on "any"; an IPv6 "any" takes IPv4 unless v6_only
///   (the accepted stream's addresses stay IPv4).
/// - Port 0 is given a free port from 49152 on, in order, so runs repeat.
/// - What was sent before a reset can still be received, then receive() says Lost (ECONNRESET).
/// - Destroying a stream with octets unread, or a listener with connections waiting, resets the
///   other end. Sending to an end that is destroyed is Lost (EPIPE).
/// - After our own close_gracefully(), send() says Lost (EPIPE); after our own reset(), both
///   say Lost (ECONNABORTED).
/// - An eventfd is readable exactly while receive() (accept()) would not say WouldBlock, or while
///   send(), having said WouldBlock, would not say it again.
///
/// Streams and listeners may outlive the network. Threads: any; one lock for the whole network.
class LoopbackNetwork final : public Transport {
 public:
  explicit LoopbackNetwork(const LoopbackOptions& options = {});
  ~LoopbackNetwork() override;

  Result<std::unique_ptr<Stream>> connect(const Address& local, const Address& remote) override;
  Result<std::unique_ptr<Listener>> listen(const Address& local, const ListenOptions&) override;

 private:
  std::shared_ptr<class LoopbackCore> core_;
};

}  // namespace weft::transport
