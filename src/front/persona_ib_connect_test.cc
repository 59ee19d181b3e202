// Persona ib with RDMA CM: its QPs are InfiniBand's once they are connected.
#include "front/testing/program.h"

namespace weft::front::testing {
namespace {

using PersonaIBConnect = Program;

int modify(End& end, int mask, ibv_qp_attr attr = {}) {
  return ibv_modify_qp(end.qp(), &attr, mask);
}

ibv_qp_attr query(End& end) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(end.qp(), &attr, IBV_QP_STATE, &init), 0);
  return attr;
}

TEST_P(PersonaIBConnect, AConnectedQPTakesWhatAReadyQPTakes) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ibv_qp_attr attr{};
  attr.min_rnr_timer = 12;
  attr.qp_access_flags = End::kEverything & ~IBV_ACCESS_LOCAL_WRITE;
  attr.qp_state = attr.cur_qp_state = IBV_QPS_RTS;
  for (End* end : {&client, &server}) {
    EXPECT_EQ(end->qp()->state, IBV_QPS_RTS) << "told with ESTABLISHED";
    EXPECT_EQ(modify(*end, IBV_QP_MIN_RNR_TIMER, attr), 0);
    EXPECT_EQ(modify(*end, IBV_QP_CUR_STATE, attr), 0);
    EXPECT_EQ(modify(*end, IBV_QP_CUR_STATE | IBV_QP_MIN_RNR_TIMER, attr), 0);
    EXPECT_EQ(modify(*end, IBV_QP_STATE, attr), 0);
    EXPECT_EQ(modify(*end, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER, attr), 0);
    EXPECT_EQ(modify(*end, IBV_QP_ACCESS_FLAGS, attr), 0);
    EXPECT_EQ(modify(*end, IBV_QP_TIMEOUT, attr), EINVAL) << "not of one that is ready";
    EXPECT_EQ(end->move_to(IBV_QPS_INIT), EINVAL);
    const ibv_qp_attr shown = query(*end);
    EXPECT_EQ(shown.min_rnr_timer, 12);
    EXPECT_EQ(shown.max_rd_atomic, 4) << "as the connection settled it";
    EXPECT_EQ(shown.max_dest_rd_atomic, 4);
  }
  ASSERT_EQ(server.receive(1, {server.sge(0, 64)}), 0);
  ASSERT_EQ(client.move_to(IBV_QPS_SQD), 0);
  EXPECT_EQ(query(client).qp_state, IBV_QPS_SQD);
  ASSERT_EQ(client.send(2, {client.sge(0, 8)}), 0);
  ASSERT_EQ(client.move_to(IBV_QPS_RTS), 0);
  client.complete(2, IBV_WC_SEND);
  server.complete(1, IBV_WC_RECV);

  ASSERT_EQ(rdma_disconnect(client.id), 0);
  expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
  for (End* end : {&client, &server}) {
    EXPECT_TRUE(eventually([&] { return query(*end).qp_state == IBV_QPS_ERR; }));
    ASSERT_EQ(end->move_to(IBV_QPS_RESET), 0);
    EXPECT_EQ(query(*end).qp_state, IBV_QPS_RESET);
  }
}

TEST_P(PersonaIBConnect, ARejectedQPIsInError) {
  ASSERT_NO_FATAL_FAILURE(resolve(client));
  ASSERT_NO_FATAL_FAILURE(equip(client));
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_connect(client.id, &param), 0);
  rdma_cm_id* request = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  ASSERT_EQ(rdma_reject(request, nullptr, 0), 0);
  EXPECT_EQ(rdma_destroy_id(request), 0);
  EXPECT_EQ(expect(RDMA_CM_EVENT_REJECTED).status, 28) << "its consumer's reason";
  EXPECT_EQ(client.move_to(IBV_QPS_INIT), EINVAL);
  EXPECT_EQ(query(client).qp_state, IBV_QPS_ERR);
  EXPECT_EQ(client.move_to(IBV_QPS_RESET), 0);
}

TEST_P(PersonaIBConnect, AnAbortiveEndIsADisconnectLikeAnyOther) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ASSERT_EQ(client.move_to(IBV_QPS_ERR), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(expect(RDMA_CM_EVENT_DISCONNECTED).status, 0);
}

TEST_P(PersonaIBConnect, WhereNobodyListensThereIsNoSuchService) {
  ASSERT_NO_FATAL_FAILURE(resolve(client));
  ASSERT_EQ(rdma_destroy_id(listener), 0);
  listener = nullptr;
  ASSERT_NO_FATAL_FAILURE(equip(client));
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_connect(client.id, &param), 0);
  EXPECT_EQ(expect(RDMA_CM_EVENT_REJECTED).status, 8);
}

TEST_P(PersonaIBConnect, AQPOfTheProgramsOwnIsWalkedThroughTheStates) {
  ASSERT_NO_FATAL_FAILURE(resolve(client));
  ASSERT_NO_FATAL_FAILURE(equip(client));
  const auto walk = [&](ibv_qp* qp, rdma_cm_id* id, ibv_qp_state state) {
    ibv_qp_attr attr{};
    int mask = 0;
    attr.qp_state = state;
    EXPECT_EQ(rdma_init_qp_attr(id, &attr, &mask), 0);
    return ibv_modify_qp(qp, &attr, mask);
  };
  ibv_qp* qp = client.id->qp;
  client.id->qp = nullptr;
  rdma_conn_param param = parameters();
  param.qp_num = qp->qp_num;
  ASSERT_EQ(walk(qp, client.id, IBV_QPS_INIT), 0);
  ASSERT_EQ(rdma_connect(client.id, &param), 0);
  server.id = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  ASSERT_NO_FATAL_FAILURE(equip(server));
  ASSERT_EQ(rdma_accept(server.id, &param), 0);
  for (int i = 0; i < 2; ++i) {
    const Seen seen = next_event();
    EXPECT_EQ(seen.type, seen.id == client.id ? RDMA_CM_EVENT_CONNECT_RESPONSE
                                              : RDMA_CM_EVENT_ESTABLISHED);
  }
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    EXPECT_EQ(walk(qp, client.id, state), 0) << state;
  }
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  EXPECT_EQ(rdma_establish(client.id), 0);
  client.id->qp = qp;  // for its end
}

INSTANTIATE_TEST_SUITE_P(Families, PersonaIBConnect, kFamilies, family_name);

}  // namespace
}  // namespace weft::front::testing
