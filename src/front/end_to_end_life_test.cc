// Lives of connections over the real libraries: set-up, states, private data, ends, events.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "front/testing/program.h"

namespace weft::front::testing {
namespace {

using Life = Program;

TEST_P(Life, StatesOfAQP) {
  ASSERT_NO_FATAL_FAILURE(resolve(client));
  ASSERT_NO_FATAL_FAILURE(equip(client));
  EXPECT_EQ(client.qp()->state, IBV_QPS_INIT) << "as rdma_create_qp leaves it";
  EXPECT_EQ(client.state(), IBV_QPS_INIT);
  EXPECT_EQ(client.move_to(IBV_QPS_RESET), 0);
  EXPECT_EQ(client.qp()->state, IBV_QPS_RESET);
  EXPECT_EQ(client.move_to(IBV_QPS_INIT), 0);
  EXPECT_EQ(client.move_to(IBV_QPS_RTS), EINVAL) << "only a connection does that";
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_connect(client.id, &param), 0);
  server.id = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  ASSERT_NO_FATAL_FAILURE(equip(server));
  EXPECT_EQ(server.state(), IBV_QPS_INIT);
  ASSERT_EQ(rdma_accept(server.id, &param), 0);
  expect_on_both(RDMA_CM_EVENT_ESTABLISHED);
  for (End* end : {&client, &server}) {
    EXPECT_EQ(end->state(), IBV_QPS_RTS);
    EXPECT_EQ(end->qp()->state, IBV_QPS_RTS) << "the query keeps it up to date";
    EXPECT_EQ(end->move_to(IBV_QPS_RTS), 0);
    EXPECT_EQ(end->move_to(IBV_QPS_INIT), EINVAL);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init;
    ASSERT_EQ(ibv_query_qp(end->qp(), &attr, IBV_QP_MAX_QP_RD_ATOMIC, &init), 0);
    EXPECT_EQ(attr.max_rd_atomic, 4);
    EXPECT_EQ(attr.max_dest_rd_atomic, 4);
    EXPECT_EQ(init.send_cq, end->cq);
  }
  ASSERT_EQ(client.receive(7, {}), 0);
  ASSERT_EQ(server.receive(8, {}), 0);
  ASSERT_EQ(client.move_to(IBV_QPS_ERR), 0);
  expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
  std::uint64_t wr_id = 7;
  for (End* end : {&client, &server}) {
    const auto flushed = end->complete(1);
    ASSERT_EQ(flushed.size(), 1u);
    EXPECT_EQ(flushed[0].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(flushed[0].wr_id, wr_id++);
    EXPECT_TRUE(eventually([&] { return end->state() == IBV_QPS_ERR; }));
    // What comes too late comes back as well.
    ASSERT_EQ(end->send(9, {}), 0);
    EXPECT_EQ(end->complete(1)[0].status, IBV_WC_WR_FLUSH_ERR);
  }
  EXPECT_EQ(client.move_to(IBV_QPS_RESET), 0);
  EXPECT_EQ(client.state(), IBV_QPS_INIT);
}

std::string pattern(std::size_t octets) {
  std::string made(octets, '\0');
  for (std::size_t i = 0; i < octets; ++i) made[i] = static_cast<char>('a' + i % 26);
  return made;
}

TEST_P(Life, TheStateSaidToBePresentIsComparedWithTheDevices) {
  const auto only_from = [](End& end, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.cur_qp_state = state;
    return ibv_modify_qp(end.qp(), &attr, IBV_QP_CUR_STATE);
  };
  ASSERT_NO_FATAL_FAILURE(request());
  EXPECT_EQ(only_from(client, IBV_QPS_INIT), 0);
  EXPECT_EQ(only_from(client, IBV_QPS_RTS), EINVAL);
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_accept(server.id, &param), 0);
  expect_on_both(RDMA_CM_EVENT_ESTABLISHED);
  for (End* end : {&client, &server}) {
    EXPECT_EQ(only_from(*end, IBV_QPS_RTS), 0) << "without a query before";
    EXPECT_EQ(only_from(*end, IBV_QPS_INIT), EINVAL);
  }
  ASSERT_EQ(client.move_to(IBV_QPS_ERR), 0);
  expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(only_from(server, IBV_QPS_ERR), 0);
  EXPECT_EQ(server.move_to(IBV_QPS_RESET), 0);
  EXPECT_EQ(only_from(server, IBV_QPS_RESET), 0);
}

TEST_P(Life, PrivateDataUpToTheMost) {
  for (const std::size_t octets : {0u, 1u, 196u, 255u}) {
    const std::string data = pattern(octets);
    ASSERT_NO_FATAL_FAILURE(resolve(client));
    ASSERT_NO_FATAL_FAILURE(equip(client));
    rdma_conn_param param = parameters(data);
    ASSERT_EQ(rdma_connect(client.id, &param), 0);
    const Seen request = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(request.data, data);
    server.id = request.id;
    ASSERT_NO_FATAL_FAILURE(equip(server));
    ASSERT_EQ(rdma_accept(server.id, &param), 0);
    for (int i = 0; i < 2; ++i) {
      const Seen established = expect(RDMA_CM_EVENT_ESTABLISHED);
      if (established.id == client.id) {
        EXPECT_EQ(established.data, data);
      }
    }
    EXPECT_EQ(rdma_disconnect(client.id), 0);
    expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
    drop(client);
    drop(server);
  }
}

TEST_P(Life, RejectingWithPrivateData) {
  for (const std::size_t octets : {0u, 1u, 148u, 255u}) {
    const std::string data = pattern(octets);
    ASSERT_NO_FATAL_FAILURE(resolve(client));
    ASSERT_NO_FATAL_FAILURE(equip(client));
    ASSERT_EQ(client.receive(5, {}), 0);
    rdma_conn_param param = parameters();
    ASSERT_EQ(rdma_connect(client.id, &param), 0);
    rdma_cm_id* request = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
    ASSERT_EQ(rdma_reject(request, data.data(), static_cast<std::uint8_t>(octets)), 0);
    EXPECT_EQ(rdma_destroy_id(request), 0) << "at once: the reply gets there all the same";
    const Seen rejected = expect(RDMA_CM_EVENT_REJECTED);
    EXPECT_EQ(rejected.id, client.id);
    EXPECT_EQ(rejected.status, -ECONNREFUSED);
    EXPECT_EQ(rejected.data, data);
    const auto flushed = client.complete(1);
    ASSERT_EQ(flushed.size(), 1u);
    EXPECT_EQ(flushed[0].status, IBV_WC_WR_FLUSH_ERR);
    drop(client);
  }
}

TEST_P(Life, EitherSideMayDisconnect) {
  for (const bool from_server : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(connect());
    End& ending = from_server ? server : client;
    End& other = from_server ? client : server;
    ASSERT_EQ(other.receive(1, {}), 0);
    ASSERT_EQ(other.receive(2, {}), 0);
    ASSERT_EQ(ending.send(3, {}), 0);  // arrives before the end does
    ending.complete(3, IBV_WC_SEND);
    ASSERT_EQ(rdma_disconnect(ending.id), 0);
    expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
    const auto seen = other.complete(2);
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(seen[1].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(rdma_disconnect(other.id), 0) << "what is over may be ended";
    EXPECT_EQ(rdma_disconnect(ending.id), 0);
    drop(client);
    drop(server);
  }
}

TEST_P(Life, BothSidesDisconnectAtOnce) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_NO_FATAL_FAILURE(connect());
    EXPECT_EQ(rdma_disconnect(client.id), 0);
    EXPECT_EQ(rdma_disconnect(server.id), 0);
    expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
    drop(client);
    drop(server);
  }
}

