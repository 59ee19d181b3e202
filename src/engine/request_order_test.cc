// Requests reach the program in the order in which they came, whatever the RNIC was doing then.
#include <atomic>

#include "engine/testing/raw_peer.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using testing::PairTest;
using testing::RawPeer;
using testing::Side;

/// A request whose private data is its place in the order of sending.
bool send_request(RawPeer& peer, const std::uint8_t& place) {
  wire::StartupFrame request = testing::plain_request();
  request.private_data = Octets(&place, 1);
  return peer.send(request);
}

/// TCP whose listener lets the peers send at the worst moment: when the last of them is taken from
/// the backlog, and the RNIC has found nothing to read at those before it.
class LateRequests final : public transport::Transport {
 public:
  explicit LateRequests(std::vector<RawPeer>& peers) : peers_(peers) {}

  /// From now on the peers are this transport's to send with.
  void hand_over_peers() {
    handed_over_ = true;
    handed_over_.notify_all();
  }

  Result<std::unique_ptr<transport::Stream>> connect(const transport::Address& local,
                                                     const transport::Address& remote) override {
    return tcp_.connect(local, remote);
  }
  Result<std::unique_ptr<transport::Listener>> listen(
      const transport::Address& local, const transport::ListenOptions& options) override {
    auto listener = tcp_.listen(local, options);
    if (!listener) return listener.error();
    return std::unique_ptr<transport::Listener>(new Acceptor(*this, std::move(*listener)));
  }

 private:
  class Acceptor final : public transport::Listener {
   public:
    Acceptor(LateRequests& owner, std::unique_ptr<transport::Listener> listener)
        : owner_(owner), listener_(std::move(listener)) {}
    Result<std::unique_ptr<transport::Stream>> accept() override {
      auto stream = listener_->accept();
      if (stream && ++owner_.accepted_ == owner_.peers_.size()) owner_.send_all();
      return stream;
    }
    int fd() const override { return listener_->fd(); }
    transport::Address local() const override { return listener_->local(); }

   private:
    LateRequests& owner_;
    const std::unique_ptr<transport::Listener> listener_;
  };

  void send_all() {
    handed_over_.wait(false);
    for (std::uint8_t place = 0; place < peers_.size(); ++place) {
      EXPECT_TRUE(send_request(peers_[place], place));
    }
  }

  transport::TCPTransport tcp_;
  std::vector<RawPeer>& peers_;
  std::size_t accepted_ = 0;
  std::atomic<bool> handed_over_ = false;
};

using RequestOrderTest = PairTest;

TEST_P(RequestOrderTest, ARequestThatComesWhileALaterConnectionIsTakenStaysFirst) {
  constexpr std::size_t kPeers = 4;
  std::vector<RawPeer> peers(kPeers);
  LateRequests transport(peers);
  server = std::make_unique<Side>(make_settings(), &transport);
  listen();
  for (RawPeer& peer : peers) EXPECT_TRUE(peer.connect(server_address));
  transport.hand_over_peers();
  for (std::uint8_t place = 0; place < kPeers; ++place) {
    const auto event = server->wait_event();
    ASSERT_TRUE(event.has_value());
    ASSERT_EQ(event->event.kind, device::ConnectionEventKind::Requested);
    EXPECT_EQ(event->private_data, std::vector<std::uint8_t>{place});
  }
  server.reset();  // before its transport
}

INSTANTIATE_TEST_SUITE_P(Placements, RequestOrderTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
