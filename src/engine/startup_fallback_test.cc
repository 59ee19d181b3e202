// An initiator that offers revision 2 meets peers that know only revision 1, or nothing.
#include <poll.h>

#include <chrono>

#include "engine/testing/raw_peer.h"
#include "engine/testing/resources.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;
using testing::RawPeer;
using testing::SeenEvent;

/// The startup frame that a peer was sent, with its private data.
struct SeenFrame {
  wire::StartupFrame frame;
  std::vector<std::uint8_t> private_data;
};

class StartupFallbackTest : public PairTest {
 protected:
  void SetUp() override {
    start();
    address = listener.listen();
    qp = client->make_qp(1);
    descriptors_before = testing::count_descriptors();
  }
  void begin() {
    const std::uint8_t hello[] = {'h', 'i'};
    started = std::chrono::steady_clock::now();
    const auto connection =
        client->rnic.connect(nullptr, reinterpret_cast<const sockaddr*>(&address),
                             {.qp = qp.face.number, .ird = 4, .ord = 4, .private_data = hello}, 11);
    ASSERT_TRUE(connection.ok()) << connection.error().text;
  }
  bool connection_waits() {
    pollfd watched = {listener.fd(), POLLIN, 0};
    return ::poll(&watched, 1, 0) == 1;
  }
  RawPeer accept() {
    EXPECT_TRUE(client->wait_until([&] {
      client->progress();
      return connection_waits();
    }));
    return connection_waits() ? listener.accept() : RawPeer(-1);
  }
  /// The whole Request.
  std::optional<SeenFrame> read_request(RawPeer& peer) {
    std::vector<std::uint8_t> octets;
    std::optional<SeenFrame> seen;
    client->wait_until([&] {
      client->progress();
      std::uint8_t octet;
      while (!seen && peer.receive(&octet, 1) == 1) {
        octets.push_back(octet);
        const auto parsed = wire::parse_startup_frame(octets);
        if (const auto* frame = std::get_if<wire::StartupFrame>(&parsed)) {
          seen = {*frame, {frame->private_data.begin(), frame->private_data.end()}};
        }
      }
      return seen.has_value();
    });
    return seen;
  }
  /// Reads a Request of this revision and checks that the program's words are in it.
  void expect_request(RawPeer& peer, std::uint8_t revision) {
    const auto request = read_request(peer);
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->frame.kind, wire::StartupKind::Request);
    EXPECT_EQ(request->frame.revision, revision);
    EXPECT_EQ(request->frame.enhanced.has_value(), revision == 2);
    EXPECT_EQ(request->private_data, (std::vector<std::uint8_t>{'h', 'i'}));
  }
  /// The peer of old: it finds the frame malformed and hangs up.
  void refuse(std::uint8_t revision, bool by_reset) {
    RawPeer peer = accept();
    ASSERT_NO_FATAL_FAILURE(expect_request(peer, revision));
    if (by_reset) peer.reset();
  }
  std::optional<SeenEvent> expect_event(ConnectionEventKind kind, int error) {
    auto event = client->wait_event();
    EXPECT_TRUE(event.has_value());
    if (!event) return event;
    EXPECT_EQ(event->event.kind, kind) << event->event.text;
    EXPECT_EQ(event->event.error, error) << event->event.text;
    EXPECT_EQ(event->event.cookie, 11u);
    return event;
  }
  /// Failed, soon enough, with a sentence; nothing is left of it and the QP may be used again.
  void expect_clear_failure(int error) {
    const auto event = expect_event(ConnectionEventKind::Failed, error);
    ASSERT_TRUE(event.has_value());
    EXPECT_NE(event->event.text[0], '\0');
    EXPECT_LT(std::chrono::steady_clock::now() - started, make_settings().startup_timeout);
    EXPECT_TRUE(client->wait_until([&] {
      client->progress();
      return testing::count_descriptors() == descriptors_before;
    }));
    EXPECT_FALSE(connection_waits()) << "came once more";
    const auto status = client->rnic.query_qp(qp.face.number);
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status->state, device::QPState::Idle);
  }
  /// The first FPDU that arrives is a Send with these octets.
  void expect_send(RawPeer& peer, const std::vector<std::uint8_t>& want) {
    constexpr std::size_t kBeforePayload = 2 + 18;  // ULPDU_Length, untagged header
    std::vector<std::uint8_t> octets;
    EXPECT_TRUE(client->wait_until([&] {
      client->progress();
      std::uint8_t octet;
      while (peer.receive(&octet, 1) == 1) octets.push_back(octet);
      return octets.size() >= kBeforePayload + want.size();
    }));
    ASSERT_GE(octets.size(), kBeforePayload + want.size());
    EXPECT_EQ(octets[3] & 0x0f, 0x3) << "RDMAP opcode Send";
    EXPECT_TRUE(std::equal(want.begin(), want.end(), octets.begin() + kBeforePayload));
  }

  RawPeer listener;
  sockaddr_storage address = {};
  QPHandle qp;
  int descriptors_before = 0;
  std::chrono::steady_clock::time_point started;
};

