// Connections in the order in which known programs make their calls.
#include <sys/wait.h>
#include <unistd.h>

#include "front/librdmacm/testing/cm_test.h"

namespace weft::front::cm::testing {
namespace {

using Connect = CMTest;

TEST_F(Connect, RpingsOrder) {
  int server_context = 0;
  rdma_cm_id* listener = listen(3, &server_context);
  EXPECT_NE(port(listener), 0);
  EXPECT_EQ(listener->verbs, nullptr) << "loopback is no device's, like the wildcard";

  rdma_cm_id* client = resolve(port(listener));
  ASSERT_NE(client->verbs, nullptr);
  EXPECT_EQ(client->port_num, 1);
  EXPECT_EQ(client->route.num_paths, 1);
  EXPECT_EQ(client->route.path_rec->dgid.raw[12], 127);
  ibv_pd* pd = ibv_alloc_pd(client->verbs);
  ibv_qp_init_attr attributes = qp_attributes();
  ibv_cq* cq = ibv_create_cq(client->verbs, 32, nullptr, nullptr, 0);
  attributes.send_cq = attributes.recv_cq = cq;
  ASSERT_EQ(rdma_create_qp(client, pd, &attributes), 0);
  EXPECT_EQ(client->qp->state, IBV_QPS_INIT);
  EXPECT_EQ(client->send_cq, nullptr) << "the program's own CQ stays the program's";
  EXPECT_EQ(attributes.cap.max_inline_data, 64u) << "what was granted is written back";
  ibv_qp* client_qp = client->qp;

  rdma_conn_param param = parameters("hello");
  ASSERT_EQ(rdma_connect(client, &param), 0);

  rdma_cm_event* request = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  rdma_cm_id* server = request->id;
  EXPECT_EQ(request->listen_id, listener);
  EXPECT_EQ(server->context, &server_context);
  EXPECT_EQ(server->verbs, client->verbs);
  EXPECT_EQ(server->channel, channel);
  EXPECT_EQ(data_of(request), "hello");
  EXPECT_EQ(request->param.conn.responder_resources, 2) << "the peer's initiator depth";
  EXPECT_EQ(request->param.conn.initiator_depth, 1) << "the peer's responder resources";
  EXPECT_EQ(rdma_get_src_port(server), rdma_get_src_port(listener));
  EXPECT_NE(rdma_get_dst_port(server), 0);
  rdma_ack_cm_event(request);

  create_qp(server);
  param = parameters("welcome");
  ASSERT_EQ(rdma_accept(server, &param), 0);
  rdma_cm_event* established = expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(established->id, client);
  EXPECT_EQ(data_of(established), "welcome");
  EXPECT_EQ(rdma_get_src_port(client), rdma_get_dst_port(server));
  rdma_ack_cm_event(established);
  EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_ESTABLISHED), server);

  ASSERT_EQ(rdma_disconnect(client), 0);
  EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED), client);
  EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED), server);
  EXPECT_EQ(rdma_disconnect(server), 0) << "rping does this after the peer did";

  ibv_destroy_qp(client_qp);  // rping does not call rdma_destroy_qp
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
  EXPECT_EQ(rdma_destroy_id(client), 0);
  destroy(server);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
}

TEST_F(Connect, CmtimesOrderDestroysTheQPBeforeTheEvent) {
  rdma_cm_id* listener = listen(100);
  std::vector<Pair> pairs;
  for (int i = 0; i < 20; ++i) pairs.push_back(connected(listener));
  for (const Pair& pair : pairs) ASSERT_EQ(rdma_disconnect(pair.active), 0);
  for (const Pair& pair : pairs) rdma_destroy_qp(pair.active);
  for (const Pair& pair : pairs) {
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED), pair.active);
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED), pair.passive);
  }
  for (const Pair& pair : pairs) {
    destroy(pair.active);
    destroy(pair.passive);
  }
  rdma_destroy_id(listener);
}

