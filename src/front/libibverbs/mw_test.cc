// Memory windows: their lifetime, and what binds look like in the ring.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>

#include "front/libibverbs/testing/front_test.h"

namespace weft::front {
namespace {

class WindowTest : public FrontTest {
 protected:
  void SetUp() override {
    FrontTest::SetUp();
    ibv_qp_init_attr_ex attr = {};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {4, 4, 1, 1, 0};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pd;
    attr.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    qp = ibv_create_qp_ex(context, &attr);
    ASSERT_NE(qp, nullptr);
    for (ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
      mw[type] = ibv_alloc_mw(pd, type);
      ASSERT_NE(mw[type], nullptr);
    }
  }
  void TearDown() override {
    for (ibv_mw* window : mw) {
      if (window != nullptr) {
        EXPECT_EQ(ibv_dealloc_mw(window), 0);
      }
    }
    FrontTest::TearDown();
  }
  ibv_mw_bind_info info(std::uint64_t octets = 16) {
    return {mr, reinterpret_cast<std::uintptr_t>(buffer) + 8, octets,
            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
  }
  ibv_send_wr bind_wr(std::uint32_t rkey) {
    ibv_send_wr wr = send(7, nullptr, 0);
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = mw[IBV_MW_TYPE_2];
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = info();
    return wr;
  }
  void expect_binding(std::uint64_t octets = 16) {
    EXPECT_EQ(taken_binding.to, reinterpret_cast<std::uintptr_t>(buffer) + 8);
    EXPECT_EQ(taken_binding.octets, octets);
    EXPECT_EQ(taken_binding.region_stag, mr->rkey);
    EXPECT_EQ(taken_binding.access, device::kRemoteRead | device::kRemoteWrite);
  }
  ibv_mw* mw[3] = {};
};

TEST_F(WindowTest, AllocatingTellsWhatItIs) {
  const ibv_mw& first = *mw[IBV_MW_TYPE_1];
  EXPECT_EQ(first.context, context);
  EXPECT_EQ(first.pd, pd);
  EXPECT_EQ(first.type, IBV_MW_TYPE_1);
  EXPECT_NE(first.rkey, 0u);
  EXPECT_EQ(device.window(first.rkey), device::WindowKind::Type1);
  EXPECT_EQ(mw[IBV_MW_TYPE_2]->type, IBV_MW_TYPE_2);
  EXPECT_EQ(device.window(mw[IBV_MW_TYPE_2]->rkey), device::WindowKind::Type2);
}

TEST_F(WindowTest, AllocatingFailsWithACode) {
  for (const int type : {0, 3, -1}) {
    EXPECT_EQ(ibv_alloc_mw(pd, static_cast<ibv_mw_type>(type)), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  device.fail_next("allocate_window", ENOMEM);
  EXPECT_EQ(ibv_alloc_mw(pd, IBV_MW_TYPE_1), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  device.fail_next("deallocate_window", EIO);
  EXPECT_EQ(ibv_dealloc_mw(mw[IBV_MW_TYPE_1]), EIO) << "and it stays";
}

TEST_F(WindowTest, ItsPDCannotGoBefore) {
  ibv_pd* other = ibv_alloc_pd(context);
  ASSERT_NE(other, nullptr);
  ibv_mw* window = ibv_alloc_mw(other, IBV_MW_TYPE_1);
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(WindowTest, BindingType1PostsAndGivesTheNextKey) {
  const std::uint32_t old = mw[IBV_MW_TYPE_1]->rkey;
  ibv_mw_bind bind = {42, IBV_SEND_SIGNALED | IBV_SEND_FENCE, info()};
  const int rung = device.calls("ring_send");
  ASSERT_EQ(ibv_bind_mw(qp, mw[IBV_MW_TYPE_1], &bind), 0);
  EXPECT_EQ(device.calls("ring_send"), rung + 1);
  EXPECT_EQ(mw[IBV_MW_TYPE_1]->rkey, ibv_inc_rkey(old));
  const auto entry = take();
  EXPECT_EQ(entry.wr_id, 42u);
  EXPECT_EQ(entry.opcode, device::SendOpcode::BindWindow);
  EXPECT_EQ(entry.flags, device::kSignaled | device::kLocalFence);
  EXPECT_EQ(entry.remote_stag, ibv_inc_rkey(old));
  EXPECT_EQ(entry.sge_count, 0);
  expect_binding();
  bind.send_flags = 0;
  ASSERT_EQ(ibv_bind_mw(qp, mw[IBV_MW_TYPE_1], &bind), 0);
  EXPECT_EQ(take().flags, 0) << "not signalled unless it is asked for";
}

TEST_F(WindowTest, ALengthOfZeroNeedsNoRegion) {
  ibv_mw_bind bind = {1, 0, {}};
  ASSERT_EQ(ibv_bind_mw(qp, mw[IBV_MW_TYPE_1], &bind), 0);
  EXPECT_EQ(take().opcode, device::SendOpcode::BindWindow);
  EXPECT_EQ(taken_binding.octets, 0u);
  EXPECT_EQ(taken_binding.region_stag, 0u);
}

TEST_F(WindowTest, TheLocalRightIsAcceptedAndMeansNothing) {
  ibv_mw_bind bind = {1, 0, info()};
  bind.bind_info.mw_access_flags |= IBV_ACCESS_LOCAL_WRITE;
  ASSERT_EQ(ibv_bind_mw(qp, mw[IBV_MW_TYPE_1], &bind), 0);
  take();
  expect_binding();
}

TEST_F(WindowTest, ABadBindIsRefusedAndTheKeyStays) {
  ibv_pd* other_pd = ibv_alloc_pd(context);
  ibv_mr* foreign = ibv_reg_mr(other_pd, buffer, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ASSERT_NE(foreign, nullptr);
  const std::uint32_t key = mw[IBV_MW_TYPE_1]->rkey;
  const auto code_of = [&](int type, auto change) {
    ibv_mw_bind bind = {1, 0, info()};
    change(bind);
    const int code = ibv_bind_mw(qp, mw[type], &bind);
    EXPECT_EQ(device.unread_sends(qp->qp_num), 0u);
    EXPECT_EQ(mw[IBV_MW_TYPE_1]->rkey, key);
    return code;
  };
  EXPECT_EQ(code_of(IBV_MW_TYPE_2, [](ibv_mw_bind&) {}), EINVAL);
  EXPECT_EQ(code_of(1, [](ibv_mw_bind& bind) { bind.bind_info.mr = nullptr; }), EINVAL);
  EXPECT_EQ(code_of(1, [&](ibv_mw_bind& bind) { bind.bind_info.mr = foreign; }), EPERM);
  EXPECT_EQ(code_of(1, [](ibv_mw_bind& bind) { bind.send_flags = IBV_SEND_INLINE; }), EINVAL);
  for (const unsigned right :
       {unsigned{IBV_ACCESS_MW_BIND}, unsigned{IBV_ACCESS_ON_DEMAND}, 1u << 31}) {
    EXPECT_EQ(code_of(1, [&](ibv_mw_bind& bind) { bind.bind_info.mw_access_flags = right; }),
              EINVAL);
  }
  // The operation itself, for programs that do not go through the header's checks.
  ibv_mw_bind bind = {1, 0, info()};
  EXPECT_EQ(context->ops.bind_mw(qp, mw[IBV_MW_TYPE_2], &bind), EINVAL);
  bind.bind_info.mr = foreign;
  EXPECT_EQ(context->ops.bind_mw(qp, mw[IBV_MW_TYPE_1], &bind), EPERM);
  EXPECT_EQ(ibv_dereg_mr(foreign), 0);
  EXPECT_EQ(ibv_dealloc_pd(other_pd), 0);
}

TEST_F(WindowTest, AFullQueueLeavesTheKey) {
  ibv_mw_bind bind = {1, 0, info()};
  for (int i = 0; i < 4; ++i) ASSERT_EQ(ibv_bind_mw(qp, mw[IBV_MW_TYPE_1], &bind), 0);
  const std::uint32_t key = mw[IBV_MW_TYPE_1]->rkey;
  EXPECT_EQ(ibv_bind_mw(qp, mw[IBV_MW_TYPE_1], &bind), ENOMEM);
  EXPECT_EQ(mw[IBV_MW_TYPE_1]->rkey, key);
}

TEST_F(WindowTest, Type2IsBoundByAWorkRequestWithAKeyOfTheProgramsChoice) {
  const std::uint32_t key = mw[IBV_MW_TYPE_2]->rkey, chosen = key ^ 0x5a;
  ibv_send_wr wr = bind_wr(chosen);
  wr.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(post(&wr), 0);
  EXPECT_EQ(mw[IBV_MW_TYPE_2]->rkey, key) << "the program keeps the keys that it chooses";
  const auto entry = take();
  EXPECT_EQ(entry.wr_id, 7u);
  EXPECT_EQ(entry.opcode, device::SendOpcode::BindWindow);
  EXPECT_EQ(entry.flags, device::kSignaled);
  EXPECT_EQ(entry.remote_stag, chosen);
  expect_binding();
}

TEST_F(WindowTest, ABadWorkRequestIsRefused) {
  const std::uint32_t key = mw[IBV_MW_TYPE_2]->rkey;
  const auto code_of = [&](auto change) {
    ibv_send_wr wr = bind_wr(key + 1);
    change(wr);
    const int code = post(&wr);
    EXPECT_EQ(bad, &wr);
    EXPECT_EQ(device.unread_sends(qp->qp_num), 0u);
    return code;
  };
  ibv_sge one = sge(0, 1);
  EXPECT_EQ(code_of([&](ibv_send_wr& wr) { wr.bind_mw.mw = mw[IBV_MW_TYPE_1]; }), EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) { wr.bind_mw.mw = nullptr; }), EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) { wr.bind_mw.rkey += 0x100; }), EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) { wr.bind_mw.bind_info.mr = nullptr; }), EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) { wr.send_flags = IBV_SEND_INLINE; }), EINVAL);
  EXPECT_EQ(code_of([&](ibv_send_wr& wr) {
              wr.sg_list = &one;
              wr.num_sge = 1;
            }),
            EINVAL);
  EXPECT_EQ(code_of([](ibv_send_wr& wr) {
              wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_MW_BIND;
            }),
            EINVAL);
}

