// Tests of CQ, QP, SRQ and MR on a fake device.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <mutex>
#include <thread>
#include <vector>

#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/srq.h"
#include "verbs/testing/fake_runtime.h"

namespace weft::verbs {
namespace {

using testing::fake_device;

device::CompletionEntry completion(std::uint64_t id, device::QPNumber qp = 1) {
  device::CompletionEntry entry = {};
  entry.wr_id = id;
  entry.qp_number = qp;
  return entry;
}

class QueuesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device.on_poll = nullptr;
    ASSERT_TRUE(async.open(device, Numbers::Lowest));
    ASSERT_TRUE(pd.open(device));
    ASSERT_TRUE(cq.open(device, 8, nullptr, async, nullptr));
  }
  void TearDown() override {
    EXPECT_TRUE(cq.close());
    EXPECT_TRUE(pd.close());
    EXPECT_EQ(device.live_objects(), 0u);
  }
  QPShape shape() {
    QPShape shape;
    shape.pd = &pd;
    shape.send_cq = shape.receive_cq = &cq;
    shape.send_depth = 4;
    shape.receive_depth = 2;
    shape.send_sges = 2;
    shape.inline_octets = 64;
    return shape;
  }
  std::vector<std::uint64_t> poll(std::uint32_t max) {
    std::vector<std::uint64_t> ids;
    const auto count =
        cq.poll(max, [&](const device::CompletionEntry& entry) { ids.push_back(entry.wr_id); });
    EXPECT_EQ(count, ids.size());
    return ids;
  }
  using Ids = std::vector<std::uint64_t>;

  testing::FakeDevice& device = fake_device();
  AsyncQueue async;
  PD pd;
  CQ cq;
};

TEST_F(QueuesTest, PollGivesCompletionsInOrderUpToTheMaximum) {
  for (std::uint64_t id : {1, 2, 3}) device.complete(cq.number(), completion(id));
  EXPECT_EQ(poll(2), (Ids{1, 2}));
  EXPECT_EQ(poll(2), (Ids{3}));
  EXPECT_EQ(poll(0), Ids{});
}

TEST_F(QueuesTest, AnEmptyPollHelpsTheProtocolOnceAndLooksAgain) {
  device.on_poll = [&] { device.complete(cq.number(), completion(9)); };
  const int before = device.calls("poll");
  EXPECT_EQ(poll(4), Ids{9});
  EXPECT_EQ(device.calls("poll"), before + 1);
  device.on_poll = nullptr;
  EXPECT_EQ(poll(4), Ids{});
  EXPECT_EQ(device.calls("poll"), before + 2);
  device.complete(cq.number(), completion(10));
  EXPECT_EQ(poll(4), Ids{10});
  EXPECT_EQ(device.calls("poll"), before + 2) << "what is there is given without the protocol";
}

TEST_F(QueuesTest, PollFreesTheRing) {
  for (std::uint64_t round = 0; round < 100; ++round) {
    for (std::uint64_t i = 0; i < 8; ++i) {
      ASSERT_TRUE(device.complete(cq.number(), completion(round * 8 + i)));
    }
    ASSERT_FALSE(device.complete(cq.number(), completion(0)));
    ASSERT_EQ(poll(8).front(), round * 8);
  }
}

