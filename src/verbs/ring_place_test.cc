// Queues whose rings lie in the program's memory, on a fake device.
#include "verbs/ring_place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verbs/cq.h"
#include "verbs/qp.h"
#include "verbs/srq.h"
#include "verbs/testing/fake_runtime.h"

namespace weft::verbs {
namespace {

using testing::fake_device;

/// Counts what it gave, and fails when it is told to.
class CountingAllocator final : public RingAllocator {
 public:
  Result<void*> allocate(RingKind kind, std::size_t octets) override {
    asked.emplace_back(kind, octets);
    if (fails == kind) return Error{ENOMEM, "told to fail"};
    if (declines == kind) return nullptr;
    void* memory = std::aligned_alloc(device::kRingAlignment, octets);
    given[memory] = kind;
    return memory;
  }
  void release(RingKind kind, void* memory) override {
    EXPECT_TRUE(given.contains(memory) && given[memory] == kind);
    given.erase(memory);
    std::free(memory);
  }
  /// Does that memory hold the entry?
  bool holds(const void* entry) const {
    return std::any_of(given.begin(), given.end(), [&](const auto& one) {
      const auto from = reinterpret_cast<std::uintptr_t>(one.first);
      const auto at = reinterpret_cast<std::uintptr_t>(entry);
      return at >= from && at < from + asked.back().second;
    });
  }

  std::vector<std::pair<RingKind, std::size_t>> asked;
  std::map<void*, RingKind> given;
  std::optional<RingKind> fails, declines;
};

class RingPlaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(async.open(device, Numbers::Lowest));
    ASSERT_TRUE(pd.open(device));
    ASSERT_TRUE(cq.open(device, 8, nullptr, async, nullptr));
  }
  void TearDown() override {
    EXPECT_TRUE(cq.close());
    EXPECT_TRUE(pd.close());
    EXPECT_EQ(device.live_objects(), 0u);
    EXPECT_TRUE(allocator.given.empty());
  }
  QPShape shape() {
    QPShape shape;
    shape.pd = &pd;
    shape.send_cq = shape.receive_cq = &cq;
    shape.send_depth = 4;
    shape.receive_depth = 2;
    shape.allocator = &allocator;
    return shape;
  }

  testing::FakeDevice& device = fake_device();
  CountingAllocator allocator;
  AsyncQueue async;
  PD pd;
  CQ cq;
};

TEST_F(RingPlaceTest, RingsLieWhereTheProgramsAllocatorSays) {
  CQ own;
  ASSERT_TRUE(own.open(device, 8, nullptr, async, nullptr, &allocator));
  QPShape with = shape();
  with.receive_cq = &own;
  QP qp;
  ASSERT_TRUE(qp.open(with, async, nullptr));
  SRQ srq;
  ASSERT_TRUE(srq.open(pd, 4, 3, async, nullptr, &allocator));
  using K = RingKind;
  ASSERT_EQ(allocator.asked.size(), 4u);
  const K order[] = {K::Completion, K::Send, K::Receive, K::SharedReceive};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(allocator.asked[i].first, order[i]);
  EXPECT_EQ(allocator.given.size(), 4u);
  ReceiveQueue::Batch batch(srq.receives());
  EXPECT_TRUE(allocator.holds(batch.next()));
  batch.finish();

  // With an SRQ there is no other receive ring.
  with.srq = &srq;
  QP sharing;
  ASSERT_TRUE(sharing.open(with, async, nullptr));
  EXPECT_EQ(allocator.given.size(), 5u);
  ASSERT_TRUE(sharing.close());

  // What is unread moves along; the old ring goes back when the new one is in use.
  device::CompletionEntry unread = {};
  unread.wr_id = 77;
  ASSERT_TRUE(device.complete(own.number(), unread));
  ASSERT_TRUE(own.resize(100));
  EXPECT_EQ(allocator.given.size(), 4u);
  std::uint64_t id = 0;
  own.poll(1, [&](const device::CompletionEntry& entry) { id = entry.wr_id; });
  EXPECT_EQ(id, 77u);
  device.fail_next("resize_cq", ENOMEM);
  EXPECT_FALSE(own.resize(200));
  EXPECT_EQ(allocator.given.size(), 4u) << "the new one went back";

  ASSERT_TRUE(qp.close());
  ASSERT_TRUE(srq.close());
  ASSERT_TRUE(own.close());
}

TEST_F(RingPlaceTest, AnAllocatorThatDeclinesLeavesItToTheDevice) {
  allocator.declines = RingKind::Send;
  const QPShape with = shape();
  QP qp;
  ASSERT_TRUE(qp.open(with, async, nullptr));
  EXPECT_EQ(allocator.asked.size(), 2u);
  EXPECT_EQ(allocator.given.size(), 1u);
  ASSERT_TRUE(qp.close());
}

TEST_F(RingPlaceTest, WithoutMemoryForARingNothingIsMadeAndAllGoesBack) {
  const QPShape with = shape();
  QP qp;
  for (const RingKind kind : {RingKind::Send, RingKind::Receive}) {
    allocator.fails = kind;
    EXPECT_EQ(qp.open(with, async, nullptr).error().code, ENOMEM);
    EXPECT_TRUE(allocator.given.empty());
  }
  SRQ srq;
  allocator.fails = RingKind::SharedReceive;
  EXPECT_EQ(srq.open(pd, 4, 1, async, nullptr, &allocator).error().code, ENOMEM);
  CQ own;
  allocator.fails = RingKind::Completion;
  EXPECT_EQ(own.open(device, 8, nullptr, async, nullptr, &allocator).error().code, ENOMEM);
  allocator.fails.reset();
  // What was given before the device refused goes back, too.
  device.fail_next("create_qp", ENOSPC);
  EXPECT_EQ(qp.open(with, async, nullptr).error().code, ENOSPC);
  EXPECT_TRUE(allocator.given.empty());
  device.fail_next("create_srq", ENOSPC);
  EXPECT_EQ(srq.open(pd, 4, 1, async, nullptr, &allocator).error().code, ENOSPC);
  EXPECT_TRUE(allocator.given.empty());
  device.fail_next("create_cq", ENOSPC);
  EXPECT_EQ(own.open(device, 8, nullptr, async, nullptr, &allocator).error().code, ENOSPC);
}

}  // namespace
}  // namespace weft::verbs
