// Several FPDUs of one message are received into their places by one call, and what came instead of
// the ones that were expected arrives whole, too.
#include <algorithm>
#include <atomic>

#include "engine/landing_habit.h"
#include "engine/testing/landing.h"
#include "engine/testing/stream.h"

namespace weft::engine {
namespace {

using device::CompletionStatus;
using testing::Bytes;
using testing::fpdu;
using testing::LandingTest;
using testing::payload_of;
using testing::send_of;

constexpr std::size_t kSegment = 30'000;
constexpr std::size_t kSegments = 6;
constexpr std::size_t kMessage = kSegments * kSegment;

/// How often a receive brought more than the rest of one FPDU.
std::atomic<std::size_t> receives_of_several{0};

class CountingStream final : public testing::PassingStream {
 public:
  using PassingStream::PassingStream;
  transport::IOResult receive(std::span<const iovec> pieces) override {
    const transport::IOResult r = PassingStream::receive(pieces);
    if (pieces.size() > 2 && r.octets > pieces[0].iov_len + pieces[1].iov_len) {
      ++receives_of_several;
    }
    return r;
  }
};

class SeveralTest : public LandingTest {
 protected:
  transport::Transport* transport() override { return &counting_; }
  void SetUp() override {
    receives_of_several = 0;
    LandingTest::SetUp();
  }

  /// A message of segments of these lengths.
  Bytes message(std::uint32_t msn, const Bytes& payload, std::vector<std::size_t> lengths) {
    Bytes octets;
    std::size_t mo = 0;
    for (const std::size_t length : lengths) {
      const auto first = payload.begin() + static_cast<std::ptrdiff_t>(mo);
      const Bytes part = send_of({first, first + static_cast<std::ptrdiff_t>(length)}, msn,
                                 static_cast<std::uint32_t>(mo), mo + length == payload.size());
      octets.insert(octets.end(), part.begin(), part.end());
      mo += length;
    }
    EXPECT_EQ(mo, payload.size());
    return octets;
  }
  Bytes even_message(std::uint32_t msn) {
    return message(msn, payload_of(kMessage), std::vector<std::size_t>(kSegments, kSegment));
  }
  /// So that the length of the next one is known.
  void give_first() {
    server->post_receive(qp, 1, memory, kMapped, stag);
    give(even_message(1));
    expect_completion(CompletionStatus::Success, kMessage);
    std::fill_n(memory, kMapped, 0);
  }
  /// Its beginning alone, so that what is behind it lands; then all the rest at once.
  void give_at_once(const Bytes& octets) {
    give(octets, 0, 100);
    settle();
    give(octets, 100, octets.size());
  }
  void expect_memory(const Bytes& payload, std::size_t at = 0) {
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), memory + at));
  }

 private:
  testing::WrappingTransport counting_{
      [](auto inner) { return std::make_unique<CountingStream>(std::move(inner)); }};
};

TEST_P(SeveralTest, WhatFollowsIsReceivedIntoItsPlaceAtOnce) {
  give_first();
  EXPECT_EQ(receives_of_several, 0u) << "how long it would be was not known";
  server->post_receive(qp, 2, memory, kMapped, stag);
  give_at_once(even_message(2));
  expect_completion(CompletionStatus::Success, kMessage);
  expect_memory(payload_of(kMessage));
  EXPECT_EQ(memory[kMessage], 0);
  EXPECT_GE(receives_of_several, 1u);
}

