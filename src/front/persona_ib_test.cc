// Persona ib from the public API: states, depths and rights, and how connections end.
#include <cstring>
#include <utility>

#include "front/testing/persona_ib.h"

namespace weft::front::testing {
namespace {

TEST_F(PersonaIB, ReadsAndAtomicsOfAnyNumberKeepToTheDepth) {
  ASSERT_NO_FATAL_FAILURE(connect({.max_rd = 1}, {.depth = 8}));
  b.memory[7] = 40;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto opcode = i % 2 == 0 ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD;
    ASSERT_EQ(a.post(opcode, i, {a.sge(8 * i, 8)}, &b), 0);
  }
  for (std::uint64_t i = 0; i < 4; ++i) {
    const ibv_wc wc = a.complete();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, i);
    EXPECT_EQ(wc.qp_num, a.qp->qp_num);
  }
  const ibv_qp_attr attr = a.query();
  EXPECT_EQ(attr.max_rd_atomic, 1);
  EXPECT_EQ(attr.max_dest_rd_atomic, 4);
  EXPECT_EQ(attr.timeout, 14);
  EXPECT_EQ(attr.qp_access_flags, kRemote);
}

TEST_F(PersonaIB, WithADepthOfZeroAReadFailsHere) {
  ASSERT_NO_FATAL_FAILURE(connect({.max_rd = 0}, {}));
  ASSERT_EQ(a.post(IBV_WR_RDMA_READ, 1, {a.sge(0, 8)}, &b), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_LOC_QP_OP_ERR);
}

struct RightsCase {
  ibv_wr_opcode opcode;
  unsigned right;
};

TEST_F(PersonaIB, WhatTheQPDoesNotAllowIsAnAccessError) {
  const RightsCase kCases[] = {{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
                               {IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
                               {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC}};
  for (const RightsCase& row : kCases) {
    SCOPED_TRACE(row.opcode);
    ASSERT_NO_FATAL_FAILURE(connect({}, {.access = row.right}));
    std::memset(a.memory, 'a', 8);
    ASSERT_EQ(a.post(row.opcode, 1, {a.sge(0, 8)}, &b), 0);
    EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
    for (Half* half : {&a, &b}) ASSERT_EQ(modify(*half, IBV_QPS_RESET), 0);

    ASSERT_NO_FATAL_FAILURE(connect({}, {.access = kRemote & ~row.right}));
    const std::string before = b.text(0, kOctets);
    std::memset(a.memory, 'z', 8);
    ASSERT_EQ(a.post(row.opcode, 1, {a.sge(0, 8)}, &b), 0);
    const ibv_wc wc = a.complete();
    // Unless it is asked to wait, a Write is done when TCP has it: its error comes by the QP.
    if (row.opcode != IBV_WR_RDMA_WRITE || waits_for_peer()) {
      EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
    }
    ASSERT_NO_FATAL_FAILURE(expect_event(IBV_EVENT_QP_ACCESS_ERR, b.qp));
    EXPECT_TRUE(eventually([&] {
      ibv_wc none;
      return ibv_poll_cq(a.cq, 1, &none) == 0 && a.query().qp_state == IBV_QPS_ERR;
    }));
    EXPECT_EQ(b.text(0, kOctets), before);
    for (Half* half : {&a, &b}) ASSERT_EQ(modify(*half, IBV_QPS_RESET), 0);
  }
}

TEST_F(PersonaIB, RightsMayChangeWhileConnected) {
  ASSERT_NO_FATAL_FAILURE(connect({}, {.access = 0}));
  ibv_qp_attr attr{};
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  ASSERT_EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
  std::memcpy(a.memory, "written", 7);
  ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 1, {a.sge(0, 7)}, &b), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(eventually([&] {
    ibv_wc wc;
    ibv_poll_cq(b.cq, 1, &wc);
    return b.text(0, 7) == "written";
  }));
}

TEST_F(PersonaIB, ADrainedSendQueueSaysSoAndHoldsWhatIsPosted) {
  ASSERT_NO_FATAL_FAILURE(connect());
  for (std::uint64_t i = 1; i <= 2; ++i) ASSERT_EQ(b.receive(i, {b.sge(0, 64)}), 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 1, {a.sge(0, 8)}), 0);
  EXPECT_EQ(a.complete().wr_id, 1u);
  EXPECT_EQ(b.complete().wr_id, 1u);

  ibv_qp_attr attr{};
  attr.en_sqd_async_notify = 1;
  ASSERT_EQ(modify(a, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY, attr), 0);
  ASSERT_NO_FATAL_FAILURE(expect_event(IBV_EVENT_SQ_DRAINED, a.qp));
  EXPECT_EQ(a.query().qp_state, IBV_QPS_SQD);
  EXPECT_EQ(a.query().sq_draining, 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 2, {a.sge(0, 8)}), 0);
  EXPECT_TRUE(b.silent());
  EXPECT_TRUE(a.silent());

  attr = {};
  attr.timeout = 10;
  attr.max_rd_atomic = 2;
  EXPECT_EQ(modify(a, IBV_QPS_SQD, IBV_QP_TIMEOUT | IBV_QP_MAX_QP_RD_ATOMIC, attr), 0);
  EXPECT_EQ(a.query().timeout, 10);
  EXPECT_EQ(a.query().max_rd_atomic, 2);
  EXPECT_TRUE(b.silent()) << "still";
  ASSERT_EQ(modify(a, IBV_QPS_RTS), 0);
  EXPECT_EQ(a.complete().wr_id, 2u);
  EXPECT_EQ(b.complete().wr_id, 2u);
}

