// Busy streams among many: polls ask them in turn, and whoever stops polling loses nothing.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/roll_place.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;
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

constexpr std::uint32_t kBulk = 128 * 1024;

/// As a program looks that waits at memory for a peer's Write.
[[gnu::noinline, gnu::no_sanitize("thread")]] std::uint64_t look_at(const std::uint64_t* word) {
  return *word;
}

/// Watched by edges.
class RollTest : public PairTest {
 protected:
  explicit RollTest(std::size_t count = 72) : streams(count) {}
  void SetUp() override {
    start();
    listen();
    for (std::size_t i = 0; i < streams; ++i) {
      here.push_back(client->make_qp());
      there.push_back(server->make_qp());
      establish(here[i], there[i]);
      ASSERT_FALSE(HasFatalFailure());
      ends.push_back(client_connection);
    }
    stag = client->register_octets(words.data(), kBulk, device::kLocalWrite);
    server_stag = server->register_octets(written.data(), kBulk,
                                          device::kLocalWrite | device::kRemoteWrite);
    watched_at_first = watched();
  }
  /// The threads end before the memory that they write to.
  void TearDown() override {
    client.reset();
    server.reset();
  }
  /// No timeout makes up for what nobody was told of.
  Settings make_settings() override {
    Settings settings = PairTest::make_settings();
    settings.close_timeout = std::chrono::hours(1);
    return settings;
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

  /// A message to each of these, and all of them are taken.
  void exchange(std::size_t from = 0, std::uint32_t octets = 8) {
    for (std::size_t i = from; i < streams; ++i) {
      server->post_receive(there[i], i, written.data(), octets, server_stag);
      client->post_send(here[i],
                        {.wr_id = i, .address = words.data(), .octets = octets, .stag = stag});
    }
    for (std::size_t i = from; i < streams; ++i) {
      ASSERT_TRUE(client->wait_completion().has_value());
      const auto done = server->wait_completion();
      ASSERT_TRUE(done.has_value());
      EXPECT_EQ(done->status, device::CompletionStatus::Success);
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
  /// The peer writes a word on each stream, and the server's program calls nothing.
  void write_words(std::uint64_t value) {
    std::fill(words.begin(), words.end(), value);
    for (std::size_t i = 0; i < streams; ++i) {
      client->post_send(here[i], {.opcode = device::SendOpcode::Write,
                                  .address = &words[i],
                                  .octets = 8,
                                  .stag = stag,
                                  .remote_stag = server_stag,
                                  .remote_to = reinterpret_cast<std::uintptr_t>(&written[i])});
    }
    for (std::size_t i = 0; i < streams; ++i) ASSERT_TRUE(client->wait_completion().has_value());
  }
  bool is_written(std::uint64_t value) const {
    return std::all_of(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(streams),
                       [&](const std::uint64_t& word) { return look_at(&word) == value; });
  }
  void check_that_who_stops_polling_is_replaced();
  template <typename Condition>
  static bool comes_true(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + Side::kWait;
    while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return condition();
  }

  const std::size_t streams;
  std::vector<QPHandle> here, there;
  std::vector<device::ConnectionNumber> ends;  ///< the client's
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(kBulk / sizeof(std::uint64_t));
  std::vector<std::uint64_t> written = words;
  std::uint32_t stag = 0, server_stag = 0;
  std::size_t watched_at_first = 0;
};

void RollTest::check_that_who_stops_polling_is_replaced() {
  for (std::uint64_t round = 1; round <= 5; ++round) {
    fill_roll();
    ASSERT_FALSE(HasFatalFailure());
    write_words(round);
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

/// Then there are too few for a roll, and too many to be asked directly.
TEST_P(RollOfLevelsTest, WhenOthersEndThePollsGoOnToAskIt) {
  fill_roll();
  ASSERT_FALSE(HasFatalFailure());
  for (std::size_t i = 0; i < 30; ++i) {
    ASSERT_TRUE(client->rnic.disconnect(ends[i]).ok());
    ASSERT_TRUE(server->wait_until([&] {
      server->rnic.poll(server->cq.number);  // no end of the thread's nap
      return server->take_event().has_value();
    }));
    ASSERT_TRUE(client->wait_event().has_value());
    server->post_receive(there.back(), i, written.data(), 8, server_stag);
    client->post_send(here.back(),
                      {.wr_id = i, .address = words.data(), .octets = 8, .stag = stag});
    const auto begin = std::chrono::steady_clock::now();
    const auto done = server->wait_completion();
    ASSERT_TRUE(done.has_value()) << i;
    EXPECT_EQ(done->wr_id, i);
    // Some timer or other ends every wait at last.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, Side::kWait / 4);
    ASSERT_TRUE(client->wait_completion().has_value());
  }
}

/// The poller always tells of many others.
TEST_P(RollTest, OneOnTheRollIsHeardBesideMuchBulk) {
  fill_roll();
  ASSERT_FALSE(HasFatalFailure());
  const auto post = [&](std::size_t i, std::uint32_t octets) {
    server->post_receive(there[i], i, written.data(), octets, server_stag);
    client->post_send(here[i],
                      {.wr_id = i, .address = words.data(), .octets = octets, .stag = stag});
  };
  for (std::size_t i = 1; i < streams; ++i) post(i, kBulk);
  bool heard = false;
  for (int bulk = 0; !heard; ++bulk) {
    ASSERT_LT(bulk, 5000);
    ASSERT_TRUE(client->wait_completion().has_value());
    const auto done = server->wait_completion();
    ASSERT_TRUE(done.has_value());
    heard = done->wr_id == 0;
    if (!heard) post(done->wr_id, kBulk);
    if (bulk == 1000) post(0, 8);
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
  for (int round = 0; round < 5; ++round) {
    fill_roll();
    ASSERT_FALSE(HasFatalFailure());
    const std::size_t stream = static_cast<std::size_t>(round) * 7;
    server->post_receive(there[stream], stream, nullptr, 0, 0);
    std::atomic<std::uint32_t> queued{0};
    client->post_send(here[stream], {.wr_id = stream});
    const auto end = std::chrono::steady_clock::now() + Side::kWait;
    while (server->cq.completions.empty() && std::chrono::steady_clock::now() < end) {
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