TEST_P(SeveralTest, SegmentsOfOtherLengthsArriveWhole) {
  give_first();
  const std::vector<std::vector<std::size_t>> cuts = {
      {30'000, 30'000, 20'000, 40'000, 30'000, 30'000},
      {30'000, 29'999, 30'001, 60'000, 30'000},
      {30'000, 1, 29'999, 60'000, 59'999, 1},
      {30'000, 30'000, 30'000, 30'000, 30'000, 29'000, 1'000},
      {60'000, 60'000, 60'000},
  };
  std::uint32_t msn = 1;
  for (const auto& lengths : cuts) {
    std::fill_n(memory, kMapped, 0);
    server->post_receive(qp, 2, memory, kMapped, stag);
    give_at_once(message(++msn, payload_of(kMessage), lengths));
    expect_completion(CompletionStatus::Success, kMessage);
    expect_memory(payload_of(kMessage));
    EXPECT_EQ(memory[kMessage], 0);
  }
  EXPECT_GE(receives_of_several, 1u);
}

// What is behind a shorter one is the next message's, and was received as if it were this one's.
TEST_P(SeveralTest, AShorterMessageEndsWhereItEnds) {
  give_first();
  constexpr std::size_t kShort = 3 * kSegment;
  server->post_receive(qp, 2, memory, kMessage, stag);
  server->post_receive(qp, 3, memory + kMessage, kShort / 3, stag);
  const Bytes payload = payload_of(kShort), next = payload_of(kShort / 3);
  Bytes octets = message(2, payload, {kSegment, kSegment, kSegment});
  const Bytes behind = message(3, next, {kSegment - 10, 10});
  octets.insert(octets.end(), behind.begin(), behind.end());
  give_at_once(octets);
  expect_completion(CompletionStatus::Success, kShort);
  expect_completion(CompletionStatus::Success, next.size());
  expect_memory(payload);
  expect_memory(next, kMessage);
}

TEST_P(SeveralTest, WhatIsBehindAShorterMessageMayWaitForAReceive) {
  give_first();
  constexpr std::size_t kShort = 3 * kSegment;
  server->post_receive(qp, 2, memory, kMessage, stag);
  const Bytes payload = payload_of(kShort), next = payload_of(kSegment);
  Bytes octets = message(2, payload, {kSegment, kSegment, kSegment});
  const Bytes behind = message(3, next, {kSegment});
  octets.insert(octets.end(), behind.begin(), behind.end());
  give_at_once(octets);
  expect_completion(CompletionStatus::Success, kShort);
  settle();
  EXPECT_TRUE(server->cq.completions.empty());
  server->post_receive(qp, 3, memory + kMessage, kSegment, stag);
  expect_completion(CompletionStatus::Success, next.size());
  expect_memory(payload);
  expect_memory(next, kMessage);
}

TEST_P(SeveralTest, AnyPiecesOfThemArriveWhole) {
  give_first();
  std::uint32_t msn = 1;
  for (const std::size_t piece : {7'001u, 30'021u, 30'025u, 30'043u, 65'537u, 120'011u}) {
    std::fill_n(memory, kMapped, 0);
    server->post_receive(qp, piece, memory + 3, static_cast<std::uint32_t>(kMessage), stag);
    const Bytes octets = even_message(++msn);
    give(octets, 0, 100);
    for (std::size_t at = 100; at < octets.size(); at += piece) {
      give(octets, at, std::min(at + piece, octets.size()));
    }
    expect_completion(CompletionStatus::Success, kMessage);
    expect_memory(payload_of(kMessage), 3);
    EXPECT_EQ(memory[2], 0);
    EXPECT_EQ(memory[3 + kMessage], 0);
  }
}

TEST_P(SeveralTest, EachIsJudgedByItsOwnCRC) {
  give_first();
  server->post_receive(qp, 2, memory, kMapped, stag);
  Bytes octets = even_message(2);
  octets[octets.size() / 2] ^= 1;
  give_at_once(octets);
  expect_completion(CompletionStatus::Flushed);
}

TEST_P(SeveralTest, MemoryUnmappedOnTheWayFailsTheReceive) {
  give_first();
  server->post_receive(qp, 2, memory, kMapped, stag);
  const Bytes octets = even_message(2);
  give(octets, 0, 100);
  settle();
  constexpr std::size_t kLeft = 64 * 1024;  // two segments, and part of the third
  ASSERT_EQ(::munmap(memory + kLeft, kMapped - kLeft), 0);
  for (std::size_t at = 100; at < octets.size();) {
    // It may end the connection before it has taken all.
    const ssize_t n = ::send(peer.fd(), octets.data() + at, octets.size() - at, MSG_NOSIGNAL);
    if (n <= 0) break;
    at += static_cast<std::size_t>(n);
    server->progress();
  }
  expect_completion(CompletionStatus::LocalProtection);
}

TEST_P(SeveralTest, APeerThatLeavesOnTheWayFlushesTheReceive) {
  give_first();
  server->post_receive(qp, 2, memory, kMapped, stag);
  const Bytes octets = even_message(2);
  give(octets, 0, 100);
  settle();
  give(octets, 100, octets.size() - kSegment - 7);
  peer.finish_sending();
  expect_completion(CompletionStatus::Flushed);
}

INSTANTIATE_TEST_SUITE_P(Placements, SeveralTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
