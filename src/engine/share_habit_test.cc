// All ways are tried, the best one is kept, and all are tried again.
#include "engine/share_habit.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

using Way = ShareHabit::Way;
using Trips = std::array<Duration, ShareHabit::kWays>;  ///< how long one takes, by way

constexpr int kTurn = ShareHabit::kTried + ShareHabit::kChanging;
constexpr Duration kTrip = std::chrono::microseconds(50);

std::size_t index(Way way) {
  return static_cast<std::size_t>(way);
}
void travel(ShareHabit& habit, int trips, const Trips& take) {
  for (int i = 0; i < trips; ++i) habit.note(take[index(habit.way())]);
}
void try_all(ShareHabit& habit, const Trips& take) {
  for (std::size_t turn = 0; turn < ShareHabit::kWays * ShareHabit::kTurns; ++turn) {
    EXPECT_EQ(index(habit.way()), turn % ShareHabit::kWays) << turn;
    travel(habit, kTurn, take);
  }
}
Trips with_best(Way best) {
  Trips take;
  take.fill(kTrip);
  take[index(best)] = kTrip * 9 / 10;
  return take;
}

TEST(ShareHabitTest, TheBestOneIsKeptForAWhile) {
  for (const Way best : {Way::Equal, Way::ShortEnd, Way::ShortEndSoon}) {
    ShareHabit habit;
    try_all(habit, with_best(best));
    for (std::uint32_t i = 0; i < ShareHabit::kKept; ++i) {
      ASSERT_EQ(habit.way(), best) << i;
      habit.note(kTrip);
    }
  }
}

TEST(ShareHabitTest, WhatWasBestMayBecomeAWorseOne) {
  ShareHabit habit;
  for (const Way best : {Way::ShortEnd, Way::Equal, Way::ShortEndSoon, Way::ShortEnd}) {
    try_all(habit, with_best(best));
    EXPECT_EQ(habit.way(), best);
    travel(habit, ShareHabit::kKept, with_best(best));
  }
}

TEST(ShareHabitTest, ALittleLessMayBeChance) {
  ShareHabit habit;
  Trips take = with_best(Way::Equal);
  take[index(Way::ShortEnd)] = take[index(Way::Equal)] * 99 / 100;
  try_all(habit, take);
  EXPECT_EQ(habit.way(), Way::Equal);
}

/// A trip in which the processor was taken away says nothing, nor does one of before the change.
TEST(ShareHabitTest, AFewLongTripsSayNothing) {
  ShareHabit habit;
  const Trips take = with_best(Way::ShortEnd);
  for (std::size_t turn = 0; turn < ShareHabit::kWays * ShareHabit::kTurns; ++turn) {
    const Way way = habit.way();
    for (int i = 0; i < kTurn; ++i) {
      const bool odd = i < static_cast<int>(ShareHabit::kChanging) || i % 4 == 3;
      const Duration misleads = way == Way::ShortEnd ? 100 * kTrip : Duration{1};
      habit.note(odd ? misleads : take[index(way)]);
    }
  }
  EXPECT_EQ(habit.way(), Way::ShortEnd);
}

}  // namespace
}  // namespace weft::engine
