// One kernel TCP connection.
#pragma once

#include "transport/tcp/socket.h"
#include "transport/transport.h"

namespace weft::transport {

/// Invariant: an error that the kernel reports once is kept here and reported for ever.
class TCPStream final : public Stream {
 public:
  enum class Origin : std::uint8_t { Connecting, ConnectingWithinHost, Accepted };
  TCPStream(Socket socket, Origin origin, const Address& local, const Address& peer);

  Result<void> connected() override;
  bool connects_at_once() const override { return origin_ == Origin::ConnectingWithinHost; }
  IOResult send(std::span<const iovec> pieces) override;
  IOResult receive(std::span<const iovec> pieces) override;
  void close_gracefully() override;
  void reset() override;
  std::size_t emss() override;
  int fd() const override { return socket_.fd(); }
  bool has_edges() const override { return true; }
  Address local() const override { return local_; }
  Address peer() const override { return peer_; }

 private:
  enum class Setup : std::uint8_t { Connecting, Established, Failed };

  Result<void> judge_connecting();
  Result<void> fail(int error);
  IOResult lose(int error);

  Socket socket_;
  const Origin origin_;
  Setup setup_;
  bool fin_sent_ = false;
  bool fin_received_ = false;
  int lost_ = 0;          ///< the errno that ended the connection
  Address local_, peer_;  ///< kept: the kernel forgets them with the connection
};

}  // namespace weft::transport
