// Walks the public API, above all where it refuses: linked to nothing but libibverbs.so.1.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <thread>
#include <vector>

#include "front/libibverbs/hand_events.h"
#include "front/libibverbs/numbers.h"

namespace {

class APITest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = -1;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_NE(list, nullptr);
    ASSERT_GT(count, 0);
    EXPECT_EQ(list[count], nullptr);
    for (int i = 0; i < count; ++i) {
      if (std::strcmp(ibv_get_device_name(list[i]), "weft_lo") == 0) device = list[i];
    }
    ASSERT_NE(device, nullptr);
    ibv_free_device_list(list);
    context = ibv_open_device(device);
    ASSERT_NE(context, nullptr);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
    ASSERT_TRUE(pd != nullptr && cq != nullptr);
  }
  /// A QP whose receives are flushed tells so by the channel, which then goes.
  void expect_flushed_by(ibv_comp_channel* channel);
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  ibv_qp_init_attr attributes() {
    ibv_qp_init_attr attr = {};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {4, 4, 1, 1, 0};
    return attr;
  }
  int create_qp_code(ibv_qp_init_attr attr) {
    errno = 0;
    ibv_qp* qp = ibv_create_qp(pd, &attr);
    if (qp != nullptr) ibv_destroy_qp(qp);
    return qp != nullptr ? 0 : errno;
  }
  int reg_mr_code(void* address, std::size_t octets, int access) {
    errno = 0;
    ibv_mr* mr = ibv_reg_mr(pd, address, octets, access);
    if (mr != nullptr) ibv_dereg_mr(mr);
    return mr != nullptr ? 0 : errno;
  }

  ibv_device* device = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
};

TEST_F(APITest, DevicesAreTheSameInEveryList) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ASSERT_NE(list, nullptr);
  bool found = false;
  for (ibv_device** entry = list; *entry != nullptr; ++entry) found |= *entry == device;
  EXPECT_TRUE(found);
  ibv_free_device_list(list);
  EXPECT_EQ(device->node_type, IBV_NODE_RNIC);
  EXPECT_EQ(device->transport_type, IBV_TRANSPORT_IWARP);
  EXPECT_NE(ibv_get_device_guid(device), 0u);
  EXPECT_GT(ibv_get_device_index(device), 0);
}

TEST_F(APITest, DeviceAttributesKeepTheCallersSize) {
  ibv_device_attr plain;
  ASSERT_EQ(ibv_query_device(context, &plain), 0);
  EXPECT_EQ(plain.phys_port_cnt, 1);
  EXPECT_EQ(plain.max_sge_rd, 1);
  EXPECT_EQ(plain.atomic_cap, IBV_ATOMIC_GLOB);
  EXPECT_EQ(plain.node_guid, ibv_get_device_guid(device));

  ibv_device_attr_ex extended;
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &extended), 0);
  EXPECT_EQ(std::memcmp(&extended.orig_attr, &plain, sizeof plain), 0);
  EXPECT_EQ(extended.cq_mod_caps.max_cq_count, 65535);
  EXPECT_EQ(extended.cq_mod_caps.max_cq_period, 65535);
  ibv_query_device_ex_input input = {1};
  EXPECT_EQ(ibv_query_device_ex(context, &input, &extended), EINVAL);

  verbs_context* verbs = verbs_get_ctx(context);
  std::vector<std::uint8_t> room(sizeof extended + 64, 0xee);
  auto* attr = reinterpret_cast<ibv_device_attr_ex*>(room.data());
  const std::size_t least = offsetof(ibv_device_attr_ex, comp_mask) + 4;
  EXPECT_EQ(verbs->query_device_ex(context, nullptr, attr, least), 0);
  EXPECT_EQ(room[least], 0xee) << "written past the caller's struct";
  EXPECT_EQ(verbs->query_device_ex(context, nullptr, attr, sizeof extended + 32), 0);
  EXPECT_EQ(room[sizeof extended], 0) << "what we do not know of is zero";
  EXPECT_EQ(room[sizeof extended + 32], 0xee);
  EXPECT_EQ(verbs->query_device_ex(context, nullptr, attr, 8), EINVAL);
}

