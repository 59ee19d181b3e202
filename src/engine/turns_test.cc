// Small parts of who gets how long a turn: brisk connections, where a program sleeps, and the
// progress thread's nap.
#include <gtest/gtest.h>

#include <poll.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "engine/brisk.h"
#include "engine/others_turn.h"
#include "engine/presence.h"
#include "engine/sleep_habit.h"
#include "engine/testing/side.h"
#include "engine/thread/nap.h"
#include "engine/thread/pause.h"

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

INSTANTIATE_TEST_SUITE_P(Placements, TurnTest, ::testing::Values(Placement::Inline));

class OtherCQTest : public testing::PairTest {};

/// The client looks at another CQ alone.
TEST_P(OtherCQTest, APollOfOneCQServesTheOthersToo) {
  start();
  listen();
  QPHandle here[2], there[2];
  device::CQFace cqs[2];
  for (int i = 0; i < 2; ++i) {
    cqs[i] = client->cq = *client->rnic.create_cq(64, 0);
    here[i] = client->make_qp();
    there[i] = server->make_qp();
    establish(here[i], there[i]);
    ASSERT_FALSE(HasFatalFailure());
  }
  for (int i = 0; i < 32; ++i) {
    client->post_receive(here[1], 1, nullptr, 0, 0);
    server->post_send(there[1], {});
    device::Ring& told = cqs[1].completions;
    EXPECT_TRUE(client->wait_until([&] {
      server->progress();
      client->rnic.poll(cqs[0].number);
      return !told.empty();
    }));
    told.release(told.consumed_own() + 1);
    ASSERT_TRUE(server->wait_completion().has_value());
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, OtherCQTest,
                         ::testing::Values(Placement::Inline, Placement::Thread));

TEST(OthersTurnTest, ItComesEveryEighthTime) {
  OthersTurn turn;
  for (std::uint32_t i = 1; i <= 3 * OthersTurn::kEvery; ++i) {
    EXPECT_EQ(turn.come(), i % OthersTurn::kEvery == 0);
  }
}

TEST(OthersTurnTest, ItComesOnceMoreWhenAsked) {
  OthersTurn turn;
  EXPECT_FALSE(turn.come());
  turn.ask();
  EXPECT_TRUE(turn.come());
  EXPECT_FALSE(turn.come());
}

constexpr std::uint32_t kOften = 1000;

/// The pause behind so many in which the program came.
int pause_after(int count, bool watched, std::uint32_t calls, bool stayed = false) {
  Pause pause;
  for (int i = 0; i < count; ++i) pause.go_on(watched, calls, stayed);
  return pause.us();
}

TEST(PauseTest, ItGrowsToAMillisecondForWhoPollsNowAndThen) {
  EXPECT_EQ(pause_after(0, false, 1), 100);
  EXPECT_EQ(pause_after(1, false, 1), 200);
  EXPECT_EQ(pause_after(100, false, 1), 1000);
  EXPECT_EQ(pause_after(100, false, 1, true), 1000);
}

TEST(PauseTest, WhilePostsWaitItGrowsLess) {
  EXPECT_EQ(pause_after(100, true, 1), 400);
}

TEST(PauseTest, WhoComesOftenInTurnAfterTurnIsTrustedForMore) {
  EXPECT_LT(pause_after(10, true, kOften), 1000);
  EXPECT_EQ(pause_after(100, true, kOften), 2000);
  EXPECT_LT(pause_after(10, false, kOften), 2000);
  EXPECT_EQ(pause_after(100, false, kOften), 2000);
}

TEST(PauseTest, WhoStaysIsTrustedMost) {
  EXPECT_EQ(pause_after(100, true, kOften, true), 4000);
  EXPECT_EQ(pause_after(100, false, kOften, true), 8000);
}

TEST(PauseTest, ItIsTrustedForASixteenthOfTheTimeForWhichItHasStayed) {
  Pause pause;
  int before = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE((pause.us() - 1000) * 16, before) << i;
    before += pause.us();
    pause.go_on(false, kOften, true);
  }
}

TEST(PauseTest, WhoWentAwayIsTrustedLessTheMoreOftenItDoes) {
  Pause pause;
  for (int i = 0; i < 100; ++i) pause.go_on(false, kOften, true);
  for (const int us : {4000, 2000, 2000}) {
    pause.go_on(false, kOften, false);
    EXPECT_EQ(pause.us(), us);
  }
}

TEST(PauseTest, OftenIsOnceIn50Microseconds) {
  EXPECT_EQ(pause_after(100, false, 40), 2000);
  EXPECT_EQ(pause_after(100, false, 19), 1000);
}

TEST(PauseTest, TrustIsNotInheritedFromPolling) {
  Pause pause;
  for (int i = 0; i < 100; ++i) pause.go_on(false, kOften, true);
  pause.go_on(true, kOften, true);
  EXPECT_EQ(pause.us(), 400);
}

TEST(PresenceTest, WhoPollsLateWasAway) {
  Presence presence;
  Instant now{1'000'000'000};
  presence.note(now);  // for the first time
  const std::uint32_t before = presence.times_away();
  for (int i = 0; i < 10; ++i) presence.note(now = now + Presence::kAway);
  EXPECT_EQ(presence.times_away(), before);
  EXPECT_TRUE(presence.is_here(now + Presence::kAway));
  EXPECT_FALSE(presence.is_here(now + Presence::kAway + Duration(1)));
  presence.note(now + Presence::kAway + Duration(1));
  EXPECT_EQ(presence.times_away(), before + 1);
}

TEST(PauseTest, TrustEndsWhenTheProgramComesSeldom) {
  Pause pause;
  for (int i = 0; i < 100; ++i) pause.go_on(true, kOften, true);
  pause.go_on(true, 1, true);
  EXPECT_EQ(pause.us(), 400);
}

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