TEST_F(WindowTest, BindingByCalls) {
  ibv_qp_ex* builder = ibv_qp_to_qp_ex(qp);
  ASSERT_NE(builder, nullptr);
  const std::uint32_t chosen = mw[IBV_MW_TYPE_2]->rkey ^ 0x5a;
  ibv_mw_bind_info bind_info = info();
  ibv_wr_start(builder);
  builder->wr_id = 3;
  builder->wr_flags = IBV_SEND_FENCE;
  ibv_wr_bind_mw(builder, mw[IBV_MW_TYPE_2], chosen, &bind_info);
  ibv_wr_local_inv(builder, chosen);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  const auto entry = take();
  EXPECT_EQ(entry.wr_id, 3u);
  EXPECT_EQ(entry.opcode, device::SendOpcode::BindWindow);
  EXPECT_EQ(entry.flags, device::kLocalFence);
  EXPECT_EQ(entry.remote_stag, chosen);
  expect_binding();
  EXPECT_EQ(take().invalidate_stag, chosen);

  const auto code_of = [&](auto build) {
    ibv_wr_start(builder);
    build();
    ibv_wr_local_inv(builder, chosen);
    const int code = ibv_wr_complete(builder);
    EXPECT_EQ(device.unread_sends(qp->qp_num), 0u);
    return code;
  };
  EXPECT_EQ(code_of([&] { ibv_wr_bind_mw(builder, mw[IBV_MW_TYPE_1], chosen, &bind_info); }),
            EINVAL);
  EXPECT_EQ(code_of([&] {
              ibv_wr_bind_mw(builder, mw[IBV_MW_TYPE_2], chosen, &bind_info);
              ibv_wr_set_sge(builder, mr->lkey, 0, 1);
            }),
            EINVAL);
  EXPECT_EQ(code_of([&] {
              ibv_wr_bind_mw(builder, mw[IBV_MW_TYPE_2], chosen, &bind_info);
              ibv_wr_set_inline_data(builder, buffer, 1);
            }),
            EINVAL);
  bind_info.mw_access_flags = IBV_ACCESS_MW_BIND;
  EXPECT_EQ(code_of([&] { ibv_wr_bind_mw(builder, mw[IBV_MW_TYPE_2], chosen, &bind_info); }),
            EINVAL);
}

TEST_F(WindowTest, CompletionsAreToldApart) {
  using Opcode = device::CompletionOpcode;
  ibv_wc wc;
  complete(1, device::CompletionStatus::Success, Opcode::BindWindow);
  ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
  EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
  complete(2, device::CompletionStatus::Success, Opcode::LocalInvalidate);
  ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
  EXPECT_EQ(wc.opcode, IBV_WC_LOCAL_INV);
}

}  // namespace
}  // namespace weft::front
