// Data over real connections, from the public API: what is sent, written and read arrives, and
// completions say so.
#include <ctime>
#include <thread>

#include "front/testing/program.h"

namespace weft::front::testing {
namespace {

using Data = Program;

class Endpoints : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!has_family(GetParam())) GTEST_SKIP() << "no IPv6 here";
  }
  const char* const host = GetParam() == AF_INET ? "127.0.0.1" : "::1";
};

/// The example of the man pages: endpoints and synchronous ids on both sides.
TEST_P(Endpoints, SynchronousExchange) {
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* passive = nullptr;
  ASSERT_EQ(rdma_getaddrinfo(host, "0", &hints, &passive), 0);
  ibv_qp_init_attr attr{};
  attr.cap = {4, 4, 1, 1, 16};
  attr.sq_sig_all = 1;
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_ep(&listener, passive, nullptr, &attr), 0) << errno;
  ASSERT_EQ(rdma_listen(listener, 0), 0);
  const std::string port = std::to_string(ntohs(rdma_get_src_port(listener)));

  std::thread server([&] {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_get_request(listener, &id), 0) << errno;
    char question[16] = {}, answer[16] = "answer";
    ibv_mr* question_mr = rdma_reg_msgs(id, question, sizeof question);
    ibv_mr* answer_mr = rdma_reg_msgs(id, answer, sizeof answer);
    ASSERT_TRUE(question_mr != nullptr && answer_mr != nullptr);
    ASSERT_EQ(rdma_post_recv(id, nullptr, question, sizeof question, question_mr), 0);
    ASSERT_EQ(rdma_accept(id, nullptr), 0) << errno;
    ibv_wc wc;
    ASSERT_EQ(rdma_get_recv_comp(id, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.byte_len, sizeof question);
    EXPECT_STREQ(question, "question");
    ASSERT_EQ(rdma_post_send(id, nullptr, answer, sizeof answer, answer_mr, IBV_SEND_INLINE), 0);
    ASSERT_EQ(rdma_get_send_comp(id, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(rdma_disconnect(id), 0);
    rdma_dereg_mr(question_mr);
    rdma_dereg_mr(answer_mr);
    rdma_destroy_ep(id);
  });

  hints.ai_flags = 0;
  rdma_addrinfo* active = nullptr;
  ASSERT_EQ(rdma_getaddrinfo(host, port.c_str(), &hints, &active), 0);
  rdma_cm_id* id = nullptr;
  attr.cap = {4, 4, 1, 1, 16};
  ASSERT_EQ(rdma_create_ep(&id, active, nullptr, &attr), 0) << errno;
  char question[16] = "question", answer[16] = {};
  ibv_mr* question_mr = rdma_reg_msgs(id, question, sizeof question);
  ibv_mr* answer_mr = rdma_reg_msgs(id, answer, sizeof answer);
  ASSERT_EQ(rdma_post_recv(id, &attr, answer, sizeof answer, answer_mr), 0);
  ASSERT_EQ(rdma_connect(id, nullptr), 0) << errno;
  ASSERT_EQ(rdma_post_send(id, nullptr, question, sizeof question, question_mr, 0), 0);
  ibv_wc wc;
  ASSERT_EQ(rdma_get_send_comp(id, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  ASSERT_EQ(rdma_get_recv_comp(id, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, reinterpret_cast<std::uintptr_t>(&attr));
  EXPECT_STREQ(answer, "answer");
  EXPECT_EQ(rdma_disconnect(id), 0);
  server.join();
  rdma_dereg_mr(question_mr);
  rdma_dereg_mr(answer_mr);
  rdma_destroy_ep(id);
  rdma_destroy_ep(listener);
  rdma_freeaddrinfo(active);
  rdma_freeaddrinfo(passive);
}

/// What a walk over an extended CQ finds.
struct Walked {
  std::uint64_t wr_id;
  ibv_wc_status status;
  ibv_wc_opcode opcode;
  std::uint32_t octets;
  unsigned flags;
  std::uint32_t invalidated;
  std::uint64_t nanoseconds;
};
std::vector<Walked> walk(End& end, std::size_t count) {
  std::vector<Walked> all;
  EXPECT_TRUE(eventually([&] {
    ibv_poll_cq_attr attr{};
    const int start = ibv_start_poll(end.cq_ex, &attr);
    if (start == ENOENT) return all.size() >= count;
    EXPECT_EQ(start, 0);
    do {
      EXPECT_EQ(ibv_wc_read_qp_num(end.cq_ex), end.qp()->qp_num);
      all.push_back({end.cq_ex->wr_id, end.cq_ex->status, ibv_wc_read_opcode(end.cq_ex),
                     ibv_wc_read_byte_len(end.cq_ex), ibv_wc_read_wc_flags(end.cq_ex),
                     ibv_wc_read_invalidated_rkey(end.cq_ex),
                     ibv_wc_read_completion_ts(end.cq_ex)});
    } while (ibv_next_poll(end.cq_ex) == 0);
    ibv_end_poll(end.cq_ex);
    return all.size() >= count;
  })) << all.size() << " of " << count;
  return all;
}

TEST_P(Data, RequestsBuiltByCalls) {
  EndOptions options;
  options.send_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ |
                     IBV_QP_EX_WITH_LOCAL_INV;
  ASSERT_NO_FATAL_FAILURE(connect(options, options));
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(server.receive(i, {server.sge(32 * 1024 + 1024 * i, 1024)}), 0);
  }
  client.fill(1);
  server.put("to be read", 9000);

  ibv_qp_ex* qp = ibv_qp_to_qp_ex(client.qp());
  ASSERT_NE(qp, nullptr);
  ibv_wr_start(qp);
  qp->wr_id = 10;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(qp);
  const ibv_sge four[] = {client.sge(0, 10), client.sge(100, 20), client.sge(200, 0),
                          client.sge(300, 30)};
  ibv_wr_set_sge_list(qp, 4, four);
  qp->wr_id = 11;
  ibv_wr_rdma_write(qp, server.mr->rkey, server.address(64));
  char text[] = "written inline";
  ibv_wr_set_inline_data(qp, text, sizeof text);
  qp->wr_id = 12;
  ibv_wr_rdma_read(qp, server.mr->rkey, server.address(9000));
  ibv_wr_set_sge(qp, client.mr->lkey, client.address(40'000), 10);
  qp->wr_id = 13;
  qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;  // sends what was read
  ibv_wr_send(qp);
  ibv_wr_set_sge(qp, client.mr->lkey, client.address(40'000), 10);
  qp->wr_id = 14;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(qp);
  const ibv_data_buf pieces[] = {{text, 3}, {text + 3, 4}};
  ibv_wr_set_inline_data_list(qp, 2, pieces);
  ASSERT_EQ(ibv_wr_complete(qp), 0);

  const auto sent = walk(client, 5);
  ASSERT_EQ(sent.size(), 5u);
  const ibv_wc_opcode opcodes[] = {IBV_WC_SEND, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_SEND,
                                   IBV_WC_SEND};
  timespec clock{};
  clock_gettime(CLOCK_MONOTONIC, &clock);
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(sent[i].wr_id, 10 + i);
    EXPECT_EQ(sent[i].status, IBV_WC_SUCCESS) << i;
    EXPECT_EQ(sent[i].opcode, opcodes[i]) << i;
    EXPECT_GE(sent[i].nanoseconds, last) << i;
    last = sent[i].nanoseconds;
  }
  EXPECT_LE(last, static_cast<std::uint64_t>(clock.tv_sec) * 1'000'000'000u +
                      static_cast<std::uint64_t>(clock.tv_nsec));
  const auto received = walk(server, 3);
  ASSERT_EQ(received.size(), 3u);
  const std::uint32_t lengths[] = {60, 10, 7};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(received[i].wr_id, i);
    EXPECT_EQ(received[i].opcode, IBV_WC_RECV);
    EXPECT_EQ(received[i].octets, lengths[i]);
    EXPECT_EQ(received[i].flags, 0u);
  }
  EXPECT_EQ(server.text(32 * 1024, 10), client.text(0, 10));
  EXPECT_EQ(server.text(32 * 1024 + 10, 20), client.text(100, 20));
  EXPECT_EQ(server.text(32 * 1024 + 30, 30), client.text(300, 30));
  EXPECT_EQ(server.text(64, 14), "written inline");
  EXPECT_EQ(client.text(40'000, 10), "to be read");
  EXPECT_EQ(server.text(33 * 1024, 10), "to be read") << "the fence held";
  EXPECT_EQ(server.text(34 * 1024, 7), "written");

  // Aborted batches and mistakes leave nothing behind.
  ibv_wr_start(qp);
  qp->wr_id = 20;
  ibv_wr_send(qp);
  ibv_wr_abort(qp);
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_send_tso(qp, text, 1, 1);
  EXPECT_EQ(ibv_wr_complete(qp), EOPNOTSUPP);
  ASSERT_EQ(server.receive(21, {}), 0);
  ibv_wr_start(qp);
  qp->wr_id = 21;
  ibv_wr_send(qp);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(walk(client, 1)[0].wr_id, 21u);
  EXPECT_EQ(walk(server, 1)[0].wr_id, 21u);
}

TEST_P(Data, FourElementsGatheredAndScattered) {
  ASSERT_NO_FATAL_FAILURE(connect());
  client.fill(7);
  // Cut differently on the two sides; elements of no octets in between.
  ASSERT_EQ(server.receive(1, {server.sge(500, 1), server.sge(0, 0), server.sge(3, 299),
                               server.sge(20'000, 30'000)}), 0);
  ASSERT_EQ(client.send(2, {client.sge(9000, 3000), client.sge(0, 17), client.sge(50'000, 0),
                            client.sge(20'000, 9000)}), 0);
  client.complete(2, IBV_WC_SEND);
  EXPECT_EQ(server.complete(1, IBV_WC_RECV).byte_len, 12'017u);
  std::string sent(client.text(9000, 3000));
  sent += client.text(0, 17);
  sent += client.text(20'000, 9000);
  std::string received(server.text(500, 1));
  received += server.text(3, 299);
  received += server.text(20'000, 12'017 - 300);
  EXPECT_EQ(sent, received);

  ASSERT_EQ(client.rdma(3, IBV_WR_RDMA_WRITE,
                        {client.sge(1, 1), client.sge(2, 2), client.sge(4, 4), client.sge(8, 8)},
                        server.address(55'000), server.mr->rkey), 0);
  ASSERT_EQ(server.receive(4, {}), 0);
  ASSERT_EQ(client.send(4, {}), 0);  // behind the Write: when it is there, the Write's data is
  client.complete(3, IBV_WC_RDMA_WRITE);
  client.complete(4, IBV_WC_SEND);
  server.complete(4, IBV_WC_RECV);
  EXPECT_EQ(server.text(55'000, 15), client.text(1, 15));
  EXPECT_EQ(client.send(5, std::vector<ibv_sge>(5, client.sge(0, 1))), EINVAL);
}

TEST_P(Data, ManyInlineAndUnsignalledSends) {
  constexpr std::uint32_t kDepth = 16, kEvery = 8, kCount = 2000;
  EndOptions options;
  options.depth = kDepth;
  ASSERT_NO_FATAL_FAILURE(connect(options, options));
  for (std::uint32_t i = 0; i < kDepth; ++i) {
    ASSERT_EQ(server.receive(i, {server.sge(64 * i, 64)}), 0);
  }
  std::uint32_t received = 0, signals = 0, posted = 0;
  const bool done = eventually([&] {
    if (posted < kCount && posted - signals * kEvery < kDepth) {
      std::memcpy(client.memory.data(), &posted, sizeof posted);
      const bool last_of_group = posted % kEvery == kEvery - 1;
      const unsigned flags = IBV_SEND_INLINE | (last_of_group ? unsigned{IBV_SEND_SIGNALED} : 0u);
      EXPECT_EQ(client.send(posted, {client.sge(0, 4 + posted % 60)}, flags), 0) << posted;
      client.fill(0xff, 0, 64);  // inline: the buffer is ours again
      ++posted;
    }
    ibv_wc wc;
    if (ibv_poll_cq(client.cq, 1, &wc) == 1) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.wr_id, kEvery * ++signals - 1) << "only every eighth tells";
    }
    if (ibv_poll_cq(server.cq, 1, &wc) == 1) {
      const auto slot = static_cast<std::uint32_t>(wc.wr_id);
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(slot, received % kDepth);
      EXPECT_EQ(wc.byte_len, 4 + received % 60);
      std::uint32_t number;
      std::memcpy(&number, server.memory.data() + 64 * slot, sizeof number);
      EXPECT_EQ(number, received);
      ++received;
      EXPECT_EQ(server.receive(slot, {server.sge(64 * slot, 64)}), 0);
    }
    return (received == kCount && signals == kCount / kEvery) || HasFailure();
  });
  EXPECT_TRUE(done) << posted << " posted, " << received << " received, " << signals << " signals";
}

/// A short queue of unsignalled requests is full at times, and never for good.
TEST_P(Data, UnsignalledRequestsGiveTheirPlacesBack) {
  constexpr std::uint32_t kCount = 500;
  EndOptions options;
  options.depth = 4;
  ASSERT_NO_FATAL_FAILURE(connect(options));
  ibv_wc wc;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    std::memcpy(client.memory.data() + 4 * i, &i, sizeof i);
    const bool posted = eventually([&] {
      const int code = client.rdma(i, IBV_WR_RDMA_WRITE, {client.sge(4 * i, 4)},
                                   server.address(4 * i), server.mr->rkey,
                                   i == kCount - 1 ? unsigned{IBV_SEND_SIGNALED} : 0u);
      EXPECT_TRUE(code == 0 || code == ENOMEM) << code;
      EXPECT_EQ(code == 0 ? 0 : ibv_poll_cq(client.cq, 1, &wc), 0) << "unsignalled";
      return code == 0 || HasFailure();
    });
    ASSERT_TRUE(posted && !HasFailure()) << i;
  }
  client.complete(kCount - 1, IBV_WC_RDMA_WRITE);
  ASSERT_EQ(server.receive(1, {}), 0);
  ASSERT_EQ(client.send(1, {}), 0);
  client.complete(1, IBV_WC_SEND);
  server.complete(1, IBV_WC_RECV);
  EXPECT_EQ(server.text(0, 4 * kCount), client.text(0, 4 * kCount));
}

TEST_P(Data, ZeroLength) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ASSERT_EQ(server.receive(1, {}), 0);
  ASSERT_EQ(server.receive(2, {server.sge(0, 8)}), 0);
  ASSERT_EQ(client.send(1, {}), 0);
  ASSERT_EQ(client.send(2, {client.sge(0, 0)}), 0);
  ASSERT_EQ(client.send(3, {}, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  // No octets, no access: neither key nor address is looked at.
  ASSERT_EQ(client.rdma(4, IBV_WR_RDMA_WRITE, {}, 0, 0), 0);
  ASSERT_EQ(client.rdma(5, IBV_WR_RDMA_READ, {}, server.address(), server.mr->rkey), 0);
  ASSERT_EQ(server.receive(3, {}), 0);
  const ibv_wc_opcode opcodes[] = {IBV_WC_SEND, IBV_WC_SEND, IBV_WC_SEND, IBV_WC_RDMA_WRITE,
                                   IBV_WC_RDMA_READ};
  for (std::uint64_t i = 0; i < 5; ++i) client.complete(i + 1, opcodes[i]);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(server.complete(i, IBV_WC_RECV).byte_len, 0u);
  }
  EXPECT_EQ(client.state(), IBV_QPS_RTS);
  EXPECT_EQ(server.state(), IBV_QPS_RTS);
}

TEST_P(Data, MessagesWaitForReceives) {
  ASSERT_NO_FATAL_FAILURE(connect());
  client.put("patience");
  ASSERT_EQ(client.send(1, {client.sge(0, 8)}), 0);
  client.complete(1, IBV_WC_SEND);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(server.cq, 1, &wc), 0);
  ASSERT_EQ(server.receive(2, {server.sge(0, 8)}), 0);
  server.complete(2, IBV_WC_RECV);
  EXPECT_EQ(server.text(0, 8), "patience");
}

//= SEC-05
TEST_P(Data, APeerMayNotInvalidateWhatTheWholePDShares) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ASSERT_EQ(server.receive(1, {}), 0);
  ASSERT_EQ(client.invalidate(1, IBV_WR_SEND_WITH_INV, server.mr->rkey), 0);
  client.complete(1, IBV_WC_SEND);
  const auto failed = server.complete(1);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].wr_id, 1u);
  EXPECT_EQ(failed[0].status, IBV_WC_LOC_PROT_ERR) << ibv_wc_status_str(failed[0].status);
  expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_P(Data, AnInvalidatedKeyIsUseless) {
  ASSERT_NO_FATAL_FAILURE(connect());
  std::vector<std::uint8_t> local(64);
  ibv_mr* own = ibv_reg_mr(client.id->pd, local.data(), local.size(), End::kEverything);
  ASSERT_NE(own, nullptr);
  ASSERT_EQ(client.invalidate(3, IBV_WR_LOCAL_INV, own->rkey), 0);
  client.complete(3, IBV_WC_LOCAL_INV);
  // Locally: found before anything leaves, and the QP is done for.
  ASSERT_EQ(client.send(4, {{reinterpret_cast<std::uintptr_t>(local.data()), 8, own->lkey}}), 0);
  ASSERT_EQ(client.send(5, {}), 0);
  const auto failed = client.complete(2);
  ASSERT_EQ(failed.size(), 2u);
  EXPECT_EQ(failed[0].wr_id, 4u);
  EXPECT_EQ(failed[0].status, IBV_WC_LOC_PROT_ERR) << ibv_wc_status_str(failed[0].status);
  EXPECT_EQ(failed[1].wr_id, 5u);
  EXPECT_EQ(failed[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ibv_dereg_mr(own), 0);
  expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_P(Data, AReadBehindAnInvalidationEndsTheConnection) {
  ASSERT_NO_FATAL_FAILURE(connect());
  std::vector<std::uint8_t> spare(64);
  ibv_mr* remote = ibv_reg_mr(server.id->pd, spare.data(), spare.size(), End::kEverything);
  ASSERT_NE(remote, nullptr);
  client.fill(1);
  ASSERT_EQ(server.invalidate(1, IBV_WR_LOCAL_INV, remote->rkey), 0);
  server.complete(1, IBV_WC_LOCAL_INV);
  ASSERT_EQ(client.rdma(2, IBV_WR_RDMA_READ, {client.sge(0, 8)},
                        reinterpret_cast<std::uintptr_t>(spare.data()), remote->rkey), 0);
  const auto failed = client.complete(1);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].wr_id, 2u);
  EXPECT_EQ(failed[0].status, IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(failed[0].status);
  expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(ibv_dereg_mr(remote), 0);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(server.id->verbs, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR) << ibv_event_type_str(event.event_type);
  EXPECT_EQ(event.element.qp, server.qp());
  ibv_ack_async_event(&event);
}

TEST_P(Data, SharedReceiveQueueTellsItsLimit) {
  ASSERT_NO_FATAL_FAILURE(resolve(client));
  ibv_srq_init_attr init{};
  init.attr = {8, 1, 0};
  ibv_srq* srq = ibv_create_srq(client.id->pd, &init);
  ASSERT_NE(srq, nullptr);
  drop(client);
  EndOptions options;
  options.srq = srq;
  ASSERT_NO_FATAL_FAILURE(connect({}, options));
  ibv_recv_wr wr{}, *bad = nullptr;
  for (wr.wr_id = 0; wr.wr_id < 6; ++wr.wr_id) {
    ibv_sge sge = server.sge(64 * wr.wr_id, 64);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  }
  EXPECT_EQ(server.receive(9, {}), EINVAL) << "the QP has no receive queue of its own";
  ibv_srq_attr limit{};
  limit.srq_limit = 4;
  ASSERT_EQ(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
  client.fill(3);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(client.send(i, {client.sge(64 * i, 64)}), 0);
  client.complete(3);
  for (std::uint64_t i = 0; i < 3; ++i) server.complete(i, IBV_WC_RECV);
  EXPECT_EQ(server.text(0, 192), client.text(0, 192));
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(server.id->verbs, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq);
  ibv_ack_async_event(&event);
  ASSERT_EQ(ibv_query_srq(srq, &limit), 0);
  EXPECT_EQ(limit.srq_limit, 0u) << "it tells once";
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  drop(server);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  expect(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_P(Data, ResizingUnderTrafficLosesNothing) {
  constexpr std::uint32_t kCount = 3000, kDepth = 32;
  EndOptions options;
  options.depth = kDepth;
  ASSERT_NO_FATAL_FAILURE(connect(options, options));
  for (std::uint64_t i = 0; i < kDepth; ++i) ASSERT_EQ(server.receive(i, {}), 0);
  std::uint32_t posted = 0, sent = 0, received = 0, round = 0, resized = 0;
  const bool done = eventually([&] {
    while (posted < kCount && posted - sent < kDepth / 2) {
      EXPECT_EQ(client.send(posted++, {}), 0);
    }
    if (++round % 5 == 0) {
      // Between what it may hold and much more; refused only if it holds more than that.
      const int depth = static_cast<int>(round % 3 == 0 ? 2 * kDepth : 500 + round % 7);
      for (ibv_cq* cq : {client.cq, server.cq}) {
        const int code = ibv_resize_cq(cq, depth);
        EXPECT_EQ(code, 0);
        EXPECT_GE(cq->cqe, depth);
        resized += code == 0;
      }
    }
    ibv_wc wc[4];
    for (int i = 0, found = ibv_poll_cq(client.cq, 4, wc); i < found; ++i) {
      EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc[i].wr_id, sent++);
    }
    for (int i = 0, found = ibv_poll_cq(server.cq, 4, wc); i < found; ++i) {
      EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc[i].wr_id, received);
      EXPECT_EQ(server.receive(++received + kDepth - 1, {}), 0);
    }
    return (sent == kCount && received == kCount) || HasFailure();
  });
  EXPECT_TRUE(done) << posted << ' ' << sent << ' ' << received;
  EXPECT_GT(resized, 10u);

  // What it holds has to fit.
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(client.send(i, {}), 0);
  ASSERT_EQ(client.send(20, {}), 0);
  for (std::uint64_t i = 0; i < 21; ++i) server.complete(received + i, IBV_WC_RECV);
  EXPECT_NE(ibv_resize_cq(client.cq, 1), 0);
  const auto rest = client.complete(21);
  for (std::uint64_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i].wr_id, i);
}

INSTANTIATE_TEST_SUITE_P(Families, Data, kFamilies, family_name);
INSTANTIATE_TEST_SUITE_P(Families, Endpoints, kFamilies, family_name);

}  // namespace
}  // namespace weft::front::testing
