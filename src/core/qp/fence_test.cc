// Fences and local invalidation: what waits for what.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

TEST(QPFence, ReadFenceWaitsForEarlierReads) {
  Pair pair;
  const Region sink = pair.a.region(64), source = pair.b.region(64), buffer = pair.b.region(64);
  pair.a.read({sink.sge(8)}, source.stag, source.to);
  pair.a.send("may overtake");
  pair.a.post({.opcode = WorkOpcode::Send, .read_fence = true}, {}, bytes("fenced"));
  pair.b.receive({buffer.sge()});
  pair.b.receive({buffer.sge()});
  const Bytes before = pair.a.transmit_all();
  EXPECT_EQ(ulpdus(before).size(), 2u);
  EXPECT_FALSE(pair.a.qp->wants_transmit());
  pair.b.deliver(before);
  pair.a.deliver(pair.b.transmit());
  EXPECT_TRUE(pair.a.qp->wants_transmit());
  EXPECT_EQ(ulpdus(pair.a.transmit_all()).size(), 1u);
  EXPECT_EQ(pair.a.queues.sent.size(), 3u);
}

TEST(QPFence, ReadFenceDoesNotWaitForSends) {
  End a;
  a.bind();
  a.send("not accepted yet");
  a.post({.opcode = WorkOpcode::Write, .read_fence = true, .remote_stag = {1}}, {}, bytes("w"));
  EXPECT_EQ(ulpdus(a.transmit(false)).size(), 2u);
}

TEST(QPFence, LocalFenceWaitsForEverything) {
  End a;
  a.bind();
  const Region region = a.region(64);
  a.send({region.sge()});
  a.post({.opcode = WorkOpcode::LocalInvalidate, .local_fence = true,
          .invalidate_stag = region.stag});
  const Bytes octets = a.transmit(false);
  EXPECT_FALSE(a.qp->wants_transmit());
  EXPECT_TRUE(a.table.check(region.stag, region.to, 1, kLocalWrite, kPD).ok());
  a.qp->handle_sent(octets.size(), a.now);
  EXPECT_TRUE(a.qp->wants_transmit());
  a.transmit();
  EXPECT_FALSE(a.table.check(region.stag, region.to, 1, kLocalWrite, kPD).ok());
  EXPECT_EQ(statuses(a.queues.sent), (std::vector{WorkStatus::Success, WorkStatus::Success}));
}

// Without a fence an invalidation takes effect before later work, and completes in its turn.
TEST(QPFence, LocalInvalidateTakesEffectAtOnceAndCompletesInOrder) {
  End a;
  a.bind();
  const Region region = a.region(64);
  const auto first = a.send("first");
  const auto second =
      a.post({.opcode = WorkOpcode::LocalInvalidate, .invalidate_stag = region.stag});
  const auto third = a.send({region.sge()});
  const Bytes octets = a.transmit(false);
  EXPECT_TRUE(a.queues.sent.empty());
  a.qp->handle_sent(octets.size(), a.now);
  EXPECT_EQ(ids(a.queues.sent), (std::vector{first, second, third}));
  EXPECT_EQ(statuses(a.queues.sent),
            (std::vector{WorkStatus::Success, WorkStatus::Success, WorkStatus::LocalProtection}));
}

TEST(QPFence, LocalInvalidateOfAnotherPDsRegionFails) {
  End a;
  a.bind();
  const Region region = a.region(64, End::kAll, kOtherPD);
  a.post({.opcode = WorkOpcode::LocalInvalidate, .invalidate_stag = region.stag});
  EXPECT_EQ(ulpdus(a.transmit_all()), only(terminate(0x0000)));
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::LocalProtection});
}

}  // namespace
}  // namespace weft::core::testing
