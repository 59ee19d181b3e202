// CQ moderation in a running RNIC: who keeps the time, and what does not wait for it.
#include <poll.h>

#include <chrono>

#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using testing::PairTest;
using testing::QPHandle;

constexpr std::uint16_t kCountNeverReached = 200;
constexpr std::uint16_t kLongestUs = 65535;

class ModerationTest : public PairTest {
 protected:
  void SetUp() override {
    start();
    listen();
    client_qp = client->make_qp(1);
    server_qp = server->make_qp(2);
    ASSERT_NO_FATAL_FAILURE(establish(client_qp, server_qp));
    for (std::uint64_t i = 0; i < 32; ++i) server->post_receive(server_qp, i, nullptr, 0, 0);
  }
  void TearDown() override {
    client.reset();  // its thread knows the memory below
    server.reset();
  }
  void moderate(std::uint16_t count, std::uint16_t period_us) {
    ASSERT_TRUE(server->rnic.moderate_cq(server->cq.number, {count, period_us}).ok());
  }
  void arm() { ASSERT_TRUE(server->rnic.arm_cq(server->cq.number, false).ok()); }
  /// So many completions come to the server and stay unread.
  void bring(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) client->post_send(client_qp, {.wr_id = i});
    brought_ += count;
    EXPECT_TRUE(server->wait_until([&] {
      server->progress();
      return server->cq.completions.produced_seen() >= brought_;
    }));
  }
  void expect_events(int count) {
    EXPECT_TRUE(server->wait_until([&] {
      server->progress();
      return server->count_cq_events() >= count;
    }));
    EXPECT_EQ(server->count_cq_events(), count);
  }

  QPHandle client_qp, server_qp;
  std::uint64_t memory = 0;

 private:
  std::uint32_t brought_ = 0;
};

TEST_P(ModerationTest, ManyCompletionsGiveOneEvent) {
  moderate(8, 0);
  arm();
  bring(7);
  EXPECT_EQ(server->count_cq_events(), 0);
  bring(1);
  expect_events(1);
  bring(4);
  expect_events(1);
}

/// Nobody calls in: what wakes is the progress thread's wait, or the descriptor that a program with
/// an inline engine polls by itself.
TEST_P(ModerationTest, ThePeriodGivesTheEventWhenTheCountIsNotReached) {
  moderate(kCountNeverReached, kLongestUs);
  arm();
  for (int round = 1; round <= 3; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    bring(2);
    EXPECT_TRUE(server->wait_until([&] {
      if (server->count_cq_events() >= round) return true;
      pollfd progress = {server->rnic.progress_fd(), POLLIN, 0};
      if (progress.fd < 0) return false;
      EXPECT_EQ(::poll(&progress, 1, 20'000), 1) << "the end of a hold does not show";
      server->progress();
      return false;
    }));
    EXPECT_EQ(server->count_cq_events(), round);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(60));
    while (!server->cq.completions.empty()) ASSERT_TRUE(server->wait_completion().has_value());
    arm();
  }
}

TEST_P(ModerationTest, AHoldThatEndsEarlierDoesNotMakeALaterOneForgotten) {
  const device::CQFace other = *server->rnic.create_cq(16, 8);
  QPHandle other_client = client->make_qp(3);
  QPHandle other_server = {*server->rnic.create_qp({.pd = server->pd,
                                                    .send_cq = other.number,
                                                    .receive_cq = other.number,
                                                    .send_depth = 4,
                                                    .receive_depth = 4,
                                                    .cookie = 4})};
  ASSERT_NO_FATAL_FAILURE(establish(other_client, other_server));
  server->post_receive(other_server, 1, nullptr, 0, 0);
  ASSERT_TRUE(server->rnic.moderate_cq(other.number, {0, 1000}).ok());
  ASSERT_TRUE(server->rnic.arm_cq(other.number, false).ok());
  moderate(0, kLongestUs);
  arm();
  bring(1);
  client->post_send(other_client, {.wr_id = 1});
  expect_events(2);
  // And one whose CQ is gone before its end.
  bring(1);
  ASSERT_TRUE(server->rnic.destroy_qp(other_server.face.number).ok());
  ASSERT_TRUE(server->rnic.arm_cq(other.number, false).ok());
  ASSERT_TRUE(server->rnic.destroy_cq(other.number).ok());
  arm();
  expect_events(3);
}

TEST_P(ModerationTest, ChangingItGivesTheHeldEvent) {
  moderate(kCountNeverReached, 0);
  arm();
  bring(1);
  EXPECT_EQ(server->count_cq_events(), 0);
  moderate(kCountNeverReached, kLongestUs);
  expect_events(1);
  moderate(kCountNeverReached, 0);
  arm();  // what is unread has had its event
  bring(1);
  EXPECT_EQ(server->count_cq_events(), 1);
  moderate(0, 0);
  expect_events(2);
  arm();
  bring(1);
  expect_events(3);
}

TEST_P(ModerationTest, FlushedReceivesDoNotWait) {
  moderate(kCountNeverReached, 0);
  arm();
  bring(1);
  EXPECT_EQ(server->count_cq_events(), 0);
  EXPECT_TRUE(server->rnic.command_qp(server_qp.face.number, device::QPCommand::Fail).ok());
  expect_events(1);
}

TEST_P(ModerationTest, AFlagThatAPeerWritesDoesNotWait) {
  const auto target =
      server->register_octets(&memory, sizeof memory, device::kLocalWrite | device::kRemoteWrite);
  const std::uint64_t flag = 1;
  const auto source = client->register_octets(const_cast<std::uint64_t*>(&flag), sizeof flag, 0);
  moderate(kCountNeverReached, 0);
  arm();
  client->post_send(client_qp, {.opcode = device::SendOpcode::Write,
                                .address = &flag,
                                .octets = sizeof flag,
                                .stag = source,
                                .remote_stag = target,
                                .remote_to = reinterpret_cast<std::uintptr_t>(&memory)});
  expect_events(1);
  ASSERT_TRUE(client->wait_completion().has_value());
}

TEST_P(ModerationTest, ResizingToAFullRingGivesTheHeldEvent) {
  moderate(kCountNeverReached, 0);
  arm();
  bring(8);
  EXPECT_EQ(server->count_cq_events(), 0);
  const auto smaller = server->rnic.resize_cq(server->cq.number, 8);
  ASSERT_TRUE(smaller.ok());
  server->cq = *smaller;
  expect_events(1);
}

TEST_P(ModerationTest, AnUnknownCQIsRefused) {
  const auto refused = server->rnic.moderate_cq(12345, {2, 2});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EINVAL);
}

INSTANTIATE_TEST_SUITE_P(Placements, ModerationTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
