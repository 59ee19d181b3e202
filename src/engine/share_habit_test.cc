// Both ways are tried, the better one is kept, and both are tried again.
#include "engine/share_habit.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

constexpr int kTurn = ShareHabit::kTried + ShareHabit::kChanging;
constexpr int kTurnsOfBoth = 2 * ShareHabit::kTurns;
constexpr Duration kTrip = std::chrono::microseconds(50);

/// Trips that take so long, by way.
void travel(ShareHabit& habit, int trips, Duration in_shares, Duration whole) {
  for (int i = 0; i < trips; ++i) habit.note(habit.sends_whole() ? whole : in_shares);
}
void try_both(ShareHabit& habit, Duration in_shares, Duration whole) {
  for (int turn = 0; turn < kTurnsOfBoth; ++turn) {
    EXPECT_EQ(habit.sends_whole(), turn % 2 != 0) << turn;
    travel(habit, kTurn, in_shares, whole);
  }
}

TEST(ShareHabitTest, TheBetterOneIsKeptForAWhile) {
  for (const bool whole_is_better : {true, false, true}) {
    ShareHabit habit;
    const Duration better = kTrip * 9 / 10;
    try_both(habit, whole_is_better ? kTrip : better, whole_is_better ? better : kTrip);
    for (std::uint32_t i = 0; i < ShareHabit::kKept; ++i) {
      ASSERT_EQ(habit.sends_whole(), whole_is_better) << i;
      habit.note(kTrip);
    }
  }
}

TEST(ShareHabitTest, WhatWasBetterMayBecomeTheWorseOne) {
  ShareHabit habit;
  for (const bool whole_is_better : {true, false, true}) {
    try_both(habit, kTrip, whole_is_better ? kTrip / 2 : 2 * kTrip);
    EXPECT_EQ(habit.sends_whole(), whole_is_better);
    travel(habit, ShareHabit::kKept, kTrip, kTrip);
  }
}

TEST(ShareHabitTest, ALittleLessMayBeChance) {
  ShareHabit habit;
  try_both(habit, kTrip, kTrip * 99 / 100);
  EXPECT_FALSE(habit.sends_whole());
}

/// A trip in which the processor was taken away says nothing, nor does one of before the change.
TEST(ShareHabitTest, AFewLongTripsSayNothing) {
  ShareHabit habit;
  for (int turn = 0; turn < kTurnsOfBoth; ++turn) {
    const bool whole = habit.sends_whole();
    for (int i = 0; i < kTurn; ++i) {
      const bool odd = i < static_cast<int>(ShareHabit::kChanging) || i % 4 == 3;
      habit.note(odd ? (whole ? 100 * kTrip : Duration{1}) : (whole ? kTrip / 2 : kTrip));
    }
  }
  EXPECT_TRUE(habit.sends_whole());
}

/// Nor does a turn in which something else had the machine.
TEST(ShareHabitTest, ALongTurnSaysNothing) {
  for (int long_one = 0; long_one < kTurnsOfBoth; ++long_one) {
    ShareHabit habit;
    for (int turn = 0; turn < kTurnsOfBoth; ++turn) {
      const Duration most = turn == long_one ? 3 * kTrip : kTrip;
      travel(habit, kTurn, most, most / 2);
    }
    EXPECT_TRUE(habit.sends_whole()) << long_one;
  }
}

}  // namespace
}  // namespace weft::engine
