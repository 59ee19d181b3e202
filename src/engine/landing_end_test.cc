// The short end of a message comes by the call that receives what is before it into its place, once
// one such message has come; and whatever comes instead arrives whole.
#include <netinet/tcp.h>

#include <algorithm>
#include <atomic>

#include "engine/testing/landing.h"
#include "engine/testing/stream.h"

namespace weft::engine {
namespace {

using device::CompletionStatus;
using testing::Bytes;
using testing::kSendHeader;
using testing::LandingTest;
using testing::payload_of;
using testing::send_of;
using Lengths = std::vector<std::size_t>;

constexpr std::size_t kLong = 40'000;

/// The most that a receive brought.
std::atomic<std::size_t> most{0};

class MeasuringStream final : public testing::PassingStream {
 public:
  using PassingStream::PassingStream;
  transport::IOResult receive(std::span<const iovec> pieces) override {
    const transport::IOResult r = PassingStream::receive(pieces);
    most = std::max(most.load(), r.octets);
    return r;
  }
};

class LandingEndTest : public LandingTest {
 protected:
  transport::Transport* transport() override { return &measuring_; }
  void SetUp() override {
    LandingTest::SetUp();
    const int yes = 1;
    ASSERT_EQ(::setsockopt(peer.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes), 0);
  }

  /// The peer's next Send, in segments of these lengths: a header, and once that is taken, the
  /// rest at once. How much that is.
  std::size_t send(const Lengths& lengths) {
    std::size_t all = 0;
    for (const std::size_t length : lengths) all += length;
    const Bytes payload = payload_of(all);
    Bytes octets;
    std::size_t done = 0;
    ++msn_;
    for (const std::size_t length : lengths) {
      const auto first = payload.begin() + static_cast<std::ptrdiff_t>(done);
      const Bytes part = send_of({first, first + static_cast<std::ptrdiff_t>(length)}, msn_,
                                 static_cast<std::uint32_t>(done), done + length == all);
      octets.insert(octets.end(), part.begin(), part.end());
      done += length;
    }
    std::fill_n(memory, kMapped, 0);
    server->post_receive(qp, msn_, memory + 3, kMapped - 3, stag);
    give(octets, 0, kSendHeader);
    settle();
    most = 0;
    give(octets, kSendHeader, octets.size());
    expect_completion(CompletionStatus::Success, all);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), memory + 3));
    EXPECT_EQ(memory[2], 0);
    EXPECT_EQ(memory[3 + all], 0);
    return octets.size() - kSendHeader;
  }

 private:
  std::uint32_t msn_ = 0;
  testing::WrappingTransport measuring_{
      [](auto inner) { return std::make_unique<MeasuringStream>(std::move(inner)); }};
};

/// A thread looks when it likes.
class InlineLandingEndTest : public LandingEndTest {};

TEST_P(InlineLandingEndTest, ComesWithWhatIsBeforeIt) {
  send({8});  // the first FPDU is another matter
  const std::size_t rest = send({kLong, 500});
  EXPECT_LT(most, rest) << "nothing is known of it yet";
  send({kLong, 500});
  EXPECT_EQ(most, rest);
  send({kLong, kLong});
  EXPECT_LT(most, rest + kLong);
}

TEST_P(LandingEndTest, WhatComesInsteadArrivesWhole) {
  for (const Lengths& lengths :
       {Lengths{kLong, 500}, {kLong, kLong, 500}, {kLong, 500}, {kLong, 900}, {kLong, 500},
        {kLong}, {kLong, 500}, {kLong, 1}, {kLong, 700}, {kLong, kLong, kLong}, {kLong, 1000},
        {kLong, 20, kLong}, {kLong, 20, kLong}, {kLong, 1}, {kLong - 1, 500}}) {
    ASSERT_NO_FATAL_FAILURE(send(lengths));
  }
}

const auto kName = [](const auto& param) {
  return param.param == Placement::Inline ? "inline" : "thread";
};
INSTANTIATE_TEST_SUITE_P(Placements, InlineLandingEndTest, ::testing::Values(Placement::Inline),
                         kName);
INSTANTIATE_TEST_SUITE_P(Placements, LandingEndTest,
                         ::testing::Values(Placement::Inline, Placement::Thread), kName);

}  // namespace
}  // namespace weft::engine
