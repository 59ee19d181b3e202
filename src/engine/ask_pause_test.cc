// How soon a stream within this host that had nothing is asked again, and that others are at once.
#include "engine/ask_pause.h"

#include <algorithm>

#include "engine/testing/side.h"
#include "engine/testing/stream.h"
#include "engine/ticks.h"

namespace weft::engine {
namespace {

constexpr std::uint64_t kLongestPause = 1600;  // ticks

/// A question begun when the last pause was over at the latest.
class AskPauseTest : public ::testing::Test {
 protected:
  void ask_in_vain(std::uint64_t took) {
    now_ += 100'000;
    ASSERT_TRUE(pause_.is_over(now_));
    pause_.note_vain(now_, now_ + took);
    now_ += took;
  }
  /// As told by is_over().
  std::uint64_t pause() const {
    std::uint64_t ticks = 0;
    while (!pause_.is_over(now_ + ticks)) ++ticks;
    return ticks;
  }

  AskPause pause_;
  std::uint64_t now_ = 1'000'000;
};

TEST_F(AskPauseTest, IsAFourthOfWhatAVainQuestionTakes) {
  EXPECT_EQ(pause(), 0u);
  ask_in_vain(1000);
  EXPECT_EQ(pause(), 0u) << "one question may have taken anything";
  ask_in_vain(1000);
  EXPECT_EQ(pause(), 250u);
  for (int i = 0; i < 100; ++i) ask_in_vain(1200);
  EXPECT_NEAR(static_cast<double>(pause()), 300, 3);
}

TEST_F(AskPauseTest, EndsWhenSomethingWasFound) {
  for (int i = 0; i < 2; ++i) ask_in_vain(1000);
  pause_.note_found();
  EXPECT_EQ(pause(), 0u);
  ask_in_vain(1000);
  EXPECT_EQ(pause(), 250u);
}

/// A long question right before one that finds something: the kernel laid it aside meanwhile.
TEST_F(AskPauseTest, IsAnotherOneWhenAQuestionWasInTheWay) {
  ask_in_vain(1000);
  const std::uint64_t pauses[] = {250, 500, 750, 1000, 1250, 1500};
  for (int round = 0; round < 3; ++round) {
    for (const std::uint64_t expected : pauses) {
      for (int i = 0; i < 100; ++i) ask_in_vain(1000);
      EXPECT_NEAR(static_cast<double>(pause()), static_cast<double>(expected), 16);
      ask_in_vain(4000);
      pause_.note_found();
    }
  }
}

/// Where questions take long, only those pauses that differ.
TEST_F(AskPauseTest, IsNoneOfThoseThatWouldAllBeTheLongest) {
  ask_in_vain(3000);
  const std::uint64_t pauses[] = {750, 1500};
  for (int round = 0; round < 3; ++round) {
    for (const std::uint64_t expected : pauses) {
      for (int i = 0; i < 100; ++i) ask_in_vain(3000);
      EXPECT_NEAR(static_cast<double>(pause()), static_cast<double>(expected), 60);
      ask_in_vain(9000);
      pause_.note_found();
    }
  }
}

TEST_F(AskPauseTest, StaysWhereALongQuestionFoundNothing) {
  ask_in_vain(1000);
  ask_in_vain(4000);
  for (int i = 0; i < 100; ++i) ask_in_vain(1000);
  pause_.note_found();
  ask_in_vain(1000);
  EXPECT_NEAR(static_cast<double>(pause()), 250, 4);
}

TEST_F(AskPauseTest, FollowsQuestionsThatAllTakeLonger) {
  ask_in_vain(1000);
  for (int i = 0; i < 100; ++i) ask_in_vain(6000);
  EXPECT_NEAR(static_cast<double>(pause()), 1500, 16);
}

TEST_F(AskPauseTest, IsShortWhateverHeldAQuestionUp) {
  ask_in_vain(1'000'000'000);
  ask_in_vain(1'000'000'000);
  EXPECT_EQ(pause(), kLongestPause);
  ask_in_vain(1000);
  EXPECT_EQ(pause(), 250u);
}

TEST_F(AskPauseTest, IsOverOnAProcessorThatCountsFromElsewhere) {
  for (int i = 0; i < 2; ++i) ask_in_vain(1000);
  EXPECT_TRUE(pause_.is_over(now_ - 500'000));
}

/// What a stream was asked in vain.
struct Questions {
  std::uint32_t count = 0;
  std::uint64_t ended = 0;                 ///< the last one
  std::uint64_t shortest_pause = UINT64_MAX;
};

/// Kernel TCP of which the test says where its peer is. It is asked often in vain, and that takes
/// long.
class SlowStream final : public testing::PassingStream {
 public:
  SlowStream(std::unique_ptr<transport::Stream> inner, bool within_host, Questions& vain)
      : PassingStream(std::move(inner)), within_host_(within_host), vain_(vain) {}
  bool is_within_host() const override { return within_host_; }
  transport::IOResult receive(std::span<const iovec> pieces) override {
    const std::uint64_t began = ticks();
    const transport::IOResult r = PassingStream::receive(pieces);
    if (r.octets != 0) return r;
    ++vain_.count;
    if (vain_.ended != 0) {
      vain_.shortest_pause = std::min(vain_.shortest_pause, began - vain_.ended);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    while (std::chrono::steady_clock::now() < end) {
    }
    vain_.ended = ticks();
    return r;
  }

 private:
  const bool within_host_;
  Questions& vain_;
};

class AskedStreamTest : public testing::PairTest {
 protected:
  /// The client's questions that come of so many polls in vain.
  Questions ask(bool within_host, int polls) {
    Questions vain;
    testing::WrappingTransport transport([&](auto inner) {
      return std::make_unique<SlowStream>(std::move(inner), within_host, vain);
    });
    const Settings settings = make_settings();
    server = std::make_unique<testing::Side>(settings);
    client = std::make_unique<testing::Side>(settings, &transport);
    server->peer_progress = [this] { client->progress(); };
    client->peer_progress = [this] { server->progress(); };
    listen();
    if (HasFatalFailure()) return vain;
    testing::QPHandle here = client->make_qp(1), there = server->make_qp(2);
    establish(here, there);
    client->rnic.poll(client->cq.number);  // what may be left of the startup
    for (int i = 0; i < 2; ++i) client->rnic.poll(client->cq.number);  // one tells nothing yet
    vain = {};
    for (int i = 0; i < polls; ++i) client->rnic.poll(client->cq.number);
    const Questions asked = vain;
    client.reset();
    server.reset();
    return asked;
  }
};

TEST_P(AskedStreamTest, OfThisHostIsNotAskedByEachPoll) {
  if (!kTicks) GTEST_SKIP() << "there is no counter to measure pauses by";
  // Where a poll takes longer than the longest pause, each of them asks.
  const Questions asked = ask(true, 2000);
  EXPECT_GT(asked.count, 1u);
  EXPECT_GE(asked.shortest_pause, kLongestPause);
}

TEST_P(AskedStreamTest, OfAnotherHostIsAskedByEachPoll) {
  constexpr int kPolls = 200;
  EXPECT_EQ(ask(false, kPolls).count, std::uint32_t{kPolls});
}

INSTANTIATE_TEST_SUITE_P(Placements, AskedStreamTest, ::testing::Values(Placement::Inline));

}  // namespace
}  // namespace weft::engine
