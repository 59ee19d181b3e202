// The copies between the kernel's structs and the API's: every field goes where it belongs.
#include "front/libibverbs/marshall.h"

#include <gtest/gtest.h>

#include <cstring>

namespace {

template <typename T>
T filled_with(int octet) {
  T made;
  std::memset(static_cast<void*>(&made), octet, sizeof made);
  return made;
}

ib_uverbs_ah_attr kernel_ah(std::uint8_t first) {
  ib_uverbs_ah_attr ah{};
  for (std::uint8_t& octet : ah.grh.dgid) octet = first++;
  ah.grh.flow_label = 0xabcde;
  ah.grh.sgid_index = first++;
  ah.grh.hop_limit = first++;
  ah.grh.traffic_class = first++;
  ah.dlid = static_cast<std::uint16_t>(0x1000 + first++);
  ah.sl = first++;
  ah.src_path_bits = first++;
  ah.static_rate = first++;
  ah.is_global = 1;
  ah.port_num = first++;
  return ah;
}

void expect_equal(const ibv_ah_attr& ours, const ib_uverbs_ah_attr& kernels) {
  EXPECT_EQ(std::memcmp(ours.grh.dgid.raw, kernels.grh.dgid, 16), 0);
  EXPECT_EQ(ours.grh.flow_label, kernels.grh.flow_label);
  EXPECT_EQ(ours.grh.sgid_index, kernels.grh.sgid_index);
  EXPECT_EQ(ours.grh.hop_limit, kernels.grh.hop_limit);
  EXPECT_EQ(ours.grh.traffic_class, kernels.grh.traffic_class);
  EXPECT_EQ(ours.dlid, kernels.dlid);
  EXPECT_EQ(ours.sl, kernels.sl);
  EXPECT_EQ(ours.src_path_bits, kernels.src_path_bits);
  EXPECT_EQ(ours.static_rate, kernels.static_rate);
  EXPECT_EQ(ours.is_global, kernels.is_global);
  EXPECT_EQ(ours.port_num, kernels.port_num);
}

TEST(Marshall, AddressAttributes) {
  const ib_uverbs_ah_attr source = kernel_ah(1);
  auto target = filled_with<ibv_ah_attr>(0xee);
  ibv_copy_ah_attr_from_kern(&target, &source);
  expect_equal(target, source);
}

TEST(Marshall, QPAttributes) {
  ib_uverbs_qp_attr source{};
  source.qp_attr_mask = 0xffff;
  source.qp_state = IBV_QPS_RTR;
  source.cur_qp_state = IBV_QPS_SQD;
  source.path_mtu = IBV_MTU_2048;
  source.path_mig_state = IBV_MIG_REARM;
  source.qkey = 101;
  source.rq_psn = 102;
  source.sq_psn = 103;
  source.dest_qp_num = 104;
  source.qp_access_flags = 5;
  source.ah_attr = kernel_ah(1);
  source.alt_ah_attr = kernel_ah(100);
  source.max_send_wr = 106;
  source.max_recv_wr = 107;
  source.max_send_sge = 108;
  source.max_recv_sge = 109;
  source.max_inline_data = 110;
  source.pkey_index = 111;
  source.alt_pkey_index = 112;
  source.en_sqd_async_notify = 1;
  source.sq_draining = 1;
  source.max_rd_atomic = 113;
  source.max_dest_rd_atomic = 114;
  source.min_rnr_timer = 115;
  source.port_num = 116;
  source.timeout = 117;
  source.retry_cnt = 118;
  source.rnr_retry = 119;
  source.alt_port_num = 120;
  source.alt_timeout = 121;
  auto target = filled_with<ibv_qp_attr>(0);
  target.qp_state = IBV_QPS_INIT;
  target.rate_limit = 77;
  ibv_copy_qp_attr_from_kern(&target, &source);
  EXPECT_EQ(target.qp_state, IBV_QPS_INIT) << "the caller's question stays";
  EXPECT_EQ(target.rate_limit, 77u) << "the kernel's struct has none";
  EXPECT_EQ(target.cur_qp_state, IBV_QPS_SQD);
  EXPECT_EQ(target.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(target.path_mig_state, IBV_MIG_REARM);
  EXPECT_EQ(target.qkey, 101u);
  EXPECT_EQ(target.rq_psn, 102u);
  EXPECT_EQ(target.sq_psn, 103u);
  EXPECT_EQ(target.dest_qp_num, 104u);
  EXPECT_EQ(target.qp_access_flags, 5u);
  expect_equal(target.ah_attr, source.ah_attr);
  expect_equal(target.alt_ah_attr, source.alt_ah_attr);
  EXPECT_EQ(target.cap.max_send_wr, 106u);
  EXPECT_EQ(target.cap.max_recv_wr, 107u);
  EXPECT_EQ(target.cap.max_send_sge, 108u);
  EXPECT_EQ(target.cap.max_recv_sge, 109u);
  EXPECT_EQ(target.cap.max_inline_data, 110u);
  EXPECT_EQ(target.pkey_index, 111);
  EXPECT_EQ(target.alt_pkey_index, 112);
  EXPECT_EQ(target.en_sqd_async_notify, 1);
  EXPECT_EQ(target.sq_draining, 1);
  EXPECT_EQ(target.max_rd_atomic, 113);
  EXPECT_EQ(target.max_dest_rd_atomic, 114);
  EXPECT_EQ(target.min_rnr_timer, 115);
  EXPECT_EQ(target.port_num, 116);
  EXPECT_EQ(target.timeout, 117);
  EXPECT_EQ(target.retry_cnt, 118);
  EXPECT_EQ(target.rnr_retry, 119);
  EXPECT_EQ(target.alt_port_num, 120);
  EXPECT_EQ(target.alt_timeout, 121);
}

/// There and back again leaves every field; in between none has changed places.
TEST(Marshall, PathRecords) {
  ib_user_path_rec source{};
  for (std::uint8_t i = 0; i < 16; ++i) {
    source.dgid[i] = static_cast<std::uint8_t>(1 + i);
    source.sgid[i] = static_cast<std::uint8_t>(101 + i);
  }
  source.dlid = 201;
  source.slid = 202;
  source.raw_traffic = 1;
  source.flow_label = 203;
  source.reversible = 1;
  source.mtu = 4;
  source.pkey = 205;
  source.hop_limit = 206;
  source.traffic_class = 207;
  source.numb_path = 208;
  source.sl = 9;
  source.mtu_selector = 2;
  source.rate_selector = 3;
  source.rate = 10;
  source.packet_life_time_selector = 1;
  source.packet_life_time = 14;
  source.preference = 15;

  auto path = filled_with<ibv_sa_path_rec>(0xee);
  ibv_copy_path_rec_from_kern(&path, &source);
  EXPECT_EQ(std::memcmp(path.dgid.raw, source.dgid, 16), 0);
  EXPECT_EQ(std::memcmp(path.sgid.raw, source.sgid, 16), 0);
  EXPECT_EQ(path.dlid, 201);
  EXPECT_EQ(path.slid, 202);
  EXPECT_EQ(path.raw_traffic, 1);
  EXPECT_EQ(path.flow_label, 203u);
  EXPECT_EQ(path.reversible, 1);
  EXPECT_EQ(path.mtu, 4);
  EXPECT_EQ(path.pkey, 205);
  EXPECT_EQ(path.hop_limit, 206);
  EXPECT_EQ(path.traffic_class, 207);
  EXPECT_EQ(path.numb_path, 208);
  EXPECT_EQ(path.sl, 9);
  EXPECT_EQ(path.mtu_selector, 2);
  EXPECT_EQ(path.rate_selector, 3);
  EXPECT_EQ(path.rate, 10);
  EXPECT_EQ(path.packet_life_time_selector, 1);
  EXPECT_EQ(path.packet_life_time, 14);
  EXPECT_EQ(path.preference, 15);

  ib_user_path_rec back{};
  ibv_copy_path_rec_to_kern(&back, &path);
  EXPECT_EQ(std::memcmp(&back, &source, sizeof back), 0);
}

}  // namespace
