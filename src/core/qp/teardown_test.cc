// Graceful and less graceful ends of a stream.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

using Kind = QPNotice::Kind;

std::vector<Kind> kinds(const End& end) {
  std::vector<Kind> out;
  for (const QPNotice& notice : end.notices) out.push_back(notice.kind);
  return out;
}

//= DDP-14 DDP-15
TEST(QPTeardown, GracefulOnBothSides) {
  Pair pair;
  pair.open();
  pair.b.receive();
  ASSERT_TRUE(pair.a.qp->close(pair.a.now).ok());
  pair.a.drain();
  EXPECT_EQ(pair.a.qp->state(), QPState::Closing);
  EXPECT_EQ(pair.a.action, LLPAction::CloseGracefully);
  EXPECT_EQ(pair.b.qp->state(), QPState::RTS);
  pair.close();
  for (const End* end : {&pair.a, &pair.b}) {
    EXPECT_EQ(end->qp->state(), QPState::Error);
    EXPECT_EQ(kinds(*end), (std::vector{Kind::PeerClosed, Kind::Closed}));
    EXPECT_EQ(end->action, LLPAction::CloseGracefully);
    EXPECT_FALSE(end->qp->terminate_sent());
    EXPECT_FALSE(end->qp->poll_timeout());
  }
  EXPECT_EQ(statuses(pair.b.queues.received), std::vector{WorkStatus::Flushed});
}

//= DDP-15
TEST(QPTeardown, CloseWithWorkIsABadClose) {
  End a;
  a.bind();
  a.send("still here");
  ASSERT_TRUE(a.qp->close(a.now).ok());
  a.drain();
  EXPECT_EQ(a.qp->state(), QPState::Error);
  EXPECT_EQ(a.action, LLPAction::Reset);
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::Flushed});
  EXPECT_TRUE(a.noticed(Kind::Closed));
}

TEST(QPTeardown, WorkPostedWhileClosingIsABadClose) {
  End a;
  a.bind();
  ASSERT_TRUE(a.qp->close(a.now).ok());
  a.receive();
  a.qp->flush(a.now);
  EXPECT_EQ(a.qp->state(), QPState::Closing);
  a.send("too late");
  EXPECT_TRUE(a.transmit().empty());
  a.qp->flush(a.now);
  a.drain();
  EXPECT_EQ(a.qp->state(), QPState::Error);
  EXPECT_EQ(a.action, LLPAction::Reset);
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::Flushed});
  EXPECT_EQ(statuses(a.queues.received), std::vector{WorkStatus::Flushed});
}

//= DDP-16
TEST(QPTeardown, ASegmentWhileClosingIsABadClose) {
  for (const bool peer_first : {true, false}) {
    End a;
    a.bind();
    const Region target = a.region(8);
    if (peer_first) {
      a.qp->handle_peer_closed(a.now);
    } else {
      ASSERT_TRUE(a.qp->close(a.now).ok());
    }
    EXPECT_EQ(a.qp->state(), QPState::Closing);
    a.deliver(fpdu(tagged(wire::Opcode::Write, target.stag, target.to, bytes("x"))));
    EXPECT_EQ(a.qp->state(), QPState::Error);
    EXPECT_EQ(a.action, LLPAction::Reset);
    EXPECT_EQ(*target.memory, Bytes(8));
  }
}

TEST(QPTeardown, ABadFPDUWhileClosingIsABadClose) {
  End a;
  a.bind();
  ASSERT_TRUE(a.qp->close(a.now).ok());
  Bytes octets = fpdu(send(1));
  octets.back() ^= 1;
  a.deliver(octets);
  EXPECT_EQ(a.qp->state(), QPState::Error);
  EXPECT_EQ(a.action, LLPAction::Reset);
}

// A program may connect and close at once: the answer to the RTR is under way then.
TEST(QPTeardown, CloseWaitsForTheAnswerToTheRTR) {
  auto parameters = End::stream(Role::Initiator);
  parameters.rtr = RTR::Read;
  Pair pair({}, parameters);
  pair.b.deliver(pair.a.transmit());
  ASSERT_TRUE(pair.a.qp->close(pair.a.now).ok());
  pair.a.drain();
  EXPECT_EQ(pair.a.action, LLPAction::None);
  pair.a.deliver(pair.b.transmit());
  EXPECT_EQ(pair.a.qp->state(), QPState::Closing);
  EXPECT_EQ(pair.a.action, LLPAction::CloseGracefully);
  pair.close();
  EXPECT_EQ(pair.a.qp->state(), QPState::Error);
  EXPECT_FALSE(pair.a.noticed(Kind::LLPLost));
  EXPECT_FALSE(pair.b.qp->terminate_sent());
}

TEST(QPTeardown, ClosePassesOverAnRTRThatIsNeverAnswered) {
  auto parameters = End::stream(Role::Initiator);
  parameters.rtr = RTR::Read;
  for (const bool wrong_answer : {false, true}) {
    End a;
    a.bind(parameters);
    a.transmit();
    ASSERT_TRUE(a.qp->close(a.now).ok());
    if (wrong_answer) {
      a.deliver(fpdu(tagged(wire::Opcode::ReadResponse, {1}, 0, bytes("x"))));
    } else {
      a.qp->handle_peer_closed(a.now);
      a.drain();
    }
    EXPECT_EQ(a.action, wrong_answer ? LLPAction::Reset : LLPAction::CloseGracefully);
  }
}

TEST(QPTeardown, ATerminateWhileClosingIsHeard) {
  End a;
  a.bind();
  ASSERT_TRUE(a.qp->close(a.now).ok());
  a.deliver(fpdu(terminate(0x0207)));
  EXPECT_EQ(a.qp->state(), QPState::Terminate);
  EXPECT_EQ(a.qp->terminate_received(), wire::TermError::RDMAPStreamCatastrophic);
}