// As cmtime's: one thread starts operations, another takes the events and may be faster.
TEST_F(Connect, AnEventsTakerMayDestroyTheIdBeforeTheCallReturns) {
  rdma_cm_id* listener = listen();
  rdma_conn_param param = parameters();

  rdma_cm_id* refused = resolve(1);  // nobody listens there
  create_qp(refused);
  rnic().before_return = [&] {
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED), refused);
    destroy(refused);
  };
  EXPECT_EQ(rdma_connect(refused, &param), 0);

  rdma_cm_id* active = resolve(port(listener));
  create_qp(active);
  ASSERT_EQ(rdma_connect(active, &param), 0);
  rdma_cm_id* passive = expect_and_ack(RDMA_CM_EVENT_CONNECT_REQUEST);
  create_qp(passive);
  rnic().before_return = [&] {
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_ESTABLISHED), active);
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_ESTABLISHED), passive);
    destroy(passive);
  };
  EXPECT_EQ(rdma_accept(passive, &param), 0);
  EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED), active);
  destroy(active);
  rdma_destroy_id(listener);
  EXPECT_TRUE(rnic().connections.empty()) << "both connections are given back";
}

TEST_F(Connect, InPersonaIBAResetIsADisconnectLikeAnyOther) {
  const struct {
    bool ib;
    int error, status;
  } cases[] = {
      {false, 0, 0},
      {true, 0, 0},
      {false, ECONNRESET, -ECONNRESET},
      {true, ECONNRESET, 0},
      {true, EPROTO, -EPROTO},
  };
  for (const auto& [ib, error, status] : cases) {
    SCOPED_TRACE(error);
    set_persona_ib(ib);
    rnic().ends_with = error;
    rdma_cm_id* listener = listen();
    Pair pair = connected(listener);
    ASSERT_EQ(rdma_disconnect(pair.active), 0);
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED, status), pair.active);
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED, status), pair.passive);
    destroy(pair.active);
    destroy(pair.passive);
    rdma_destroy_id(listener);
  }
}

TEST_F(Connect, DestroyingTheQPAloneDisconnectsBothIds) {
  rdma_cm_id* listener = listen();
  Pair pair = connected(listener);
  rdma_destroy_qp(pair.active);
  EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED), pair.active);
  EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED), pair.passive);
  EXPECT_EQ(rdma_disconnect(pair.active), 0);
  destroy(pair.active);
  destroy(pair.passive);
  rdma_destroy_id(listener);
}

TEST_F(Connect, UcmatosesOrderMigratesConnectedIds) {
  rdma_cm_id* listener = listen(10);
  std::vector<Pair> pairs;
  for (int i = 0; i < 5; ++i) pairs.push_back(connected(listener));
  rdma_event_channel* other = rdma_create_event_channel();
  for (const Pair& pair : pairs) ASSERT_EQ(rdma_migrate_id(pair.active, other), 0);
  for (const Pair& pair : pairs) ASSERT_EQ(rdma_disconnect(pair.active), 0);
  for (const Pair& pair : pairs) {
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED), pair.passive);
    EXPECT_EQ(rdma_disconnect(pair.passive), 0);
  }
  std::swap(channel, other);
  for (const Pair& pair : pairs) {
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED), pair.active);
    destroy(pair.active);
    destroy(pair.passive);
  }
  std::swap(channel, other);
  rdma_destroy_event_channel(other);
  rdma_destroy_id(listener);
}

TEST_F(Connect, RejectionCarriesPrivateDataAndFlushesTheQP) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* client = resolve(port(listener));
  create_qp(client);
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_connect(client, &param), 0);
  rdma_cm_id* server = expect_and_ack(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_EQ(rdma_reject(server, "full", 4), 0);
  EXPECT_EQ(rdma_reject(server, "full", 4), -1) << "only once";
  EXPECT_EQ(rdma_accept(server, &param), -1) << "and then no accept";
  rdma_destroy_id(server);
  EXPECT_EQ(rnic().rejects, 1) << "destroying does not reject again";

  rdma_cm_event* rejected = expect(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
  EXPECT_EQ(data_of(rejected), "full");
  rdma_ack_cm_event(rejected);
  ASSERT_EQ(rnic().commands.size(), 1u);
  EXPECT_EQ(rnic().commands[0].first, client->qp->qp_num);
  EXPECT_EQ(rnic().commands[0].second, device::QPCommand::Fail);
  EXPECT_EQ(rdma_connect(client, &param), -1) << "as in the kernel, not a second time";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_disconnect(client), 0);
  destroy(client);
  rdma_destroy_id(listener);
}

