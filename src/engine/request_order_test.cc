// Requests reach the program in the order in which they came, whatever the RNIC was doing then.
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <array>
#include <atomic>
#include <new>
#include <string>

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

class AtOnceTest : public PairTest {
 protected:
  Settings make_settings() override { return settings_for(Placement::Inline); }
};

TEST_F(AtOnceTest, WithinAHostTheRequestLeavesWithTheCall) {
  Side side(make_settings());
  RawPeer listener;
  const sockaddr_storage address = listener.listen();
  const testing::QPHandle qp = side.make_qp();
  ASSERT_TRUE(side.rnic
                  .connect(nullptr, reinterpret_cast<const sockaddr*>(&address),
                           {.qp = qp.face.number, .private_data = {}}, 1)
                  .ok());
  // Nobody runs the protocol but that call.
  RawPeer peer = listener.accept();
  pollfd arrived = {peer.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&arrived, 1, 10'000), 1);
  std::array<std::uint8_t, wire::kStartupFrameOctetsMax> octets{};
  const ssize_t n = peer.receive(octets.data(), octets.size());
  ASSERT_GE(n, static_cast<ssize_t>(wire::kStartupHeaderOctets));
  EXPECT_EQ(std::string(octets.begin(), octets.begin() + 16), "MPA ID Req Frame");
}

TEST_F(AtOnceTest, ALoneRequestIsReadAsItIsAccepted) {
  server = std::make_unique<Side>(make_settings());
  listen();
  RawPeer peer;
  ASSERT_TRUE(peer.connect(server_address));
  ASSERT_TRUE(send_request(peer, 7));
  // Until the kernel has acknowledged it: it lies at the other end, accepted or not.
  ASSERT_TRUE(server->wait_until([&] {
    int unsent = -1;
    return ::ioctl(peer.fd(), SIOCOUTQ, &unsent) == 0 && unsent == 0;
  }));
  server->progress();
  const auto event = server->take_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, device::ConnectionEventKind::Requested);
}

TEST_F(AtOnceTest, WhatCannotBeReportedForLackOfMemoryIsClosed) {
  server = std::make_unique<Side>(make_settings());
  listen();
  RawPeer peer, next;
  ASSERT_TRUE(peer.connect(server_address));
  ASSERT_TRUE(send_request(peer, 7));
  server->on_connection_event = [] { throw std::bad_alloc(); };
  pollfd end = {peer.fd(), POLLIN, 0};
  EXPECT_TRUE(server->wait_until([&] {
    server->progress();
    return ::poll(&end, 1, 0) == 1;
  }));
  std::uint8_t octet;
  EXPECT_LE(peer.receive(&octet, 1), 0);
  server->on_connection_event = nullptr;
  while (server->take_event()) {
  }
  ASSERT_TRUE(next.connect(server_address));
  ASSERT_TRUE(send_request(next, 8));
  const auto event = server->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->private_data, std::vector<std::uint8_t>{8});
}

INSTANTIATE_TEST_SUITE_P(Placements, RequestOrderTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
