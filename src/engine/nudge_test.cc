// A responder that says nothing after its Reply, as Linux siw when it missed the first FPDU, and
// what it is sent then (docs/adr/0005-a-silent-responder-is-nudged.md).
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "engine/testing/raw_peer.h"
#include "engine/testing/side.h"
#include "transport/tcp/peer_socket.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;
using testing::RawPeer;
using testing::Side;

using Bytes = std::vector<std::uint8_t>;

/// ULPDU_Length 14; tagged and last, an RDMA Write; STag 1, offset 0; the CRC field is 0.
const Bytes kNudge = {0, 14, 0xc1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
/// A Send of nothing, MSN 1.
const Bytes kSend = {0, 18, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
constexpr int kNudges = 5;

class NudgeTest : public PairTest {
 protected:
  void SetUp() override {
    start();
    const sockaddr_storage address = listener.listen();
    prepare_listener();
    qp = client->make_qp(1);
    ASSERT_TRUE(client->rnic
                    .connect(nullptr, reinterpret_cast<const sockaddr*>(&address),
                             {.qp = qp.face.number, .ird = 4, .ord = 4, .private_data = {}}, 11)
                    .ok());
    peer.emplace(listener.accept());
    ASSERT_TRUE(client->wait_until([&] {
      client->progress();
      std::uint8_t request[128];
      return peer->receive(request, sizeof request) > 0;
    }));
    // No peer-to-peer: the first FPDU is the program's.
    replied_ = std::chrono::steady_clock::now();
    ASSERT_TRUE(peer->send({.kind = wire::StartupKind::Reply, .private_data = {}}));
    const auto event = client->wait_event();
    ASSERT_TRUE(event.has_value());
    ASSERT_EQ(event->event.kind, ConnectionEventKind::Established) << event->event.text;
  }
  virtual void prepare_listener() {}
  Settings make_settings() override {
    Settings settings = settings_for(GetParam());
    settings.mpa_revision = 1;
    settings.crc = false;
    return settings;
  }
  void send_first() {
    client->post_send(qp, {.opcode = device::SendOpcode::Send, .wr_id = 5});
    expect(kSend);
  }
  /// The next octets that come are these.
  void expect(const Bytes& want) {
    Bytes got(want.size());
    std::size_t n = 0;
    EXPECT_TRUE(client->wait_until([&] {
      client->progress();
      const ssize_t more = peer->receive(got.data() + n, got.size() - n);
      if (more > 0) n += static_cast<std::size_t>(more);
      return n == got.size();
    }));
    EXPECT_EQ(got, want);
  }
  bool nothing_comes(Side& side, RawPeer& from) {
    // Long enough for two nudges or more.
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
    std::uint8_t octet;
    while (std::chrono::steady_clock::now() < end) {
      side.progress();
      if (from.receive(&octet, 1) == 1) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  /// Of the nudges: they had their time, perhaps, before anything was sent. (The machine is busy.)
  int past() const {
    const auto since = std::chrono::steady_clock::now() - replied_;
    int count = 0;
    std::chrono::milliseconds pause(5), due = pause;
    for (; count < kNudges && due <= since; ++count) due += pause *= 4;
    return count;
  }

  std::chrono::steady_clock::time_point replied_;
  RawPeer listener;
  QPHandle qp;
  std::optional<RawPeer> peer;
};

TEST_P(NudgeTest, ASilentResponderGetsAFew) {
  ASSERT_NO_FATAL_FAILURE(send_first());
  for (int i = past(); i < kNudges; ++i) expect(kNudge);
  // The Send completed as ever, and the nudges completed nothing.
  const auto completion = client->wait_completion();
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->wr_id, 5u);
  EXPECT_TRUE(client->cq.completions.empty());
}

TEST_P(NudgeTest, OneThatAnsweredGetsNoMore) {
  client->post_receive(qp, 6, nullptr, 0, 0);
  client->post_send(qp, {.opcode = device::SendOpcode::Send, .wr_id = 5});
  ASSERT_EQ(::send(peer->fd(), kSend.data(), kSend.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(kSend.size()));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(client->wait_completion().has_value());
  // On a busy machine the answer may have come later than a nudge was due.
  std::uint8_t scrap[256];
  while (peer->receive(scrap, sizeof scrap) > 0) {
  }
  EXPECT_TRUE(nothing_comes(*client, *peer));
}

TEST_P(NudgeTest, NoneBeforeTheProgramSends) {
  EXPECT_TRUE(nothing_comes(*client, *peer));
  ASSERT_NO_FATAL_FAILURE(send_first());
  expect(kNudge);
}

TEST_P(NudgeTest, AResponderNudgesNobody) {
  listen();
  RawPeer initiator;
  ASSERT_TRUE(initiator.connect(server_address));
  ASSERT_TRUE(initiator.send(testing::plain_request()));
  const auto requested = server->wait_event();
  ASSERT_TRUE(requested.has_value());
  QPHandle server_qp = server->make_qp(2);
  ASSERT_TRUE(server->rnic
                  .accept(requested->event.connection,
                          {.qp = server_qp.face.number, .private_data = {}}, 22)
                  .ok());
  const auto established = server->wait_event();
  ASSERT_TRUE(established.has_value());
  ASSERT_EQ(established->event.kind, ConnectionEventKind::Established);
  constexpr ssize_t kReplyOctets = 20;
  std::uint8_t reply[64];
  ASSERT_TRUE(server->wait_until([&] {
    server->progress();
    return initiator.receive(reply, sizeof reply) == kReplyOctets;
  }));
  EXPECT_TRUE(nothing_comes(*server, initiator));
}

/// As a weft's: whatever comes is read.
class NudgeOfReaderTest : public NudgeTest {
 protected:
  void prepare_listener() override { transport::promise_to_copy(listener.fd()); }
};

TEST_P(NudgeOfReaderTest, OneThatIsKnownToReadGetsNone) {
  ASSERT_NO_FATAL_FAILURE(send_first());
  EXPECT_TRUE(nothing_comes(*client, *peer));
}

INSTANTIATE_TEST_SUITE_P(Placements, NudgeOfReaderTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });
INSTANTIATE_TEST_SUITE_P(Placements, NudgeTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