TEST_F(QueuesTest, WalkGivesOneByOneAndFreesEachAsItIsGiven) {
  EXPECT_EQ(cq.begin_walk(), nullptr);
  for (std::uint64_t id : {1, 2, 3}) device.complete(cq.number(), completion(id));
  for (std::uint64_t id = 4; id <= 8; ++id) device.complete(cq.number(), completion(id));
  const auto* walked = cq.begin_walk();
  ASSERT_NE(walked, nullptr);
  EXPECT_EQ(walked->wr_id, 1u);
  EXPECT_TRUE(device.complete(cq.number(), completion(9)));
  EXPECT_FALSE(device.complete(cq.number(), completion(10)));
  EXPECT_EQ(walked->wr_id, 1u) << "a copy";
  walked = cq.advance();
  ASSERT_NE(walked, nullptr);
  EXPECT_EQ(walked->wr_id, 2u);
  cq.end_walk();
  EXPECT_EQ(poll(6), (Ids{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(poll(8), Ids{9});
  device.complete(cq.number(), completion(3));
  EXPECT_EQ(poll(8), Ids{3});
  device.complete(cq.number(), completion(4));
  ASSERT_NE(cq.begin_walk(), nullptr);
  EXPECT_EQ(cq.advance(), nullptr);
  cq.end_walk();
  EXPECT_EQ(poll(8), Ids{});
}

TEST_F(QueuesTest, ResizeKeepsWhatIsUnread) {
  for (std::uint64_t id : {1, 2, 3}) device.complete(cq.number(), completion(id));
  EXPECT_EQ(poll(1), Ids{1});
  ASSERT_TRUE(cq.resize(32));
  EXPECT_EQ(cq.depth(), 32u);
  EXPECT_EQ(poll(8), (Ids{2, 3}));
  for (std::uint64_t id : {4, 5, 6}) device.complete(cq.number(), completion(id));
  EXPECT_EQ(cq.resize(2).error().code, ENOSPC);
  EXPECT_EQ(poll(8), (Ids{4, 5, 6}));
  EXPECT_EQ(cq.resize(0).error().code, EINVAL);
  EXPECT_EQ(cq.resize(device::kCQDepthMax + 1).error().code, EINVAL);
}

TEST_F(QueuesTest, PurgeDropsOneQPsCompletionsAndKeepsTheOrder) {
  const device::QPNumber kept = 1, gone = 2;
  for (std::uint64_t round = 0; round < 5; ++round) {  // at every position of the ring
    for (std::uint64_t id = 1; id <= 8; ++id) {
      device.complete(cq.number(), completion(id, id % 3 == 0 ? kept : gone));
    }
    cq.purge(gone);
    EXPECT_EQ(poll(8), (Ids{3, 6}));
    device.complete(cq.number(), completion(1, gone));
    cq.purge(kept);
    EXPECT_EQ(poll(8), Ids{1});
  }
}

TEST_F(QueuesTest, SendsArePublishedTogetherAndTheRingFills) {
  QP qp;
  ASSERT_TRUE(qp.open(shape(), async, nullptr));
  EXPECT_EQ(qp.shape().send_depth, 4u);
  {
    QP::SendBatch batch(qp);
    for (std::uint64_t id = 0; id < 4; ++id) {
      device::SendEntry* entry = batch.next();
      ASSERT_NE(entry, nullptr);
      entry->wr_id = id;
      batch.commit();
    }
    EXPECT_EQ(batch.next(), nullptr);
    EXPECT_EQ(device.unread_sends(qp.number()), 0u) << "not before finish";
    EXPECT_TRUE(batch.finish());
  }
  EXPECT_EQ(device.unread_sends(qp.number()), 4u);
  device.consume_send(qp.number());
  {
    QP::SendBatch batch(qp);
    EXPECT_NE(batch.next(), nullptr);
    batch.commit();
    batch.abort();
    EXPECT_FALSE(batch.finish());
  }
  EXPECT_EQ(device.unread_sends(qp.number()), 3u);
  EXPECT_TRUE(qp.close());
}

TEST_F(QueuesTest, APostWeighsWhatLeavesWithIt) {
  using Opcode = device::SendOpcode;
  struct Case {
    Opcode opcode;
    std::uint64_t leaves;
  };
  constexpr std::uint32_t kOctets = 1 << 20;
  for (const Case& one :
       {Case{Opcode::Send, kOctets}, {Opcode::WriteImmediate, kOctets}, {Opcode::Read, 0},
        {Opcode::ReadInvalidate, 0}, {Opcode::FetchAdd, 0}, {Opcode::CompareSwap, 0}}) {
    QP qp;
    ASSERT_TRUE(qp.open(shape(), async, nullptr));
    {
      QP::SendBatch batch(qp);
      device::SendEntry* entry = batch.next();
      ASSERT_NE(entry, nullptr);
      *entry = {};
      entry->opcode = one.opcode;
      entry->sge_count = 1;
      entry->sges()[0] = {.address = 0, .octets = kOctets, .stag = 0};
      batch.commit();
      ASSERT_TRUE(batch.finish());
      EXPECT_EQ(batch.posted().octets, one.leaves) << static_cast<int>(one.opcode);
    }
    EXPECT_TRUE(qp.close());
  }
}

TEST_F(QueuesTest, SeveralThreadsPostToOneQP) {
  QPShape wide = shape();
  wide.send_depth = 1024;
  QP qp;
  ASSERT_TRUE(qp.open(wide, async, nullptr));
  constexpr std::uint64_t kThreads = 4, kEach = 250;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        QP::SendBatch batch(qp);
        batch.next()->wr_id = t * kEach + i;
        batch.commit();
        batch.finish();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_EQ(device.unread_sends(qp.number()), kThreads * kEach);
  std::vector<bool> seen(kThreads * kEach);
  std::vector<std::uint64_t> last(kThreads, 0);
  while (const auto* entry = device.front_send(qp.number())) {
    ASSERT_FALSE(seen.at(entry->wr_id));
    seen[entry->wr_id] = true;
    const std::uint64_t thread = entry->wr_id / kEach;
    EXPECT_LE(last[thread], entry->wr_id) << "each thread's own order holds";
    last[thread] = entry->wr_id;
    device.consume_send(qp.number());
  }
  EXPECT_TRUE(qp.close());
}

TEST_F(QueuesTest, OfAThreadDomainItTakesNoLockToPost) {
  QPShape own = shape();
  own.send_depth = 1024;
  own.one_thread = true;
  QP qp;
  ASSERT_TRUE(qp.open(own, async, nullptr));
  // Threads may take turns, by a lock of their own.
  std::mutex turn;
  constexpr std::uint64_t kThreads = 4, kEach = 250;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        std::lock_guard lock(turn);
        QP::SendBatch batch(qp);
        batch.next()->wr_id = i;
        batch.commit();
        batch.finish();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(device.unread_sends(qp.number()), kThreads * kEach);
  {
    // With a lock the second would wait for the first for ever.
    QP::SendBatch first(qp), second(qp);
    EXPECT_FALSE(second.finish());
    EXPECT_FALSE(first.finish());
    ReceiveQueue::Batch third(qp.receives()), fourth(qp.receives());
    EXPECT_FALSE(fourth.finish());
    EXPECT_FALSE(third.finish());
  }
  EXPECT_TRUE(qp.close());
}

TEST_F(QueuesTest, WhatOnePollTookStillCountsAsOpenUntilAPollFindsNothing) {
  QP qp;
  ASSERT_TRUE(qp.open(shape(), async, nullptr));
  const auto open_at_post = [&] {
    QP::SendBatch batch(qp);
    device::SendEntry* entry = batch.next();
    EXPECT_NE(entry, nullptr);
    *entry = {};
    entry->flags = device::kSignaled;
    batch.commit();
    EXPECT_TRUE(batch.finish());
    return batch.posted().open;
  };
  const auto finish_all = [&] {
    for (int i = 0; i < 4; ++i) device.finish_send(qp.number());
    EXPECT_EQ(poll(8).size(), 4u);
  };
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(open_at_post(), i);
  finish_all();
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(open_at_post(), 4u);
  finish_all();
  EXPECT_EQ(poll(8), Ids{});
  EXPECT_EQ(open_at_post(), 0u);
  EXPECT_TRUE(qp.close());
}

TEST_F(QueuesTest, ReceivesFillTheirRing) {
  QP qp;
  ASSERT_TRUE(qp.open(shape(), async, nullptr));
  ReceiveQueue::Batch batch(qp.receives());
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(batch.next(), nullptr);
    batch.commit();
  }
  EXPECT_EQ(batch.next(), nullptr);
  EXPECT_TRUE(batch.finish());
  EXPECT_NE(device.front_receive(qp.number()), nullptr);
  EXPECT_TRUE(qp.close());
}

TEST_F(QueuesTest, APlaceIsFreeWhenItsCompletionWasPolled) {
  QP qp;
  ASSERT_TRUE(qp.open(shape(), async, nullptr));
  const auto post_sends = [&] {
    QP::SendBatch batch(qp);
    int posted = 0;
    for (; batch.next() != nullptr; ++posted) batch.commit();
    batch.finish();
    return posted;
  };
  const auto post_receives = [&] {
    ReceiveQueue::Batch batch(qp.receives());
    int posted = 0;
    for (; batch.next() != nullptr; ++posted) batch.commit();
    batch.finish();
    return posted;
  };
  const auto number = qp.number();
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    EXPECT_EQ(post_sends(), round == 0 ? 4 : 3);
    EXPECT_EQ(post_receives(), round == 0 ? 2 : 1);
    device.finish_send(number);
    device.finish_send(number);
    device.finish_receive(number);
    EXPECT_EQ(post_sends(), 0);
    EXPECT_EQ(post_receives(), 0);
    device.consume_send(number);  // unsignalled
    EXPECT_EQ(post_sends(), 1);
    EXPECT_EQ(poll(1).size(), 1u);
    EXPECT_EQ(post_sends(), 1);
    EXPECT_EQ(post_receives(), 0);
    EXPECT_NE(cq.begin_walk(), nullptr);
    EXPECT_EQ(post_sends(), 1) << "within the walk";
    EXPECT_NE(cq.advance(), nullptr);
    cq.end_walk();
    EXPECT_EQ(post_sends(), 0);
    EXPECT_EQ(post_receives(), 1);
    // As the round began, but for one of each that is free.
    device.finish_send(number);
    device.finish_receive(number);
    device.consume_send(number);
    device.consume_send(number);
    EXPECT_EQ(poll(8).size(), 2u);
  }
  EXPECT_TRUE(qp.close());
}

TEST_F(QueuesTest, ObjectsInUseAreNotDestroyed) {
  SRQ srq;
  ASSERT_TRUE(srq.open(pd, 4, 1, async, nullptr));
  QPShape shared = shape();
  shared.srq = &srq;
  QP qp;
  ASSERT_TRUE(qp.open(shared, async, nullptr));
  EXPECT_EQ(pd.close().error().code, EBUSY);
  EXPECT_EQ(cq.close().error().code, EBUSY);
  EXPECT_EQ(srq.close().error().code, EBUSY);
  EXPECT_TRUE(qp.close());
  EXPECT_TRUE(srq.close());
}

TEST_F(QueuesTest, ADestroyedQPLeavesNoCompletions) {
  QP qp;
  ASSERT_TRUE(qp.open(shape(), async, nullptr));
  device.complete(cq.number(), completion(1, qp.number()));
  device.complete(cq.number(), completion(2, qp.number() + 1));
  ASSERT_TRUE(qp.close());
  EXPECT_EQ(poll(8), Ids{2});
}

TEST_F(QueuesTest, ShapesAboveTheLimitsAreRefused) {
  const auto code = [&](auto change) {
    QPShape bad = shape();
    change(bad);
    QP qp;
    const auto opened = qp.open(bad, async, nullptr);
    return opened ? 0 : opened.error().code;
  };
  EXPECT_EQ(code([](QPShape& s) { s.send_depth = device::kQueueDepthMax + 1; }), EINVAL);
  EXPECT_EQ(code([](QPShape& s) { s.receive_depth = device::kQueueDepthMax + 1; }), EINVAL);
  EXPECT_EQ(code([](QPShape& s) { s.send_sges = device::kSGECountMax + 1; }), EINVAL);
  EXPECT_EQ(code([](QPShape& s) { s.receive_sges = device::kSGECountMax + 1; }), EINVAL);
  EXPECT_EQ(code([](QPShape& s) { s.inline_octets = device::kInlineOctetsMax + 1; }), EINVAL);
  SRQ srq;
  EXPECT_EQ(srq.open(pd, 0, 1, async, nullptr).error().code, EINVAL);
  EXPECT_EQ(srq.open(pd, 4, device::kSGECountMax + 1, async, nullptr).error().code, EINVAL);
}

TEST_F(QueuesTest, AFailedCreateLeavesNothingInUse) {
  device.fail_next("create_qp", ENOMEM);
  QP qp;
  EXPECT_EQ(qp.open(shape(), async, nullptr).error().code, ENOMEM);
  // TearDown closes the CQ and the PD.
}

TEST_F(QueuesTest, SRQLimitIsShownUntilItsEventCame) {
  SRQ srq;
  ASSERT_TRUE(srq.open(pd, 8, 2, async, nullptr));
  EXPECT_EQ(srq.set_limit(9).error().code, EINVAL);
  ASSERT_TRUE(srq.set_limit(3));
  EXPECT_EQ(srq.limit(), 3u);
  device.report_async(device::AsyncEventKind::SRQLimit, device.srq_cookie(srq.number()));
  EXPECT_EQ(srq.limit(), 0u);
  device.fail_next("set_srq_limit", EINVAL);
  EXPECT_FALSE(srq.set_limit(2));
  EXPECT_EQ(srq.limit(), 0u);
  EXPECT_TRUE(srq.close());
}

TEST_F(QueuesTest, RegionsAreCheckedBeforeTheDeviceSeesThem) {
  std::vector<std::uint8_t> buffer(4096);
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  const auto code = [&](RegionShape shape) {
    MR mr;
    const int before = device.calls("register_region");
    const auto opened = mr.open(pd, shape);
    EXPECT_EQ(device.calls("register_region"), before + (opened ? 1 : 0));
    if (!opened) return opened.error().code;
    EXPECT_TRUE(mr.close());
    return 0;
  };
  EXPECT_EQ(code({address, 4096, address, 0}), 0);
  EXPECT_EQ(code({address, 0, address, 0}), 0);
  EXPECT_EQ(code({0, 0, 0, device::kLocalWrite}), 0);
  EXPECT_EQ(code({address, 4096, address, device::kRemoteWrite}), EINVAL);
  EXPECT_EQ(code({address, 4096, address, device::kRemoteAtomic}), EINVAL);
  EXPECT_EQ(code({address, ~0ull, address, 0}), EINVAL);
  EXPECT_EQ(code({address, 4096, ~0ull - 100, 0}), EINVAL);
  EXPECT_EQ(code({address, 4096, ~0ull - 4095, 0}), 0) << "up to the last TO";
}

TEST_F(QueuesTest, ARegionOfAllMemoryIsOnDemandOrNotAtAll) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  MR mr;
  ASSERT_TRUE(mr.open(pd, {.octets = kMost, .on_demand = true, .everything = true}));
  const device::RegionRequest& seen = device.region(mr.stag());
  EXPECT_EQ(seen.address, 1u) << "null is no memory";
  EXPECT_EQ(seen.base_to, seen.address) << "an offset is an address";
  EXPECT_EQ(seen.octets, kMost - 1);
  EXPECT_EQ(seen.access, 0u);
  EXPECT_EQ(mr.shape().octets, kMost);
  // No longer on demand, it would have to be there.
  EXPECT_EQ(mr.reopen(pd, {.octets = kMost, .everything = true}).error().code, EINVAL);
  EXPECT_EQ(
      mr.reopen(
            pd,
            {.octets = kMost, .access = device::kZeroBased, .on_demand = true, .everything = true})
          .error()
          .code,
      EINVAL);
  EXPECT_TRUE(mr.close());
  // Lengths that the kernel would round up to 0.
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096}}) {
    EXPECT_EQ(mr.open(pd, {first, kMost - first, first, 0}).error().code, EFAULT) << first;
  }
}

