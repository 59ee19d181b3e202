// Which buffer is lent next, and where those lie that another core reads.
#include "engine/buffers.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "engine/spliced_batches.h"

namespace weft::engine {
namespace {

// Another core has read them: to write them again at once is slow.
TEST(TransmitPool, BuffersRestBeforeTheyAreLentAgain) {
  TransmitPool pool;
  SplicedBatches batches(true);
  std::vector<const TransmitBuffer*> lent;
  for (int i = 0; i < 24; ++i) {
    auto buffer = pool.borrow();
    lent.push_back(buffer.get());
    static_cast<void>(batches.note_sent(100, true));
    batches.keep(std::move(buffer));
    ASSERT_EQ(batches.release(0, pool), 100u);
  }
  constexpr std::size_t kResting = TransmitPool::kResting;
  const auto last = lent.end() - kResting;
  EXPECT_EQ(std::set(last, lent.end()).size(), kResting) << "one was lent again before others were";
  EXPECT_TRUE(std::equal(last, lent.end(), last - kResting)) << "others were made";
  constexpr std::uintptr_t kLargePage = 2 * 1024 * 1024;
  std::set<std::uintptr_t> pages;
  for (auto buffer = last; buffer != lent.end(); ++buffer) {
    pages.insert(reinterpret_cast<std::uintptr_t>(*buffer) / kLargePage);
    pages.insert(reinterpret_cast<std::uintptr_t>(*buffer + 1) / kLargePage);
  }
  EXPECT_LE(pages.size(), 3u) << "with the one behind the last octet";
}

TEST(TransmitPool, MoreThanThoseThatRestAreMadeAndLentBehindThem) {
  TransmitPool pool;
  pool.give_back_to_rest(pool.borrow());
  std::vector<std::unique_ptr<TransmitBuffer>> lent;
  for (std::size_t i = 0; i < 2 * TransmitPool::kResting; ++i) lent.push_back(pool.borrow());
  std::set<const TransmitBuffer*> resting;
  for (const auto& buffer : lent) {
    if (buffer->home != nullptr) resting.insert(buffer.get());
  }
  EXPECT_EQ(resting.size(), TransmitPool::kResting);
  std::set<const TransmitBuffer*> all;
  for (const auto& buffer : lent) all.insert(buffer.get());
  for (int round = 0; round < 4; ++round) {
    for (auto& buffer : lent) {
      const bool rests = round % 2 != 0;
      rests ? pool.give_back_to_rest(std::move(buffer)) : pool.give_back(std::move(buffer));
    }
    EXPECT_EQ(pool.borrowed(), 0u);
    for (auto& buffer : lent) buffer = pool.borrow();
    for (std::size_t i = 0; i < lent.size(); ++i) {
      EXPECT_EQ(resting.contains(lent[i].get()), i < TransmitPool::kResting) << i;
      EXPECT_TRUE(all.contains(lent[i].get())) << "another was made: " << i;
    }
  }
  for (auto& buffer : lent) pool.give_back_to_rest(std::move(buffer));
}

TEST(TransmitPool, NotAllThatWereEverLentAreKept) {
  TransmitPool pool;
  pool.give_back_to_rest(pool.borrow());
  std::vector<std::unique_ptr<TransmitBuffer>> lent(100);
  for (int round = 0; round < 2; ++round) {
    for (auto& buffer : lent) buffer = pool.borrow();
    for (auto& buffer : lent) pool.give_back(std::move(buffer));
  }
  EXPECT_EQ(pool.borrowed(), 0u);
  EXPECT_LE(pool.kept(), TransmitPool::kResting + 8);
}

// A connection may end behind its RNIC.
TEST(TransmitPool, BuffersOutliveTheirPool) {
  std::unique_ptr<TransmitBuffer> buffer;
  {
    TransmitPool pool;
    pool.give_back_to_rest(pool.borrow());
    buffer = pool.borrow();
    ASSERT_NE(buffer->home, nullptr);
  }
  buffer->staging.fill(1);
}

TEST(TransmitPool, LostBuffersAreReplaced) {
  TransmitPool pool;
  std::vector<std::unique_ptr<TransmitBuffer>> lost;
  for (std::size_t i = 0; i < 3 * TransmitPool::kResting; ++i) {
    pool.give_back_to_rest(pool.borrow());
    auto buffer = pool.borrow();
    ASSERT_NE(buffer, nullptr);
    buffer->staging.fill(static_cast<std::uint8_t>(i));
    TransmitBuffer* const place = buffer.get();
    for (const auto& other : lost) EXPECT_NE(other.get(), place) << "a lost one was lent again";
    pool.lose(std::move(buffer));
    lost.emplace_back(place);
  }
  EXPECT_EQ(pool.borrowed(), 0u);
}

TEST(TransmitPool, WhereNothingMayBeFreedNoneAreReplaced) {
  TransmitPool pool;
  auto first = pool.borrow();
  const TransmitBuffer* const own = first.get();
  pool.keep_all();
  pool.give_back_to_rest(std::move(first));
  first = pool.borrow();
  EXPECT_EQ(first.get(), own);
  pool.give_back(std::move(first));
}

TEST(TransmitPool, BuffersThatWereCopiedFromAreLentAgainAtOnce) {
  TransmitPool pool;
  SplicedBatches batches(true);
  static_cast<void>(batches.note_sent(100, true));
  batches.keep(pool.borrow());
  ASSERT_EQ(batches.release(0, pool), 100u);
  for (int i = 0; i < 8; ++i) pool.give_back(pool.borrow());
  auto copied = pool.borrow();
  const TransmitBuffer* const hot = copied.get();
  pool.give_back(std::move(copied));
  copied = pool.borrow();
  EXPECT_EQ(copied.get(), hot);
  pool.give_back(std::move(copied));
}

}  // namespace
}  // namespace weft::engine
