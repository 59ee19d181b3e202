// Small parts of who gets how long a turn: brisk connections, where a program sleeps, and the
// progress thread's nap.
#include <gtest/gtest.h>

#include <poll.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "engine/brisk.h"
#include "engine/sleep_habit.h"
#include "engine/testing/side.h"
#include "engine/thread/nap.h"

namespace weft::engine {
namespace {

constexpr Instant kStart{1'000'000'000};
const char connections[3] = {};

TEST(BriskTest, NobodyIsInTheBeginning) {
  EXPECT_FALSE(Brisk().other_than(&connections[0], kStart));
}

TEST(BriskTest, OneMindsOthersAndNotItself) {
  Brisk brisk;
  brisk.note(&connections[0], kStart);
  EXPECT_FALSE(brisk.other_than(&connections[0], kStart));
  EXPECT_TRUE(brisk.other_than(&connections[1], kStart));
}

TEST(BriskTest, TwoMindEachOtherHoweverOftenEachIsNoted) {
  Brisk brisk;
  brisk.note(&connections[0], kStart);
  for (int i = 0; i < 3; ++i) brisk.note(&connections[1], kStart);
  EXPECT_TRUE(brisk.other_than(&connections[1], kStart));
  EXPECT_TRUE(brisk.other_than(&connections[0], kStart));
}

TEST(BriskTest, ItPassesSoon) {
  Brisk brisk;
  brisk.note(&connections[0], kStart);
  EXPECT_TRUE(brisk.is(&connections[0], kStart + std::chrono::milliseconds(1)));
  EXPECT_FALSE(brisk.is(&connections[0], kStart + std::chrono::milliseconds(5)));
  EXPECT_FALSE(brisk.is(&connections[1], kStart));
  EXPECT_TRUE(brisk.other_than(&connections[1], kStart + std::chrono::milliseconds(1)));
  EXPECT_FALSE(brisk.other_than(&connections[1], kStart + std::chrono::milliseconds(5)));
}

using testing::QPHandle;

class TurnTest : public testing::PairTest {};

/// Beside a brisk connection a turn is one batch. Who has sent all in it does not ask for another,
/// which would be two calls of the poller's and a wake-up for each message.
TEST_P(TurnTest, WhoHasSentAllAsksForNoFurtherTurn) {
  start();
  listen();
  QPHandle here[2], there[2];
  std::array<std::uint8_t, 8> octets{};
  const auto stag = client->register_octets(octets.data(), octets.size(), device::kLocalWrite);
  const auto theirs = server->register_octets(octets.data(), octets.size(), device::kLocalWrite);
  for (int i = 0; i < 2; ++i) {
    here[i] = client->make_qp();
    there[i] = server->make_qp();
    establish(here[i], there[i]);
    ASSERT_FALSE(HasFatalFailure());
  }
  // The client's second receives small messages, so its first minds it.
  for (int i = 0; i < 32; ++i) {
    client->post_receive(here[1], 1, octets.data(), 8, stag);
    server->post_send(there[1], {.address = octets.data(), .octets = 8, .stag = theirs});
    ASSERT_TRUE(server->wait_completion().has_value());
    ASSERT_TRUE(client->wait_completion().has_value());
  }
  client->progress();
  pollfd poller{client->rnic.progress_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&poller, 1, 0), 0);
  client->post_send(here[0], {.address = octets.data(), .octets = 8, .stag = stag});
  EXPECT_EQ(::poll(&poller, 1, 0), 0);
  EXPECT_TRUE(client->wait_completion().has_value());
}

/// What was written is read from a near cache, and room is granted again while more is under way.
TEST_P(TurnTest, WhoIsToldOfWritesMayReadThemBeforeMoreCome) {
  start();
  listen();
  QPHandle here = client->make_qp(), there = server->make_qp();
  establish(here, there);
  ASSERT_FALSE(HasFatalFailure());
  constexpr std::uint32_t kOctets = 64 * 1024, kWrites = 30;
  std::vector<std::uint8_t> source(kOctets), target(kOctets);
  const auto stag = client->register_octets(source.data(), kOctets, device::kLocalWrite);
  const auto theirs =
      server->register_octets(target.data(), kOctets, device::kLocalWrite | device::kRemoteWrite);
  for (int round = 0; round < 6; ++round) {  // the later ones through a TCP that takes much at once
    for (std::uint32_t i = 0; i < kWrites; ++i) {
      server->post_receive(there, i, target.data(), 8, theirs);
      client->post_send(here, {.opcode = device::SendOpcode::Write,
                               .address = source.data(),
                               .octets = kOctets,
                               .stag = stag,
                               .remote_stag = theirs,
                               .remote_to = reinterpret_cast<std::uintptr_t>(target.data()),
                               .flags = 0});
      client->post_send(here, {.address = source.data(), .octets = 8, .stag = stag, .flags = 0});
    }
    std::uint32_t told = 0;
    EXPECT_TRUE(server->wait_until([&] {
      for (int i = 0; i < 10; ++i) client->progress();
      device::Ring& completions = server->cq.completions;
      const std::uint32_t first = completions.consumed_own();
      server->progress();
      std::uint32_t taken = 0;
      while (!completions.empty()) completions.release(first + ++taken);
      EXPECT_LE(taken, 4u) << "256 KiB, where nothing was told of in the turn before";
      told += taken;
      return told == kWrites;
    }));
  }
}

/// Each poll asks the streams that complete in its CQ, and the others' now and then.
TEST_P(TurnTest, APollOfOneCQServesTheOthersSeldomButSurely) {
  start();
  listen();
  QPHandle here[2], there[2];
  device::CQFace cqs[2];
  for (int i = 0; i < 2; ++i) {
    cqs[i] = client->cq = *client->rnic.create_cq(16, 0);
    here[i] = client->make_qp();
    there[i] = server->make_qp();
    establish(here[i], there[i]);
    ASSERT_FALSE(HasFatalFailure());
  }
  constexpr int kRounds = 16, kSeldom = 8;
  for (int i = 0; i < kRounds; ++i) client->post_receive(here[1], 1, nullptr, 0, 0);
  const auto polls_until_told = [&](device::CQNumber polled) {
    server->post_send(there[1], {});
    EXPECT_TRUE(server->wait_completion().has_value());
    device::Ring& told = cqs[1].completions;
    int polls = 0;
    for (; told.empty() && polls < 2 * kSeldom; ++polls) client->rnic.poll(polled);
    EXPECT_FALSE(told.empty());
    told.release(told.consumed_own() + 1);
    return polls;
  };
  EXPECT_EQ(polls_until_told(cqs[1].number), 1);
  int most = 0;
  for (int i = 0; i < kSeldom / 2; ++i) most = std::max(most, polls_until_told(cqs[0].number));
  EXPECT_GT(most, 1);
  EXPECT_LE(most, kSeldom);
  EXPECT_EQ(polls_until_told(device::kNoCQ), 1);
}

INSTANTIATE_TEST_SUITE_P(Placements, TurnTest, ::testing::Values(Placement::Inline));

TEST(SleepHabitTest, WhoNeverSleptHereSleepsElsewhere) {
  SleepHabit habit;
  EXPECT_FALSE(habit.note_arming());  // nothing is known yet
  EXPECT_TRUE(habit.note_arming());
}

TEST(SleepHabitTest, WhoSleepsHereEachTimeDoesSoAgain) {
  SleepHabit habit;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(habit.note_arming());
    habit.note_sleep();
  }
  EXPECT_FALSE(habit.note_arming());
  EXPECT_TRUE(habit.note_arming()) << "after the last it went elsewhere";
}

TEST(SleepHabitTest, ManyCQsAreArmedBetweenTwoSleeps) {
  SleepHabit habit;
  const auto arm = [&](int times) {
    bool elsewhere = false;
    while (times-- > 0) elsewhere = habit.note_arming() || elsewhere;
    return elsewhere;
  };
  arm(40);
  habit.note_sleep();
  for (const int armed : {40, 25, 60, 1, 1, 30}) {
    EXPECT_FALSE(arm(armed)) << armed;
    habit.note_sleep();
  }
  EXPECT_TRUE(arm(100)) << "nobody who sleeps here arms so often";
}

TEST(NapTest, EndsByItself) {
  Nap nap;
  nap.wait(100);
  EXPECT_FALSE(nap.take_interruption());
}

TEST(NapTest, WhatNobodyTakesIsNotInterruptedLater) {
  Nap nap;
  nap.interrupt();
  EXPECT_FALSE(nap.take_interruption());
  nap.wait(100);
  EXPECT_FALSE(nap.take_interruption());
}

TEST(NapTest, AnInterruptionIsToldOnce) {
  Nap nap;
  std::atomic<bool> ended{false};
  std::thread sleeper([&] {
    while (!nap.take_interruption()) nap.wait(500'000);
    EXPECT_FALSE(nap.take_interruption());
    ended = true;
  });
  while (!ended) nap.interrupt();
  sleeper.join();
}

}  // namespace
}  // namespace weft::engine
