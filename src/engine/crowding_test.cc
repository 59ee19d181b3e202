// Who sleeps in the place of yielding, and for how long.
#include "engine/crowding.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <chrono>
#include <thread>

namespace weft::engine {
namespace {

using namespace std::chrono_literals;

constexpr Duration kYield = 1us;

/// A thread that polls in vain and yields. Its clocks are the test's.
class Thread {
 public:
  /// Passes so much time, of which it has the processor for that much.
  void pass(Duration time, Duration had, std::int64_t taken = 8, std::int64_t slept = 0) {
    now_ = now_ + time;
    used_.processor += had;
    used_.taken += taken;
    used_.slept += slept;
    yield(kYield);
  }
  void yield(Duration took) {
    const Instant began = now_;
    now_ = now_ + took;
    crowding.note_yield(began, now_, [this] { return used_; });
  }
  /// How often it sleeps instead, until it is looked again.
  std::uint32_t sleeps() {
    std::uint32_t count = 0;
    for (; crowding.is_crowded(); ++count) crowding.note_sleep();
    return count;
  }
  /// A window begins.
  void begin() { pass(1us, 1us); }

  Crowding crowding;

 private:
  Instant now_{std::chrono::seconds(1000).count() * 1'000'000'000};
  Crowding::Usage used_;
};

constexpr Duration kWindow = Crowding::kWindow;

TEST(Crowding, IsNoneWhereTheThreadRuns) {
  Thread thread;
  thread.begin();
  for (int i = 0; i < 10; ++i) thread.pass(kWindow, kWindow * 99 / 100);
  EXPECT_FALSE(thread.crowding.is_crowded());
  thread.pass(kWindow, kWindow * 4 / 5, Crowding::kTakenOften - 1);
  EXPECT_FALSE(thread.crowding.is_crowded());
}

/// Who sleeps until there is something to answer takes little, and waits for it each time.
TEST(Crowding, IsWhereItIsInterruptedAgainAndAgain) {
  Thread thread;
  thread.begin();
  thread.pass(kWindow, kWindow * 15 / 16, Crowding::kTakenOften);
  EXPECT_TRUE(thread.crowding.is_crowded());
}

TEST(Crowding, IsWhereItDoesNotForMuchOfTheTime) {
  Thread thread;
  thread.pass(kWindow, kWindow / 2);
  EXPECT_FALSE(thread.crowding.is_crowded()) << "of what was before nothing is known";
  thread.pass(kWindow, kWindow / 2);
  EXPECT_EQ(thread.sleeps(), Crowding::kSleepsMin);
  thread.pass(kWindow, kWindow / 2);
  EXPECT_FALSE(thread.crowding.is_crowded()) << "the time that it slept is not looked at";
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
  thread.pass(kWindow, kWindow);
  EXPECT_FALSE(thread.crowding.is_crowded());
  thread.pass(kWindow, kWindow / 2);
  EXPECT_EQ(thread.sleeps(), Crowding::kSleepsMin);
}

TEST(Crowding, IsNoneWhereItSleeps) {
  Thread thread;
  thread.begin();
  thread.pass(100 * kWindow, kWindow, 8, 1);
  EXPECT_FALSE(thread.crowding.is_crowded());
}

/// The host of a virtual machine may stop it, too, and sleeping does not help.
TEST(Crowding, IsNoneWhereNobodyHereTookTheProcessor) {
  Thread thread;
  thread.begin();
  thread.pass(kWindow, kWindow / 2, Crowding::kTakenMin - 1);
  EXPECT_FALSE(thread.crowding.is_crowded());
  thread.pass(Crowding::kWindowMost, kWindow, 0);
  EXPECT_FALSE(thread.crowding.is_crowded());
}

TEST(Crowding, IsSeenWhereSlicesAreLong) {
  Thread thread;
  thread.begin();
  thread.pass(kWindow, kWindow / 2, 1);
  EXPECT_FALSE(thread.crowding.is_crowded());
  thread.pass(kWindow, kWindow / 2, 1);
  EXPECT_TRUE(thread.crowding.is_crowded());
}

TEST(Crowding, IsNoneWhereYieldingHelps) {
  Thread thread;
  thread.begin();
  for (int i = 0; i < 1000; ++i) {
    thread.pass(100us, 95us, 1);
    thread.yield(100us);
  }
  EXPECT_FALSE(thread.crowding.is_crowded());
}

TEST(Crowding, UsageIsTheThreads) {
  std::thread([] {
    const Crowding::Usage before = Crowding::usage();
    const auto end = std::chrono::steady_clock::now() + 2ms;
    while (std::chrono::steady_clock::now() < end) {
    }
    const timespec moment = {0, 1'000'000};
    nanosleep(&moment, nullptr);
    const Crowding::Usage after = Crowding::usage();
    EXPECT_GT(after.processor, before.processor);
    EXPECT_GT(after.slept, before.slept);
  }).join();
}

}  // namespace
}  // namespace weft::engine