TEST_P(Life, DestroyingAnIdForgetsItsEvents) {
  ASSERT_NO_FATAL_FAILURE(request());
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_accept(server.id, &param), 0);
  // Its ESTABLISHED may be queued, or on its way.
  drop(server);
  const Seen first = next_event();
  EXPECT_EQ(first.id, client.id);
  if (first.type == RDMA_CM_EVENT_ESTABLISHED) expect(RDMA_CM_EVENT_DISCONNECTED);
  drop(client);

  // A listener with requests nobody took: they are rejected.
  ASSERT_NO_FATAL_FAILURE(resolve(client));
  ASSERT_NO_FATAL_FAILURE(equip(client));
  ASSERT_EQ(rdma_connect(client.id, &param), 0);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
  listener = nullptr;
  const Seen refused = next_event();
  EXPECT_EQ(refused.id, client.id);
  EXPECT_EQ(refused.type, RDMA_CM_EVENT_REJECTED) << rdma_event_str(refused.type);
}

TEST_P(Life, NobodyListens) {
  sockaddr_storage nobody = loopback(ntohs(rdma_get_src_port(listener)));
  ASSERT_EQ(rdma_destroy_id(listener), 0);
  listener = nullptr;
  ASSERT_EQ(rdma_create_id(channel, &client.id, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(rdma_resolve_addr(client.id, nullptr, reinterpret_cast<sockaddr*>(&nobody), 2000), 0);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(client.id, 2000), 0);
  expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  ASSERT_NO_FATAL_FAILURE(equip(client));
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_connect(client.id, &param), 0);
  EXPECT_EQ(expect(RDMA_CM_EVENT_REJECTED).status, -ECONNREFUSED);
}