TEST_F(APITest, PortAttributesKeepTheCallersSize) {
  ibv_port_attr attr;
  ASSERT_EQ(ibv_query_port(context, 1, &attr), 0);
  EXPECT_EQ(attr.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_GE(attr.gid_tbl_len, 2);
  EXPECT_EQ(attr.pkey_tbl_len, 1);
  EXPECT_EQ(ibv_query_port(context, 0, &attr), EINVAL);
  EXPECT_EQ(ibv_query_port(context, 2, &attr), EINVAL);

  // The exported symbol, as programs of before the sized operation call it.
  constexpr std::size_t kOldOctets = 48;
  std::uint8_t room[64];
  std::memset(room, 0xee, sizeof room);
#undef ibv_query_port
  ASSERT_EQ(::ibv_query_port(context, 1, reinterpret_cast<_compat_ibv_port_attr*>(room)), 0);
  EXPECT_EQ(std::memcmp(room, &attr, kOldOctets), 0);
  EXPECT_EQ(room[kOldOctets], 0xee);
}

TEST_F(APITest, GIDs) {
  ibv_gid gid;
  ASSERT_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
  bool has_loopback = false;
  ibv_gid_entry entries[64];
  const ssize_t count = ibv_query_gid_table(context, entries, 64, 0);
  ASSERT_GE(count, 2);
  in_addr loopback = {htonl(INADDR_LOOPBACK)};
  for (ssize_t i = 0; i < count; ++i) {
    ASSERT_EQ(ibv_query_gid(context, 1, static_cast<int>(i), &gid), 0);
    EXPECT_EQ(std::memcmp(gid.raw, entries[i].gid.raw, 16), 0);
    EXPECT_EQ(entries[i].gid_index, i);
    has_loopback |= gid.raw[10] == 0xff && gid.raw[11] == 0xff &&
                    std::memcmp(gid.raw + 12, &loopback, 4) == 0;
  }
  EXPECT_TRUE(has_loopback);
  ibv_port_attr port;
  ASSERT_EQ(___ibv_query_port(context, 1, &port), 0);
  EXPECT_GT(port.gid_tbl_len, count) << "there is room for another address";
  EXPECT_EQ(ibv_query_gid(context, 1, static_cast<int>(count), &gid), 0);
  EXPECT_TRUE(std::all_of(std::begin(gid.raw), std::end(gid.raw), [](auto o) { return o == 0; }));
  EXPECT_EQ(ibv_query_gid(context, 1, port.gid_tbl_len, &gid), -1);
  EXPECT_EQ(ibv_query_gid(context, 1, -1, &gid), -1);
  EXPECT_EQ(ibv_query_gid(context, 2, 0, &gid), -1);
  EXPECT_EQ(ibv_query_gid_table(context, entries, 1, 0), -EINVAL);
  ibv_gid_entry entry;
  EXPECT_EQ(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
  EXPECT_EQ(ibv_query_gid_ex(context, 1, static_cast<std::uint32_t>(count), &entry, 0), ENODATA);
  EXPECT_EQ(ibv_query_gid_ex(context, 1, 9999, &entry, 0), ENODATA);
  EXPECT_EQ(ibv_query_gid_ex(context, 1, 0, &entry, 1), EINVAL);
  __be16 pkey;
  EXPECT_EQ(ibv_query_pkey(context, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, htons(0xffff));
  EXPECT_EQ(ibv_query_pkey(context, 1, 1, &pkey), -1);
  EXPECT_EQ(ibv_get_pkey_index(context, 1, pkey), 0);
  EXPECT_EQ(ibv_get_pkey_index(context, 1, 0), -1);
}

TEST_F(APITest, Regions) {
  std::vector<std::uint8_t> buffer(8192);
  EXPECT_EQ(reg_mr_code(buffer.data(), buffer.size(), IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(reg_mr_code(nullptr, 0, 0), 0);
  EXPECT_EQ(reg_mr_code(buffer.data(), 1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING), 0);
  EXPECT_EQ(reg_mr_code(buffer.data(), 1, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(reg_mr_code(buffer.data(), 1, 1 << 15), EINVAL);
  EXPECT_EQ(reg_mr_code(buffer.data(), 1, IBV_ACCESS_ON_DEMAND), 0);
  EXPECT_EQ(reg_mr_code(buffer.data(), ~std::size_t{0}, 0), EINVAL);
  EXPECT_EQ(reg_mr_code(reinterpret_cast<void*>(4096), 4096, 0), EFAULT);

  ibv_mr* mr = ibv_reg_mr_iova(pd, buffer.data(), 100, 0, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->length, 100u);
  EXPECT_EQ(mr->lkey, mr->rkey);
  EXPECT_NE(mr->lkey >> 8, 0u) << "index 0 is never handed out";
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_rereg_mr(mr, 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, 8, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
            0);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, buffer.data() + 10, 50, 0),
            0);
  EXPECT_EQ(mr->addr, buffer.data() + 10);
  EXPECT_EQ(mr->length, 50u);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);

  EXPECT_EQ(ibv_reg_dmabuf_mr(pd, 0, 1, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(APITest, CompletionQueues) {
  EXPECT_GE(cq->cqe, 8);
  for (int depth : {0, -1, 1 << 30}) {
    EXPECT_EQ(ibv_create_cq(context, depth, nullptr, nullptr, 0), nullptr) << depth;
    EXPECT_EQ(errno, EINVAL);
  }
  for (int vector : {-1, context->num_comp_vectors}) {
    EXPECT_EQ(ibv_create_cq(context, 1, nullptr, nullptr, vector), nullptr) << vector;
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(ibv_resize_cq(cq, 0), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq, 100), 0);
  EXPECT_GE(cq->cqe, 100);
  ibv_cq_init_attr_ex init = {};
  init.cqe = 1;
  init.wc_flags = IBV_WC_EX_WITH_CVLAN;
  EXPECT_EQ(ibv_create_cq_ex(context, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init.wc_flags = 0;
  init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD << 1;
  EXPECT_EQ(ibv_create_cq_ex(context, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  EXPECT_EQ(ibv_create_cq_ex(context, &init), nullptr);
  EXPECT_EQ(errno, EINVAL) << "without one";
  ibv_modify_cq_attr moderation = {IBV_CQ_ATTR_MODERATE, {65535, 65535}};
  EXPECT_EQ(ibv_modify_cq(cq, &moderation), 0);
  moderation = {IBV_CQ_ATTR_MODERATE, {0, 0}};
  EXPECT_EQ(ibv_modify_cq(cq, &moderation), 0);
  moderation.attr_mask |= IBV_CQ_ATTR_RESERVED;
  EXPECT_EQ(ibv_modify_cq(cq, &moderation), EOPNOTSUPP);
  moderation.attr_mask = 0;
  EXPECT_EQ(ibv_modify_cq(cq, &moderation), 0) << "nothing is to change";
}

TEST_F(APITest, QueuePairs) {
  ibv_qp_init_attr plain = attributes();
  plain.cap.max_inline_data = 0;
  ibv_qp* granted = ibv_create_qp(pd, &plain);
  ASSERT_NE(granted, nullptr);
  EXPECT_GE(plain.cap.max_inline_data, 32u) << "what fits the first cache line is free";
  EXPECT_EQ(ibv_destroy_qp(granted), 0);
  EXPECT_EQ(create_qp_code(attributes()), 0);
  for (ibv_qp_type type : {IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND}) {
    ibv_qp_init_attr attr = attributes();
    attr.qp_type = type;
    EXPECT_EQ(create_qp_code(attr), EOPNOTSUPP) << type;
  }
  const auto code = [&](auto change) {
    ibv_qp_init_attr attr = attributes();
    change(attr);
    return create_qp_code(attr);
  };
  EXPECT_EQ(code([](auto& a) { a.send_cq = nullptr; }), EINVAL);
  EXPECT_EQ(code([](auto& a) { a.recv_cq = nullptr; }), EINVAL);
  EXPECT_EQ(code([](auto& a) { a.cap.max_send_wr = 1 << 20; }), EINVAL);
  EXPECT_EQ(code([](auto& a) { a.cap.max_recv_sge = 1000; }), EINVAL);
  EXPECT_EQ(code([](auto& a) { a.cap.max_inline_data = 1 << 20; }), EINVAL);

  ibv_qp_init_attr attr = attributes();
  ibv_qp* qp = ibv_create_qp(pd, &attr);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_qp_to_qp_ex(qp), nullptr);
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  ibv_qp_attr change = {};
  change.port_num = 2;
  EXPECT_EQ(ibv_modify_qp(qp, &change, IBV_QP_PORT), EINVAL);
  EXPECT_EQ(ibv_modify_qp(qp, &change, 1 << 30), EINVAL);
  EXPECT_EQ(ibv_modify_qp(qp, &change, IBV_QP_RATE_LIMIT), EOPNOTSUPP);
  EXPECT_EQ(ibv_modify_qp(qp, &change, IBV_QP_ALT_PATH), EOPNOTSUPP);
  change.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(qp, &change, IBV_QP_STATE), EINVAL);
  ibv_ece ece = {1, 0, 0};
  EXPECT_EQ(ibv_set_ece(qp, &ece), EOPNOTSUPP);
  EXPECT_EQ(ibv_query_ece(qp, &ece), EOPNOTSUPP);
  EXPECT_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 0), 0);
  ibv_gid gid = {};
  EXPECT_EQ(ibv_attach_mcast(qp, &gid, 0), EOPNOTSUPP);
  EXPECT_EQ(ibv_detach_mcast(qp, &gid, 0), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(APITest, SendOperationsBeyondOursAreRefused) {
  for (std::uint64_t flags = 1; flags != 1u << 13; flags <<= 1) {
    ibv_qp_init_attr_ex attr = {};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {1, 1, 1, 1, 0};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pd;
    attr.send_ops_flags = flags;
    errno = 0;
    ibv_qp* qp = ibv_create_qp_ex(context, &attr);
    constexpr std::uint64_t kOurs = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND |
                                    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_LOCAL_INV |
                                    IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                    IBV_QP_EX_WITH_BIND_MW;
    EXPECT_EQ(qp != nullptr, (flags & kOurs) != 0) << flags;
    if (qp == nullptr) {
      EXPECT_EQ(errno, EOPNOTSUPP);
      continue;
    }
    EXPECT_NE(ibv_qp_to_qp_ex(qp), nullptr);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
  ibv_qp_init_attr_ex attr = {};
  attr.send_cq = attr.recv_cq = cq;
  attr.qp_type = IBV_QPT_RC;
  EXPECT_EQ(ibv_create_qp_ex(context, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL) << "without a PD";
}

TEST_F(APITest, SharedReceiveQueues) {
  ibv_srq_init_attr init = {};
  init.attr = {5, 2, 0};
  ibv_srq* srq = ibv_create_srq(pd, &init);
  ASSERT_NE(srq, nullptr);
  EXPECT_GE(init.attr.max_wr, 5u);
  EXPECT_GE(init.attr.max_sge, 2u);
  ibv_srq_attr attr = {};
  attr.srq_limit = 3;
  EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(ibv_query_srq(srq, &attr), 0);
  EXPECT_EQ(attr.max_wr, init.attr.max_wr);
  attr.srq_limit = 1000;
  EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EOPNOTSUPP);
  EXPECT_EQ(ibv_modify_srq(srq, &attr, 1 << 9), EINVAL);
  ibv_recv_wr wr = {}, *bad = nullptr;
  for (std::uint32_t i = 0; i < init.attr.max_wr; ++i) {
    ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  }
  EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
  EXPECT_EQ(bad, &wr);
  std::uint32_t number;
  EXPECT_EQ(ibv_get_srq_num(srq, &number), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  ibv_srq_init_attr_ex tags = {};
  tags.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  tags.pd = pd;
  for (const ibv_srq_type type : {IBV_SRQT_TM, IBV_SRQT_XRC}) {
    tags.srq_type = type;
    errno = 0;
    EXPECT_EQ(ibv_create_srq_ex(context, &tags), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
}

/// The number that the next descriptor will have.
int lowest_free() {
  const int fd = ::dup(STDIN_FILENO);
  ::close(fd);
  return fd;
}

TEST_F(APITest, WhatIsMadeAfterwardsLeavesTheProgramsNumbersAlone) {
  int lowest = lowest_free();
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(channel->fd, lowest) << "as a kernel device's";
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);

  weft_leave_numbers();  // for good, in this process
  lowest = lowest_free();
  ibv_context* const other = ibv_open_device(context->device);
  ASSERT_NE(other, nullptr);
  channel = ibv_create_comp_channel(other);
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(lowest_free(), lowest);
  for (const int fd : {other->cmd_fd, other->async_fd, channel->fd}) {
    EXPECT_GT(fd, lowest);
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(ibv_close_device(other), 0);

  channel = ibv_create_comp_channel(context);
  ASSERT_NE(channel, nullptr);
  expect_flushed_by(channel);
}

TEST_F(APITest, WhatIsPutUnderANumberIsNotTakenForOurs) {
  std::atomic<bool> stop{false};
  std::thread ours([&stop] {
    while (!stop) {
      weft_beside_dup3(
          [](void*) {
            const int fd = ::dup(STDIN_FILENO);
            ::sched_yield();
            ::close(fd);
          },
          nullptr);
    }
  });
  for (int i = 0; i < 2000; ++i) {
    const int number = lowest_free();
    ASSERT_EQ(weft_dup3(STDIN_FILENO, number, 0), number);
    ::sched_yield();
    ASSERT_EQ(::close(number), 0) << i;
  }
  stop = true;
  ours.join();
}

TEST_F(APITest, AFlushGivesEveryReceiveBack) {
  expect_flushed_by(ibv_create_comp_channel(context));
}

void APITest::expect_flushed_by(ibv_comp_channel* channel) {
  ibv_cq* receives = ibv_create_cq(context, 8, nullptr, channel, 0);
  ASSERT_NE(receives, nullptr);
  ibv_qp_init_attr attr = attributes();
  attr.recv_cq = receives;
  ibv_qp* qp = ibv_create_qp(pd, &attr);
  ASSERT_NE(qp, nullptr);
  ibv_recv_wr wr = {}, *bad = nullptr;
  for (wr.wr_id = 0; wr.wr_id < 3; ++wr.wr_id) ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  ASSERT_EQ(ibv_req_notify_cq(receives, 0), 0);
  ibv_qp_attr change = {};
  change.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &change, IBV_QP_STATE), 0);
  ibv_cq* which = nullptr;
  void* unused;
  ASSERT_EQ(ibv_get_cq_event(channel, &which, &unused), 0);
  EXPECT_EQ(which, receives);
  ibv_ack_cq_events(receives, 1);
  ibv_wc wc[8];
  ASSERT_EQ(ibv_poll_cq(receives, 8, wc), 3);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(wc[i].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc[i].wr_id, i);
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(receives), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(APITest, AnEventThatItsFinderTakesIsNotShown) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ibv_cq* receives = ibv_create_cq(context, 8, nullptr, channel, 0);
  ASSERT_NE(receives, nullptr);
  ibv_qp_init_attr attr = attributes();
  attr.recv_cq = receives;
  struct Asked {
    bool takes;
    int times;
  };
  const auto is_shown = [channel] {
    pollfd watched = {channel->fd, POLLIN, 0};
    return ::poll(&watched, 1, 0) == 1;
  };
  for (const bool takes : {true, false}) {
    Asked asked = {takes, 0};
    ASSERT_TRUE(weft_hand_events(
        channel,
        [](void* cookie) {
          auto* told = static_cast<Asked*>(cookie);
          ++told->times;
          return told->takes;
        },
        &asked));
    ibv_qp* qp = ibv_create_qp(pd, &attr);
    ASSERT_NE(qp, nullptr);
    ibv_recv_wr wr = {}, *bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
    ASSERT_EQ(ibv_req_notify_cq(receives, 0), 0);
    ibv_qp_attr change = {};
    change.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(qp, &change, IBV_QP_STATE), 0);
    ibv_wc wc;
    ASSERT_EQ(ibv_poll_cq(receives, 1, &wc), 1);
    EXPECT_EQ(asked.times, 1);
    EXPECT_EQ(is_shown(), !takes);
    ibv_cq* which = nullptr;
    void* unused;
    ASSERT_EQ(ibv_get_cq_event(channel, &which, &unused), 0);
    EXPECT_EQ(which, receives);
    ibv_ack_cq_events(receives, 1);
    EXPECT_FALSE(is_shown());
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
  EXPECT_EQ(ibv_destroy_cq(receives), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(APITest, WhatWeDoNotHaveAnswersSo) {
  const auto refused = [](const void* object) { return object == nullptr && errno == EOPNOTSUPP; };
  ibv_ah_attr ah = {};
  EXPECT_TRUE(refused(ibv_create_ah(pd, &ah)));
  ibv_alloc_dm_attr dm = {};
  EXPECT_TRUE(refused(ibv_alloc_dm(context, &dm)));
  ibv_xrcd_init_attr xrcd = {};
  EXPECT_TRUE(refused(ibv_open_xrcd(context, &xrcd)));
  ibv_wq_init_attr wq = {};
  EXPECT_TRUE(refused(ibv_create_wq(context, &wq)));
  ibv_rwq_ind_table_init_attr table = {};
  EXPECT_TRUE(refused(ibv_create_rwq_ind_table(context, &table)));
  ibv_counters_init_attr counters = {};
  EXPECT_TRUE(refused(ibv_create_counters(context, &counters)));
  ibv_qp_open_attr open = {};
  EXPECT_TRUE(refused(ibv_open_qp(context, &open)));
  EXPECT_TRUE(refused(ibv_import_device(0)));
  EXPECT_TRUE(refused(ibv_import_dm(context, 0)));
  EXPECT_EQ(ibv_fork_init(), 0);
}

TEST_F(APITest, AdviceIsTakenAndNeedsNothing) {
  ibv_sge sge = {};
  const auto advise = [&](int advice, std::uint32_t flags, std::uint32_t count) {
    return ibv_advise_mr(pd, static_cast<ibv_advise_mr_advice>(advice), flags, &sge, count);
  };
  for (const int advice : {IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                           IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT}) {
    EXPECT_EQ(advise(advice, 0, 1), 0);
    EXPECT_EQ(advise(advice, IBV_ADVISE_MR_FLAG_FLUSH, 1), 0);
  }
  EXPECT_EQ(advise(77, 0, 1), EOPNOTSUPP);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 2, 1), EINVAL);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 0), EINVAL);
}

/// Every slot of the tables holds a function: programs call some without looking.
TEST_F(APITest, NoSlotOfTheTablesIsEmpty) {
  const auto* plain = reinterpret_cast<void* const*>(&context->ops);
  for (std::size_t i = 0; i < sizeof context->ops / sizeof(void*); ++i) {
    EXPECT_NE(plain[i], nullptr) << i;
  }
  const verbs_context* verbs = verbs_get_ctx(context);
  ASSERT_NE(verbs, nullptr);
  EXPECT_EQ(verbs->sz, sizeof *verbs);
  const auto* extended = reinterpret_cast<void* const*>(verbs);
  const std::size_t count = offsetof(verbs_context, _ABI_placeholder3) / sizeof(void*);
  for (std::size_t i = 0; i < count; ++i) {
    const bool private_pointer = i == offsetof(verbs_context, priv) / sizeof(void*);
    EXPECT_EQ(extended[i] == nullptr, private_pointer) << i;
  }
}

}  // namespace
