// Two ways whose pace is known, as splicing and the kernel's copies.
#include "engine/trial_habit.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

using std::chrono::microseconds;

constexpr Trial kTrial{.changing = 24 << 20, .timed = 8 << 20, .pairs = 3, .first = 32 << 20};
using Habit = TrialHabit<kTrial>;
constexpr std::size_t kBatch = 256 << 10;
/// The first trial, with what is sent beyond each stretch.
constexpr std::uint64_t kTried =
    kTrial.first + Habit::kTried + std::uint64_t{8} * kTrial.pairs * kBatch;

/// A stream whose batches take so long, spliced and copied.
struct Stream {
  microseconds spliced, copied;
  Habit habit;
  Instant now{};

  /// Returns the octets of those that were copied. `long_enough`: to be spliced.
  std::uint64_t send(std::uint64_t octets, bool long_enough = true) {
    std::uint64_t copies = 0;
    for (std::uint64_t sent = 0; sent < octets; sent += kBatch) {
      habit.note(kBatch, long_enough && !habit.takes_other(), [this] { return now; });
      copies += habit.takes_other() ? kBatch : 0;
      now = now + (habit.takes_other() ? copied : spliced);
    }
    return copies;
  }
};

TEST(TrialHabit, TriesNothingAtFirst) {
  Stream stream{microseconds(50), microseconds(35), {}, {}};
  EXPECT_EQ(stream.send(kTrial.first), 0u);
  EXPECT_GT(stream.send(kTried), 0u);
}

TEST(TrialHabit, KeepsTheFasterWay) {
  Stream near{microseconds(50), microseconds(35), {}, {}};
  near.send(kTried);
  EXPECT_TRUE(near.habit.takes_other());
  EXPECT_EQ(near.send(Habit::kKeptMin / 2), Habit::kKeptMin / 2);
  Stream far{microseconds(50), microseconds(150), {}, {}};
  far.send(kTried);
  EXPECT_FALSE(far.habit.takes_other());
  EXPECT_EQ(far.send(Habit::kKeptMin / 8), 0u);
}

TEST(TrialHabit, SlowCopiesAreTriedOnce) {
  Stream far{microseconds(50), microseconds(150), {}, {}};
  EXPECT_LE(far.send(kTried), kTrial.changing + kTrial.timed + 2 * kBatch);
}

/// Whichever way is kept, the other one is, should it be far slower.
TEST(TrialHabit, SlowSplicingIsTriedOnce) {
  Stream near{microseconds(120), microseconds(35), {}, {}};
  near.send(kTried);
  ASSERT_TRUE(near.habit.takes_other());
  const std::uint64_t sent = 3 * Habit::kKeptMin / 2;
  EXPECT_GE(near.send(sent), sent - kTrial.changing - kTrial.timed - 2 * kBatch);
  EXPECT_TRUE(near.habit.takes_other());
}

/// As copies are, into memory that the kernel has not used lately.
TEST(TrialHabit, WhatIsSlowAtFirstIsNotSlow) {
  Stream stream{microseconds(50), microseconds(35), {}, {}};
  for (int turn = 0; turn < kTrial.pairs; ++turn) {
    while (!stream.habit.takes_other()) stream.send(kBatch);
    stream.copied = microseconds(400);
    stream.send(kTrial.changing - kBatch);
    stream.copied = microseconds(35);
    while (turn < kTrial.pairs - 1 && stream.habit.takes_other()) stream.send(kBatch);
  }
  stream.send(Habit::kTried);
  EXPECT_TRUE(stream.habit.takes_other());
}

TEST(TrialHabit, ALittleFasterIsNotFaster) {
  Stream even{microseconds(50), microseconds(48), {}, {}};
  even.send(kTried);
  EXPECT_FALSE(even.habit.takes_other());
}

/// Whatever else the machine did meanwhile.
TEST(TrialHabit, AHiccupDoesNotJudge) {
  for (const bool copying : {false, true}) {
    for (int turn = 0; turn < kTrial.pairs; ++turn) {
      if (copying && turn == 0) continue;  // by which copies that are far slower are known
      Stream stream{microseconds(50), microseconds(35), {}, {}};
      for (int i = 0; i < 2 * turn + (copying ? 1 : 0); ++i) {
        const bool before = stream.habit.takes_other();
        while (stream.habit.takes_other() == before) stream.send(kBatch);
      }
      stream.now = stream.now + microseconds(200);
      stream.send(kTrial.changing + 2 * kBatch);
      stream.now = stream.now + microseconds(2000);
      stream.send(kTried);
      EXPECT_TRUE(stream.habit.takes_other()) << copying << turn;
    }
  }
}

