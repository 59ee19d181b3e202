// Small parts of who gets how long a turn: brisk connections, where a program sleeps, and the
// progress thread's nap.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/number_gate.h"
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
  const auto receive = [&](int i) {
    client->post_receive(here[i], 1, octets.data(), 8, stag);
    server->post_send(there[i], {.address = octets.data(), .octets = 8, .stag = theirs});
    ASSERT_TRUE(server->wait_completion().has_value());
    ASSERT_TRUE(client->wait_completion().has_value());
  };
  receive(0);  // a responder that is silent would be nudged meanwhile
  // The client's second receives small messages, so its first minds it.
  for (int i = 0; i < 32; ++i) {
    receive(1);
    ASSERT_FALSE(HasFatalFailure());
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

/// The client looks at another CQ alone, whose stream is one of two or of more.
TEST_P(OtherCQTest, APollOfOneCQServesTheOthersToo) {
  constexpr std::size_t kMost = 4;
  start();
  listen();
  QPHandle here[kMost], there[kMost];
  device::CQFace cqs[kMost];
  for (std::size_t streams = 0; streams < kMost;) {
    cqs[streams] = client->cq = *client->rnic.create_cq(64, 0);
    here[streams] = client->make_qp();
    there[streams] = server->make_qp();
    establish(here[streams], there[streams]);
    ASSERT_FALSE(HasFatalFailure());
    if (++streams < 2) continue;
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
}

INSTANTIATE_TEST_SUITE_P(Placements, OtherCQTest,
                         ::testing::Values(Placement::Inline, Placement::Thread));

TEST(PassedOverTest, IsAskedInEveryEighthPollOfOtherCQs) {
  PassedOver passed;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < PassedOver::kMost; ++i) EXPECT_TRUE(passed.once_more());
    EXPECT_FALSE(passed.once_more());
    passed.end();
  }
}

TEST(PassedOverTest, IsNotAskedSoWhereItsOwnCQIsPolled) {
  PassedOver passed;
  for (int i = 0; i < 100; ++i) {
    for (int j = 0; j < PassedOver::kMost; ++j) EXPECT_TRUE(passed.once_more());
    passed.end();
  }
}

TEST(OthersTurnTest, ItComesOnceWhenAsked) {
  OthersTurn turn;
  EXPECT_FALSE(turn.come());
  turn.ask();
  EXPECT_TRUE(turn.come());
  EXPECT_FALSE(turn.come());
}

constexpr std::uint32_t kOften = 1000;

/// The pause behind so many in which the program came.
int pause_after(int count, bool watched, std::uint32_t calls) {
  Pause pause;
  for (int i = 0; i < count; ++i) pause.go_on(watched, calls);
  return pause.us();
}