//= MPA-25
TEST(QPTeardown, FINWithWorkOpenIsTold) {
  Pair pair;
  pair.open();
  const Region region = pair.a.region(64);
  pair.a.read({region.sge(8)}, {1}, 0);
  pair.a.transmit();
  pair.a.qp->handle_peer_closed(pair.a.now);
  EXPECT_EQ(ulpdus(pair.a.transmit()), only(terminate(0x0207)));
  EXPECT_EQ(pair.a.action, LLPAction::CloseGracefully);
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Flushed});
  pair.a.qp->handle_llp_lost(pair.a.now);
  pair.a.drain();
  EXPECT_EQ(kinds(pair.a), (std::vector{Kind::PeerClosed, Kind::TerminateSent, Kind::Closed}));
}

TEST(QPTeardown, FINWithAnInboundReadOpenIsTold) {
  End b;
  b.bind(Role::Responder);
  const Region source = b.region(8);
  b.deliver(fpdu(read_request(1, {{1}, 0, 8, source.stag, source.to})));
  b.qp->handle_peer_closed(b.now);
  EXPECT_EQ(ulpdus(b.transmit()), only(terminate(0x0207)));
}

TEST(QPTeardown, ClosingAndTerminateAreBounded) {
  for (const bool abortive : {false, true}) {
    End a;
    a.bind();
    ASSERT_TRUE((abortive ? a.qp->terminate(a.now) : a.qp->close(a.now)).ok());
    a.transmit();
    const auto deadline = a.qp->poll_timeout();
    ASSERT_TRUE(deadline);
    EXPECT_EQ(deadline->ns, a.now.ns + 5'000'000'000);
    a.qp->handle_timeout({deadline->ns - 1});
    EXPECT_NE(a.qp->state(), QPState::Error);
    a.qp->handle_timeout(*deadline);
    a.drain();
    EXPECT_EQ(a.qp->state(), QPState::Error);
    // Behind a FIN the transport goes on: the peer may be slow.
    EXPECT_EQ(a.action, abortive ? LLPAction::Reset : LLPAction::CloseGracefully);
    EXPECT_TRUE(a.noticed(Kind::Closed));
    EXPECT_FALSE(a.qp->poll_timeout());
  }
}

TEST(QPTeardown, AStreamWhoseFINNeverLeftIsReset) {
  End a;
  a.bind();
  ASSERT_TRUE(a.qp->close(a.now).ok());
  a.qp->handle_timeout(*a.qp->poll_timeout());
  a.drain();
  EXPECT_EQ(a.action, LLPAction::Reset);
}

// A reset before the peer's FIN is a loss, also while the stream is ending anyway.
TEST(QPTeardown, LosingTheLLPBeforeThePeersFINIsTold) {
  for (const bool abortive : {false, true}) {
    End a;
    a.bind();
    ASSERT_TRUE((abortive ? a.qp->terminate(a.now) : a.qp->close(a.now)).ok());
    a.qp->handle_llp_lost(a.now);
    a.drain();
    EXPECT_EQ(kinds(a), (std::vector{Kind::LLPLost, Kind::Closed}));
    EXPECT_EQ(a.qp->state(), QPState::Error);
  }
}

TEST(QPTeardown, CommandsWhereTheTableHasNoRowAreRefused) {
  End a;
  EXPECT_FALSE(a.qp->close(a.now).ok());
  EXPECT_FALSE(a.qp->terminate(a.now).ok());
  EXPECT_FALSE(a.qp->reset(a.now).ok());
  a.bind();
  EXPECT_FALSE(a.qp->bind_stream(End::stream(Role::Initiator), 1460, a.now).ok());
  EXPECT_FALSE(a.qp->reset(a.now).ok());
  ASSERT_TRUE(a.qp->terminate(a.now).ok());
  EXPECT_FALSE(a.qp->terminate(a.now).ok());
  EXPECT_FALSE(a.qp->close(a.now).ok());
  ASSERT_TRUE(a.qp->fail(a.now).ok());
  EXPECT_TRUE(a.qp->fail(a.now).ok());
  EXPECT_FALSE(a.qp->close(a.now).ok());
  EXPECT_TRUE(a.qp->reset(a.now).ok());
}

// A segment half on the wire cannot be finished: only a reset is left, and no Terminate.
TEST(QPTeardown, ASendFaultResetsAndBlamesTheRightWR) {
  QPConfig config;
  config.gather_octets_min = 64;
  End a(config);
  a.bind();
  const Region region = a.region(1000);
  a.send("fine");
  a.send({region.sge()});
  a.send("after");
  const Bytes octets = a.transmit(false);
  a.qp->handle_sent(40, a.now);
  a.qp->handle_send_fault(a.now);
  a.drain();
  EXPECT_EQ(a.qp->state(), QPState::Error);
  EXPECT_EQ(a.action, LLPAction::Reset);
  EXPECT_EQ(statuses(a.queues.sent),
            (std::vector{WorkStatus::Success, WorkStatus::LocalProtection, WorkStatus::Flushed}));
  EXPECT_FALSE(a.qp->terminate_sent());
}

// What answers a peer's Read is no WR of ours.
TEST(QPTeardown, AFaultInWhatAReadIsAnsweredFromBlamesNoWR) {
  End a;
  a.bind();
  a.send("mine");
  a.transmit(false);
  a.qp->handle_lent_fault(a.now);
  a.drain();
  EXPECT_EQ(a.qp->state(), QPState::Error);
  EXPECT_EQ(a.action, LLPAction::Reset);
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::Flushed});
}

}  // namespace
}  // namespace weft::core::testing