TEST_F(Connect, InPersonaIBARejectionHasInfiniBandsReason) {
  set_persona_ib(true);
  rdma_cm_id* listener = listen();
  rdma_cm_id* client = resolve(port(listener));
  create_qp(client);
  ASSERT_EQ(rdma_connect(client, nullptr), 0);
  rdma_cm_id* server = expect_and_ack(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_EQ(rdma_reject(server, "full", 4), 0);
  rdma_cm_event* rejected = expect(RDMA_CM_EVENT_REJECTED, 28);
  EXPECT_EQ(data_of(rejected), "full") << "the consumer's, and so is the reason";
  rdma_ack_cm_event(rejected);
  rdma_destroy_id(server);
  destroy(client);
  rdma_destroy_id(listener);

  const struct {
    int error;
    rdma_cm_event_type type;
    int status;
  } cases[] = {
      {ECONNREFUSED, RDMA_CM_EVENT_REJECTED, 8},  // no such service
      {ECONNRESET, RDMA_CM_EVENT_REJECTED, 28},
      {ETIMEDOUT, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT},
  };
  for (const auto& [error, type, status] : cases) {
    client = resolve(9);
    create_qp(client);
    rnic().connect_fails_with = error;
    ASSERT_EQ(rdma_connect(client, nullptr), 0);
    EXPECT_EQ(expect_and_ack(type, status), client);
    destroy(client);
  }
}

TEST_F(Connect, FailuresAreNamedAsInTheKernel) {
  const struct {
    int error;
    rdma_cm_event_type type;
  } cases[] = {
      {ECONNREFUSED, RDMA_CM_EVENT_REJECTED},    {ECONNRESET, RDMA_CM_EVENT_REJECTED},
      {ETIMEDOUT, RDMA_CM_EVENT_UNREACHABLE},    {EPROTO, RDMA_CM_EVENT_CONNECT_ERROR},
      {EHOSTUNREACH, RDMA_CM_EVENT_CONNECT_ERROR},
  };
  for (const auto& [error, type] : cases) {
    rdma_cm_id* client = resolve(9);
    create_qp(client);
    rnic().connect_fails_with = error;
    ASSERT_EQ(rdma_connect(client, nullptr), 0);
    EXPECT_EQ(expect_and_ack(type, -error), client);
    destroy(client);
  }
}

TEST_F(Connect, ExternalQPIsTheProgramsToEstablish) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* client = resolve(port(listener));
  rdma_conn_param param = parameters();
  EXPECT_EQ(rdma_connect(client, &param), -1) << "no QP of either kind";
  param.qp_num = 77;
  EXPECT_EQ(rdma_establish(client), -1);

  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_INIT;
  ASSERT_EQ(rdma_init_qp_attr(client, &attributes, &mask), 0);
  EXPECT_EQ(mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT);
  EXPECT_EQ(attributes.port_num, 1);

  ASSERT_EQ(rdma_connect(client, &param), 0);
  rdma_cm_id* server = expect_and_ack(RDMA_CM_EVENT_CONNECT_REQUEST);
  param.qp_num = 78;
  ASSERT_EQ(rdma_accept(server, &param), 0);
  EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_CONNECT_RESPONSE), client);
  EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_ESTABLISHED), server);
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    attributes.qp_state = state;
    ASSERT_EQ(rdma_init_qp_attr(client, &attributes, &mask), 0);
    EXPECT_EQ(mask & IBV_QP_STATE, 0) << "a connected QP has no state to walk through";
  }
  EXPECT_EQ(rdma_establish(client), 0);
  EXPECT_EQ(rdma_notify(client, IBV_EVENT_COMM_EST), 0);
  EXPECT_EQ(rdma_disconnect(client), 0);
  expect_and_ack(RDMA_CM_EVENT_DISCONNECTED);
  expect_and_ack(RDMA_CM_EVENT_DISCONNECTED);
  rdma_destroy_id(client);
  rdma_destroy_id(server);
  rdma_destroy_id(listener);
}

