// Posting: what work requests look like in the rings, and what stops a list.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "front/libibverbs/testing/front_test.h"

namespace weft::front {
namespace {

TEST_F(FrontTest, ASendReachesTheRing) {
  create_qp();
  ibv_sge sges[] = {sge(0, 10), sge(100, 20)};
  ibv_send_wr wr = send(42, sges, 2, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE);
  const int rung = device.calls("ring_send");
  ASSERT_EQ(post(&wr), 0);
  EXPECT_EQ(device.calls("ring_send"), rung + 1);
  const auto entry = take();
  EXPECT_EQ(entry.wr_id, 42u);
  EXPECT_EQ(entry.opcode, device::SendOpcode::Send);
  EXPECT_EQ(entry.flags, device::kSignaled | device::kSolicited | device::kReadFence);
  ASSERT_EQ(taken_sges.size(), 2u);
  EXPECT_EQ(taken_sges[1].address, sges[1].addr);
  EXPECT_EQ(taken_sges[1].octets, 20u);
  EXPECT_EQ(taken_sges[1].stag, mr->lkey);
}

TEST_F(FrontTest, EachOpcodeIsTranslated) {
  create_qp();
  ibv_sge one = sge(0, 8);
  ibv_send_wr wr = send(1, &one, 1, IBV_SEND_SOLICITED);
  wr.wr.rdma.remote_addr = 0x123456789a;
  wr.wr.rdma.rkey = 0xaabb;
  wr.opcode = IBV_WR_RDMA_WRITE;
  ASSERT_EQ(post(&wr), 0);
  auto entry = take();
  EXPECT_EQ(entry.opcode, device::SendOpcode::Write);
  EXPECT_EQ(entry.remote_to, 0x123456789au);
  EXPECT_EQ(entry.remote_stag, 0xaabbu);
  EXPECT_EQ(entry.flags, 0) << "only Sends are solicited";

  wr.opcode = IBV_WR_RDMA_READ;
  ASSERT_EQ(post(&wr), 0);
  entry = take();
  EXPECT_EQ(entry.opcode, device::SendOpcode::Read);
  EXPECT_EQ(entry.remote_stag, 0xaabbu);

  wr.opcode = IBV_WR_SEND_WITH_INV;
  wr.invalidate_rkey = 0x77;
  ASSERT_EQ(post(&wr), 0);
  entry = take();
  EXPECT_EQ(entry.opcode, device::SendOpcode::SendInvalidate);
  EXPECT_EQ(entry.invalidate_stag, 0x77u);
  EXPECT_EQ(entry.flags, device::kSolicited);

  wr.imm_data = htonl(0xa1b2c3d4);
  for (const auto& [posted, opcode] :
       {std::pair{IBV_WR_RDMA_WRITE_WITH_IMM, device::SendOpcode::WriteImmediate},
        std::pair{IBV_WR_SEND_WITH_IMM, device::SendOpcode::SendImmediate}}) {
    wr.opcode = posted;
    ASSERT_EQ(post(&wr), 0);
    entry = take();
    EXPECT_EQ(entry.opcode, opcode);
    EXPECT_EQ(entry.immediate, htonl(0xa1b2c3d4)) << "as it was given";
    EXPECT_EQ(entry.flags, device::kSolicited);
    EXPECT_EQ(entry.remote_stag, posted == IBV_WR_SEND_WITH_IMM ? 0 : 0xaabbu);
  }
  wr.invalidate_rkey = 0x77;

  wr.opcode = IBV_WR_LOCAL_INV;
  wr.num_sge = 0;
  wr.send_flags = IBV_SEND_FENCE;
  ASSERT_EQ(post(&wr), 0);
  entry = take();
  EXPECT_EQ(entry.opcode, device::SendOpcode::LocalInvalidate);
  EXPECT_EQ(entry.invalidate_stag, 0x77u);
  EXPECT_EQ(entry.flags, device::kLocalFence);
}

TEST_F(FrontTest, AtomicOperandsStandBehindTheirSGE) {
  create_qp();
  ibv_sge place = sge(8, 8);
  ibv_send_wr wr = send(1, &place, 1);
  wr.wr.atomic.remote_addr = 0x1234567898;
  wr.wr.atomic.rkey = 0xaabb;
  wr.wr.atomic.compare_add = 5;
  wr.wr.atomic.swap = 6;
  struct Row {
    ibv_wr_opcode posted;
    device::SendOpcode opcode;
    std::uint64_t operand, compare;
  };
  for (const Row& row : {Row{IBV_WR_ATOMIC_FETCH_AND_ADD, device::SendOpcode::FetchAdd, 5, 0},
                         Row{IBV_WR_ATOMIC_CMP_AND_SWP, device::SendOpcode::CompareSwap, 6, 5}}) {
    wr.opcode = row.posted;
    ASSERT_EQ(post(&wr), 0);
    const auto entry = take();
    EXPECT_EQ(entry.opcode, row.opcode);
    EXPECT_EQ(entry.remote_to, 0x1234567898u);
    EXPECT_EQ(entry.remote_stag, 0xaabbu);
    ASSERT_EQ(taken_sges.size(), 1u);
    EXPECT_EQ(taken_sges[0].octets, 8u);
    EXPECT_EQ(taken_operands.operand, row.operand);
    EXPECT_EQ(taken_operands.compare, row.compare);
  }
}

TEST_F(FrontTest, AllAreSignalledWhenTheQPSaysSo) {
  create_qp(true);
  ibv_send_wr wr = send(1, nullptr, 0);
  ASSERT_EQ(post(&wr), 0);
  EXPECT_EQ(take().flags, device::kSignaled);
}

TEST_F(FrontTest, InlineDataIsCopiedWhenPosted) {
  create_qp();
  std::memcpy(buffer, "abcdef", 6);
  ibv_sge sges[] = {sge(0, 3), sge(0, 0), sge(4, 2)};
  for (ibv_sge& s : sges) s.lkey = 0;  // not looked at
  ibv_send_wr wr = send(1, sges, 3, IBV_SEND_INLINE);
  ASSERT_EQ(post(&wr), 0);
  std::memset(buffer, 'x', sizeof buffer);
  const auto entry = take();
  EXPECT_EQ(entry.flags, device::kInline);
  EXPECT_EQ(entry.sge_count, 0);
  EXPECT_EQ(std::string(taken_inline.begin(), taken_inline.end()), "abcef");
}

TEST_F(FrontTest, ABadRequestStopsTheListAndKeepsTheFirstOnes) {
  create_qp();
  ibv_sge many[3] = {sge(0, 1), sge(0, 1), sge(0, 1)};
  const auto code_of = [&](auto change) {
    ibv_send_wr third = send(3, nullptr, 0);
    ibv_send_wr second = send(2, many, 1);
    ibv_send_wr first = send(1, nullptr, 0);
    first.next = &second;
    second.next = &third;
    change(second);
    bad = nullptr;
    const int rung = device.calls("ring_send");
    const int code = post(&first);
    EXPECT_EQ(bad, &second);
    EXPECT_EQ(device.calls("ring_send"), rung + 1);
    EXPECT_EQ(take().wr_id, 1u);
    EXPECT_EQ(device.unread_sends(qp->qp_num), 0u);
    return code;
  };
  EXPECT_EQ(code_of([](ibv_send_wr& wr) { wr.num_sge = 3; }), EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) { wr.num_sge = -1; }), EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) { wr.sg_list = nullptr; }), EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) { wr.opcode = static_cast<ibv_wr_opcode>(99); }), EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) { wr.opcode = static_cast<ibv_wr_opcode>(-1); }), EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) { wr.opcode = IBV_WR_ATOMIC_WRITE; }), EOPNOTSUPP);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) {
              wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
              wr.num_sge = 2;
            }),
            EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) {
              wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
              wr.num_sge = 0;
            }),
            EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) {
              wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
              wr.send_flags = IBV_SEND_INLINE;
            }),
            EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) { wr.opcode = IBV_WR_BIND_MW; }), EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) {
              wr.opcode = IBV_WR_RDMA_READ;
              wr.num_sge = 2;
            }),
            EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) {
              wr.opcode = IBV_WR_RDMA_READ;
              wr.send_flags = IBV_SEND_INLINE;
            }),
            EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) {
              wr.send_flags = IBV_SEND_INLINE;
              wr.sg_list[0].length = 33;
            }),
            EINVAL);
  many[0].length = ~0u, many[1].length = ~0u;  // whose sum wraps
  EXPECT_EQ(code_of([](ibv_send_wr& wr) {
              wr.send_flags = IBV_SEND_INLINE;
              wr.num_sge = 2;
            }),
            EINVAL);
}