/// Both CQs of a connection, and one that stays silent, on one channel.
TEST_P(Life, OneCompletionChannelForManyCQs) {
  ASSERT_NO_FATAL_FAILURE(resolve(client));
  ibv_comp_channel* shared = ibv_create_comp_channel(client.id->verbs);
  ASSERT_NE(shared, nullptr);
  drop(client);
  EndOptions options;
  options.channel = shared;
  ASSERT_NO_FATAL_FAILURE(connect(options, options));
  ibv_cq* silent = ibv_create_cq(client.id->verbs, 1, nullptr, shared, 0);
  ASSERT_NE(silent, nullptr);
  EXPECT_EQ(shared->refcnt, 3);
  unsigned client_events = 0, server_events = 0;
  for (std::uint64_t round = 0; round < 50; ++round) {
    for (ibv_cq* cq : {client.cq, server.cq, silent}) ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    ASSERT_EQ(server.receive(round, {}), 0);
    ASSERT_EQ(client.send(round, {}), 0);
    for (int i = 0; i < 2; ++i) {  // once each: one shot
      ibv_cq* which = nullptr;
      void* context = nullptr;
      ASSERT_EQ(ibv_get_cq_event(shared, &which, &context), 0);
      ASSERT_TRUE(which == client.cq || which == server.cq);
      ++(which == client.cq ? client_events : server_events);
    }
    client.complete(round, IBV_WC_SEND);
    server.complete(round, IBV_WC_RECV);
  }
  EXPECT_EQ(client_events, 50u);
  EXPECT_EQ(server_events, 50u);
  // Acknowledged in any portions; the CQ cannot go before the last.
  ibv_ack_cq_events(server.cq, 50);
  ibv_ack_cq_events(client.cq, 20);
  ibv_ack_cq_events(client.cq, 0);
  EXPECT_EQ(rdma_disconnect(client.id), 0);
  expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(ibv_destroy_qp(client.qp()), 0);
  client.id->qp = nullptr;
  std::atomic<bool> destroyed = false;
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_cq(client.cq), 0);
    destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(destroyed);
  ibv_ack_cq_events(client.cq, 29);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(destroyed);
  ibv_ack_cq_events(client.cq, 1);
  destroyer.join();
  client.cq = nullptr;
  drop(client);
  EXPECT_EQ(ibv_destroy_comp_channel(shared), EBUSY);
  drop(server);
  EXPECT_EQ(ibv_destroy_cq(silent), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(shared), 0);
}

