// The kernel's TCP as a Transport.
#pragma once

#include <chrono>
#include <memory>

#include "transport/transport.h"

namespace weft::transport {

/// How long a peer that vanished without FIN or RST (power, cable) can stay unnoticed. On this very
/// host none can, and what connects within it asks for no sign of life.
///
/// connecting   kConnectTimeout, by TCP_USER_TIMEOUT, which is taken off again once established.
/// idle         kKeepaliveIdle + kKeepaliveCount * kKeepaliveInterval = 30 s.
/// sending      about 40 s where the kernel has TCP_RTO_MAX_MS (Linux 6.15) and the system's usual
///              tcp_retries2; the system's own bound (commonly 15 minutes) with older kernels.
///
/// An established connection has no TCP_USER_TIMEOUT: it would also end a connection whose peer is
/// alive and only keeps its window shut, which is what backpressure looks like from here.
inline constexpr std::chrono::seconds kConnectTimeout{30};
inline constexpr std::chrono::seconds kKeepaliveIdle{10};
inline constexpr std::chrono::seconds kKeepaliveInterval{4};
inline constexpr int kKeepaliveCount = 5;
inline constexpr std::chrono::milliseconds kRetransmitIntervalMax{3000};

/// Sockets are non-blocking and close-on-exec, with TCP_NODELAY, and made by raw system calls.
/// A listener has SO_REUSEADDR: its port is free again as soon as nobody listens on it. A
/// connection has it only when it was given a source port.
///
/// Beyond what transport.h says:
/// - what was received before a reset can still be read, then receive() says Lost;
/// - Lost and Closed stay: the same call says so again;
/// - after our own close_gracefully(), send() says Lost (EPIPE) and receive() goes on;
/// - after our own reset(), fd() is -1 and both say Lost (ECONNABORTED);
/// - one call moves at most 1024 pieces, and no pieces or only empty ones are WouldBlock;
/// - with part of the memory unmapped, what lies before may be Moved: the next call says BadMemory;
/// - connect() may already report what usually connected() does (ECONNREFUSED);
/// - a connection that met itself (source and destination port alike, nobody listening) is
///   ECONNREFUSED.
///
/// Holds nothing; may be destroyed before what it made. Threads: any.
class TCPTransport final : public Transport {
 public:
  Result<std::unique_ptr<Stream>> connect(const Address& local, const Address& remote) override;
  Result<std::unique_ptr<Listener>> listen(const Address& local, const ListenOptions&) override;
};

}  // namespace weft::transport
