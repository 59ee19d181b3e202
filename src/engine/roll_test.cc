// Busy streams among many: polls ask them in turn, and whoever stops polling loses nothing.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "engine/roll.h"
#include "engine/testing/many_streams.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::ManyStreamsTest;
using testing::Side;

TEST(RollBudgetTest, WhoPaysGivesBackAndTheRestIsEarned) {
  RollBudget budget;
  for (std::uint32_t i = 0; i < RollBudget::kMost; ++i) ASSERT_TRUE(budget.take()) << i;
  EXPECT_FALSE(budget.take());
  budget.give_back();
  EXPECT_TRUE(budget.take());
  // What is earned in pieces is not lost.
  budget.earn(RollBudget::kMessages - 1);
  EXPECT_FALSE(budget.take());
  budget.earn(RollBudget::kMessages + 1);
  EXPECT_TRUE(budget.take());
  EXPECT_TRUE(budget.take());
  EXPECT_FALSE(budget.take());
  budget.earn((RollBudget::kMost + 1) * RollBudget::kMessages);
  budget.give_back();
  for (std::uint32_t i = 0; i < RollBudget::kMost; ++i) ASSERT_TRUE(budget.take()) << i;
  EXPECT_FALSE(budget.take()) << "never more than the most";
}

TEST(RollLoadTest, IsBusyForAWhileBehindQuestionsThatFoundSomething) {
  RollLoad load;
  const Instant begin{1'000'000'000};
  EXPECT_FALSE(load.is_busy(begin));
  load.note(RollLoad::kAsked - 1, RollLoad::kAsked - 1, begin);
  EXPECT_FALSE(load.is_busy(begin)) << "too few to say";
  load.note(1, 1, begin);
  EXPECT_TRUE(load.is_busy(begin + RollLoad::kGrace));
  EXPECT_FALSE(load.is_busy(begin + RollLoad::kGrace + Duration{1}));
  const Instant later = begin + RollLoad::kGrace;
  load.note(RollLoad::kAsked, RollLoad::kAsked / RollLoad::kAskedForOne, later);
  EXPECT_FALSE(load.is_busy(later + Duration{1})) << "fewer than one of three";
  load.note(RollLoad::kAsked, RollLoad::kAsked / RollLoad::kAskedForOne + 1, later);
  EXPECT_TRUE(load.is_busy(later + RollLoad::kGrace));
}

TEST(RollPlaceTest, GoesWhenAskedInVainAgainAndAgain) {
  for (const bool busy : {false, true}) {
    const int most = busy ? RollPlace::kVainMostOfBusy : RollPlace::kVainMost;
    RollBudget budget;
    while (budget.take()) {}
    RollPlace place;
    const auto ask_in_vain = [&](int times) {
      for (int i = 0; i < times; ++i) EXPECT_TRUE(place.note(false, busy, budget)) << i;
    };
    for (int round = 0; round < 3; ++round) {
      ask_in_vain(most - 1);
      EXPECT_TRUE(place.note(true, busy, budget));
    }
    EXPECT_FALSE(budget.take()) << "three messages do not pay";
    EXPECT_TRUE(place.note(true, busy, budget));
    EXPECT_TRUE(budget.take());
    EXPECT_TRUE(place.note(true, busy, budget));
    EXPECT_FALSE(budget.take()) << "it pays once";
    ask_in_vain(most - 1);
    EXPECT_FALSE(place.note(false, busy, budget));
  }
}

TEST(RollShareTest, EachIsAskedAsOftenOnTheRollAndOffIt) {
  EXPECT_EQ(roll_share(24, 500, 500), 24u);
  EXPECT_EQ(roll_share(8, 900, 100), 72u);
  EXPECT_EQ(roll_share(24, 250, 750), 8u);
  EXPECT_EQ(roll_share(24, 1, 999), 1u) << "nobody waits for ever";
  EXPECT_EQ(roll_share(8, 100, 0), 100u) << "those that were served may have come on it since";
  EXPECT_EQ(roll_share(0, 100, 0), 1u);
}

constexpr std::uint32_t kBulk = 128 * 1024;

/// Watched by edges.
class RollTest : public ManyStreamsTest {
 protected:
  explicit RollTest(std::size_t count = 72) : ManyStreamsTest(count, kBulk) {}
  void SetUp() override {
    ManyStreamsTest::SetUp();
    watched_at_first = watched();
  }

  /// How many descriptors the server's poller watches, as the kernel tells.
  std::size_t watched() {
    const int fd = server->rnic.poller().fd();
    std::ifstream info("/proc/self/fdinfo/" + std::to_string(fd));
    std::size_t count = 0;
    for (std::string line; std::getline(info, line);) count += line.starts_with("tfd:") ? 1 : 0;
    return count;
  }
  std::size_t on_roll() { return watched_at_first - std::min(watched(), watched_at_first); }

  /// A message to each from this one on, and all of them are taken.
  void exchange(std::size_t from = 0, std::uint32_t octets = 8) {
    for (std::size_t i = from; i < streams; ++i) {
      receive(i, octets);
      send(i, octets);
    }
    take(streams - from);
  }
  void take(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(client->wait_completion().has_value());
      const auto begin = std::chrono::steady_clock::now();
      const auto done = server->wait_completion();
      ASSERT_TRUE(done.has_value());
      EXPECT_EQ(done->status, device::CompletionStatus::Success);
      // Some timer or other ends every wait at last.
      EXPECT_LT(std::chrono::steady_clock::now() - begin, Side::kWait / 4);
    }
  }
  /// Goes on until many are on the roll.
  void fill_roll() {
    const auto end = std::chrono::steady_clock::now() + 3 * Side::kWait;
    while (on_roll() < streams / 4) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      exchange();
      ASSERT_FALSE(HasFatalFailure());
    }
  }
  void check_that_who_stops_polling_is_replaced();
  template <typename Condition>
  static bool comes_true(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + Side::kWait;
    while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return condition();
  }

  std::size_t watched_at_first = 0;
  std::atomic<std::uint32_t> queued{0};  ///< events; outlives the server
};

