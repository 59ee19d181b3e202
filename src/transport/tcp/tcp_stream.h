// One kernel TCP connection.
#pragma once

#include <memory>

#include "transport/tcp/splicer.h"
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
  bool peer_copies() override;
  bool can_splice() override;
  IOResult splice(std::span<const iovec> pieces) override;
  std::size_t held() override;
  void close_gracefully() override;
  void reset() override;
  std::size_t emss() override;
  int fd() const override { return socket_.fd(); }
  bool has_edges() const override { return true; }
  bool is_within_host() const override { return within_host_; }
  Address local() const override { return local_; }
  Address peer() const override { return peer_; }

 private:
  enum class Setup : std::uint8_t { Connecting, Established, Failed };

  IOResult judge_sending(long result);
  void count_received(std::size_t octets);
  void acknowledge();
  Result<void> judge_connecting();
  void set_late_options();
  Result<void> fail(int error);
  IOResult lose(int error);

  Socket socket_;
  const Origin origin_;
  Setup setup_;
  bool fin_sent_ = false;
  bool fin_received_ = false;
  bool within_host_ = false;
  bool promised_ = false;  ///< promise_to_copy
  /// In so many receives of nothing, 0: never, an acknowledgement is due for much that was read:
  /// nothing was sent since that carried it.
  std::uint8_t owes_ack_ = 0;
  std::size_t emss_at_first_ = 0;  ///< what the kernel said when it was asked about the handshake
  int lost_ = 0;                   ///< the errno that ended the connection
  std::uint64_t sent_ = 0, received_ = 0;  ///< octets
  std::uint64_t splice_from_;        ///< so much was sent when it is worth the question
  std::unique_ptr<Splicer> splicer_;
  Address local_, peer_;  ///< kept: the kernel forgets them with the connection
};

}  // namespace weft::transport