//= ENH-01 ENH-02 ENH-18
TEST_P(StartupFallbackTest, APeerThatClosesOnRevision2IsMetAgainWithRevision1) {
  for (const bool by_reset : {false, true}) {
    SCOPED_TRACE(by_reset ? "RST" : "FIN");
    if (by_reset) qp = client->make_qp(2);
    ASSERT_NO_FATAL_FAILURE(begin());
    ASSERT_NO_FATAL_FAILURE(refuse(2, by_reset));
    RawPeer peer = accept();
    ASSERT_NO_FATAL_FAILURE(expect_request(peer, 1));
    const std::uint8_t answer[] = {'y', 'o'};
    ASSERT_TRUE(peer.send({.kind = wire::StartupKind::Reply, .crc = true, .private_data = answer}));
    const auto established = expect_event(ConnectionEventKind::Established, 0);
    ASSERT_TRUE(established.has_value());
    EXPECT_EQ(established->private_data, (std::vector<std::uint8_t>{'y', 'o'}));
    EXPECT_FALSE(established->event.has_depths);

    // Full operation: without a ready-to-receive message, which revision 1 does not know.
    std::vector<std::uint8_t> words = {1, 2, 3, 4, 5, 6, 7, 8};
    const auto stag = client->register_octets(words.data(), words.size(), 0);
    client->post_send(qp, {.wr_id = 1, .address = words.data(), .octets = 8, .stag = stag});
    const auto sent = client->wait_completion();
    ASSERT_TRUE(sent.has_value());
    EXPECT_EQ(sent->status, device::CompletionStatus::Success);
    expect_send(peer, words);
    peer.close();
    expect_event(ConnectionEventKind::Disconnected, 0);
  }
}

//= ENH-18
TEST_P(StartupFallbackTest, APeerThatClosesBothTimesIsNotAskedAThirdTime) {
  for (const bool by_reset : {false, true}) {
    SCOPED_TRACE(by_reset ? "RST" : "FIN");
    ASSERT_NO_FATAL_FAILURE(begin());
    ASSERT_NO_FATAL_FAILURE(refuse(2, by_reset));
    ASSERT_NO_FATAL_FAILURE(refuse(1, by_reset));
    expect_clear_failure(ECONNRESET);
  }
}

//= ENH-18
TEST_P(StartupFallbackTest, APeerThatIsGoneAtTheSecondTimeIsAClearFailure) {
  ASSERT_NO_FATAL_FAILURE(begin());
  RawPeer peer = accept();
  ASSERT_NO_FATAL_FAILURE(expect_request(peer, 2));
  listener.close();
  --descriptors_before;
  peer.close();
  const auto event = expect_event(ConnectionEventKind::Failed, ECONNREFUSED);
  ASSERT_TRUE(event.has_value());
  EXPECT_LT(std::chrono::steady_clock::now() - started, make_settings().startup_timeout);
}

// A responder that began to answer has read the Request: closing then is no word about revisions.
//= ENH-18
TEST_P(StartupFallbackTest, APeerThatClosesWithinItsReplyIsNotAskedAgain) {
  ASSERT_NO_FATAL_FAILURE(begin());
  {
    RawPeer peer = accept();
    ASSERT_NO_FATAL_FAILURE(expect_request(peer, 2));
    ASSERT_EQ(::send(peer.fd(), "MPA", 3, MSG_NOSIGNAL), 3);
  }
  expect_clear_failure(ECONNRESET);
}

// An enhanced Request has to be answered in its own format or by closing; a plain Reply leaves open
// which depths hold and whether a ready-to-receive message is waited for.
//= ENH-18
TEST_P(StartupFallbackTest, APlainReplyToAnEnhancedRequestIsAnError) {
  for (const std::uint8_t revision : {std::uint8_t{1}, std::uint8_t{2}}) {
    SCOPED_TRACE(int{revision});
    ASSERT_NO_FATAL_FAILURE(begin());
    RawPeer peer = accept();
    ASSERT_NO_FATAL_FAILURE(expect_request(peer, 2));
    ASSERT_TRUE(peer.send(
        {.kind = wire::StartupKind::Reply, .crc = true, .revision = revision, .private_data = {}}));
    const auto event = expect_event(ConnectionEventKind::Failed, EPROTO);
    ASSERT_TRUE(event.has_value());
    EXPECT_NE(event->event.text[0], '\0');
    // It hears of it, and no second connection comes.
    std::uint8_t octet;
    ssize_t n = 1;
    EXPECT_TRUE(client->wait_until([&] {
      client->progress();
      n = peer.receive(&octet, 1);
      return n >= 0 || errno != EAGAIN;
    }));
    EXPECT_LE(n, 0);
    EXPECT_FALSE(connection_waits());
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, StartupFallbackTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
