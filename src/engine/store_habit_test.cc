// When copies go past the caches, by how long the others take.
#include "engine/store_habit.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

constexpr std::size_t kOctets = 64 * 1024;
constexpr std::uint64_t kFast = kOctets / 8, kSlow = kOctets / 2;  // ticks

/// How many of so many copies go past the caches, where others take `ticks`.
int past_of(StoreHabit& habit, int copies, std::uint64_t ticks) {
  int past = 0;
  for (int i = 0; i < copies; ++i) {
    if (habit.goes_past(kOctets)) {
      ++past;
    } else {
      habit.note(kOctets, ticks);
    }
  }
  return past;
}

TEST(StoreHabit, WhereStoresAreFastNoneGoPast) {
  StoreHabit habit;
  EXPECT_EQ(past_of(habit, 10'000, kFast), 0);
}

TEST(StoreHabit, WhereTheyAreSlowNearlyAllDoAndTheRestAreTries) {
  StoreHabit habit;
  const int past = past_of(habit, 10'000, kSlow);
  EXPECT_GT(past, 9'900);
  EXPECT_LT(past, 10'000);
}

TEST(StoreHabit, WhatHasChangedIsFound) {
  StoreHabit habit;
  past_of(habit, 3'000, kSlow);
  EXPECT_LE(past_of(habit, 10'000, kFast), 1'024);
  EXPECT_GT(past_of(habit, 10'000, kSlow), 9'900);
}

TEST(StoreHabit, WithoutAClockAllStoresAreFast) {
  StoreHabit habit;
  EXPECT_EQ(past_of(habit, 10'000, 0), 0);
}

TEST(StoreHabit, ALongCopyEndsARowOfThem) {
  StoreHabit habit;
  habit.note(kOctets, kSlow);
  EXPECT_TRUE(habit.goes_past(std::size_t{1} << 40));
  EXPECT_FALSE(habit.goes_past(kOctets));
}

}  // namespace
}  // namespace weft::engine
