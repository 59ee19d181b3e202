// Bulk beside a connection with small messages: its turns are short, either way.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "engine/buffers.h"
#include "engine/testing/side.h"
#include "engine/testing/stream.h"

namespace weft::engine {
namespace {

/// What a stream moved since it was asked last, and how much more it takes.
struct Moved {
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  std::size_t take() { return std::exchange(octets, 0); }
  std::size_t octets = 0, longest_call = 0, takes = kAll;
};

class Watched final : public testing::PassingStream {
 public:
  Watched(std::unique_ptr<transport::Stream> inner, Moved& moved)
      : PassingStream(std::move(inner)), moved_(moved) {}
  transport::IOResult send(std::span<const iovec> pieces) override {
    moved_.longest_call = std::max(moved_.longest_call, testing::octets_of(pieces));
    if (moved_.takes == 0) return {transport::IOResult::Kind::WouldBlock, 0, 0};
    const iovec first{pieces[0].iov_base, std::min(pieces[0].iov_len, moved_.takes)};
    const bool all = moved_.takes == Moved::kAll;
    const auto result = count(PassingStream::send(all ? pieces : std::span(&first, 1)));
    if (!all) moved_.takes -= result.octets;
    return result;
  }
  transport::IOResult receive(std::span<const iovec> pieces) override {
    return count(PassingStream::receive(pieces));
  }

 private:
  transport::IOResult count(const transport::IOResult& result) {
    if (result.kind == transport::IOResult::Kind::Moved) moved_.octets += result.octets;
    return result;
  }
  Moved& moved_;
};

/// Two connections: by the first comes bulk, by the second the server tells the client small
/// things.
class BesideTest : public testing::PairTest {
 protected:
  using Clock = std::chrono::steady_clock;
  static constexpr int kBulk = 0, kSmall = 1;
  static constexpr std::uint32_t kOctets = 1u << 20;
  static constexpr std::uint32_t kRights =
      device::kLocalWrite | device::kRemoteWrite | device::kRemoteRead;

  void make_sides() {
    server = std::make_unique<testing::Side>(make_settings(), &server_transport);
    client = std::make_unique<testing::Side>(make_settings(), &client_transport);
    server->peer_progress = [this] { client->progress(); };
    client->peer_progress = [this] { server->progress(); };
    listen();
  }
  void SetUp() override {
    make_sides();
    for (const int i : {kBulk, kSmall}) {
      here[i] = client->make_qp();
      there[i] = server->make_qp();
      establish(here[i], there[i]);
      ASSERT_FALSE(HasFatalFailure());
    }
    stag = client->register_octets(memory.data(), kOctets, kRights);
    their_stag = server->register_octets(their_memory.data(), kOctets, kRights);
  }
  void TearDown() override {
    client.reset();  // before their transports
    server.reset();
  }
  /// By the client, of the server's memory or into it.
  void post(int connection, device::SendOpcode opcode, std::uint32_t octets) {
    client->post_send(here[connection],
                      {.opcode = opcode,
                       .address = memory.data(),
                       .octets = octets,
                       .stag = stag,
                       .remote_stag = their_stag,
                       .remote_to = reinterpret_cast<std::uintptr_t>(their_memory.data())});
  }
  void write_to_client(std::uint32_t octets) {
    server->post_send(there[kBulk], {.opcode = device::SendOpcode::Write,
                                     .address = their_memory.data(),
                                     .octets = octets,
                                     .stag = their_stag,
                                     .remote_stag = stag,
                                     .remote_to = reinterpret_cast<std::uintptr_t>(memory.data())});
  }
  /// The client's next poll brings a small message, which makes that connection brisk, and a turn
  /// of the other one, of which the octets are returned. Nothing: no message came, or none with the
  /// poll before, or that one may have been forgotten.
  std::optional<std::size_t> poll_once() {
    client->post_receive(here[kSmall], 1, nullptr, 0, 0);
    server->post_send(there[kSmall], {.flags = 0});
    server->progress();
    bulk().take();
    moved_[kSmall].take();
    const auto begun = Clock::now();
    client->rnic.poll(client->cq.number);
    const bool came = moved_[kSmall].take() > 0;
    const auto before = std::exchange(brought_, came ? begun : Clock::time_point());
    while (!client->cq.completions.empty()) {
      client->cq.completions.release(client->cq.completions.consumed_own() + 1);
    }
    while (!server->cq.completions.empty()) {
      server->cq.completions.release(server->cq.completions.consumed_own() + 1);
    }
    const std::size_t octets = bulk().take();
    if (!came || Clock::now() - before > std::chrono::milliseconds(1)) return std::nullopt;
    return octets;
  }
  void make_brisk() {
    int in_a_row = 0;
    for (int i = 0; i < 1000 && in_a_row < 8; ++i) in_a_row = poll_once() ? in_a_row + 1 : 0;
  }
  Moved& bulk() { return moved_[kBulk]; }

  std::array<Moved, 2> moved_, server_moved_;
  int made_ = 0, server_made_ = 0;
  testing::WrappingTransport client_transport{[this](auto inner) {
    return std::make_unique<Watched>(std::move(inner), moved_.at(made_++));
  }};
  testing::WrappingTransport server_transport{[this](auto inner) {
    return std::make_unique<Watched>(std::move(inner), server_moved_.at(server_made_++));
  }};
  testing::QPHandle here[2], there[2];
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(kOctets);
  std::vector<std::uint8_t> their_memory = std::vector<std::uint8_t>(kOctets);
  std::uint32_t stag = 0, their_stag = 0;