/// A virtual machine may be moved.
TEST(TrialHabit, IsTriedAgain) {
  Stream stream{microseconds(50), microseconds(35), {}, {}};
  stream.send(kTried);
  stream.copied = microseconds(150);
  stream.send(Habit::kKeptMin + kTried);
  EXPECT_FALSE(stream.habit.takes_other());
  stream.copied = microseconds(35);
  stream.send(Habit::kKeptMin + kTried);
  EXPECT_TRUE(stream.habit.takes_other());
}

TEST(TrialHabit, WhatStaysIsTriedMoreRarely) {
  Stream far{microseconds(50), microseconds(150), {}, {}};
  const std::uint64_t much = 8 * Habit::kKeptMax;
  EXPECT_LT(far.send(much), much / 500);
}

/// Buffers filled while the peer stood still.
TEST(TrialHabit, OneQuickStretchDoesNotJudge) {
  Stream even{microseconds(50), microseconds(50), {}, {}};
  while (!even.habit.takes_other()) even.send(kBatch);
  even.copied = microseconds(5);
  while (even.habit.takes_other()) even.send(kBatch);
  even.copied = microseconds(50);
  even.send(kTried);
  EXPECT_FALSE(even.habit.takes_other());
}

TEST(TrialHabit, WhatStandsStillIsNotTimed) {
  Stream stream{microseconds(50), microseconds(35), {}, {}};
  for (int i = 0; i < 64; ++i) {
    stream.send(kTrial.timed / 2);
    stream.now = stream.now + std::chrono::hours(1);
  }
  EXPECT_FALSE(stream.habit.takes_other());
  stream.send(kTried);
  EXPECT_TRUE(stream.habit.takes_other());
}

/// Nor does a way that stands still whenever it is tried stay on trial.
TEST(TrialHabit, WhatAlwaysStandsStillIsGivenUp) {
  Stream stream{microseconds(50), std::chrono::milliseconds(50), {}, {}};
  stream.send(3 * Habit::kTried);
  EXPECT_FALSE(stream.habit.takes_other());
  EXPECT_EQ(stream.send(Habit::kTried), 0u);
}

/// Processors' clocks may differ.
TEST(TrialHabit, TimeThatGoesBackSaysNothing) {
  Stream stream{microseconds(50), microseconds(60), {}, {}};
  while (!stream.habit.takes_other()) stream.send(kBatch);
  for (int i = 0; i < 4; ++i) {
    stream.send(kTrial.changing);
    stream.now = stream.now + -std::chrono::hours(2000);
  }
  stream.send(2 * Habit::kTried);
  EXPECT_FALSE(stream.habit.takes_other());
}

TEST(TrialHabit, WhatIsTooShortToBeSplicedSaysNothing) {
  Stream stream{microseconds(50), microseconds(35), {}, {}};
  EXPECT_EQ(stream.send(4 * kTried, false), 0u);
  stream.send(kTried);
  EXPECT_TRUE(stream.habit.takes_other());
}

TEST(TrialHabit, WhatGoesNeitherWayAgainAndAgainGoesOnAsBefore) {
  const auto send_now_and_then = [](Stream& stream) {
    std::uint64_t copies = 0;
    for (int i = 0; i < 4096; ++i) {
      copies += stream.send(kTrial.timed / 2);
      stream.habit.note_neither();
    }
    return copies;
  };
  Stream spliced{microseconds(50), microseconds(35), {}, {}};
  EXPECT_EQ(send_now_and_then(spliced), 0u);
  Stream copied{microseconds(50), microseconds(35), {}, {}};
  copied.send(kTried);
  ASSERT_TRUE(copied.habit.takes_other());
  EXPECT_GT(send_now_and_then(copied), 4000 * (kTrial.timed / 2));
  // The trial had begun before.
  Stream tried{microseconds(50), microseconds(35), {}, {}};
  while (!tried.habit.takes_other()) tried.send(kBatch);
  EXPECT_LT(send_now_and_then(tried), 8 * kTrial.timed);
}

}  // namespace
}  // namespace weft::engine
