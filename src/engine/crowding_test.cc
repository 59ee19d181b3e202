// Who sleeps in the place of yielding, and for how long.
#include "engine/crowding.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace weft::engine {
namespace {

using namespace std::chrono_literals;

constexpr Duration kYield = 1us;

/// A thread that polls in vain and yields. Its clocks are the test's.
class Thread {
 public:
  /// Passes so much time, and waits for the processor for that much of it.
  void pass(Duration time, Duration waits, std::int64_t taken = 8) {
    now_ = now_ + time;
    waited_ += waits;
    taken_ += taken;
    yield(kYield);
  }
  /// A yield that is somebody's turn.
  void give_way(Duration took) {
    waited_ += took;
    ++taken_;
    yield(took);
  }
  /// How often it sleeps instead, until it is looked again.
  std::uint32_t sleeps() {
    std::uint32_t count = 0;
    for (; crowding.is_crowded(); ++count) crowding.note_sleep();
    return count;
  }
  /// A window begins of one that was interrupted.
  void begin() {
    pass(1us, 0us);
    if (asked == 0) pass(Crowding::kWindow, 0us);
  }

  Crowding crowding;
  int asked = 0;  ///< for how long it has waited

 private:
  void yield(Duration took) {
    const Instant began = now_;
    now_ = now_ + took;
    crowding.note_yield(
        began, now_, [this] { return taken_; },
        [this] {
          ++asked;
          return waited_;
        });
  }

  Instant now_{std::chrono::nanoseconds(1000s).count()};
  std::int64_t taken_ = 0;
  Duration waited_{};
};

constexpr Duration kWindow = Crowding::kWindow;

TEST(Crowding, IsNoneWhereTheThreadRuns) {
  Thread thread;
  thread.begin();
  for (int i = 0; i < 10; ++i) thread.pass(kWindow, kWindow / 100);
  EXPECT_FALSE(thread.crowding.is_crowded());
  thread.begin();
  for (int i = 0; i < 10; ++i) thread.pass(kWindow, kWindow / 5, Crowding::kTakenOften - 1);
  EXPECT_FALSE(thread.crowding.is_crowded());
}

TEST(Crowding, OfWhoIsNotInterruptedNothingElseIsAsked) {
  Thread thread;
  for (int i = 0; i < 10; ++i) thread.pass(kWindow, 0us, Crowding::kTakenMin - 1);
  EXPECT_EQ(thread.asked, 0);
}

TEST(Crowding, IsWhereItWaitsForMuchOfTheTime) {
  Thread thread;
  thread.pass(kWindow, kWindow / 2);
  thread.pass(kWindow, kWindow / 2);
  EXPECT_FALSE(thread.crowding.is_crowded()) << "of what was before nothing is known";
  thread.pass(kWindow, kWindow / 2);
  EXPECT_EQ(thread.sleeps(), Crowding::kSleepsMin);
  thread.pass(kWindow, kWindow / 2);
  EXPECT_FALSE(thread.crowding.is_crowded()) << "the time that it slept is not looked at";
}

/// Who sleeps until there is something to answer takes little, and waits for it each time.
TEST(Crowding, IsWhereItIsInterruptedAgainAndAgain) {
  Thread thread;
  thread.begin();
  thread.pass(kWindow, kWindow / 16, Crowding::kTakenOften);
  EXPECT_TRUE(thread.crowding.is_crowded());
}

TEST(Crowding, LastsTwiceAsLongEachTimeItIsThereStill) {
  Thread thread;
  for (std::uint32_t expected = Crowding::kSleepsMin; expected < Crowding::kSleepsMax;
       expected *= 2) {
    thread.begin();
    thread.pass(kWindow, kWindow / 2);
    EXPECT_EQ(thread.sleeps(), expected);
  }
  for (int i = 0; i < 2; ++i) {
    thread.begin();
    thread.pass(kWindow, kWindow / 2);
    EXPECT_EQ(thread.sleeps(), Crowding::kSleepsMax);
  }
  thread.begin();
  thread.pass(kWindow, 0us);
  EXPECT_FALSE(thread.crowding.is_crowded());
  thread.pass(kWindow, kWindow / 2);
  thread.pass(kWindow, kWindow / 2);
  EXPECT_EQ(thread.sleeps(), Crowding::kSleepsMin);
}

TEST(Crowding, IsSeenWhereSlicesAreLong) {
  Thread thread;
  thread.begin();
  thread.pass(kWindow, kWindow / 2, 1);
  EXPECT_FALSE(thread.crowding.is_crowded());
  thread.pass(kWindow, kWindow / 2, 1);
  EXPECT_TRUE(thread.crowding.is_crowded());
}

TEST(Crowding, IsNoneWhereOneLongTurnWasAll) {
  Thread thread;
  thread.begin();
  thread.pass(Crowding::kWindowMost, Crowding::kWindowMost / 2, 1);
  EXPECT_FALSE(thread.crowding.is_crowded());
}

TEST(Crowding, IsNoneWhereYieldingHelps) {
  Thread thread;
  thread.begin();
  for (int i = 0; i < 1000; ++i) {
    thread.pass(100us, 1us, 0);
    thread.give_way(100us);
  }
  EXPECT_FALSE(thread.crowding.is_crowded());
}

/// Two that share a processor, of which this one does not sleep.
TEST(Crowding, WhatTheKernelTellsIsTheThreads) {
  cpu_set_t before, one;
  pthread_getaffinity_np(pthread_self(), sizeof before, &before);
  CPU_ZERO(&one);
  int last = CPU_SETSIZE - 1;
  while (last > 0 && !CPU_ISSET(last, &before)) --last;
  CPU_SET(last, &one);
  std::atomic<bool> over{false};
  const auto compute = [&] {
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    while (!over) {
    }
  };
  if (Crowding::waited() == Duration{}) GTEST_SKIP() << "this kernel does not tell";
  std::thread other(compute);
  std::thread([&] {
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    const std::int64_t taken = Crowding::taken();
    const Duration waited = Crowding::waited();
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (Crowding::waited() - waited < 20ms && std::chrono::steady_clock::now() < end) {
    }
    EXPECT_GE(Crowding::waited() - waited, 20ms);
    EXPECT_GT(Crowding::taken(), taken);
  }).join();
  over = true;
  other.join();
}

}  // namespace
}  // namespace weft::engine
