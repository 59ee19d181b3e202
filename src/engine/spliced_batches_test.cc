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
  batches.note_sent(100);
  batches.keep(pool.borrow());
  batches.note_sent(50);
  batches.keep(pool.borrow());
  EXPECT_EQ(batches.release(1000, false, pool), 0u);
  EXPECT_EQ(batches.release(60, false, pool), 90u);
  EXPECT_EQ(pool.borrowed(), 2u);
  EXPECT_EQ(batches.release(50, false, pool), 10u);
  EXPECT_EQ(pool.borrowed(), 1u);
  EXPECT_EQ(batches.release(0, false, pool), 50u);
  EXPECT_EQ(pool.borrowed(), 0u);
  EXPECT_TRUE(batches.empty());
}

TEST(SplicedBatches, CopiesBehindThemNeedNobodyToRead) {
  TransmitPool pool;
  SplicedBatches batches(true);
  batches.note_sent(100);
  batches.keep(pool.borrow());
  batches.note_sent(30);
  EXPECT_EQ(batches.release(80, false, pool), 50u);
  EXPECT_EQ(batches.release(30, false, pool), 80u) << "what is held was copied";
  EXPECT_TRUE(batches.empty());
}

// Of a batch of which the transport has only a part that part is held too.
TEST(SplicedBatches, APartOfABatchIsHeldToo) {
  TransmitPool pool;
  SplicedBatches batches(true);
  batches.note_sent(100);
  EXPECT_EQ(batches.release(100, true, pool), 0u);
  EXPECT_EQ(batches.release(40, true, pool), 60u);
  EXPECT_EQ(batches.release(0, true, pool), 40u);
}

TEST(SplicedBatches, AreFullAtABound) {
  TransmitPool pool;
  SplicedBatches batches(true);
  int kept = 0;
  while (!batches.full()) {
    batches.note_sent(10);
    batches.keep(pool.borrow());
    ASSERT_LT(++kept, 100);
  }
  EXPECT_EQ(batches.release(10 * static_cast<std::size_t>(kept - 1), false, pool), 10u);
  EXPECT_FALSE(batches.full());
  batches.abandon(pool);
  EXPECT_TRUE(batches.empty());
  EXPECT_EQ(pool.borrowed(), 0u);
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
  batches.note_sent(1000);
  batches.keep(std::move(buffer));
  batches.abandon(pool);
  auto again = pool.borrow();
  again->staging.fill(3);
  Bytes got(1000);
  ASSERT_EQ(::read(ends[0], got.data(), got.size()), 1000);
  EXPECT_EQ(got, Bytes(1000, 9));
  ::close(ends[0]);
  ::close(ends[1]);
  pool.give_back(std::move(again));
}

}  // namespace
}  // namespace weft::engine
