// Test-only: two QPs of this process, connected by ibv_modify_qp as programs for InfiniBand do.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "front/testing/loopback_device.h"
#include "front/testing/program.h"

namespace weft::front::testing {

inline constexpr unsigned kRemote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr std::size_t kOctets = 4096;

/// One end, with a CQ of its own.
struct Half {
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  alignas(8) std::uint8_t memory[kOctets] = {};

  ibv_sge sge(std::size_t offset, std::uint32_t octets) const {
    return {reinterpret_cast<std::uintptr_t>(memory) + offset, octets, mr->lkey};
  }
  std::string text(std::size_t offset, std::size_t octets) const {
    return {reinterpret_cast<const char*>(memory) + offset, octets};
  }
  int post(ibv_wr_opcode opcode, std::uint64_t wr_id, std::vector<ibv_sge> sges,
           const Half* target = nullptr) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic.remote_addr = reinterpret_cast<std::uintptr_t>(target->memory);
      wr.wr.atomic.rkey = target->mr->rkey;
      wr.wr.atomic.compare_add = 1;
    } else if (target != nullptr) {
      wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(target->memory);
      wr.wr.rdma.rkey = target->mr->rkey;
    }
    return ibv_post_send(qp, &wr, &bad);
  }
  int receive(std::uint64_t wr_id, std::vector<ibv_sge> sges) {
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    return ibv_post_recv(qp, &wr, &bad);
  }
  ibv_wc complete() {
    ibv_wc wc{};
    wc.status = IBV_WC_GENERAL_ERR;
    EXPECT_TRUE(eventually([&] { return ibv_poll_cq(cq, 1, &wc) == 1; }));
    return wc;
  }
  bool silent() {
    ibv_wc wc;
    for (int i = 0; i < 50; ++i) {
      if (ibv_poll_cq(cq, 1, &wc) != 0) return false;
      ::usleep(1000);
    }
    return true;
  }
  ibv_qp_attr query() const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr;
  }
};

struct Terms {
  unsigned access = kRemote;
  std::uint8_t depth = 4;   ///< Reads the peer may open
  std::uint8_t max_rd = 4;  ///< Reads that it opens
  std::uint8_t timeout = 14, retry = 7;
};

/// Is the run one in which Sends and Writes are done when the peer has them?
inline bool waits_for_peer() {
  const char* complete = std::getenv("WEFT_COMPLETE");
  return complete != nullptr && std::strcmp(complete, "placed") == 0;
}

class PersonaIB : public ::testing::Test {
 protected:
  void SetUp() override {
    context = open_loopback();
    ASSERT_NE(context, nullptr);
    ASSERT_EQ(context->device->transport_type, IBV_TRANSPORT_IB) << "run with WEFT_PERSONA=ib";
    ASSERT_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
    pd = ibv_alloc_pd(context);
    ASSERT_NE(pd, nullptr);
    for (Half* half : {&a, &b}) ASSERT_NO_FATAL_FAILURE(equip(*half, pd));
  }
  void TearDown() override {
    for (Half* half : {&a, &b}) drop(*half);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  void equip(Half& half, ibv_pd* domain) {
    half.cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    ASSERT_NE(half.cq, nullptr);
    half.mr = ibv_reg_mr(domain, half.memory, kOctets,
                         static_cast<int>(IBV_ACCESS_LOCAL_WRITE | kRemote));
    ASSERT_NE(half.mr, nullptr);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = half.cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {16, 16, 4, 4, 0};
    half.qp = ibv_create_qp(domain, &init);
    ASSERT_NE(half.qp, nullptr);
  }
  static void drop(Half& half) {
    if (half.qp != nullptr && ibv_destroy_qp(half.qp) != 0) ADD_FAILURE() << "the QP";
    if (half.mr != nullptr && ibv_dereg_mr(half.mr) != 0) ADD_FAILURE() << "the region";
    if (half.cq != nullptr && ibv_destroy_cq(half.cq) != 0) ADD_FAILURE() << "the CQ";
    half.qp = nullptr;
    half.mr = nullptr;
    half.cq = nullptr;
  }

  static int to_init(Half& half, unsigned access) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = access;
    return ibv_modify_qp(half.qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  int to_rtr(Half& half, const Half& peer, std::uint8_t depth) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.max_dest_rd_atomic = depth;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = gid;
    attr.ah_attr.port_num = 1;
    return ibv_modify_qp(half.qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  static int to_rts(Half& half, const Terms& terms) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = terms.timeout;
    attr.retry_cnt = terms.retry;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = terms.max_rd;
    return ibv_modify_qp(half.qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  static int modify(Half& half, ibv_qp_state state, int mask = 0, ibv_qp_attr attr = {}) {
    attr.qp_state = state;
    return ibv_modify_qp(half.qp, &attr, mask | IBV_QP_STATE);
  }
  void connect(const Terms& of_a = {}, const Terms& of_b = {}) {
    ASSERT_EQ(to_init(a, of_a.access), 0);
    ASSERT_EQ(to_init(b, of_b.access), 0);
    ASSERT_EQ(to_rtr(a, b, of_a.depth), 0);
    ASSERT_EQ(to_rtr(b, a, of_b.depth), 0);
    ASSERT_EQ(to_rts(a, of_a), 0);
    ASSERT_EQ(to_rts(b, of_b), 0);
  }
  void expect_event(ibv_event_type type, const ibv_qp* qp) {
    pollfd fd = {context->async_fd, POLLIN, 0};
    ASSERT_EQ(::poll(&fd, 1, 20'000), 1);
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    EXPECT_STREQ(ibv_event_type_str(event.event_type), ibv_event_type_str(type));
    EXPECT_EQ(event.element.qp, qp);
    ibv_ack_async_event(&event);
  }

  ibv_context* context = nullptr;
  ibv_gid gid{};
  ibv_pd* pd = nullptr;
  Half a, b;
};

}  // namespace weft::front::testing
