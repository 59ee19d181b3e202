// A CQ whose owner never polls runs over: its QPs end with the events that verbs demand, and those
// of another CQ of the same device notice nothing.
#include <algorithm>
#include <numeric>
#include <set>

#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::AsyncEventKind;
using device::CompletionEntry;
using device::CompletionStatus;
using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;
using testing::Side;

constexpr std::uint32_t kOctets = 10'000;
constexpr std::uint32_t kSmall = 64;
constexpr std::uint32_t kDepth = 64;
constexpr std::uint64_t kUnpolled = 8;                ///< cookie of the CQ that runs over
constexpr std::uint64_t kHealthy = 100, kHurt = 200;  ///< cookies of QPs, from here on

/// Two connected QPs of which neither uses the CQ that runs over, with memory of their own:
/// source | read back at the client, what a Send brings | what a Write brings at the server.
struct Flow {
  std::uint64_t cookie = 0;
  QPHandle client, server;
  std::vector<std::uint8_t> local = std::vector<std::uint8_t>(std::size_t{2} * kOctets);
  std::vector<std::uint8_t> remote = std::vector<std::uint8_t>(kSmall + kOctets);
  std::uint32_t local_stag = 0, remote_stag = 0;
};

class CQOverflowTest : public PairTest {
 protected:
  void SetUp() override {
    start();
    listen();
    memory_.resize(kOctets);
  }
  void TearDown() override {
    client.reset();  // their threads know the memory below
    server.reset();
  }

