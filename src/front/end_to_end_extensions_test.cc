// What RFC 7306 adds, over real connections and from the public API: immediate data, atomics.
#include <arpa/inet.h>

#include "front/testing/program.h"

namespace weft::front::testing {
namespace {

constexpr std::uint32_t kImmediate = 0xa1b2c3d4;

class Extensions : public Program {
 protected:
  static ibv_send_wr with_immediate(std::uint64_t wr_id, ibv_wr_opcode opcode,
                                    std::vector<ibv_sge>& sges, std::uint32_t immediate,
                                    unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.send_flags = flags;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    wr.imm_data = htonl(immediate);
    return wr;
  }
  int write(std::uint64_t wr_id, std::vector<ibv_sge> sges, std::uint64_t remote,
            std::uint32_t immediate, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr = with_immediate(wr_id, IBV_WR_RDMA_WRITE_WITH_IMM, sges, immediate, flags);
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = server.mr->rkey;
    return client.post(wr);
  }
  int send(std::uint64_t wr_id, std::vector<ibv_sge> sges, std::uint32_t immediate,
           unsigned flags = IBV_SEND_SIGNALED) {
    return client.post(with_immediate(wr_id, IBV_WR_SEND_WITH_IMM, sges, immediate, flags));
  }
  void expect_immediate(std::uint64_t wr_id, ibv_wc_opcode opcode, std::uint32_t octets,
                        std::uint32_t immediate) {
    const ibv_wc wc = server.complete(wr_id, opcode);
    EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_IMM});
    EXPECT_EQ(wc.byte_len, octets);
    EXPECT_EQ(ntohl(wc.imm_data), immediate);
  }
};