TEST(PauseTest, ItGrowsToAMillisecondForWhoPollsNowAndThen) {
  EXPECT_EQ(pause_after(0, false, 1), 100);
  EXPECT_EQ(pause_after(1, false, 1), 200);
  EXPECT_EQ(pause_after(100, false, 1), 1000);
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

TEST(PauseTest, ItIsTheLongestOnlyForWhoIsTrusted) {
  Pause often, seldom;
  EXPECT_FALSE(often.is_longest());
  for (int i = 0; i < 100; ++i) {
    often.go_on(false, kOften);
    seldom.go_on(false, 1);
  }
  EXPECT_TRUE(often.is_longest());
  EXPECT_FALSE(seldom.is_longest());
}

TEST(PauseTest, OftenIsOnceIn50Microseconds) {
  EXPECT_EQ(pause_after(100, false, 40), 2000);
  EXPECT_EQ(pause_after(100, false, 19), 1000);
}

TEST(PauseTest, TrustIsNotInheritedFromPolling) {
  Pause pause;
  for (int i = 0; i < 100; ++i) pause.go_on(false, kOften);
  pause.go_on(true, kOften);
  EXPECT_EQ(pause.us(), 400);
}

TEST(PauseTest, TrustEndsWhenTheProgramComesSeldom) {
  Pause pause;
  for (int i = 0; i < 100; ++i) pause.go_on(true, kOften);
  pause.go_on(true, 1);
  EXPECT_EQ(pause.us(), 400);
}

TEST(PresenceTest, WhoIsNeverAwayForLongStays) {
  Presence presence;
  EXPECT_FALSE(presence.note(kStart));
  for (Instant now = kStart; now < kStart + Presence::kLong; now = now + Presence::kLate) {
    EXPECT_FALSE(presence.note(now));
  }
  EXPECT_TRUE(presence.note(kStart + Presence::kLong));
}

/// Notes as often as one who stays.
bool stay(Presence& presence, Instant from, Duration time) {
  bool stays = false;
  for (auto now = from; now <= from + time; now = now + Presence::kLate / 5) {
    stays = presence.note(now);
  }
  return stays;
}

TEST(PresenceTest, WhoWasAwayHasToStayForAsLongAgain) {
  Presence presence;
  ASSERT_TRUE(stay(presence, kStart, Presence::kLong));
  const Instant last = kStart + Presence::kLong;
  EXPECT_TRUE(presence.stays(last + Presence::kAway));
  const Instant back = last + Presence::kAway + Duration(1);
  EXPECT_FALSE(presence.stays(back));
  EXPECT_FALSE(presence.note(back));
  EXPECT_FALSE(stay(presence, back, Presence::kLong / 2));
  EXPECT_TRUE(stay(presence, back + Presence::kLong / 2, Presence::kLong / 2));
}

TEST(PresenceTest, WhoIsLateNowAndThenStays) {
  Presence presence;
  Instant now = kStart;
  ASSERT_TRUE(stay(presence, now, Presence::kLong));
  now = now + Presence::kLong;
  for (int i = 0; i < 100; ++i) {
    now = now + Presence::kAway / 2;
    ASSERT_TRUE(presence.note(now)) << i;
    const Duration here = Presence::kAway / 2 * Presence::kLateShare;
    ASSERT_TRUE(stay(presence, now, here)) << i;
    now = now + here;
  }
}

/// As who computes with a call for progress now and then, behind a time of nothing but calls.
TEST(PresenceTest, WhoIsLateAgainAndAgainDoesNot) {
  Presence presence;
  ASSERT_TRUE(stay(presence, kStart, Presence::kLong));
  Instant now = kStart + Presence::kLong;
  int rounds = 0;
  do {
    ASSERT_LT(++rounds, 6);
    stay(presence, now, Presence::kLate / 5);
    now = now + (Presence::kLate / 5 + Presence::kLate * 2);
  } while (presence.note(now));
  for (int i = 0; i < 1000; ++i) {
    now = now + Presence::kLate * 2;
    ASSERT_FALSE(presence.note(now)) << i;
  }
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
  EXPECT_TRUE(nap.wait(100));
}

TEST(NapTest, WhatNobodyTakesIsNotInterruptedLater) {
  Nap nap;
  nap.interrupt();
  EXPECT_TRUE(nap.wait(100));
}

TEST(NapTest, AnInterruptionIsToldOnce) {
  Nap nap;
  std::atomic<bool> ended{false};
  std::thread sleeper([&] {
    while (nap.wait(500'000)) {
    }
    ended = true;
  });
  while (!ended) nap.interrupt();
  sleeper.join();
  EXPECT_TRUE(nap.wait(100));
}

/// Pushes with a time so far ahead that what does not end a nap early does not end it at all.
class PushedNapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    nap.open();
    ASSERT_TRUE(nap.can_be_pushed());
  }
  Instant far_ahead() { return {(std::int64_t{1} << 50) + std::int64_t{++pushes} * 10'000'000}; }

  Nap nap;
  int pushes = 0;
};

TEST_F(PushedNapTest, EndsByItself) {
  EXPECT_TRUE(nap.wait_pushed());
  nap.push(far_ahead());  // which nobody waits for
  EXPECT_TRUE(nap.wait_pushed());
}

TEST_F(PushedNapTest, APushPutsOffItsEndAndAnInterruptionBringsItOn) {
  std::atomic<int> naps{0};
  std::atomic<bool> ended{false};
  std::thread sleeper([&] {
    while (nap.wait_pushed()) ++naps;
    ended = true;
  });
  for (int before = -1; before != naps;) {
    before = naps;
    nap.push(far_ahead());
    std::this_thread::sleep_for(4 * Nap::kPushed);
  }
  EXPECT_FALSE(ended);
  while (!ended) nap.interrupt();
  sleeper.join();
  EXPECT_TRUE(nap.wait_pushed());
}

TEST_F(PushedNapTest, APushSwallowsNoInterruption) {
  std::atomic<bool> over{false};
  std::atomic<int> told{0};
  std::thread sleeper([&] {
    while (!over) {
      if (!nap.wait_pushed()) ++told;
    }
  });
  std::thread pusher([&] {
    while (!over) nap.push(far_ahead());
  });
  for (int i = 0; i < 2000; ++i) {
    const int before = told;
    // One that comes between two naps does nothing.
    while (told == before) nap.interrupt();
  }
  over = true;
  pusher.join();
  nap.interrupt();
  sleeper.join();
}

TEST_F(PushedNapTest, OtherNapsArePushedByNobody) {
  std::atomic<bool> ended{false};
  std::thread sleeper([&] {
    EXPECT_TRUE(nap.wait(1000));
    ended = true;
  });
  while (!ended) nap.push(far_ahead());
  sleeper.join();
}

TEST_F(PushedNapTest, EndsAtOnceWhenTheProgramHasClosedItsTimer) {
  // Where the library's own lie; it gets the lowest of these.
  const int before = duplicate_out_of_the_way(STDIN_FILENO);
  ASSERT_GE(before, 0);
  ::close(before);
  Nap closed;
  closed.open();
  ASSERT_EQ(::close(before), 0);
  EXPECT_TRUE(closed.wait_pushed());
}

TEST(NapTest, WithoutADescriptorItCannotBePushed) {
  rlimit limit;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  Nap nap;
  nap.open();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_FALSE(nap.can_be_pushed());
  EXPECT_TRUE(nap.wait(100));
}

}  // namespace
}  // namespace weft::engine