  QPHandle make_qp(Side& side, device::CQNumber send_cq, device::CQNumber receive_cq,
                   std::uint64_t cookie) {
    const auto face = side.rnic.create_qp({.pd = side.pd,
                                           .send_cq = send_cq,
                                           .receive_cq = receive_cq,
                                           .send_depth = kDepth,
                                           .receive_depth = kDepth,
                                           .cookie = cookie});
    EXPECT_TRUE(face.ok());
    return {*face};
  }
  void make_flows(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      Flow& flow = *flows_.emplace_back(std::make_unique<Flow>());
      flow.cookie = kHealthy + i;
      flow.client = make_qp(*client, client->cq.number, client->cq.number, flow.cookie);
      flow.server = make_qp(*server, server->cq.number, server->cq.number, flow.cookie);
      ASSERT_NO_FATAL_FAILURE(establish(flow.client, flow.server));
      flow.local_stag =
          client->register_octets(flow.local.data(), flow.local.size(), device::kLocalWrite);
      flow.remote_stag =
          server->register_octets(flow.remote.data(), flow.remote.size(),
                                  device::kLocalWrite | device::kRemoteWrite | device::kRemoteRead);
    }
  }
  /// Posts a Write, a Send and a Read of what was written on every flow. The Send's completion at
  /// the server says that the Write is there: what the peer knows no tool can see.
  void post_round() {
    ++round_;
    for (const auto& flow : flows_) {
      std::iota(flow->local.begin(), flow->local.begin() + kOctets,
                static_cast<std::uint8_t>(round_ * 37 + flow->cookie));
      std::fill(flow->local.begin() + kOctets, flow->local.end(), std::uint8_t{0});
      const std::uint64_t written = reinterpret_cast<std::uintptr_t>(flow->remote.data()) + kSmall;
      expect_state(*server, flow->server, device::QPState::RTS);  // also: we have read, overwrite
      server->post_receive(flow->server, round_, flow->remote.data(), kSmall, flow->remote_stag);
      client->post_send(flow->client, {.opcode = device::SendOpcode::Write,
                                       .wr_id = 3 * round_,
                                       .address = flow->local.data(),
                                       .octets = kOctets,
                                       .stag = flow->local_stag,
                                       .remote_stag = flow->remote_stag,
                                       .remote_to = written});
      client->post_send(flow->client, {.wr_id = 3 * round_ + 1,
                                       .address = flow->local.data(),
                                       .octets = kSmall,
                                       .stag = flow->local_stag});
      client->post_send(flow->client, {.opcode = device::SendOpcode::Read,
                                       .wr_id = 3 * round_ + 2,
                                       .address = flow->local.data() + kOctets,
                                       .octets = kOctets,
                                       .stag = flow->local_stag,
                                       .remote_stag = flow->remote_stag,
                                       .remote_to = written});
    }
  }
  /// Everything of post_round() completes, in order and well, and the octets are right.
  void finish_round() {
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      const auto received = next_of_flow(*server);
      ASSERT_TRUE(received.has_value());
      EXPECT_EQ(received->status, CompletionStatus::Success);
      EXPECT_EQ(received->wr_id, round_);
      EXPECT_EQ(received->octets, kSmall);
    }
    std::map<std::uint64_t, std::uint64_t> next;  // wr_id by flow
    for (std::size_t i = 0; i < 3 * flows_.size(); ++i) {
      const auto done = next_of_flow(*client);
      ASSERT_TRUE(done.has_value());
      EXPECT_EQ(done->status, CompletionStatus::Success);
      EXPECT_EQ(done->wr_id, 3 * round_ + next[done->qp_cookie]++);
    }
    for (const auto& flow : flows_) {
      const auto source = flow->local.begin();
      EXPECT_TRUE(std::equal(source, source + kSmall, flow->remote.begin()));
      EXPECT_TRUE(std::equal(source, source + kOctets, flow->remote.begin() + kSmall));
      EXPECT_TRUE(std::equal(source, source + kOctets, source + kOctets));
    }
  }
  void run_round() {
    post_round();
    finish_round();
  }
  /// The next completion of a flow's QP; those of QPs that end come in between.
  std::optional<CompletionEntry> next_of_flow(Side& side) {
    for (;;) {
      const auto done = side.wait_completion();
      if (!done || (done->qp_cookie >= kHealthy && done->qp_cookie < kHurt)) return done;
    }
  }

  void wait_for_events(Side& side, std::size_t count) {
    EXPECT_TRUE(side.wait_until([&] {
      side.progress();
      return side.seen_async().size() >= count;
    })) << side.seen_async().size();
  }
  /// One CQError, one QPFatal for each of these, and nothing else.
  static void expect_events(const std::vector<device::AsyncEvent>& seen,
                            const std::set<std::uint64_t>& hurt) {
    std::multiset<std::uint64_t> fatal;
    std::size_t cq_errors = 0;
    for (const device::AsyncEvent& event : seen) {
      if (event.kind == AsyncEventKind::CQError) {
        EXPECT_EQ(event.cookie, kUnpolled);
        ++cq_errors;
      } else {
        EXPECT_EQ(event.kind, AsyncEventKind::QPFatal) << "of " << event.cookie;
        fatal.insert(event.cookie);
      }
    }
    EXPECT_EQ(cq_errors, 1u);
    EXPECT_EQ(fatal, std::multiset<std::uint64_t>(hurt.begin(), hurt.end()));
  }
  void expect_disconnected(Side& side, std::size_t count) {
    std::set<device::ConnectionNumber> ended;
    for (std::size_t i = 0; i < count; ++i) {
      const auto event = side.wait_event();
      ASSERT_TRUE(event.has_value());
      EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
      EXPECT_TRUE(ended.insert(event->event.connection).second);
    }
  }
  void expect_state(Side& side, const QPHandle& qp, device::QPState state) {
    EXPECT_TRUE(side.wait_until([&] {
      side.progress();
      const auto status = side.rnic.query_qp(qp.face.number);
      return status.ok() && status->state == state;
    }));
  }
  void expect_flows_unhurt() {
    for (const auto& flow : flows_) {
      expect_state(*client, flow->client, device::QPState::RTS);
      expect_state(*server, flow->server, device::QPState::RTS);
    }
  }
  /// What the full CQ holds was not overwritten by what came after: wr_ids 0, 1, 2 ...
  static void expect_entries_intact(const device::CQFace& cq) {
    ASSERT_EQ(cq.completions.produced_seen(), cq.completions.capacity());
    for (std::uint32_t i = 0; i < cq.completions.capacity(); ++i) {
      const auto* entry = static_cast<const CompletionEntry*>(cq.completions.entry(i));
      EXPECT_EQ(entry->wr_id, i);
      EXPECT_EQ(entry->status, CompletionStatus::Success);
    }
  }

  std::vector<std::unique_ptr<Flow>> flows_;
  std::vector<std::uint8_t> memory_;
  std::uint64_t round_ = 0;
};

