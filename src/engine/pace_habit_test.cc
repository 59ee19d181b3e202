// Splicing against the kernel's copies, with streams of known pace.
#include "engine/pace_habit.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kBatch = 256 << 10;
constexpr std::uint64_t kTrial =
    std::uint64_t{2} * PaceHabit::kPairs * (PaceHabit::kChanging + PaceHabit::kTimed + 4 * kBatch);

/// A stream whose batches take so long, spliced and copied.
struct Stream {
  microseconds spliced, copied;
  PaceHabit habit;
  Instant now{};

  /// Returns the octets of those that were copied. `long_enough`: to be spliced.
  std::uint64_t send(std::uint64_t octets, bool long_enough = true) {
    std::uint64_t copies = 0;
    for (std::uint64_t sent = 0; sent < octets; sent += kBatch) {
      habit.note(kBatch, long_enough && !habit.copies(), [this] { return now; });
      copies += habit.copies() ? kBatch : 0;
      now = now + (habit.copies() ? copied : spliced);
    }
    return copies;
  }
};

TEST(PaceHabit, BeginsSpliced) {
  EXPECT_FALSE(PaceHabit().copies());
}

TEST(PaceHabit, KeepsTheFasterWay) {
  Stream near{microseconds(50), microseconds(35), {}, {}};
  near.send(kTrial);
  EXPECT_TRUE(near.habit.copies());
  EXPECT_EQ(near.send(PaceHabit::kKeptMin / 2), PaceHabit::kKeptMin / 2);
  Stream far{microseconds(50), microseconds(150), {}, {}};
  far.send(kTrial);
  EXPECT_FALSE(far.habit.copies());
  EXPECT_EQ(far.send(PaceHabit::kKeptMin / 4), 0u);
}

TEST(PaceHabit, SlowCopiesAreTriedOnce) {
  Stream far{microseconds(50), microseconds(150), {}, {}};
  EXPECT_LE(far.send(kTrial), PaceHabit::kChanging + PaceHabit::kTimed + 2 * kBatch);
}

TEST(PaceHabit, ALittleFasterIsNotFaster) {
  Stream even{microseconds(50), microseconds(48), {}, {}};
  even.send(kTrial);
  EXPECT_FALSE(even.habit.copies());
}

/// Whatever else the machine did meanwhile.
TEST(PaceHabit, AHiccupDoesNotJudge) {
  for (const bool copying : {false, true}) {
    for (int turn = 0; turn < PaceHabit::kPairs; ++turn) {
      if (copying && turn == 0) continue;  // by which copies that are far slower are known
      Stream stream{microseconds(50), microseconds(35), {}, {}};
      for (int i = 0; i < 2 * turn + (copying ? 1 : 0); ++i) {
        const bool before = stream.habit.copies();
        while (stream.habit.copies() == before) stream.send(kBatch);
      }
      stream.now = stream.now + microseconds(200);
      stream.send(PaceHabit::kChanging + 2 * kBatch);
      stream.now = stream.now + microseconds(2000);
      stream.send(kTrial);
      EXPECT_TRUE(stream.habit.copies()) << copying << turn;
    }
  }
}

/// A virtual machine may be moved.
TEST(PaceHabit, IsTriedAgain) {
  Stream stream{microseconds(50), microseconds(35), {}, {}};
  stream.send(kTrial);
  stream.copied = microseconds(150);
  stream.send(PaceHabit::kKeptMin + kTrial);
  EXPECT_FALSE(stream.habit.copies());
  stream.copied = microseconds(35);
  stream.send(PaceHabit::kKeptMin + kTrial);
  EXPECT_TRUE(stream.habit.copies());
}

TEST(PaceHabit, WhatStaysIsTriedMoreRarely) {
  Stream far{microseconds(50), microseconds(150), {}, {}};
  const std::uint64_t much = 8 * PaceHabit::kKeptMax;
  EXPECT_LT(far.send(much), much / 500);
}

/// Buffers filled while the peer stood still.
TEST(PaceHabit, OneQuickStretchDoesNotJudge) {
  Stream even{microseconds(50), microseconds(50), {}, {}};
  while (!even.habit.copies()) even.send(kBatch);
  even.copied = microseconds(5);
  while (even.habit.copies()) even.send(kBatch);
  even.copied = microseconds(50);
  even.send(kTrial);
  EXPECT_FALSE(even.habit.copies());
}

TEST(PaceHabit, WhatStandsStillIsNotTimed) {
  Stream stream{microseconds(50), microseconds(35), {}, {}};
  for (int i = 0; i < 64; ++i) {
    stream.send(PaceHabit::kTimed / 2);
    stream.now = stream.now + std::chrono::hours(1);
  }
  EXPECT_FALSE(stream.habit.copies());
  stream.send(kTrial);
  EXPECT_TRUE(stream.habit.copies());
}

TEST(PaceHabit, WhatIsTooShortToBeSplicedSaysNothing) {
  Stream stream{microseconds(50), microseconds(35), {}, {}};
  EXPECT_EQ(stream.send(4 * kTrial, false), 0u);
  stream.send(kTrial);
  EXPECT_TRUE(stream.habit.copies());
}

/// Its pace is the program's, whichever way is tried.
TEST(PaceHabit, WhoWaitsGoesOnAsBefore) {
  const auto send_and_wait = [](Stream& stream) {
    std::uint64_t copies = 0;
    for (int i = 0; i < 4096; ++i) {
      copies += stream.send(PaceHabit::kTimed / 2);
      stream.habit.note_wait();
    }
    return copies;
  };
  Stream spliced{microseconds(50), microseconds(35), {}, {}};
  EXPECT_EQ(send_and_wait(spliced), 0u);
  Stream copied{microseconds(50), microseconds(35), {}, {}};
  copied.send(kTrial);
  ASSERT_TRUE(copied.habit.copies());
  EXPECT_GT(send_and_wait(copied), 4000 * (PaceHabit::kTimed / 2));
  // The trial had begun, and then it waits.
  Stream tried{microseconds(50), microseconds(35), {}, {}};
  while (!tried.habit.copies()) tried.send(kBatch);
  EXPECT_LT(send_and_wait(tried), 8 * PaceHabit::kTimed);
}

}  // namespace
}  // namespace weft::engine
