// Peers that mean no good: they take places, end at every point, and never read.
#include <vector>

#include "engine/testing/raw_peer.h"
#include "engine/testing/resources.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;
using testing::RawPeer;
using testing::Side;

class HostilePeerTest : public PairTest {
 protected:
  void SetUp() override {
    start();
    listen();
  }
  Settings make_settings() override {
    Settings settings = settings_for(GetParam());
    settings.close_timeout = std::chrono::milliseconds(500);
    return settings;
  }
  void expect_listener_works() {
    QPHandle client_qp = client->make_qp(1), server_qp = server->make_qp(2);
    establish(client_qp, server_qp);
  }
};

TEST_P(HostilePeerTest, RequestsBeyondTheBoundAreRejected) {
  constexpr std::size_t kBeyond = 5;
  std::vector<RawPeer> peers;
  std::vector<device::ConnectionNumber> requests;
  for (std::size_t i = 0; i < kWaitingMin + kBeyond; ++i) {
    RawPeer& peer = peers.emplace_back();
    ASSERT_TRUE(peer.connect(server_address));
    ASSERT_TRUE(peer.send(testing::plain_request()));
    if (i >= kWaitingMin) continue;
    const auto event = server->wait_event();
    ASSERT_TRUE(event.has_value());
    ASSERT_EQ(event->event.kind, ConnectionEventKind::Requested);
    requests.push_back(event->event.connection);
  }
  for (std::size_t i = kWaitingMin; i < peers.size(); ++i) {
    std::array<std::uint8_t, 64> reply;
    ssize_t n = -1;
    ASSERT_TRUE(server->wait_until([&] {
      server->progress();
      n = peers[i].receive(reply.data(), reply.size());
      return n >= 0;
    }));
    const auto frame = wire::parse_startup_frame({reply.data(), static_cast<std::size_t>(n)});
    const auto* rejected = std::get_if<wire::StartupFrame>(&frame);
    ASSERT_NE(rejected, nullptr);
    EXPECT_TRUE(rejected->rejected);
  }
  // Places come back, by the program's answer and by peers that leave.
  ASSERT_TRUE(server->rnic.reject(requests[0], {}).ok());
  peers[1].close();
  const auto left = server->wait_event();
  ASSERT_TRUE(left.has_value());
  EXPECT_EQ(left->event.kind, ConnectionEventKind::Failed);
  expect_listener_works();
}

TEST_P(HostilePeerTest, EndsAtEveryOctetOfTheRequest) {
  std::array<std::uint8_t, wire::kStartupFrameOctetsMax> octets;
  const std::size_t size = testing::plain_request().encode(octets);
  const int before = testing::count_descriptors();
  for (std::size_t cut = 0; cut < size; ++cut) {
    for (const bool reset : {false, true}) {
      server->progress();
      RawPeer peer;
      ASSERT_TRUE(peer.connect(server_address));
      ASSERT_EQ(::send(peer.fd(), octets.data(), cut, MSG_NOSIGNAL), static_cast<ssize_t>(cut));
      if (reset) peer.reset();
    }
  }
  EXPECT_TRUE(server->wait_until([&] {
    server->progress();
    return testing::count_descriptors() == before;
  }));
  expect_listener_works();
}

TEST_P(HostilePeerTest, ResetRightAfterTheRequest) {
  const int before = testing::count_descriptors();
  for (int i = 0; i < 50; ++i) {
    server->progress();
    RawPeer peer;
    ASSERT_TRUE(peer.connect(server_address));
    ASSERT_TRUE(peer.send(testing::plain_request()));
    peer.reset();
  }
  EXPECT_TRUE(server->wait_until([&] {
    server->progress();
    return testing::count_descriptors() == before;
  }));
  EXPECT_FALSE(testing::spins(*server));
}

TEST_P(HostilePeerTest, ManyPeersThatNeverReadLeaveOthersAlone) {
  std::vector<std::uint8_t> source(16 << 20);  // outlives whom it is registered with
  Settings settings = make_settings();
  settings.mpa_revision = 1;
  Side initiator(settings);
  RawPeer listener;
  const sockaddr_storage address = listener.listen();
  const auto stag = initiator.register_octets(source.data(), source.size(), 0);
  std::vector<RawPeer> peers;
  for (std::uint64_t i = 0; i < 40; ++i) {
    QPHandle qp = initiator.make_qp(i);
    ASSERT_TRUE(initiator.rnic
                    .connect(nullptr, reinterpret_cast<const sockaddr*>(&address),
                             {.qp = qp.face.number, .private_data = {}}, i)
                    .ok());
    RawPeer& peer = peers.emplace_back(listener.accept());
    ASSERT_TRUE(peer.send({.kind = wire::StartupKind::Reply, .crc = true, .private_data = {}}));
    const auto event = initiator.wait_event();
    ASSERT_TRUE(event.has_value());
    ASSERT_EQ(event->event.kind, ConnectionEventKind::Established);
    initiator.post_send(qp, {.opcode = device::SendOpcode::Write,
                             .wr_id = i,
                             .address = source.data(),
                             .octets = static_cast<std::uint32_t>(source.size()),
                             .stag = stag,
                             .remote_stag = 1});
  }
  EXPECT_FALSE(testing::spins(initiator));
  expect_listener_works();
  // One that reads after all gets everything.
  std::vector<std::uint8_t> scrap(1 << 20);
  std::size_t got = 0;
  EXPECT_TRUE(initiator.wait_until([&] {
    initiator.progress();
    const ssize_t n = peers[35].receive(scrap.data(), scrap.size());
    if (n > 0) got += static_cast<std::size_t>(n);
    return got > source.size();
  }));
}

INSTANTIATE_TEST_SUITE_P(Placements, HostilePeerTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
