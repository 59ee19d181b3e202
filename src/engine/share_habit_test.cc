// Both ways are tried, the better one is kept, and both are tried again.
#include "engine/share_habit.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

constexpr int kTurn = ShareHabit::kTried + ShareHabit::kChanging;
constexpr Duration kTrip = std::chrono::microseconds(50);

/// Trips that take so long, by way.
void travel(ShareHabit& habit, int trips, Duration equal, Duration with_short_end) {
  for (int i = 0; i < trips; ++i) habit.note(habit.ends_short() ? with_short_end : equal);
}
void try_both(ShareHabit& habit, Duration equal, Duration with_short_end) {
  for (int turn = 0; turn < 2 * ShareHabit::kTurns; ++turn) {
    EXPECT_EQ(habit.ends_short(), turn % 2 != 0) << turn;
    travel(habit, kTurn, equal, with_short_end);
  }
}

TEST(ShareHabitTest, TheBetterOneIsKeptForAWhile) {
  for (const bool short_is_better : {true, false, true}) {
    ShareHabit habit;
    const Duration better = kTrip * 9 / 10;
    try_both(habit, short_is_better ? kTrip : better, short_is_better ? better : kTrip);
    for (std::uint32_t i = 0; i < ShareHabit::kKept; ++i) {
      ASSERT_EQ(habit.ends_short(), short_is_better) << i;
      habit.note(kTrip);
    }
  }
}

TEST(ShareHabitTest, WhatWasBetterMayBecomeTheWorseOne) {
  ShareHabit habit;
  for (const bool short_is_better : {true, false, true}) {
    try_both(habit, kTrip, short_is_better ? kTrip / 2 : 2 * kTrip);
    EXPECT_EQ(habit.ends_short(), short_is_better);
    travel(habit, ShareHabit::kKept, kTrip, kTrip);
  }
}

/// A trip in which the processor was taken away says nothing, nor does one of before the change.
TEST(ShareHabitTest, AFewLongTripsSayNothing) {
  ShareHabit habit;
  for (int turn = 0; turn < 2 * ShareHabit::kTurns; ++turn) {
    const bool is_short = habit.ends_short();
    for (int i = 0; i < kTurn; ++i) {
      const bool odd = i < static_cast<int>(ShareHabit::kChanging) || i % 4 == 3;
      habit.note(odd ? (is_short ? 100 * kTrip : Duration{1}) : (is_short ? kTrip / 2 : kTrip));
    }
  }
  EXPECT_TRUE(habit.ends_short());
}

}  // namespace
}  // namespace weft::engine