void RollTest::check_that_who_stops_polling_is_replaced() {
  for (std::uint64_t round = 1; round <= 5; ++round) {
    fill_roll();
    ASSERT_FALSE(HasFatalFailure());
    write_words(round);  // the server's program calls nothing
    EXPECT_TRUE(comes_true([&] { return is_written(round); })) << "round " << round;
    EXPECT_TRUE(comes_true([&] { return on_roll() == 0; })) << on_roll();
  }
}

TEST_P(RollTest, WhoStopsPollingIsReplaced) {
  check_that_who_stops_polling_is_replaced();
}

/// Watched by levels.
class RollOfLevelsTest : public RollTest {
 protected:
  RollOfLevelsTest() : RollTest(40) {}
};

TEST_P(RollOfLevelsTest, WhoStopsPollingIsReplaced) {
  check_that_who_stops_polling_is_replaced();
}

/// Then they are too few for anybody to come on the roll, and too many to be asked directly.
TEST_P(RollOfLevelsTest, WhoIsOnItIsAskedWhileOthersWaitForAReceive) {
  constexpr std::size_t kHeldBack = 10;
  for (int round = 0; round < 20; ++round) {
    fill_roll();
    ASSERT_FALSE(HasFatalFailure());
    for (std::size_t i = 0; i < kHeldBack; ++i) send(i, 8);
    for (std::size_t i = 0; i < kHeldBack; ++i) ASSERT_TRUE(client->wait_completion().has_value());
    server->rnic.poll(server->cq.number);
    exchange(kHeldBack);
    for (std::size_t i = 0; i < kHeldBack; ++i) receive(i, 8);
    for (std::size_t i = 0; i < kHeldBack; ++i) ASSERT_TRUE(server->wait_completion().has_value());
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(RollTest, WhoIsAskedInVainHoldsNoStaging) {
  constexpr std::size_t kFewLent = 16;
  for (int round = 0; round < 5; ++round) {
    fill_roll();
    ASSERT_FALSE(HasFatalFailure());
    for (int i = 0; i < 100; ++i) server->rnic.poll(server->cq.number);
    EXPECT_LE(server->rnic.receive_buffers_lent(), kFewLent) << round;
  }
}

TEST_P(RollTest, BulkIsNotAskedInTurn) {
  for (int round = 0; round < 50; ++round) {
    exchange(0, kBulk);
    ASSERT_FALSE(HasFatalFailure());
    // Of some the end comes alone, as a message would.
    EXPECT_LT(on_roll(), streams / 4) << round;
  }
  fill_roll();
  ASSERT_FALSE(HasFatalFailure());
  exchange(0, kBulk);
  exchange(0, kBulk);
  EXPECT_LT(on_roll(), streams / 4);
}

TEST_P(RollTest, WhoSleepsHears) {
  // Who only looked whether the CQ is empty might take the message in, and sleep then.
  // Behind the first of the two this thread goes on, and may end with the test.
  server->on_completion_event = [this, &rnic = server->rnic] {
    ++queued;
    rnic.end_sleep(queued);
  };
  for (int round = 0; round < 5; ++round) {
    fill_roll();
    ASSERT_FALSE(HasFatalFailure());
    const std::size_t stream = static_cast<std::size_t>(round) * 7;
    server->post_receive(there[stream], stream, nullptr, 0, 0);
    queued = 0;
    ASSERT_TRUE(server->rnic.arm_cq(server->cq.number, false).ok());
    client->post_send(here[stream], {.wr_id = stream});
    while (queued == 0) {
      if (server->rnic.sleep(queued, sigset_t{}) == device::Slept::NotHere) {
        std::this_thread::yield();
      }
    }
    const auto done = server->wait_completion();
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->wr_id, stream);
    ASSERT_TRUE(client->wait_completion().has_value());
  }
}

/// Only some go on.
TEST_P(RollTest, WhoIsSilentIsWatchedAgainWhileThePollsGoOn) {
  fill_roll();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_TRUE(comes_true([&] {
    for (int i = 0; i < 8; ++i) server->rnic.poll(server->cq.number);
    return on_roll() == 0;
  })) << on_roll();
  exchange();
}

TEST_P(RollTest, AStreamThatEndsLeavesTheOthersOnIt) {
  fill_roll();
  ASSERT_FALSE(HasFatalFailure());
  for (std::size_t i = 0; i < streams / 2; i += 2) {
    ASSERT_TRUE(client->rnic.disconnect(ends[i]).ok());
    const auto end = server->wait_event();
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->event.kind, ConnectionEventKind::Disconnected);
    EXPECT_EQ(end->event.error, 0) << end->event.text;
    ASSERT_TRUE(client->wait_event().has_value());
    // Ours goes meanwhile, too.
    ASSERT_TRUE(server->rnic.destroy_qp(there[i + 1].face.number).ok());
    ASSERT_TRUE(client->wait_event().has_value());
  }
  for (int round = 0; round < 50; ++round) exchange(streams / 2);
}

INSTANTIATE_TEST_SUITE_P(Thread, RollOfLevelsTest, ::testing::Values(Placement::Thread));

INSTANTIATE_TEST_SUITE_P(Thread, RollTest, ::testing::Values(Placement::Thread));

}  // namespace
}  // namespace weft::engine
