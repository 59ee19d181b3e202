// A Send that finds no receive posted.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

TEST(QPHoldback, ASendWaitsForAReceive) {
  Pair pair;
  const Region buffer = pair.b.region(64);
  pair.a.send("patience");
  const Received received = pair.b.deliver(pair.a.transmit());
  EXPECT_TRUE(received.held_back);
  EXPECT_EQ(received.consumed, 0u);
  EXPECT_EQ(pair.b.qp->state(), QPState::RTS);
  EXPECT_TRUE(pair.b.deliver({}).held_back);
  pair.b.receive({buffer.sge()});
  EXPECT_FALSE(pair.b.deliver({}).held_back);
  EXPECT_EQ(buffer.text(8), "patience");
  EXPECT_EQ(statuses(pair.b.queues.received), std::vector{WorkStatus::Success});
}

TEST(QPHoldback, WhatCameBeforeIsConsumed) {
  Pair pair;
  const Region target = pair.b.region(64);
  pair.a.write("goes on", target.stag, target.to);
  pair.a.send("waits");
  pair.a.write("waits too", target.stag, target.to + 32);
  const Bytes octets = pair.a.transmit_all();
  const Octets part(octets);
  const Received received = pair.b.qp->handle_octets({std::span(&part, 1)}, pair.b.now);
  EXPECT_TRUE(received.held_back);
  EXPECT_EQ(received.consumed, 28u);
  EXPECT_EQ(target.text(7), "goes on");
  EXPECT_EQ(target.text(1, 32), std::string(1, '\0'));
}

// The FPDU was good, so the responder may speak although it did not act on it.
TEST(QPHoldback, OpensAResponder) {
  Pair pair;
  pair.a.send("first");
  pair.b.send("answer");
  pair.b.deliver(pair.a.transmit());
  EXPECT_TRUE(pair.b.noticed(QPNotice::Kind::FirstFPDUArrived));
  EXPECT_EQ(ulpdus(pair.b.transmit()).size(), 1u);
}

TEST(QPHoldback, OnlyAMessageThatBeginsWaits) {
  End b;
  b.bind(Role::Responder);
  const Region buffer = b.region(64);
  b.receive({buffer.sge()});
  b.deliver(fpdu(send(1, bytes("one "), 0, false)));
  EXPECT_FALSE(b.deliver(fpdu(send(1, bytes("two"), 4))).held_back);
  EXPECT_EQ(buffer.text(7), "one two");
}

TEST(QPHoldback, AWrongHeaderIsNotHeldBack) {
  End b;
  b.bind(Role::Responder);
  EXPECT_FALSE(b.deliver(fpdu(send(2, bytes("MSN 2")))).held_back);
  EXPECT_EQ(b.qp->state(), QPState::Terminate);
}

TEST(QPHoldback, StrictModeEndsTheStream) {
  QPConfig config;
  config.strict_receive = true;
  End b(config);
  b.bind(Role::Responder);
  const Bytes message = send(1, bytes("nobody home"));
  b.deliver(fpdu(message));
  EXPECT_EQ(ulpdus(b.transmit()), only(terminate(0x1202, message)));
}

TEST(QPHoldback, EndsWithTheStream) {
  Pair pair;
  pair.a.send("patience");
  EXPECT_TRUE(pair.b.deliver(pair.a.transmit()).held_back);
  ASSERT_TRUE(pair.b.qp->fail(pair.b.now).ok());
  const Received received = pair.b.deliver({});
  EXPECT_FALSE(received.held_back);
  EXPECT_TRUE(pair.b.arrived.empty());
}

}  // namespace
}  // namespace weft::core::testing