 private:
  Clock::time_point brought_;  ///< when the last poll began, if a small message came by it
};

TEST_P(BesideTest, WhatIsSentInOnePollIsShort) {
  for (const std::uint32_t octets : {32u, 64u, 256u}) {
    int seen = 0;
    for (int round = 0; round < 10; ++round) {
      make_brisk();
      for (int i = 0; i < 16; ++i) post(kBulk, device::SendOpcode::Write, octets * 1024);
      for (int i = 0; i < 150; ++i) {
        const auto moved = poll_once();
        if (!moved || *moved == 0) continue;
        ++seen;
        EXPECT_LE(*moved, kOctetsPerShortTurn) << octets << " KiB";
      }
    }
    if (seen < 8) GTEST_SKIP() << "the machine is too busy";
  }
}

/// The poller's turn, every so often, too.
TEST_P(BesideTest, WhatIsReceivedInOnePollIsShort) {
  int seen = 0;
  for (int round = 0; round < 20; ++round) {
    make_brisk();
    for (int i = 0; i < 8; ++i) write_to_client(64 * 1024);
    for (int i = 0; i < 100; ++i) {
      const auto moved = poll_once();
      if (!moved || *moved == 0) continue;
      ++seen;
      EXPECT_LE(*moved, kOctetsPerShortTurn);
    }
  }
  if (seen < 128) GTEST_SKIP() << "the machine is too busy";
}

TEST_P(BesideTest, TheRestOfATurnIsOne) {
  constexpr std::size_t kTaken = 8 * 1024;
  int seen = 0;
  for (int round = 0; round < 20; ++round) {
    make_brisk();
    bulk().takes = 0;
    for (int i = 0; i < 4; ++i) post(kBulk, device::SendOpcode::Write, 64 * 1024);
    bulk().takes = kTaken;
    const auto part = poll_once();
    bulk().takes = Moved::kAll;
    const auto rest = poll_once();
    if (part && rest) {
      ++seen;
      EXPECT_EQ(*part, kTaken);
      EXPECT_GT(*rest, 0u);
      EXPECT_LE(*rest, kOctetsPerShortTurn - kTaken);
    }
    for (int i = 0; i < 60; ++i) poll_once();
  }
  if (seen == 0) GTEST_SKIP() << "the machine is too busy";
}

/// It is asked in few octets and answers in many: nobody waits for a small message there.
TEST_P(BesideTest, WhoAnswersReadsIsNotBrisk) {
  constexpr std::uint32_t kRead = 256 * 1024;  // too much to leave in shares
  for (int i = 0; i < 32; ++i) {
    for (const int connection : {kBulk, kSmall}) {
      server_moved_[connection].longest_call = 0;
      post(connection, device::SendOpcode::Read, kRead);
      ASSERT_TRUE(client->wait_completion().has_value());
      EXPECT_GT(server_moved_[connection].longest_call, kRead) << i;
    }
  }
}

/// Nor while TCP takes a little now and then of what it answers.
TEST_P(BesideTest, WhoAnswersReadsSlowlyIsNotBrisk) {
  constexpr std::uint32_t kRead = 256 * 1024;
  for (int round = 0; round < 8; ++round) {
    post(kSmall, device::SendOpcode::Read, kRead);
    for (int i = 0; i < 8; ++i) {
      server_moved_[kSmall].takes = 4096;
      post(kSmall, device::SendOpcode::Send, 0);
      server->post_receive(there[kSmall], 1, nullptr, 0, 0);
      server->rnic.poll(server->cq.number);
      client->progress();
    }
    server_moved_[kBulk].longest_call = 0;
    post(kBulk, device::SendOpcode::Read, kRead);
    for (int i = 0; i < 1000 && server_moved_[kBulk].longest_call == 0; ++i) {
      server->rnic.poll(server->cq.number);
    }
    EXPECT_GT(server_moved_[kBulk].longest_call, kRead);
    server_moved_[kSmall].takes = Moved::kAll;
    // Both Reads and the Sends.
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(client->wait_completion().has_value());
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(server->wait_completion().has_value());
  }
}

class AloneTest : public BesideTest {
 protected:
  void SetUp() override { make_sides(); }
};

/// A Reply that TCP did not take at once.
TEST_P(AloneTest, WhatWaitsForRoomLeavesWhenItIsThere) {
  testing::QPHandle end = client->make_qp(), other = server->make_qp();
  begin(end);
  ASSERT_FALSE(HasFatalFailure());
  Moved& moved = server_moved_[0];
  moved.takes = 0;
  ASSERT_TRUE(server->rnic
                  .accept(server_connection,
                          {.qp = other.face.number, .ird = 4, .ord = 4, .private_data = {}}, 22)
                  .ok());
  server->rnic.poll(server->cq.number);
  moved.takes = Moved::kAll;
  std::optional<testing::SeenEvent> event;
  for (int i = 0; i < 10'000 && !event; ++i) {
    server->rnic.poll(server->cq.number);
    client->progress();
    event = client->take_event();
  }
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, device::ConnectionEventKind::Established);
}

INSTANTIATE_TEST_SUITE_P(Placements, AloneTest, ::testing::Values(Placement::Inline));
INSTANTIATE_TEST_SUITE_P(Placements, BesideTest, ::testing::Values(Placement::Inline));

}  // namespace
}  // namespace weft::engine
