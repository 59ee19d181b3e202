// Several FPDUs of a Read Response are received into their places by one call, and what came
// instead of the ones that were expected arrives whole, too.
#include <algorithm>
#include <atomic>

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
constexpr std::size_t kRead = kSegment * kSegments;
using Lengths = std::vector<std::size_t>;

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

/// The server reads, and the peer answers what it is told.
class SeveralTest : public LandingTest {
 protected:
  transport::Transport* transport() override { return &counting_; }
  void SetUp() override {
    receives_of_several = 0;
    LandingTest::SetUp();
    give(tagged(wire::Opcode::Write, 0, {}));  // of nothing: now the responder may send
    settle();
  }

  Bytes tagged(wire::Opcode opcode, std::size_t at, const Bytes& payload, bool last = true) {
    wire::DDPHeader header;
    header.tagged = true;
    header.last = last;
    header.rdmap_control = wire::rdmap_control(opcode);
    header.stag = {stag};
    header.to = reinterpret_cast<std::uintptr_t>(memory + at);
    return fpdu(header, payload);
  }
  void read(std::size_t at, std::uint64_t wr_id, std::size_t octets = kRead) {
    server->post_send(qp, {.opcode = device::SendOpcode::Read,
                           .wr_id = wr_id,
                           .address = memory + at,
                           .octets = static_cast<std::uint32_t>(octets),
                           .stag = stag,
                           .remote_stag = 1});
    settle();
  }
  /// The answer that belongs at `at`, in segments of these lengths.
  Bytes answer(std::size_t at, const Lengths& lengths, std::size_t octets = kRead) {
    const Bytes payload = payload_of(octets);
    Bytes out;
    std::size_t done = 0;
    for (const std::size_t length : lengths) {
      const auto first = payload.begin() + static_cast<std::ptrdiff_t>(done);
      const Bytes part = tagged(wire::Opcode::ReadResponse, at + done,
                                {first, first + static_cast<std::ptrdiff_t>(length)},
                                done + length == octets);
      out.insert(out.end(), part.begin(), part.end());
      done += length;
    }
    EXPECT_EQ(done, octets);
    return out;
  }
  Bytes even_answer(std::size_t at) { return answer(at, Lengths(kSegments, kSegment)); }
  /// Its beginning alone, so that what is behind it lands; then all the rest at once.
  void give_at_once(const Bytes& octets) {
    give(octets, 0, 100);
    settle();
    give(octets, 100, octets.size());
  }
  void expect_answer(std::size_t at, std::size_t octets = kRead) {
    const Bytes payload = payload_of(octets);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), memory + at));
  }
  void read_in_segments_of_any_lengths() {
    const std::vector<Lengths> cuts = {
        Lengths(kSegments, kSegment),
        {30'000, 30'000, 20'000, 40'000, 30'000, 30'000},
        {30'000, 29'999, 30'001, 60'000, 30'000},
        {30'000, 1, 29'999, 60'000, 59'999, 1},
        {30'000, 30'000, 30'000, 30'000, 30'000, 29'000, 1'000},
        {60'000, 60'000, 60'000},
    };
    for (const Lengths& lengths : cuts) {
      std::fill_n(memory, kMapped, 0);
      read(1, 2);
      give_at_once(answer(1, lengths));
      expect_completion(CompletionStatus::Success, kRead);
      expect_answer(1);
      EXPECT_EQ(memory[0], 0);
      EXPECT_EQ(memory[1 + kRead], 0);
    }
    EXPECT_GE(receives_of_several, 1u);
  }

 private:
  testing::WrappingTransport counting_{
      [](auto inner) { return std::make_unique<CountingStream>(std::move(inner)); }};
};

TEST_P(SeveralTest, WhatFollowsIsReceivedIntoItsPlaceAtOnce) {
  read(0, 2);
  give_at_once(even_answer(0));
  expect_completion(CompletionStatus::Success, kRead);
  expect_answer(0);
  EXPECT_EQ(memory[kRead], 0);
  EXPECT_GE(receives_of_several, 1u);
}

TEST_P(SeveralTest, SegmentsOfAnyLengthsArriveWhole) { read_in_segments_of_any_lengths(); }

TEST_P(SeveralTest, WhatIsBehindItArrivesWhole) {
  constexpr std::size_t kBehind = 30'000;
  constexpr std::size_t kShort = 3 * kSegment;
  read(0, 2, kShort);
  read(kShort, 3, kShort);
  server->post_receive(qp, 4, memory + 2 * kShort, kBehind, stag);
  Bytes octets = answer(0, Lengths(3, kSegment), kShort);
  for (const Bytes& more : {answer(kShort, {kSegment - 7, kSegment + 7, kSegment}, kShort),
                            send_of(payload_of(kBehind))}) {
    octets.insert(octets.end(), more.begin(), more.end());
  }
  give_at_once(octets);
  expect_completion(CompletionStatus::Success, kShort);
  expect_completion(CompletionStatus::Success, kShort);
  expect_completion(CompletionStatus::Success, kBehind);
  expect_answer(0, kShort);
  expect_answer(kShort, kShort);
  expect_answer(2 * kShort, kBehind);
}

TEST_P(SeveralTest, AnyPiecesOfThemArriveWhole) {
  for (const std::size_t piece : {7'001u, 30'018u, 30'020u, 30'036u, 65'537u, 120'011u}) {
    std::fill_n(memory, kMapped, 0);
    read(3, piece);
    const Bytes octets = even_answer(3);
    give(octets, 0, 100);
    for (std::size_t at = 100; at < octets.size(); at += piece) {
      give(octets, at, std::min(at + piece, octets.size()));
    }
    expect_completion(CompletionStatus::Success, kRead);
    expect_answer(3);
    EXPECT_EQ(memory[2], 0);
    EXPECT_EQ(memory[3 + kRead], 0);
  }
}

TEST_P(SeveralTest, EachIsJudgedByItsOwnCRC) {
  read(0, 2);
  Bytes octets = even_answer(0);
  octets[octets.size() / 2] ^= 1;
  give_at_once(octets);
  expect_completion(CompletionStatus::Flushed);
}

// Said to be the last one, and more of it is behind.
TEST_P(SeveralTest, AnAnswerThatEndsTooSoonFailsTheRead) {
  read(0, 2);
  Bytes octets;
  for (std::size_t i = 0; i < kSegments; ++i) {
    const Bytes part =
        tagged(wire::Opcode::ReadResponse, i * kSegment, payload_of(kSegment), i >= 2);
    octets.insert(octets.end(), part.begin(), part.end());
  }
  give_at_once(octets);
  const auto completion = server->wait_completion();
  ASSERT_TRUE(completion.has_value());
  EXPECT_NE(completion->status, CompletionStatus::Success);
}

TEST_P(SeveralTest, MemoryUnmappedOnTheWayFailsTheRead) {
  read(0, 2);
  const Bytes octets = even_answer(0);
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

TEST_P(SeveralTest, APeerThatLeavesOnTheWayFlushesTheRead) {
  read(0, 2);
  const Bytes octets = even_answer(0);
  give(octets, 0, 100);
  settle();
  give(octets, 100, octets.size() - kSegment - 7);
  peer.finish_sending();
  expect_completion(CompletionStatus::Flushed);
}

class SeveralWithoutCRCTest : public SeveralTest {
 protected:
  Settings make_settings() override {
    Settings settings = SeveralTest::make_settings();
    settings.crc = false;
    return settings;
  }
};

TEST_P(SeveralWithoutCRCTest, SegmentsOfAnyLengthsArriveWhole) {
  read_in_segments_of_any_lengths();
}

const auto kName = [](const auto& param) {
  return param.param == Placement::Inline ? "inline" : "thread";
};
INSTANTIATE_TEST_SUITE_P(Placements, SeveralTest,
                         ::testing::Values(Placement::Inline, Placement::Thread), kName);
INSTANTIATE_TEST_SUITE_P(Placements, SeveralWithoutCRCTest,
                         ::testing::Values(Placement::Inline, Placement::Thread), kName);

}  // namespace
}  // namespace weft::engine