/// What a sleeping program asks for with ibv_modify_cq: fewer events, none too late.
TEST_P(Life, ModeratedEventsComeByCountOrByPeriod) {
  ASSERT_NO_FATAL_FAILURE(resolve(client));
  ibv_comp_channel* notifier = ibv_create_comp_channel(client.id->verbs);
  ASSERT_NE(notifier, nullptr);
  drop(client);
  EndOptions options;
  options.channel = notifier;
  ASSERT_NO_FATAL_FAILURE(connect({}, options));
  ibv_cq* which = nullptr;
  void* context = nullptr;
  const auto send = [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(server.receive(i, {}), 0);
      ASSERT_EQ(client.send(i, {}), 0);
      client.complete(i, IBV_WC_SEND);
    }
  };
  const auto receive = [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) server.complete(i, IBV_WC_RECV);
  };

  ibv_modify_cq_attr by_count = {IBV_CQ_ATTR_MODERATE, {4, 0}};
  ASSERT_EQ(ibv_modify_cq(server.cq, &by_count), 0);
  const int flags = ::fcntl(notifier->fd, F_GETFL);
  ASSERT_EQ(::fcntl(notifier->fd, F_SETFL, flags | O_NONBLOCK), 0);
  ASSERT_EQ(ibv_req_notify_cq(server.cq, 0), 0);
  ASSERT_NO_FATAL_FAILURE(send(3));
  receive(3);
  EXPECT_EQ(ibv_get_cq_event(notifier, &which, &context), -1) << "three of four";
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(::fcntl(notifier->fd, F_SETFL, flags), 0);
  ASSERT_NO_FATAL_FAILURE(send(1));
  ASSERT_EQ(ibv_get_cq_event(notifier, &which, &context), 0);
  EXPECT_EQ(which, server.cq);
  receive(1);

  ibv_modify_cq_attr by_period = {IBV_CQ_ATTR_MODERATE, {1000, 20'000}};
  ASSERT_EQ(ibv_modify_cq(server.cq, &by_period), 0);
  ASSERT_EQ(ibv_req_notify_cq(server.cq, 0), 0);
  ASSERT_NO_FATAL_FAILURE(send(3));
  ASSERT_EQ(ibv_get_cq_event(notifier, &which, &context), 0);
  receive(3);
  // And as a program with an event loop of its own waits: descriptor first.
  ASSERT_EQ(::fcntl(notifier->fd, F_SETFL, flags | O_NONBLOCK), 0);
  ASSERT_EQ(ibv_req_notify_cq(server.cq, 0), 0);
  ASSERT_NO_FATAL_FAILURE(send(2));
  EXPECT_TRUE(eventually([&] {
    pollfd waiting = {notifier->fd, POLLIN, 0};
    EXPECT_EQ(::poll(&waiting, 1, 20'000), 1);
    return ibv_get_cq_event(notifier, &which, &context) == 0;
  }));
  receive(2);
  ibv_ack_cq_events(server.cq, 3);
  drop(server);
  EXPECT_EQ(ibv_destroy_comp_channel(notifier), 0);
  expect(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_P(Life, SolicitedEventsOnly) {
  ASSERT_NO_FATAL_FAILURE(resolve(client));
  ibv_comp_channel* notifier = ibv_create_comp_channel(client.id->verbs);
  ASSERT_NE(notifier, nullptr);
  drop(client);
  EndOptions options;
  options.channel = notifier;
  ASSERT_NO_FATAL_FAILURE(connect({}, options));
  ASSERT_EQ(ibv_req_notify_cq(server.cq, 1), 0);
  for (std::uint64_t i = 0; i < 2; ++i) ASSERT_EQ(server.receive(i, {}), 0);
  ASSERT_EQ(client.send(0, {}), 0);
  server.complete(0, IBV_WC_RECV);  // without an event
  ASSERT_EQ(client.send(1, {}, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
  ibv_cq* which = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(notifier, &which, &context), 0);
  ibv_ack_cq_events(which, 1);
  server.complete(1, IBV_WC_RECV);
  drop(server);
  EXPECT_EQ(ibv_destroy_comp_channel(notifier), 0);
}

/// A child that tidies up what it inherited takes nothing from its parent.
TEST_P(Life, AForkedChildMayDestroyEverything) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ASSERT_EQ(server.receive(1, {server.sge(0, 16)}), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kPatience.count());  // a child that hangs is a failure
    rdma_cm_event* event = nullptr;
    bool right = rdma_disconnect(client.id) == -1 && errno == EIO;
    right &= rdma_get_cm_event(channel, &event) == -1 && errno == EIO;
    drop(client);
    drop(server);
    right &= rdma_destroy_id(listener) == 0;
    rdma_destroy_event_channel(channel);
    _exit(right && !HasFailure() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);

  client.put("still connected");
  ASSERT_EQ(client.send(1, {client.sge(0, 16)}), 0);
  client.complete(1, IBV_WC_SEND);
  server.complete(1, IBV_WC_RECV);
  EXPECT_EQ(server.text(0, 15), "still connected");
  drop(client);
  expect(RDMA_CM_EVENT_DISCONNECTED);
  drop(server);
  ASSERT_NO_FATAL_FAILURE(connect());  // and the listener listens
}

/// The child makes connections of its own, beside those of its parent.
TEST_P(Life, AForkedChildHasItsOwnWorld) {
  ASSERT_NO_FATAL_FAILURE(connect());
  const pid_t child = fork();
  if (child == 0) {
    alarm(kPatience.count());  // a child that hangs is a failure
    client = {};
    server = {};
    SetUp();
    if (!HasFatalFailure()) connect();
    if (!HasFatalFailure()) {
      EXPECT_EQ(server.receive(1, {}), 0);
      EXPECT_EQ(client.send(1, {}), 0);
      client.complete(1, IBV_WC_SEND);
      server.complete(1, IBV_WC_RECV);
    }
    _exit(HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(server.receive(2, {}), 0);
  ASSERT_EQ(client.send(2, {}), 0);
  client.complete(2, IBV_WC_SEND);
  server.complete(2, IBV_WC_RECV);
}

INSTANTIATE_TEST_SUITE_P(Families, Life, kFamilies, family_name);

}  // namespace
}  // namespace weft::front::testing
