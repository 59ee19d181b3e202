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

  /// Returns the octets of those that were copied.
  std::uint64_t send(std::uint64_t octets) {
    std::uint64_t copies = 0;
    for (std::uint64_t sent = 0; sent < octets; sent += kBatch) {
      habit.note(kBatch, [this] { return now; });
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

/// Its pace is the program's, whichever way is tried.
TEST(PaceHabit, WhoWaitsIsSplicedOn) {
  Stream stream{microseconds(50), microseconds(35), {}, {}};
  std::uint64_t copies = 0;
  for (int i = 0; i < 4096; ++i) {
    copies += stream.send(PaceHabit::kTimed / 2);
    stream.habit.note_wait();
  }
  EXPECT_EQ(copies, 0u);
  // The trial has begun, and then it waits.
  while (!stream.habit.copies()) stream.send(kBatch);
  for (int i = 0; i < 64; ++i) {
    copies += stream.send(PaceHabit::kTimed / 2);
    stream.habit.note_wait();
  }
  EXPECT_LT(copies, 8 * PaceHabit::kTimed);
  EXPECT_FALSE(stream.habit.copies());
}

}  // namespace
}  // namespace weft::engine