TEST_F(FrontTest, AFullQueueRefusesTheRest) {
  create_qp();
  ibv_send_wr list[6];
  for (int i = 0; i < 6; ++i) {
    list[i] = send(static_cast<std::uint64_t>(i), nullptr, 0);
    list[i].next = i < 5 ? &list[i + 1] : nullptr;
  }
  const int rung = device.calls("ring_send");
  EXPECT_EQ(post(&list[0]), ENOMEM);
  EXPECT_EQ(bad, &list[4]);
  EXPECT_EQ(device.calls("ring_send"), rung + 1) << "one doorbell for the list";
  EXPECT_EQ(device.unread_sends(qp->qp_num), 4u);
  EXPECT_EQ(post(&list[4]), ENOMEM);
  EXPECT_EQ(device.calls("ring_send"), rung + 1) << "nothing posted, nothing rung";
  take();
  EXPECT_EQ(post(&list[5]), 0);
}

TEST_F(FrontTest, ReceivesReachTheirRing) {
  create_qp();
  ibv_sge sges[] = {sge(0, 64), sge(64, 64), sge(0, 1)};
  ibv_recv_wr third = {3, nullptr, sges, 3}, second = {2, &third, nullptr, 0},
              first = {1, &second, sges, 2}, *bad_receive = nullptr;
  const int rung = device.calls("ring_receive");
  EXPECT_EQ(ibv_post_recv(qp, &first, &bad_receive), EINVAL);
  EXPECT_EQ(bad_receive, &third);
  EXPECT_EQ(device.calls("ring_receive"), rung + 1);
  auto* entry = device.front_receive(qp->qp_num);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->wr_id, 1u);
  ASSERT_EQ(entry->sge_count, 2u);
  EXPECT_EQ(entry->sges()[1].address, sges[1].addr);
  device.consume_receive(qp->qp_num);
  entry = device.front_receive(qp->qp_num);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->wr_id, 2u);
  EXPECT_EQ(entry->sge_count, 0u);
}

TEST_F(FrontTest, ASharedReceiveQueueTakesThePlaceOfTheOwn) {
  ibv_srq_init_attr init = {};
  init.attr = {4, 2, 0};
  ibv_srq* srq = ibv_create_srq(pd, &init);
  ASSERT_NE(srq, nullptr);
  ibv_qp_init_attr attr = attributes();
  attr.srq = srq;
  qp = ibv_create_qp(pd, &attr);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(attr.cap.max_recv_wr, 0u);
  ibv_recv_wr wr = {5, nullptr, nullptr, 0}, *bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &wr, &bad_receive), EINVAL);
  EXPECT_EQ(bad_receive, &wr);
  ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad_receive), 0);
  EXPECT_EQ(device.calls("ring_shared_receive"), 1);
  EXPECT_EQ(device.front_shared(srq->handle)->wr_id, 5u);
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qp = nullptr;
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

}  // namespace
}  // namespace weft::front