TEST_F(Connect, InPersonaIBTheQPShowsRTSWithEstablished) {
  set_persona_ib(true);
  rdma_cm_id* listener = listen();
  Pair pair = connected(listener);
  EXPECT_EQ(pair.active->qp->state, IBV_QPS_RTS);
  EXPECT_EQ(pair.passive->qp->state, IBV_QPS_RTS);
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(rdma_init_qp_attr(pair.active, &attributes, &mask), 0);
  EXPECT_EQ(mask, IBV_QP_ACCESS_FLAGS) << "what a QP that is ready takes";
  std::uint8_t exponent = last_timeout() == 20 ? 21 : 20;
  EXPECT_EQ(rdma_set_option(pair.active, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, 1),
            0);
  EXPECT_NE(last_timeout(), exponent) << "which a time-out is not among";
  destroy(pair.active);
  expect_and_ack(RDMA_CM_EVENT_DISCONNECTED);
  destroy(pair.passive);
  rdma_destroy_id(listener);
}

TEST_F(Connect, AQPThatIsGoneIsNotAskedForItsState) {
  set_persona_ib(true);
  rdma_cm_id* listener = listen();
  rdma_cm_id* client = resolve(port(listener));
  create_qp(client);
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_connect(client, &param), 0);
  rdma_cm_id* server = expect_and_ack(RDMA_CM_EVENT_CONNECT_REQUEST);
  create_qp(server);
  ASSERT_EQ(rdma_accept(server, &param), 0);
  ibv_destroy_qp(client->qp);  // its pointer stays in the id, as in rdma-core
  EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_ESTABLISHED), client);
  client->qp = nullptr;
  expect_and_ack(RDMA_CM_EVENT_ESTABLISHED);
  expect_and_ack(RDMA_CM_EVENT_DISCONNECTED);
  expect_and_ack(RDMA_CM_EVENT_DISCONNECTED);
  ibv_destroy_cq(client->send_cq);
  ibv_destroy_cq(client->recv_cq);
  ibv_destroy_comp_channel(client->send_cq_channel);
  ibv_destroy_comp_channel(client->recv_cq_channel);
  rdma_destroy_id(client);
  destroy(server);
  rdma_destroy_id(listener);
}

TEST_F(Connect, DepthsAreLimitedByTheDevice) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* client = resolve(port(listener));
  create_qp(client);
  rdma_conn_param param = parameters();
  param.initiator_depth = 65;  // the fake can do 64
  EXPECT_EQ(rdma_connect(client, &param), -1);
  EXPECT_EQ(errno, EINVAL);
  param.initiator_depth = RDMA_MAX_INIT_DEPTH;
  param.responder_resources = RDMA_MAX_RESP_RES;
  rnic().tell_depths = false;
  ASSERT_EQ(rdma_connect(client, &param), 0) << "the refused call changed nothing";
  rdma_cm_event* request = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request->param.conn.responder_resources, 128) << "a silent peer gets the most";
  EXPECT_EQ(request->param.conn.initiator_depth, 64);
  rdma_cm_id* server = request->id;
  rdma_ack_cm_event(request);
  create_qp(server);
  ASSERT_EQ(rdma_accept(server, nullptr), 0);
  for (const auto& [number, connection] : rnic().connections) {
    EXPECT_EQ(connection.ird, 128) << number;
    EXPECT_EQ(connection.ord, 64) << number;
  }
  expect_and_ack(RDMA_CM_EVENT_ESTABLISHED);
  expect_and_ack(RDMA_CM_EVENT_ESTABLISHED);
  destroy(client);
  destroy(server);
  rdma_destroy_id(listener);
}

