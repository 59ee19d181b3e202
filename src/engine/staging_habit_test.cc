// Whose bulk is staged to be spliced, by how long the two ways take.
#include "engine/staging_habit.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

constexpr std::size_t kOctets = 65'536;

/// Batches that were staged of so many, where the one way takes so long and the other so long.
int staged_of(StagingHabit& habit, int batches, Duration copied, Duration staged) {
  int count = 0;
  for (int i = 0; i < batches; ++i) {
    const bool stages = habit.stages();
    count += stages;
    habit.note(kOctets, stages ? staged : copied);
  }
  return count;
}

constexpr auto us(int n) {
  return Duration(std::chrono::microseconds(n));
}

TEST(StagingHabit, WhereCopiesAreFastNothingIsStaged) {
  StagingHabit habit(false);
  EXPECT_EQ(staged_of(habit, 100'000, us(16), us(1)), 0);
}

TEST(StagingHabit, WhereCopiesAreSlowMostIsStaged) {
  StagingHabit habit(false);
  EXPECT_GT(staged_of(habit, 100'000, us(45), us(16)), 99'000);
}

// It is tried ever more rarely: a slow machine is slow either way.
TEST(StagingHabit, WhereStagingIsNoFasterItIsTriedRarely) {
  for (const auto staged : {us(46), us(33), us(200)}) {
    StagingHabit habit(false);
    EXPECT_LT(staged_of(habit, 1'000'000, us(45), staged), 4'000);
  }
}

TEST(StagingHabit, ASlowBatchNowAndThenIsNoSign) {
  StagingHabit habit(false);
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_FALSE(habit.stages());
    habit.note(kOctets, i % StagingHabit::kSlowInARow == 0 ? us(2000) : us(16));
  }
}

// Which caches the two threads have changes by the minute.
TEST(StagingHabit, ItIsTriedAgainHowItIsNow) {
  StagingHabit habit(false);
  EXPECT_GT(staged_of(habit, 10'000, us(45), us(16)), 9'800);
  EXPECT_LE(staged_of(habit, 10'000, us(16), us(16)), int{StagingHabit::kWhile});
  EXPECT_GT(staged_of(habit, 10'000, us(45), us(16)), 9'800);
}

TEST(StagingHabit, AFailureIsForgottenBehindASuccess) {
  StagingHabit habit(false);
  staged_of(habit, 1'000'000, us(45), us(45));
  staged_of(habit, 100'000, us(45), us(16));
  EXPECT_TRUE(habit.stages());
  staged_of(habit, 2 * StagingHabit::kWhile, us(45), us(45));  // it fails once
  EXPECT_GT(staged_of(habit, 100'000, us(45), us(16)), 98'000);
}

TEST(StagingHabit, TestsMayHaveItAlways) {
  StagingHabit habit(true);
  EXPECT_EQ(staged_of(habit, 10'000, us(1), us(100)), 10'000);
}

}  // namespace
}  // namespace weft::engine
