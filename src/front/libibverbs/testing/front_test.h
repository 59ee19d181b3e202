// A test on libibverbs over a fake device: what its calls put into the rings and make of
// completions.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "verbs/testing/fake_runtime.h"

namespace weft::front {

using verbs::testing::fake_device;
using verbs::testing::FakeDevice;

/// An opened loopback device with a PD, a CQ on a channel, and a region.
class FrontTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ibv_device** list = ibv_get_device_list(nullptr);
    ASSERT_NE(list, nullptr);
    ASSERT_NE(list[0], nullptr);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context, nullptr);
    pd = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
    cq = ibv_create_cq(context, 16, this, channel, 0);
    mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_TRUE(pd != nullptr && channel != nullptr && cq != nullptr && mr != nullptr);
  }
  void TearDown() override {
    if (qp != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
    EXPECT_EQ(device.live_objects(), 0u);
  }

  ibv_qp_init_attr attributes() {
    ibv_qp_init_attr attr = {};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {4, 4, 2, 2, 32};
    return attr;
  }
  void create_qp(bool signal_all = false) {
    ibv_qp_init_attr attr = attributes();
    attr.sq_sig_all = signal_all;
    qp = ibv_create_qp(pd, &attr);
    ASSERT_NE(qp, nullptr);
  }
  ibv_sge sge(std::uint32_t offset, std::uint32_t octets) {
    return {reinterpret_cast<std::uintptr_t>(buffer) + offset, octets, mr->lkey};
  }
  ibv_send_wr send(std::uint64_t id, ibv_sge* sges, int count, unsigned flags = 0) {
    ibv_send_wr wr = {};
    wr.wr_id = id;
    wr.sg_list = sges;
    wr.num_sge = count;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    return wr;
  }
  int post(ibv_send_wr* wr) { return ibv_post_send(qp, wr, &bad); }

  device::SendEntry take() {
    device::SendEntry* entry = device.front_send(qp->qp_num);
    if (entry == nullptr) {
      ADD_FAILURE() << "nothing was posted";
      return {};
    }
    taken_sges.assign(entry->sges(), entry->sges() + entry->sge_count);
    taken_inline.assign(entry->inline_data(), entry->inline_data() + entry->inline_octets);
    taken_operands = *entry->atomic();
    taken_binding = *entry->binding();
    device::SendEntry copy = *entry;
    device.consume_send(qp->qp_num);
    return copy;
  }
  void complete(std::uint64_t id, device::CompletionStatus status,
                device::CompletionOpcode opcode) {
    device::CompletionEntry entry = {};
    entry.wr_id = id;
    entry.status = status;
    entry.opcode = opcode;
    entry.octets = 77;
    entry.qp_number = qp->qp_num;
    entry.timestamp_ns = 123;
    ASSERT_TRUE(device.complete(cq->handle, entry));
  }

  FakeDevice& device = fake_device();
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
  ibv_send_wr* bad = nullptr;
  std::uint8_t buffer[4096] = {};
  std::vector<device::SGEntry> taken_sges;
  std::vector<std::uint8_t> taken_inline;
  device::AtomicEntry taken_operands = {};  ///< of an atomic
  device::BindEntry taken_binding = {};     ///< of a bind
};

}  // namespace weft::front
