// How work ends when the stream does.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

constexpr auto kFlushed = WorkStatus::Flushed;

//= DDP-15 DDP-17 RDM-25
TEST(QPFlush, LosingTheLLPFlushesEverythingInOrder) {
  Pair pair;
  pair.open();
  End& a = pair.a;
  const Region region = a.region(64);
  std::vector<std::uint64_t> sends, receives;
  sends.push_back(a.read({region.sge(8)}, {1}, 0));
  sends.push_back(a.post({.opcode = WorkOpcode::Send, .signaled = false}, {}, bytes("x")));
  sends.push_back(a.post({.opcode = WorkOpcode::Send, .read_fence = true}, {}, bytes("y")));
  sends.push_back(a.send("never taken"));
  receives.push_back(a.receive({region.sge()}));
  receives.push_back(a.receive({region.sge()}));
  a.transmit();
  a.qp->handle_llp_lost(a.now);
  a.drain();
  EXPECT_EQ(a.qp->state(), QPState::Error);
  EXPECT_EQ(ids(a.queues.sent), sends);
  EXPECT_EQ(statuses(a.queues.sent), (std::vector{kFlushed, kFlushed, kFlushed, kFlushed}));
  for (const Completion& completion : a.queues.sent) EXPECT_TRUE(completion.signaled);
  EXPECT_EQ(ids(a.queues.received), receives);
  EXPECT_EQ(statuses(a.queues.received), (std::vector{kFlushed, kFlushed}));
  ASSERT_EQ(a.notices.size(), 2u);
  EXPECT_EQ(a.notices[0].kind, QPNotice::Kind::LLPLost);
  EXPECT_EQ(a.notices[1].kind, QPNotice::Kind::Closed);
  EXPECT_EQ(a.action, LLPAction::None);
}

TEST(QPFlush, ErrorFlushesLaterPosts) {
  End a;
  a.bind();
  ASSERT_TRUE(a.qp->fail(a.now).ok());
  a.drain();
  EXPECT_EQ(a.action, LLPAction::Reset);
  EXPECT_EQ(a.qp->state(), QPState::Error);
  a.send("late");
  a.receive();
  a.qp->flush(a.now);
  EXPECT_EQ(statuses(a.queues.sent), std::vector{kFlushed});
  EXPECT_EQ(statuses(a.queues.received), std::vector{kFlushed});
  EXPECT_FALSE(a.qp->wants_transmit());
  EXPECT_TRUE(a.transmit().empty());
}

TEST(QPFlush, AReceiveHalfFilledIsFlushedFirst) {
  End b;
  b.bind(Role::Responder);
  const Region buffer = b.region(64);
  const auto half = b.receive({buffer.sge()}), next = b.receive({buffer.sge()});
  b.deliver(fpdu(send(1, bytes("half"), 0, false)));
  b.qp->handle_llp_lost(b.now);
  EXPECT_EQ(ids(b.queues.received), (std::vector{half, next}));
  EXPECT_EQ(statuses(b.queues.received), (std::vector{kFlushed, kFlushed}));
}

TEST(QPFlush, ASharedReceiveQueueKeepsItsBuffers) {
  End b;
  b.queues.shared = true;
  b.bind(Role::Responder);
  const Region buffer = b.region(64);
  const auto half = b.receive({buffer.sge()});
  b.receive({buffer.sge()});
  b.deliver(fpdu(send(1, bytes("half"), 0, false)));
  b.qp->handle_llp_lost(b.now);
  EXPECT_EQ(ids(b.queues.received), std::vector{half});
  EXPECT_EQ(b.queues.receives.size(), 1u);
}

// What the transport still sends from stays the program's not to touch until it is taken.
TEST(QPFlush, InTerminateWaitsForTheTransport) {
  QPConfig config;
  config.gather_octets_min = 64;
  End a(config);
  a.bind();
  const Region region = a.region(1000);
  a.send({region.sge()});
  a.send("behind");
  const Bytes octets = a.transmit(false, 1);
  ASSERT_TRUE(a.qp->terminate(a.now).ok());
  EXPECT_TRUE(a.queues.sent.empty());
  a.qp->handle_sent(octets.size(), a.now);
  EXPECT_EQ(statuses(a.queues.sent), (std::vector{WorkStatus::Success, kFlushed}));
  a.send("late");
  a.qp->flush(a.now);
  EXPECT_EQ(a.queues.sent.size(), 3u);
}

TEST(QPFlush, IdleToErrorFlushesWhatWasPosted) {
  End a;
  a.send("early");
  a.receive();
  ASSERT_TRUE(a.qp->fail(a.now).ok());
  a.drain();
  EXPECT_EQ(a.queues.sent.size(), 1u);
  EXPECT_EQ(a.queues.received.size(), 1u);
  EXPECT_EQ(a.action, LLPAction::None);
  EXPECT_TRUE(a.notices.empty());
}

TEST(QPFlush, ResetBeginsAfresh) {
  Pair pair;
  pair.open();
  End& a = pair.a;
  EXPECT_FALSE(a.qp->reset(a.now).ok());
  ASSERT_TRUE(a.qp->fail(a.now).ok());
  ASSERT_TRUE(a.qp->reset(a.now).ok());
  EXPECT_EQ(a.qp->state(), QPState::Idle);
  a.bind();
  a.send("hello iwarp world");
  const auto sent = ulpdus(a.transmit());
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(wire::DDPHeader::parse(sent[0])->msn, MSN{1});
}

}  // namespace
}  // namespace weft::core::testing
