// How far what was spliced may be told of, and what becomes of its buffers.
#include "engine/spliced_batches.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <vector>

namespace weft::engine {
namespace {

using Bytes = std::vector<std::uint8_t>;

TEST(SplicedBatches, AreToldOfAsFarAsNothingIsHeld) {
  TransmitPool pool;
  SplicedBatches batches(true);
  EXPECT_TRUE(batches.empty());
  EXPECT_EQ(batches.note_sent(100, true), 0u);
  batches.keep(pool.borrow());
  EXPECT_EQ(batches.note_sent(50, true), 0u);
  batches.keep(pool.borrow());
  EXPECT_EQ(batches.release(1000, pool), 0u);
  EXPECT_EQ(batches.release(60, pool), 90u);
  EXPECT_EQ(pool.borrowed(), 2u);
  EXPECT_EQ(batches.release(50, pool), 10u);
  EXPECT_EQ(pool.borrowed(), 1u);
  EXPECT_EQ(batches.release(0, pool), 50u);
  EXPECT_EQ(pool.borrowed(), 0u);
  EXPECT_TRUE(batches.empty());
}

TEST(SplicedBatches, CopiesBehindThemNeedNobodyToRead) {
  TransmitPool pool;
  SplicedBatches batches(true);
  EXPECT_EQ(batches.note_sent(100, true), 0u);
  batches.keep(pool.borrow());
  EXPECT_EQ(batches.note_sent(30, false), 0u) << "before those in front of them";
  EXPECT_EQ(batches.release(80, pool), 50u);
  EXPECT_EQ(batches.release(30, pool), 80u) << "what is held was copied";
  EXPECT_TRUE(batches.empty());
}

// Of a batch of which the transport has only a part that part is held too.
TEST(SplicedBatches, APartOfABatchIsHeldToo) {
  TransmitPool pool;
  SplicedBatches batches(true);
  EXPECT_EQ(batches.note_sent(100, true), 0u);
  EXPECT_EQ(batches.release(100, pool), 0u);
  EXPECT_EQ(batches.release(40, pool), 60u);
  EXPECT_EQ(batches.release(0, pool), 40u);
}

TEST(SplicedBatches, AreFullAtABound) {
  TransmitPool pool;
  SplicedBatches batches(true);
  int kept = 0;
  while (!batches.full()) {
    EXPECT_EQ(batches.note_sent(10, true), 0u);
    batches.keep(pool.borrow());
    ASSERT_LT(++kept, 100);
  }
  EXPECT_EQ(batches.release(10 * static_cast<std::size_t>(kept - 1), pool), 10u);
  EXPECT_FALSE(batches.full());
  batches.abandon(pool);
  EXPECT_TRUE(batches.empty());
  EXPECT_EQ(pool.borrowed(), 0u);
}

/// A batch of so many octets that was staged, where the batches before it left room.
std::unique_ptr<TransmitBuffer> staged(SplicedBatches& batches, TransmitPool& pool,
                                       std::size_t octets) {
  std::unique_ptr<TransmitBuffer> batch = batches.take_begun();
  if (batch == nullptr) batch = pool.borrow();
  batch->spliced = batch->staged = true;
  batch->total = octets;
  return batch;
}

TEST(SplicedBatches, WhatWasStagedIsToldOfAtOnce) {
  TransmitPool pool;
  SplicedBatches batches(true);
  EXPECT_EQ(batches.note_sent(64'000, false), 64'000u);
  batches.keep_staged(staged(batches, pool, 64'000));
  EXPECT_TRUE(batches.empty());
  EXPECT_TRUE(batches.keeps());
  EXPECT_EQ(batches.release(1, pool), 0u);
  EXPECT_TRUE(batches.keeps());
  EXPECT_EQ(batches.release(0, pool), 0u);
  EXPECT_FALSE(batches.keeps());
  EXPECT_EQ(pool.borrowed(), 0u);
}

TEST(SplicedBatches, WhatWasStagedBehindOthersIsToldOfAfterThem) {
  TransmitPool pool;
  SplicedBatches batches(true);
  EXPECT_EQ(batches.note_sent(100, true), 0u);
  batches.keep(pool.borrow());
  EXPECT_EQ(batches.note_sent(64'000, false), 0u);
  batches.keep_staged(staged(batches, pool, 64'000));
  EXPECT_EQ(batches.release(64'001, pool), 99u);
  EXPECT_EQ(batches.release(64'000, pool), 64'001u);
  EXPECT_TRUE(batches.empty());
  EXPECT_EQ(pool.borrowed(), 1u) << "nobody has read what was staged";
  batches.abandon(pool);
}

// Else each would write where the peer has just read.
TEST(SplicedBatches, StagedBatchesLieOneBehindTheOther) {
  TransmitPool pool;
  SplicedBatches batches(true);
  std::size_t end = 0;
  int in_the_first = 0;
  while (batches.may_stage()) {
    auto batch = staged(batches, pool, 65'000);
    ASSERT_LE(batch->begin + batch->total, batch->staging.size());
    if (batch->begin == 0) end = 0;
    EXPECT_GE(batch->begin, end) << "where the one before it is being read";
    end = batch->begin + batch->total;
    static_cast<void>(batches.note_sent(batch->total, false));
    batches.keep_staged(std::move(batch));
    if (pool.borrowed() == 1) ++in_the_first;
    ASSERT_LT(in_the_first, 100);
  }
  EXPECT_GE(in_the_first, 7);
  EXPECT_EQ(pool.borrowed(), 2u);
  static_cast<void>(batches.release(0, pool));
  EXPECT_EQ(pool.borrowed(), 0u);
  EXPECT_EQ(pool.borrow()->begin, 0u);
}

// A message of any length finds room, or another buffer.
TEST(SplicedBatches, ABufferWithoutRoomForTheLongestFPDUIsNotGoneOnWith) {
  TransmitPool pool;
  SplicedBatches batches(true);
  for (const std::size_t octets : {20'000, 65'000, 150'000, 262'000}) {
    std::size_t begin = 0;
    do {
      auto batch = staged(batches, pool, octets);
      begin = batch->begin;
      EXPECT_LE(begin + std::max(octets, kUnfinishedOctetsMax), batch->staging.size()) << octets;
      static_cast<void>(batches.note_sent(octets, false));
      batches.keep_staged(std::move(batch));
    } while (batches.may_stage());
    static_cast<void>(batches.release(0, pool));
    EXPECT_FALSE(batches.keeps());
  }
}

// The peer of a stream that is over may still read: what is staged next is not for it.
TEST(SplicedBatches, AbandonedBuffersGetOtherPages) {
  TransmitPool pool;
  SplicedBatches batches(true);
  auto buffer = pool.borrow();
  buffer->staging.fill(9);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const iovec piece = {buffer->staging.data() + 100, 1000};
  ASSERT_EQ(::vmsplice(ends[1], &piece, 1, 0), 1000);
  EXPECT_EQ(batches.note_sent(1000, true), 0u);
  batches.keep(std::move(buffer));
  // So with one that others may follow in.
  auto begun = pool.borrow();
  begun->staging.fill(8);
  const iovec other = {begun->staging.data(), 1000};
  ASSERT_EQ(::vmsplice(ends[1], &other, 1, 0), 1000);
  begun->total = 1000;
  batches.keep_staged(std::move(begun));
  batches.abandon(pool);
  EXPECT_FALSE(batches.keeps());
  auto again = pool.borrow(), another = pool.borrow();
  again->staging.fill(3);
  another->staging.fill(3);
  Bytes got(1000);
  for (const std::uint8_t sent : {9, 8}) {
    ASSERT_EQ(::read(ends[0], got.data(), got.size()), 1000);
    EXPECT_EQ(got, Bytes(1000, sent));
  }
  ::close(ends[0]);
  ::close(ends[1]);
  pool.give_back(std::move(again));
  pool.give_back(std::move(another));
}

}  // namespace
}  // namespace weft::engine