TEST_F(QueuesTest, WhatIsClosedStaysClosed) {
  PD other;
  ASSERT_TRUE(other.open(device));
  MR mr;
  ASSERT_TRUE(mr.open(other, {0, 0, 0, 0}));
  ASSERT_TRUE(mr.close());
  ASSERT_TRUE(other.close());
  // Their numbers may be somebody else's by now.
  EXPECT_EQ(mr.stag(), 0u);
  EXPECT_EQ(other.number(), 0u);
}

TEST_F(QueuesTest, MemoryThatIsNotThereIsRefused) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* two = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(two, MAP_FAILED);
  munmap(static_cast<char*>(two) + page, page);
  const auto address = reinterpret_cast<std::uintptr_t>(two);
  MR mr;
  EXPECT_EQ(mr.open(pd, {address, page + 1, address, 0}).error().code, EFAULT);
  ASSERT_TRUE(mr.open(pd, {address + 1, page - 1, address, 0}));
  EXPECT_EQ(mr.reopen(pd, {address, 2 * page, address, 0}).error().code, EFAULT);
  EXPECT_EQ(mr.shape().octets, page - 1);
  EXPECT_TRUE(mr.close());
  munmap(two, page);
}

TEST_F(QueuesTest, ARegionMovesToAnotherPD) {
  PD other;
  ASSERT_TRUE(other.open(device));
  MR mr;
  ASSERT_TRUE(mr.open(pd, {0, 0, 0, 0}));
  ASSERT_TRUE(mr.reopen(other, {0, 0, 0, device::kRemoteRead}));
  EXPECT_EQ(device.region(mr.stag()).pd, other.number());
  EXPECT_EQ(other.close().error().code, EBUSY);
  ASSERT_TRUE(pd.close());
  ASSERT_TRUE(mr.close());
  ASSERT_TRUE(other.close());
  ASSERT_TRUE(pd.open(device));  // for TearDown
}

}  // namespace
}  // namespace weft::verbs