TEST_F(PersonaIB, ImpossibleTransitionsChangeNothing) {
  EXPECT_EQ(modify(a, IBV_QPS_SQD), EINVAL);
  EXPECT_EQ(modify(a, IBV_QPS_RTS), EINVAL);
  ASSERT_EQ(to_init(a, 0), 0);
  EXPECT_EQ(to_rtr(a, b, 200), EINVAL) << "more than the device has";
  EXPECT_EQ(modify(a, IBV_QPS_RTR), EINVAL) << "without what it needs";
  EXPECT_EQ(modify(a, IBV_QPS_SQD), EINVAL);
  EXPECT_EQ(a.query().qp_state, IBV_QPS_INIT);
  ASSERT_EQ(to_init(b, 0), 0);
  ASSERT_EQ(to_rtr(a, b, 4), 0);
  ASSERT_EQ(to_rtr(b, a, 4), 0);
  ibv_qp_attr attr{};
  EXPECT_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_ACCESS_FLAGS), EINVAL) << "no RTR to RTR";
  EXPECT_EQ(modify(a, IBV_QPS_SQD), EINVAL);
  ASSERT_EQ(to_rts(a, {}), 0);
  EXPECT_EQ(modify(a, IBV_QPS_SQD, IBV_QP_TIMEOUT), EINVAL) << "only with the next step";
  ASSERT_EQ(modify(a, IBV_QPS_SQD), 0);
  EXPECT_EQ(modify(a, IBV_QPS_SQD, IBV_QP_AV), EINVAL) << "a stream keeps its path";
  EXPECT_EQ(modify(a, IBV_QPS_INIT), EINVAL);
  EXPECT_EQ(modify(a, IBV_QPS_ERR), 0);
  EXPECT_EQ(modify(a, IBV_QPS_RTS), EINVAL);
}

TEST_F(PersonaIB, WhatIsSentToAPeerThatLeftExceedsItsRetries) {
  ASSERT_NO_FATAL_FAILURE(connect({.timeout = 12, .retry = 1}, {}));
  ASSERT_EQ(a.receive(9, {}), 0);
  ASSERT_EQ(b.receive(1, {}), 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 1, {}), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b.complete().status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_destroy_qp(b.qp), 0);
  b.qp = nullptr;
  EXPECT_TRUE(a.silent());
  EXPECT_EQ(a.query().qp_state, IBV_QPS_RTS) << "nothing is known of it";
  ASSERT_EQ(a.post(IBV_WR_SEND, 2, {}), 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 3, {}), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(a.complete().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.complete().wr_id, 9u) << "the receive, flushed";
  EXPECT_EQ(a.query().qp_state, IBV_QPS_ERR);
}

TEST_F(PersonaIB, AReceiveThatCannotBeUsedFailsTheSend) {
  if (!waits_for_peer()) GTEST_SKIP() << "a Send is done when TCP has it";
  ASSERT_NO_FATAL_FAILURE(connect());
  ASSERT_EQ(b.receive(1, {b.sge(0, 8)}), 0);
  static std::uint8_t elsewhere[8];
  ASSERT_EQ(
      ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, elsewhere, sizeof elsewhere, 0),
      0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 2, {a.sge(0, 8)}), 0);
  const ibv_wc sent = a.complete();
  EXPECT_EQ(sent.wr_id, 2u);
  EXPECT_EQ(sent.status, IBV_WC_REM_OP_ERR) << ibv_wc_status_str(sent.status);
  EXPECT_EQ(b.complete().status, IBV_WC_LOC_PROT_ERR);
}

}  // namespace
}  // namespace weft::front::testing