TEST_P(Extensions, AWriteWithImmediateTakesAReceiveAndTellsItsLength) {
  ASSERT_NO_FATAL_FAILURE(connect());
  client.fill(7);
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_EQ(server.receive(i, {}), 0);
  ASSERT_EQ(
      write(1, {client.sge(0, 40'000), client.sge(50'000, 8)}, server.address(100), kImmediate), 0);
  client.put("inline", 60'000);
  ASSERT_EQ(write(2, {client.sge(60'000, 6)}, server.address(60'000), 7,
                  IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_SOLICITED),
            0);
  ASSERT_EQ(write(3, {}, 0, 0), 0);  // of no octets: nothing is looked at
  ASSERT_EQ(client.send(4, {}), 0);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const std::uint32_t lengths[] = {40'008, 6, 0};
    EXPECT_EQ(client.complete(i, IBV_WC_RDMA_WRITE).byte_len, lengths[i - 1]);
  }
  client.complete(4, IBV_WC_SEND);
  expect_immediate(1, IBV_WC_RECV_RDMA_WITH_IMM, 40'008, kImmediate);
  EXPECT_EQ(server.text(100, 40'000), client.text(0, 40'000));
  EXPECT_EQ(server.text(40'100, 8), client.text(50'000, 8));
  expect_immediate(2, IBV_WC_RECV_RDMA_WITH_IMM, 6, 7);
  EXPECT_EQ(server.text(60'000, 6), "inline");
  expect_immediate(3, IBV_WC_RECV_RDMA_WITH_IMM, 0, 0);
  EXPECT_EQ(server.complete(4, IBV_WC_RECV).wc_flags, 0u);
}

TEST_P(Extensions, ASendWithImmediateIsOneMessageToBothPrograms) {
  ASSERT_NO_FATAL_FAILURE(connect());
  client.fill(9);
  ASSERT_EQ(server.receive(1, {server.sge(0, 30'000)}), 0);
  ASSERT_EQ(server.receive(2, {server.sge(40'000, 64)}), 0);
  ASSERT_EQ(server.receive(3, {}), 0);
  ASSERT_EQ(send(1, {client.sge(0, 20'000)}, kImmediate), 0);
  ASSERT_EQ(client.send(2, {client.sge(0, 64)}), 0);
  ASSERT_EQ(send(3, {}, 1), 0);
  for (std::uint64_t i = 1; i <= 3; ++i) client.complete(i, IBV_WC_SEND);
  expect_immediate(1, IBV_WC_RECV, 20'000, kImmediate);
  EXPECT_EQ(server.text(0, 20'000), client.text(0, 20'000));
  EXPECT_EQ(server.complete(2, IBV_WC_RECV).wc_flags, 0u);
  expect_immediate(3, IBV_WC_RECV, 0, 1);
}

TEST_P(Extensions, ImmediateDataWaitsForReceives) {
  ASSERT_NO_FATAL_FAILURE(connect());
  client.put("patience");
  ASSERT_EQ(write(1, {client.sge(0, 8)}, server.address(), kImmediate), 0);
  ASSERT_EQ(send(2, {client.sge(0, 8)}, 2), 0);
  client.complete(1, IBV_WC_RDMA_WRITE);
  client.complete(2, IBV_WC_SEND);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(server.cq, 1, &wc), 0);
  ASSERT_EQ(server.receive(1, {}), 0);
  expect_immediate(1, IBV_WC_RECV_RDMA_WITH_IMM, 8, kImmediate);
  EXPECT_EQ(server.text(0, 8), "patience");
  EXPECT_EQ(ibv_poll_cq(server.cq, 1, &wc), 0);
  ASSERT_EQ(server.receive(2, {server.sge(100, 8)}), 0);
  expect_immediate(2, IBV_WC_RECV, 8, 2);
}

TEST_P(Extensions, ImmediateDataByCallsAndByReaders) {
  EndOptions options;
  options.send_ops = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_IMM;
  ASSERT_NO_FATAL_FAILURE(connect(options));
  ASSERT_EQ(server.receive(1, {}), 0);
  ASSERT_EQ(server.receive(2, {server.sge(1000, 8)}), 0);
  client.put("by calls");
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(client.qp());
  ASSERT_NE(qp, nullptr);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  qp->wr_id = 1;
  ibv_wr_rdma_write_imm(qp, server.mr->rkey, server.address(), htonl(kImmediate));
  ibv_wr_set_sge(qp, client.mr->lkey, client.address(), 8);
  qp->wr_id = 2;
  ibv_wr_send_imm(qp, htonl(2));
  ibv_wr_set_sge(qp, client.mr->lkey, client.address(), 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  client.complete(1, IBV_WC_RDMA_WRITE);
  client.complete(2, IBV_WC_SEND);

  struct Expected {
    ibv_wc_opcode opcode;
    std::uint32_t immediate;
  };
  for (const auto& [opcode, immediate] :
       {Expected{IBV_WC_RECV_RDMA_WITH_IMM, kImmediate}, Expected{IBV_WC_RECV, 2}}) {
    ibv_poll_cq_attr attr{};
    ASSERT_TRUE(eventually([&] { return ibv_start_poll(server.cq_ex, &attr) == 0; }));
    EXPECT_EQ(ibv_wc_read_opcode(server.cq_ex), opcode);
    EXPECT_EQ(ibv_wc_read_wc_flags(server.cq_ex), unsigned{IBV_WC_WITH_IMM});
    EXPECT_EQ(ibv_wc_read_byte_len(server.cq_ex), 8u);
    EXPECT_EQ(ntohl(ibv_wc_read_imm_data(server.cq_ex)), immediate);
    ibv_end_poll(server.cq_ex);
  }
  EXPECT_EQ(server.text(0, 8), "by calls");
  EXPECT_EQ(server.text(1000, 8), "by calls");
}

/// An armed CQ that waits for solicited events is woken by Immediate Data with SE, and only by it.
TEST_P(Extensions, ImmediateDataSolicitsAnEvent) {
  ASSERT_NO_FATAL_FAILURE(resolve(client));
  ibv_comp_channel* events = ibv_create_comp_channel(client.id->verbs);
  ASSERT_NE(events, nullptr);
  drop(client);
  EndOptions options;
  options.channel = events;
  ASSERT_NO_FATAL_FAILURE(connect({}, options));
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(server.receive(i, {}), 0);
  ASSERT_EQ(ibv_req_notify_cq(server.cq, 1), 0);
  ASSERT_EQ(write(1, {}, 0, 1), 0);
  ASSERT_EQ(send(2, {}, 2), 0);
  ASSERT_EQ(write(3, {}, 0, 3, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
  ibv_cq* woken = nullptr;
  void* cookie = nullptr;
  ASSERT_EQ(ibv_get_cq_event(events, &woken, &cookie), 0);
  EXPECT_EQ(woken, server.cq);
  ibv_ack_cq_events(woken, 1);
  expect_immediate(1, IBV_WC_RECV_RDMA_WITH_IMM, 0, 1);
  expect_immediate(2, IBV_WC_RECV, 0, 2);
  expect_immediate(3, IBV_WC_RECV_RDMA_WITH_IMM, 0, 3);
  client.complete(3);
  drop(server);
  EXPECT_EQ(ibv_destroy_comp_channel(events), 0);
  expect(RDMA_CM_EVENT_DISCONNECTED);
}

ibv_send_wr atomic_wr(std::uint64_t wr_id, ibv_wr_opcode opcode, ibv_sge* place,
                      std::uint64_t remote, std::uint32_t rkey, std::uint64_t compare_add,
                      std::uint64_t swap = 0) {
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = place;
  wr.num_sge = 1;
  wr.wr.atomic.remote_addr = remote;
  wr.wr.atomic.rkey = rkey;
  wr.wr.atomic.compare_add = compare_add;
  wr.wr.atomic.swap = swap;
  return wr;
}
std::uint64_t number_at(const End& end, std::size_t offset) {
  std::uint64_t value;
  std::memcpy(&value, end.memory.data() + offset, sizeof value);
  return value;
}

TEST_P(Extensions, AtomicsBringTheOriginalValue) {
  ASSERT_NO_FATAL_FAILURE(connect());
  const std::uint64_t start = 0x1122334455667788;
  std::memcpy(server.memory.data() + 64, &start, sizeof start);
  const auto post = [&](std::uint64_t wr_id, ibv_wr_opcode opcode, std::uint64_t compare_add,
                        std::uint64_t swap) {
    ibv_sge place = client.sge(8 * wr_id, 8);
    return client.post(
        atomic_wr(wr_id, opcode, &place, server.address(64), server.mr->rkey, compare_add, swap));
  };
  ASSERT_EQ(post(1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0x11, 0), 0);
  ASSERT_EQ(post(2, IBV_WR_ATOMIC_CMP_AND_SWP, start + 0x11, 42), 0);
  ASSERT_EQ(post(3, IBV_WR_ATOMIC_CMP_AND_SWP, start, 43), 0);
  ASSERT_EQ(post(4, IBV_WR_ATOMIC_FETCH_AND_ADD, ~std::uint64_t{0}, 0), 0);
  // More than may be open at once: they wait for each other.
  for (std::uint64_t i = 5; i < 20; ++i) ASSERT_EQ(post(i, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0), 0);
  const std::uint64_t originals[] = {start, start + 0x11, 42, 42};
  for (std::uint64_t i = 1; i < 20; ++i) {
    const bool swaps = i == 2 || i == 3;
    EXPECT_EQ(client.complete(i, swaps ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD).byte_len, 8u);
    EXPECT_EQ(number_at(client, 8 * i), i <= 4 ? originals[i - 1] : 41 + i - 5);
  }
  EXPECT_EQ(number_at(server, 64), 56u);
}

TEST_P(Extensions, AtomicsByCalls) {
  EndOptions options;
  options.send_ops = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
  ASSERT_NO_FATAL_FAILURE(connect(options));
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(client.qp());
  ASSERT_NE(qp, nullptr);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  qp->wr_id = 1;
  ibv_wr_atomic_fetch_add(qp, server.mr->rkey, server.address(8), 7);
  ibv_wr_set_sge(qp, client.mr->lkey, client.address(0), 8);
  qp->wr_id = 2;
  ibv_wr_atomic_cmp_swp(qp, server.mr->rkey, server.address(8), 7, 9);
  ibv_wr_set_sge(qp, client.mr->lkey, client.address(8), 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  client.complete(1, IBV_WC_FETCH_ADD);
  client.complete(2, IBV_WC_COMP_SWAP);
  EXPECT_EQ(number_at(client, 0), 0u);
  EXPECT_EQ(number_at(client, 8), 7u);
  EXPECT_EQ(number_at(server, 8), 9u);
  ibv_wr_start(qp);
  ibv_wr_atomic_fetch_add(qp, server.mr->rkey, server.address(8), 7);
  const ibv_sge two[] = {client.sge(0, 8), client.sge(8, 8)};
  ibv_wr_set_sge_list(qp, 2, two);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
}

struct Refusal {
  const char* what;
  std::size_t offset;
  int access;
  ibv_wc_status status;
};

TEST_P(Extensions, AnAtomicThatMayNotBeEndsTheConnection) {
  constexpr int kRest = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  for (const Refusal& c :
       {Refusal{"not aligned", 4, kRest | IBV_ACCESS_REMOTE_ATOMIC, IBV_WC_REM_INV_REQ_ERR},
        Refusal{"no right", 8, kRest, IBV_WC_REM_ACCESS_ERR},
        Refusal{"over the end", 64, kRest | IBV_ACCESS_REMOTE_ATOMIC, IBV_WC_REM_ACCESS_ERR}}) {
    SCOPED_TRACE(c.what);
    ASSERT_NO_FATAL_FAILURE(connect());
    std::vector<std::uint64_t> words(8, 1);
    ibv_mr* target = ibv_reg_mr(server.id->pd, words.data(), 64, c.access);
    ASSERT_NE(target, nullptr);
    ibv_sge place = client.sge(0, 8);
    ASSERT_EQ(client.post(atomic_wr(1, IBV_WR_ATOMIC_FETCH_AND_ADD, &place,
                                    reinterpret_cast<std::uintptr_t>(words.data()) + c.offset,
                                    target->rkey, 1)),
              0);
    const auto failed = client.complete(1);
    ASSERT_EQ(failed.size(), 1u);
    EXPECT_EQ(failed[0].status, c.status) << ibv_wc_status_str(failed[0].status);
    expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(words, std::vector<std::uint64_t>(8, 1));
    EXPECT_EQ(ibv_dereg_mr(target), 0);
    drop(client);
    drop(server);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Extensions, kFamilies, family_name);

}  // namespace
}  // namespace weft::front::testing
