// Whose bulk is spliced, by what the program does.
#include "engine/splice_habit.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

/// Batches that were spliced of so many, with so many in a row before the program waits for them.
int spliced_of(SpliceHabit& habit, int batches, int in_a_row) {
  int spliced = 0;
  std::uint32_t empty_polls = 0;
  for (int i = 1; i <= batches; ++i) {
    spliced += habit.splices();
    const bool more = i % in_a_row != 0;
    habit.note_batch(more, 0, empty_polls);
    if (more) continue;
    ++empty_polls;
    habit.note_told();
  }
  return spliced;
}

TEST(SpliceHabit, StreamsThatDoNotRunOutAreSpliced) {
  SpliceHabit habit(false);
  EXPECT_EQ(spliced_of(habit, 10'000, 1'000'000), 10'000);
}

TEST(SpliceHabit, WhoWaitsForCompletionsIsSentCopies) {
  for (const int in_a_row : {1, 2, 4}) {
    SpliceHabit habit(false);
    EXPECT_LT(spliced_of(habit, 100'000, in_a_row), 600) << in_a_row;
  }
}

// Posts that come late are the program's way: nothing of what it posts waits for a completion.
TEST(SpliceHabit, APauseIsNoWait) {
  SpliceHabit habit(false);
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(habit.splices());
    habit.note_batch(false, 0, static_cast<std::uint32_t>(i));
  }
}

// As fast as it posts the peer reads; it never finds its CQ empty.
TEST(SpliceHabit, WhoIsTooBusyPostingDoesNotWait) {
  SpliceHabit habit(false);
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(habit.splices());
    habit.note_batch(false, 0, 0);
    habit.note_told();
  }
}

TEST(SpliceHabit, WhoSleepsIsSentCopies) {
  SpliceHabit habit(false);
  int spliced = 0;
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    spliced += habit.splices();
    habit.note_batch(true, i / 4, 0);
  }
  EXPECT_LT(spliced, 600);
}

TEST(SpliceHabit, AProgramThatChangesIsTriedAgain) {
  SpliceHabit habit(false);
  spliced_of(habit, 10'000, 1);
  EXPECT_GT(spliced_of(habit, 100'000, 1'000'000), 50'000);
}

}  // namespace
}  // namespace weft::engine