TEST_F(Connect, LongPrivateDataOfAPeerIsCutAt255) {
  rdma_cm_id* listener = listen();
  std::vector<std::uint8_t> data(508, 7);
  rdma_cm_id* probe = resolve(port(listener));
  create_qp(probe);
  const std::string most(255, 'x');
  rdma_conn_param param = parameters(most);
  ASSERT_EQ(rdma_connect(probe, &param), 0);
  rdma_cm_event* request = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(data_of(request), most);
  rdma_cm_id* server = request->id;
  rdma_ack_cm_event(request);
  for (auto& [number, connection] : rnic().connections) {
    if (connection.qp != probe->qp->qp_num) continue;
    device::ConnectionEvent established{device::ConnectionEventKind::Established, number,
                                        connection.cookie};
    established.private_data = data;
    rnic().report(established);
  }
  rdma_cm_event* event = expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(event->param.conn.private_data_len, 255);
  rdma_ack_cm_event(event);
  destroy(probe);
  rdma_destroy_id(server);
  rdma_destroy_id(listener);
}

TEST_F(Connect, CallsInTheWrongOrderAreRefused) {
  rdma_cm_id* id = make_id();
  EXPECT_EQ(rdma_resolve_route(id, 1), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_connect(id, nullptr), -1);
  EXPECT_EQ(rdma_accept(id, nullptr), -1);
  EXPECT_EQ(rdma_reject(id, nullptr, 0), -1);
  EXPECT_EQ(rdma_disconnect(id), -1);
  EXPECT_EQ(rdma_establish(id), -1);
  EXPECT_EQ(rdma_notify(id, IBV_EVENT_COMM_EST), -1);
  ibv_qp_init_attr attributes = qp_attributes();
  EXPECT_EQ(rdma_create_qp(id, nullptr, &attributes), -1) << "no device yet";
  EXPECT_EQ(errno, EINVAL);
  rdma_destroy_id(id);
}

TEST_F(Connect, QPAndCQsOfTheId) {
  rdma_cm_id* id = resolve(9);
  fail_next_qp(EMFILE);
  ibv_qp_init_attr attributes = qp_attributes();
  EXPECT_EQ(rdma_create_qp(id, nullptr, &attributes), -1);
  EXPECT_EQ(errno, EMFILE);
  EXPECT_EQ(verbs_counts().cqs, 0) << "nothing stays behind";
  create_qp(id);
  ASSERT_NE(id->send_cq, nullptr);
  EXPECT_EQ(id->send_cq->cq_context, id);
  EXPECT_EQ(id->recv_cq->cq_context, id);
  EXPECT_EQ(id->send_cq->channel, id->send_cq_channel);
  EXPECT_NE(id->pd, nullptr);
  attributes = qp_attributes();
  EXPECT_EQ(rdma_create_qp(id, nullptr, &attributes), -1) << "one QP per id";
  ibv_srq_init_attr srq{};
  ASSERT_EQ(rdma_create_srq(id, nullptr, &srq), 0);
  rdma_destroy_srq(id);
  EXPECT_EQ(id->srq, nullptr);
  rdma_destroy_qp(id);
  EXPECT_EQ(id->send_cq, nullptr);
  EXPECT_EQ(verbs_counts().channels, 0);

  // A program may use one CQ for both.
  ibv_cq* shared = ibv_create_cq(id->verbs, 8, id, nullptr, 0);
  id->send_cq = id->recv_cq = shared;
  attributes = qp_attributes();
  ASSERT_EQ(rdma_create_qp(id, nullptr, &attributes), 0);
  destroy(id);
}

TEST_F(Connect, AMixedInstallationAnswersENOSYS) {
  const pid_t child = fork();
  if (child == 0) {
    fake_runtime().version = 99;
    rdma_cm_id* id = nullptr;
    const bool refused = rdma_create_event_channel() == nullptr && errno == ENOSYS &&
                         rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) == -1 &&
                         errno == ENOSYS && rdma_get_devices(nullptr) == nullptr;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace weft::front::cm::testing