//= SEC-07
TEST_P(CQOverflowTest, SendCompletionsNobodyPollsEndOnlyTheQPsOfThatCQ) {
  const device::CQFace unpolled = *client->rnic.create_cq(16, kUnpolled);
  ASSERT_NO_FATAL_FAILURE(make_flows(3));
  // One that fills the CQ, one that only shares it, one that only receives there.
  std::vector<QPHandle> hurt, peers;
  for (std::uint64_t i = 0; i < 3; ++i) {
    hurt.push_back(
        make_qp(*client, i == 2 ? client->cq.number : unpolled.number, unpolled.number, kHurt + i));
    peers.push_back(make_qp(*server, server->cq.number, server->cq.number, kHurt + i));
    ASSERT_NO_FATAL_FAILURE(establish(hurt[i], peers[i]));
  }
  // And one that was never connected.
  QPHandle idle = make_qp(*client, unpolled.number, unpolled.number, kHurt + 3);
  run_round();

  const auto stag = client->register_octets(memory_.data(), memory_.size(), 0);
  const auto target = server->register_octets(memory_.data(), memory_.size(),
                                              device::kLocalWrite | device::kRemoteWrite);
  post_round();  // under way when the CQ runs over
  for (std::uint32_t i = 0; i <= unpolled.completions.capacity(); ++i) {
    client->post_send(hurt[0], {.opcode = device::SendOpcode::Write,
                                .wr_id = i,
                                .address = memory_.data(),
                                .octets = 8,
                                .stag = stag,
                                .remote_stag = target,
                                .remote_to = reinterpret_cast<std::uintptr_t>(&memory_[64])});
  }
  finish_round();
  wait_for_events(*client, 5);
  run_round();
  for (const QPHandle& qp : hurt) expect_state(*client, qp, device::QPState::Error);
  expect_state(*client, idle, device::QPState::Error);
  expect_disconnected(*client, 3);
  expect_disconnected(*server, 3);
  for (int i = 0; i < 10; ++i) run_round();

  expect_events(client->seen_async(), {kHurt, kHurt + 1, kHurt + 2, kHurt + 3});
  expect_flows_unhurt();
  expect_entries_intact(unpolled);
}

//= SEC-07
TEST_P(CQOverflowTest, ReceiveCompletionsNobodyPollsEndOnlyTheQPsOfThatCQ) {
  const device::CQFace unpolled = *server->rnic.create_cq(16, kUnpolled);
  ASSERT_NO_FATAL_FAILURE(make_flows(3));
  QPHandle peer = make_qp(*client, client->cq.number, client->cq.number, kHurt);
  QPHandle hurt = make_qp(*server, server->cq.number, unpolled.number, kHurt);
  ASSERT_NO_FATAL_FAILURE(establish(peer, hurt));
  run_round();

  const auto target = server->register_octets(memory_.data(), memory_.size(), device::kLocalWrite);
  const auto stag = client->register_octets(memory_.data(), memory_.size(), 0);
  post_round();
  for (std::uint32_t i = 0; i <= unpolled.completions.capacity(); ++i) {
    server->post_receive(hurt, i, memory_.data(), 8, target);
    client->post_send(peer, {.wr_id = i, .address = memory_.data() + 8, .octets = 8, .stag = stag});
  }
  finish_round();
  wait_for_events(*server, 2);
  run_round();
  expect_state(*server, hurt, device::QPState::Error);
  expect_disconnected(*client, 1);
  expect_disconnected(*server, 1);
  for (int i = 0; i < 10; ++i) run_round();

  expect_events(server->seen_async(), {kHurt});
  expect_flows_unhurt();
  expect_entries_intact(unpolled);
}

// Nobody else would tell that what it completes is lost.
TEST_P(CQOverflowTest, AQPThatComesToTheCQLaterEndsWithItsFirstCompletion) {
  const device::CQFace unpolled = *client->rnic.create_cq(16, kUnpolled);
  QPHandle first = make_qp(*client, unpolled.number, unpolled.number, kHurt);
  for (std::uint32_t i = 0; i <= unpolled.completions.capacity(); ++i) {
    client->post_receive(first, i, nullptr, 0, 0);
  }
  ASSERT_TRUE(client->rnic.command_qp(first.face.number, device::QPCommand::Fail).ok());
  wait_for_events(*client, 1);
  expect_events(client->seen_async(), {});

  QPHandle later = make_qp(*client, unpolled.number, unpolled.number, kHurt + 1);
  QPHandle peer = make_qp(*server, server->cq.number, server->cq.number, kHurt + 1);
  ASSERT_NO_FATAL_FAILURE(establish(later, peer));
  server->post_receive(peer, 1, nullptr, 0, 0);
  client->post_send(later, {.wr_id = 1});
  expect_state(*client, later, device::QPState::Error);
  expect_disconnected(*client, 1);
  expect_disconnected(*server, 1);
  expect_events(client->seen_async(), {kHurt + 1});
}

INSTANTIATE_TEST_SUITE_P(Placements, CQOverflowTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
