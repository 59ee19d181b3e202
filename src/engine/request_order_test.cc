// Requests reach the program in the order in which they came, whatever the RNIC was doing then.
#include <atomic>

#include "engine/testing/raw_peer.h"
#include "engine/testing/side.h"
#include "engine/testing/stream.h"

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
class LateRequests {
 public:
  explicit LateRequests(std::vector<RawPeer>& peers) : peers_(peers) {}

  /// From now on the peers are this transport's to send with.
  void hand_over_peers() {
    handed_over_ = true;
    handed_over_.notify_all();
  }

 private:
  void send_all() {
    handed_over_.wait(false);
    for (std::uint8_t place = 0; place < peers_.size(); ++place) {
      EXPECT_TRUE(send_request(peers_[place], place));
    }
  }

  std::vector<RawPeer>& peers_;
  std::size_t accepted_ = 0;
  std::atomic<bool> handed_over_ = false;

 public:
  testing::WrappingTransport transport{[this](auto accepted) {
    if (++accepted_ == peers_.size()) send_all();
    return accepted;
  }};
};

using RequestOrderTest = PairTest;

TEST_P(RequestOrderTest, ARequestThatComesWhileALaterConnectionIsTakenStaysFirst) {
  constexpr std::size_t kPeers = 4;
  std::vector<RawPeer> peers(kPeers);
  LateRequests late(peers);
  server = std::make_unique<Side>(make_settings(), &late.transport);
  listen();
  for (RawPeer& peer : peers) EXPECT_TRUE(peer.connect(server_address));
  late.hand_over_peers();
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
