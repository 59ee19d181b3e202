// In which order the receives of an SRQ are used.
#include "engine/shared_receive_queue.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>
#include <vector>

namespace weft::engine {
namespace {

constexpr std::uint32_t kDepth = 8, kSGEs = 2;
constexpr std::size_t kFew = 64, kMany = 65;

class SharedReceiveQueueTest : public ::testing::Test {
 protected:
  SharedReceiveQueueTest() : srq_(1, {1}, make_memory(), kSGEs, 0) {}

  static RingMemory make_memory() {
    Result<RingMemory> made = SharedReceiveQueue::make_memory(kDepth, kSGEs);
    return std::move(*made);
  }

  void share_among(std::size_t users) { srq_.users.assign(users, nullptr); }
  /// As the program does. False: it finds the queue full.
  bool post(std::uint64_t id) {
    device::Ring ring = srq_.memory.ring();
    if (ring.full()) return false;
    const std::uint32_t at = ring.produced_own();
    auto& entry = *static_cast<device::ReceiveEntry*>(ring.entry(at));
    entry = {.wr_id = id, .sge_count = kSGEs, .reserved = 0};
    for (std::uint32_t i = 0; i < kSGEs; ++i) entry.sges()[i] = {10 * id + i, 1, 1};
    ring.publish(at + 1);
    return true;
  }
  void post_all(std::initializer_list<std::uint64_t> ids) {
    for (const std::uint64_t id : ids) ASSERT_TRUE(post(id));
  }
  /// 0: there is none.
  std::uint64_t take() {
    device::ReceiveEntry* const entry = srq_.next();
    if (entry == nullptr) return 0;
    const std::uint64_t id = entry->wr_id;
    EXPECT_EQ(entry->sge_count, kSGEs);
    for (std::uint32_t i = 0; i < kSGEs; ++i) EXPECT_EQ(entry->sges()[i].address, 10 * id + i);
    srq_.release();
    return id;
  }
  std::vector<std::uint64_t> take_all() {
    std::vector<std::uint64_t> ids;
    while (const std::uint64_t id = take()) ids.push_back(id);
    return ids;
  }

  SharedReceiveQueue srq_;
};

using Ids = std::vector<std::uint64_t>;

TEST_F(SharedReceiveQueueTest, OfFewTheOldestIsNext) {
  share_among(kFew);
  post_all({1, 2, 3});
  EXPECT_EQ(take(), 1u);
  post_all({4});
  EXPECT_EQ(take_all(), (Ids{2, 3, 4}));
  EXPECT_EQ(take(), 0u);
}

TEST_F(SharedReceiveQueueTest, OfManyTheLatestIsNext) {
  share_among(kMany);
  post_all({1, 2, 3});
  EXPECT_EQ(take(), 3u);
  post_all({4, 5});
  EXPECT_EQ(take_all(), (Ids{5, 4, 2, 1}));
  EXPECT_EQ(take(), 0u);
}

TEST_F(SharedReceiveQueueTest, ItHoldsAsManyInEitherOrder) {
  for (const std::size_t users : {kFew, kMany}) {
    share_among(users);
    std::uint64_t posted = 0, taken = 0;
    for (int round = 0; round < 50; ++round) {
      while (post(posted + 1)) ++posted;
      EXPECT_EQ(posted - taken, kDepth);
      for (int i = 0; i < 1 + round % 5; ++i, ++taken) EXPECT_NE(take(), 0u);
    }
    taken += take_all().size();
    EXPECT_EQ(taken, posted);
  }
}

TEST_F(SharedReceiveQueueTest, NoneIsLostOrUsedTwiceWhenTheOrderChanges) {
  share_among(kMany);
  post_all({1, 2, 3, 4});
  EXPECT_EQ(take(), 4u);
  share_among(kFew);
  post_all({5, 6});
  Ids ids = take_all();
  EXPECT_EQ(ids, (Ids{3, 2, 1, 5, 6})) << "first what was put aside";
  share_among(kMany);
  post_all({7, 8});
  EXPECT_EQ(take_all(), (Ids{8, 7}));
}

// What a program in another process writes there is not to be believed.
TEST_F(SharedReceiveQueueTest, AnIndexThatLiesHarmsNobodyElse) {
  share_among(kMany);
  post_all({1, 2});
  EXPECT_EQ(take(), 2u);
  srq_.memory.ring().publish(0x80000000u);
  for (int i = 0; i < 100 && srq_.next() != nullptr; ++i) srq_.release();
  srq_.memory.ring().publish(srq_.ring.consumed_own() - 3);
  for (int i = 0; i < 100 && srq_.next() != nullptr; ++i) srq_.release();
}

}  // namespace
}  // namespace weft::engine
