// Who is told of the end of a connection, and when: not before what came over it was read.
#include "engine/late_ends.h"

#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;

constexpr Instant kStart{1'000'000'000};
constexpr Duration kPatience = std::chrono::milliseconds(50);

class LateEndsTest : public ::testing::Test {
 protected:
  void add(device::ConnectionNumber connection, std::uint32_t sends, std::uint32_t receives,
           Instant now = kStart) {
    late.add(
        {.kind = ConnectionEventKind::Disconnected, .connection = connection, .private_data = {}},
        {1, sends}, {2, receives}, now);
  }
  /// Who is told, when so many completions were read.
  std::vector<device::ConnectionNumber> told(std::uint32_t sends, std::uint32_t receives,
                                             Instant now = kStart) {
    std::vector<device::ConnectionNumber> connections;
    late.serve(
        now,
        [&](const LateEnds::Mark& mark) {
          return mark.produced <= (mark.cq == 1 ? sends : receives);
        },
        [&](const device::ConnectionEvent& end) { connections.push_back(end.connection); });
    return connections;
  }
  using Numbers = std::vector<device::ConnectionNumber>;

  LateEnds late;
};

TEST_F(LateEndsTest, AnEndWaitsForBothItsQueues) {
  add(7, 10, 20);
  EXPECT_EQ(told(9, 19), Numbers{});
  EXPECT_EQ(told(10, 19), Numbers{});
  EXPECT_EQ(told(9, 20), Numbers{});
  EXPECT_EQ(told(10, 20), Numbers{7});
  EXPECT_TRUE(late.empty()) << "once";
}

TEST_F(LateEndsTest, EachWaitsForItsOwnAndNotForEver) {
  const Instant later = kStart + std::chrono::milliseconds(10);
  add(7, 10, 10);
  add(8, 11, 11, later);
  EXPECT_EQ(late.deadline(), kStart + kPatience);
  EXPECT_EQ(told(0, 0, kStart + kPatience), Numbers{7});
  EXPECT_EQ(late.deadline(), later + kPatience);
  EXPECT_EQ(told(10, 10, later), Numbers{});
  EXPECT_EQ(told(11, 11, later), Numbers{8});
  EXPECT_EQ(late.deadline(), std::nullopt);
}

TEST_F(LateEndsTest, TheProgramMayHurryOrForget) {
  for (device::ConnectionNumber connection : {7, 8, 9}) add(connection, 10, 10);
  late.hurry(8);
  late.forget(9);
  EXPECT_EQ(told(0, 0), Numbers{8});
  EXPECT_EQ(told(10, 10), Numbers{7});
}

class EndOfConnectionTest : public PairTest {
 protected:
  void SetUp() override {
    start();
    listen();
    client_qp = client->make_qp(1);
    server_qp = server->make_qp(2);
    establish(client_qp, server_qp);
  }
  Settings make_settings() override { return settings_for(GetParam()); }
  /// A message, and the end right behind it: both are at the server, unread.
  void send_and_leave() {
    server->post_receive(server_qp, 5, nullptr, 0, 0);
    begin = std::chrono::steady_clock::now();
    client->post_send(client_qp, {.wr_id = 1});
    ASSERT_TRUE(client->wait_completion().has_value());
    ASSERT_TRUE(client->rnic.disconnect(client_connection).ok());
    ASSERT_TRUE(server->wait_until([&] {
      server->progress();
      return !server->cq.completions.empty();
    }));
  }
  void expect_disconnected() {
    const auto event = server->wait_event();
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
  }

  QPHandle client_qp, server_qp;
  std::chrono::steady_clock::time_point begin;
};

TEST_P(EndOfConnectionTest, IsToldAfterTheLastMessageWasRead) {
  send_and_leave();
  if (server->take_event()) {
    // Whoever ran this test let so much time pass.
    EXPECT_GE(std::chrono::steady_clock::now() - begin, kPatience);
    return;
  }
  const auto last = server->wait_completion();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->wr_id, 5u);
  expect_disconnected();
}

TEST_P(EndOfConnectionTest, IsToldToWhoDoesNotRead) {
  send_and_leave();
  expect_disconnected();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kPatience);
  EXPECT_FALSE(server->cq.completions.empty()) << "the message is still to be read";
}

TEST_P(EndOfConnectionTest, IsToldWhenTheProgramEndsItToo) {
  send_and_leave();
  static_cast<void>(server->rnic.disconnect(server_connection));  // ENOTCONN once the end is seen
  expect_disconnected();
}

INSTANTIATE_TEST_SUITE_P(Placements, EndOfConnectionTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
