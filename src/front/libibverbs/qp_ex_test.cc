// Work requests built by calls.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "front/libibverbs/testing/front_test.h"

namespace weft::front {
namespace {

class BuilderTest : public FrontTest {
 protected:
  void SetUp() override {
    FrontTest::SetUp();
    ibv_qp_init_attr_ex attr = {};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {4, 4, 2, 2, 32};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pd;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
                          IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    qp = ibv_create_qp_ex(context, &attr);
    ASSERT_NE(qp, nullptr);
    builder = ibv_qp_to_qp_ex(qp);
    ASSERT_NE(builder, nullptr);
  }
  ibv_qp_ex* builder = nullptr;
};

TEST_F(BuilderTest, RequestsArePostedTogether) {
  std::memcpy(buffer, "hello", 5);
  const int rung = device.calls("ring_send");
  ibv_wr_start(builder);
  builder->wr_id = 1;
  builder->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(builder, 0x55, 0x1000);
  ibv_wr_set_sge(builder, mr->lkey, reinterpret_cast<std::uintptr_t>(buffer), 5);
  builder->wr_id = 2;
  builder->wr_flags = 0;
  ibv_wr_send(builder);
  ibv_wr_set_inline_data(builder, buffer, 5);
  EXPECT_EQ(device.unread_sends(qp->qp_num), 0u);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  EXPECT_EQ(device.calls("ring_send"), rung + 1);
  auto entry = take();
  EXPECT_EQ(entry.wr_id, 1u);
  EXPECT_EQ(entry.opcode, device::SendOpcode::Write);
  EXPECT_EQ(entry.remote_stag, 0x55u);
  EXPECT_EQ(entry.remote_to, 0x1000u);
  EXPECT_EQ(entry.flags, device::kSignaled);
  EXPECT_EQ(taken_sges.size(), 1u);
  entry = take();
  EXPECT_EQ(entry.wr_id, 2u);
  EXPECT_EQ(entry.flags, device::kInline);
  EXPECT_EQ(std::string(taken_inline.begin(), taken_inline.end()), "hello");
}

TEST_F(BuilderTest, ImmediateDataGoesAlong) {
  ibv_wr_start(builder);
  builder->wr_flags = IBV_SEND_SOLICITED;
  ibv_wr_rdma_write_imm(builder, 0x55, 0x1000, htonl(0xa1b2c3d4));
  ibv_wr_set_inline_data(builder, buffer, 3);
  ibv_wr_send_imm(builder, htonl(7));
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  auto entry = take();
  EXPECT_EQ(entry.opcode, device::SendOpcode::WriteImmediate);
  EXPECT_EQ(entry.remote_stag, 0x55u);
  EXPECT_EQ(entry.immediate, htonl(0xa1b2c3d4));
  EXPECT_EQ(entry.flags, device::kInline | device::kSolicited);
  entry = take();
  EXPECT_EQ(entry.opcode, device::SendOpcode::SendImmediate);
  EXPECT_EQ(entry.immediate, htonl(7));
}

TEST_F(BuilderTest, OneMistakeAndNothingIsPosted) {
  const auto code_of = [&](auto mistake) {
    ibv_wr_start(builder);
    ibv_wr_send(builder);
    mistake();
    ibv_wr_send(builder);
    const int code = ibv_wr_complete(builder);
    EXPECT_EQ(device.unread_sends(qp->qp_num), 0u);
    return code;
  };
  ibv_sge sges[3] = {};
  EXPECT_EQ(code_of([&] { ibv_wr_set_sge_list(builder, 3, sges); }), EINVAL);
  EXPECT_EQ(code_of([&] { ibv_wr_set_inline_data(builder, buffer, 33); }), EINVAL);
  EXPECT_EQ(code_of([&] { ibv_wr_send_tso(builder, nullptr, 0, 0); }), EOPNOTSUPP);
  EXPECT_EQ(code_of([&] {
              for (int i = 0; i < 4; ++i) ibv_wr_send(builder);
            }),
            ENOMEM);
  ibv_wr_start(builder);
  ibv_wr_send(builder);
  EXPECT_EQ(ibv_wr_complete(builder), 0) << "the next batch is clean";
  take();
}

TEST_F(BuilderTest, AbortPostsNothing) {
  ibv_wr_start(builder);
  ibv_wr_send(builder);
  ibv_wr_abort(builder);
  EXPECT_EQ(device.unread_sends(qp->qp_num), 0u);
  ibv_send_wr wr = send(1, nullptr, 0);
  EXPECT_EQ(post(&wr), 0) << "the queue's lock is free again";
  EXPECT_EQ(take().wr_id, 1u);
}

}  // namespace
}  // namespace weft::front
