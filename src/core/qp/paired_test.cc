// A QP that stands for an InfiniBand connection: when its peer leaves nothing is flushed before the
// host says that it waited long enough.
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

struct QPPaired : ::testing::Test {
  QPPaired() {
    a.qp->set_paired();
    a.bind();
    a.receive();
    a.receive();
  }
  void expect_quiet() {
    EXPECT_TRUE(a.qp->peer_gone());
    EXPECT_FALSE(a.qp->misses_peer());
    EXPECT_EQ(statuses(a.queues.received), std::vector<WorkStatus>{});
    EXPECT_TRUE(a.noticed(QPNotice::Kind::Closed));
  }
  void expect_retry_exceeded() {
    a.send("is anybody there?");
    a.send("hello?");
    a.qp->flush(a.now);
    EXPECT_TRUE(a.qp->misses_peer());
    EXPECT_EQ(statuses(a.queues.sent), std::vector<WorkStatus>{});
    ASSERT_TRUE(a.qp->fail_unreachable(a.now).ok());
    EXPECT_EQ(statuses(a.queues.sent),
              (std::vector{WorkStatus::RetryExceeded, WorkStatus::Flushed}));
    EXPECT_EQ(statuses(a.queues.received),
              (std::vector{WorkStatus::Flushed, WorkStatus::Flushed}));
    EXPECT_FALSE(a.qp->peer_gone());
    EXPECT_FALSE(a.qp->misses_peer());
  }
  End a;
};

TEST_F(QPPaired, AFinLeavesReceivesPosted) {
  a.qp->handle_peer_closed(a.now);
  a.drain();
  a.qp->handle_llp_lost(a.now);
  a.drain();
  expect_quiet();
  a.receive();
  a.qp->flush(a.now);
  EXPECT_EQ(statuses(a.queues.received), std::vector<WorkStatus>{});
  a.queues.receives.pop_back();
  expect_retry_exceeded();
}

TEST_F(QPPaired, SoDoesAReset) {
  a.qp->handle_llp_lost(a.now);
  a.drain();
  expect_quiet();
  expect_retry_exceeded();
}

TEST_F(QPPaired, ASendBetweenTheFinAndTheEndWaitsToo) {
  a.qp->handle_peer_closed(a.now);
  a.drain();
  EXPECT_EQ(a.qp->state(), QPState::Closing);
  expect_retry_exceeded();
}

TEST_F(QPPaired, WorkThatWasOpenWaitsAndIsThenToBlame) {
  Region sink = a.region(8);
  a.read({sink.sge()}, STag{7}, 0);
  a.transmit();
  a.qp->handle_llp_lost(a.now);
  a.drain();
  EXPECT_TRUE(a.qp->misses_peer());
  EXPECT_EQ(statuses(a.queues.sent), std::vector<WorkStatus>{});
  ASSERT_TRUE(a.qp->fail_unreachable(a.now).ok());
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::RetryExceeded});
  EXPECT_EQ(statuses(a.queues.received), (std::vector{WorkStatus::Flushed, WorkStatus::Flushed}));
}

// The Terminate that goes out then is no reason to flush, nor is the end of the stream after it.
TEST_F(QPPaired, WorkThatWasOpenAtTheFinWaitsThroughTheWholeEnd) {
  Region sink = a.region(8);
  a.read({sink.sge()}, STag{7}, 0);
  a.transmit();
  a.qp->handle_peer_closed(a.now);
  EXPECT_EQ(a.qp->state(), QPState::Terminate);
  a.transmit();
  a.qp->handle_llp_lost(a.now);
  a.drain();
  EXPECT_TRUE(a.noticed(QPNotice::Kind::Closed));
  EXPECT_TRUE(a.qp->misses_peer());
  EXPECT_EQ(statuses(a.queues.sent), std::vector<WorkStatus>{});
  ASSERT_TRUE(a.qp->fail_unreachable(a.now).ok());
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::RetryExceeded});
}

TEST_F(QPPaired, TheWaitMayEndBeforeTheStreamDoes) {
  Region sink = a.region(8);
  a.read({sink.sge()}, STag{7}, 0);
  a.transmit();
  a.qp->handle_peer_closed(a.now);
  ASSERT_TRUE(a.qp->fail_unreachable(a.now).ok());
  a.drain();
  EXPECT_EQ(a.action, LLPAction::Reset);
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::RetryExceeded});
  EXPECT_EQ(statuses(a.queues.received), (std::vector{WorkStatus::Flushed, WorkStatus::Flushed}));
}

TEST_F(QPPaired, ResetFlushesWhatWaited) {
  a.send("never sent");
  a.qp->handle_llp_lost(a.now);
  a.drain();
  EXPECT_TRUE(a.qp->misses_peer());
  ASSERT_TRUE(a.qp->reset(a.now).ok());
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::Flushed});
  EXPECT_EQ(statuses(a.queues.received), (std::vector{WorkStatus::Flushed, WorkStatus::Flushed}));
}

TEST_F(QPPaired, TheProgramsOwnErrorFlushesEverythingAsUsual) {
  a.send("never sent");
  ASSERT_TRUE(a.qp->fail(a.now).ok());
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::Flushed});
  EXPECT_EQ(statuses(a.queues.received), (std::vector{WorkStatus::Flushed, WorkStatus::Flushed}));
}

TEST_F(QPPaired, ErrorAfterThePeerLeftFlushesWhatWasKept) {
  a.qp->handle_llp_lost(a.now);
  a.drain();
  ASSERT_TRUE(a.qp->fail(a.now).ok());
  EXPECT_EQ(statuses(a.queues.received), (std::vector{WorkStatus::Flushed, WorkStatus::Flushed}));
}

TEST_F(QPPaired, ResetEndsThePair) {
  a.qp->handle_llp_lost(a.now);
  a.drain();
  ASSERT_TRUE(a.qp->reset(a.now).ok());
  a.bind();
  a.receive();
  const std::size_t before = a.queues.received.size();
  a.qp->handle_llp_lost(a.now);
  EXPECT_EQ(a.queues.received.size(), before + 1);
  EXPECT_EQ(a.queues.received.back().status, WorkStatus::Flushed);
}

TEST(QPUnpaired, APeerThatCannotBeFoundFailsTheOldestSend) {
  End a;
  a.qp->set_paired();
  a.send("first");
  a.send("second");
  a.receive();
  ASSERT_TRUE(a.qp->fail_unreachable(a.now).ok());
  EXPECT_EQ(a.qp->state(), QPState::Error);
  EXPECT_EQ(statuses(a.queues.sent),
            (std::vector{WorkStatus::RetryExceeded, WorkStatus::Flushed}));
  EXPECT_EQ(statuses(a.queues.received), std::vector{WorkStatus::Flushed});
}

TEST(QPUnpaired, WithoutPairingAResetFlushesAtOnce) {
  End a;
  a.bind();
  a.receive();
  a.qp->handle_llp_lost(a.now);
  EXPECT_FALSE(a.qp->peer_gone());
  EXPECT_EQ(statuses(a.queues.received), std::vector{WorkStatus::Flushed});
}

}  // namespace
}  // namespace weft::core::testing
