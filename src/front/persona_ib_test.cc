// Persona ib from the public API: two QPs of this process, connected by ibv_modify_qp.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "front/testing/program.h"

namespace weft::front::testing {
namespace {

constexpr unsigned kRemote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::size_t kOctets = 4096;

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
bool waits_for_peer() {
  const char* complete = std::getenv("WEFT_COMPLETE");
  return complete != nullptr && std::strcmp(complete, "placed") == 0;
}

class PersonaIB : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_NE(list, nullptr);
    for (int i = 0; i < count; ++i) {
      if (std::strcmp(ibv_get_device_name(list[i]), "weft_lo") == 0) {
        context = ibv_open_device(list[i]);
      }
    }
    ibv_free_device_list(list);
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

TEST_F(PersonaIB, ReadsAndAtomicsOfAnyNumberKeepToTheDepth) {
  ASSERT_NO_FATAL_FAILURE(connect({.max_rd = 1}, {.depth = 8}));
  b.memory[7] = 40;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto opcode = i % 2 == 0 ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD;
    ASSERT_EQ(a.post(opcode, i, {a.sge(8 * i, 8)}, &b), 0);
  }
  for (std::uint64_t i = 0; i < 4; ++i) {
    const ibv_wc wc = a.complete();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, i);
    EXPECT_EQ(wc.qp_num, a.qp->qp_num);
  }
  const ibv_qp_attr attr = a.query();
  EXPECT_EQ(attr.max_rd_atomic, 1);
  EXPECT_EQ(attr.max_dest_rd_atomic, 4);
  EXPECT_EQ(attr.timeout, 14);
  EXPECT_EQ(attr.qp_access_flags, kRemote);
}

TEST_F(PersonaIB, WithADepthOfZeroAReadFailsHere) {
  ASSERT_NO_FATAL_FAILURE(connect({.max_rd = 0}, {}));
  ASSERT_EQ(a.post(IBV_WR_RDMA_READ, 1, {a.sge(0, 8)}, &b), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_LOC_QP_OP_ERR);
}

struct RightsCase {
  ibv_wr_opcode opcode;
  unsigned right;
};

TEST_F(PersonaIB, WhatTheQPDoesNotAllowIsAnAccessError) {
  const RightsCase kCases[] = {{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
                               {IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
                               {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC}};
  for (const RightsCase& row : kCases) {
    SCOPED_TRACE(row.opcode);
    ASSERT_NO_FATAL_FAILURE(connect({}, {.access = row.right}));
    std::memset(a.memory, 'a', 8);
    ASSERT_EQ(a.post(row.opcode, 1, {a.sge(0, 8)}, &b), 0);
    EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
    for (Half* half : {&a, &b}) ASSERT_EQ(modify(*half, IBV_QPS_RESET), 0);

    ASSERT_NO_FATAL_FAILURE(connect({}, {.access = kRemote & ~row.right}));
    const std::string before = b.text(0, kOctets);
    std::memset(a.memory, 'z', 8);
    ASSERT_EQ(a.post(row.opcode, 1, {a.sge(0, 8)}, &b), 0);
    const ibv_wc wc = a.complete();
    // Unless it is asked to wait, a Write is done when TCP has it: its error comes by the QP.
    if (row.opcode != IBV_WR_RDMA_WRITE || waits_for_peer()) {
      EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
    }
    ASSERT_NO_FATAL_FAILURE(expect_event(IBV_EVENT_QP_ACCESS_ERR, b.qp));
    EXPECT_TRUE(eventually([&] {
      ibv_wc none;
      return ibv_poll_cq(a.cq, 1, &none) == 0 && a.query().qp_state == IBV_QPS_ERR;
    }));
    EXPECT_EQ(b.text(0, kOctets), before);
    for (Half* half : {&a, &b}) ASSERT_EQ(modify(*half, IBV_QPS_RESET), 0);
  }
}

TEST_F(PersonaIB, RightsMayChangeWhileConnected) {
  ASSERT_NO_FATAL_FAILURE(connect({}, {.access = 0}));
  ibv_qp_attr attr{};
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  ASSERT_EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
  std::memcpy(a.memory, "written", 7);
  ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 1, {a.sge(0, 7)}, &b), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(eventually([&] {
    ibv_wc wc;
    ibv_poll_cq(b.cq, 1, &wc);
    return b.text(0, 7) == "written";
  }));
}

TEST_F(PersonaIB, ADrainedSendQueueSaysSoAndHoldsWhatIsPosted) {
  ASSERT_NO_FATAL_FAILURE(connect());
  for (std::uint64_t i = 1; i <= 2; ++i) ASSERT_EQ(b.receive(i, {b.sge(0, 64)}), 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 1, {a.sge(0, 8)}), 0);
  EXPECT_EQ(a.complete().wr_id, 1u);
  EXPECT_EQ(b.complete().wr_id, 1u);

  ibv_qp_attr attr{};
  attr.en_sqd_async_notify = 1;
  ASSERT_EQ(modify(a, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY, attr), 0);
  ASSERT_NO_FATAL_FAILURE(expect_event(IBV_EVENT_SQ_DRAINED, a.qp));
  EXPECT_EQ(a.query().qp_state, IBV_QPS_SQD);
  EXPECT_EQ(a.query().sq_draining, 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 2, {a.sge(0, 8)}), 0);
  EXPECT_TRUE(b.silent());
  EXPECT_TRUE(a.silent());

  attr = {};
  attr.timeout = 10;
  attr.max_rd_atomic = 2;
  EXPECT_EQ(modify(a, IBV_QPS_SQD, IBV_QP_TIMEOUT | IBV_QP_MAX_QP_RD_ATOMIC, attr), 0);
  EXPECT_EQ(a.query().timeout, 10);
  EXPECT_EQ(a.query().max_rd_atomic, 2);
  EXPECT_TRUE(b.silent()) << "still";
  ASSERT_EQ(modify(a, IBV_QPS_RTS), 0);
  EXPECT_EQ(a.complete().wr_id, 2u);
  EXPECT_EQ(b.complete().wr_id, 2u);
}

TEST_F(PersonaIB, ImpossibleTransitionsChangeNothing) {
  EXPECT_EQ(modify(a, IBV_QPS_SQD), EINVAL);
  EXPECT_EQ(modify(a, IBV_QPS_RTS), EINVAL);
  ASSERT_EQ(to_init(a, 0), 0);
  EXPECT_EQ(to_rtr(a, b, 200), EINVAL) << "more than the device has";
  EXPECT_EQ(modify(a, IBV_QPS_RTR), EINVAL) << "without what it needs";
  EXPECT_EQ(modify(a, IBV_QPS_SQD), EINVAL);
  EXPECT_EQ(a.query().qp_state, IBV_QPS_INIT);
  ASSERT_EQ(to_init(b, 0), 0);
  ASSERT_EQ(to_rtr(a, b, 4), 0);
  ASSERT_EQ(to_rtr(b, a, 4), 0);
  ibv_qp_attr attr{};
  EXPECT_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_ACCESS_FLAGS), EINVAL) << "no RTR to RTR";
  EXPECT_EQ(modify(a, IBV_QPS_SQD), EINVAL);
  ASSERT_EQ(to_rts(a, {}), 0);
  EXPECT_EQ(modify(a, IBV_QPS_SQD, IBV_QP_TIMEOUT), EINVAL) << "only with the next step";
  ASSERT_EQ(modify(a, IBV_QPS_SQD), 0);
  EXPECT_EQ(modify(a, IBV_QPS_SQD, IBV_QP_AV), EINVAL) << "a stream keeps its path";
  EXPECT_EQ(modify(a, IBV_QPS_INIT), EINVAL);
  EXPECT_EQ(modify(a, IBV_QPS_ERR), 0);
  EXPECT_EQ(modify(a, IBV_QPS_RTS), EINVAL);
}

TEST_F(PersonaIB, WhatIsSentToAPeerThatLeftExceedsItsRetries) {
  ASSERT_NO_FATAL_FAILURE(connect({.timeout = 12, .retry = 1}, {}));
  ASSERT_EQ(a.receive(9, {}), 0);
  ASSERT_EQ(b.receive(1, {}), 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 1, {}), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b.complete().status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_destroy_qp(b.qp), 0);
  b.qp = nullptr;
  EXPECT_TRUE(a.silent());
  EXPECT_EQ(a.query().qp_state, IBV_QPS_RTS) << "nothing is known of it";
  ASSERT_EQ(a.post(IBV_WR_SEND, 2, {}), 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 3, {}), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(a.complete().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.complete().wr_id, 9u) << "the receive, flushed";
  EXPECT_EQ(a.query().qp_state, IBV_QPS_ERR);
}

TEST_F(PersonaIB, ANullRegionGivesZerosAndTakesAnything) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ibv_mr* null = ibv_alloc_null_mr(pd);
  ASSERT_NE(null, nullptr);
  EXPECT_EQ(null->length, std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(
      ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE),
      IBV_REREG_MR_ERR_INPUT);
  const auto nowhere = [lkey = null->lkey](std::uint64_t at, std::uint32_t octets) {
    return ibv_sge{at, octets, lkey};
  };
  std::memset(a.memory, 'a', kOctets);
  std::memset(b.memory, 'b', kOctets);
  // What is received into it is lost, and leaves no trace in what is read from it.
  ASSERT_EQ(b.receive(1, {b.sge(0, 4), nowhere(12345, 8), b.sge(4, 4)}), 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 1, {a.sge(0, 16)}), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b.complete().byte_len, 16u);
  EXPECT_EQ(b.text(0, 9), "aaaaaaaab");
  ASSERT_EQ(a.post(IBV_WR_RDMA_READ, 2, {nowhere(0, 2000)}, &b), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
  ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 3,
                   {a.sge(0, 2), nowhere(~std::uint64_t{0} - 999, 900), a.sge(0, 2)}, &b),
            0);
  EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
  ASSERT_EQ(b.receive(2, {}), 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 4, {}), 0);
  EXPECT_EQ(b.complete().wr_id, 2u);
  EXPECT_EQ(b.text(0, 906), "aa" + std::string(900, '\0') + "aa" + "bb");
  EXPECT_EQ(a.complete().wr_id, 4u);
  EXPECT_EQ(ibv_dereg_mr(null), 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 5, {nowhere(0, 8)}), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(PersonaIB, ARegionOnDemandMayBeginAsAHole) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ibv_device_attr_ex caps{};
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &caps), 0);
  EXPECT_NE(caps.odp_caps.general_caps & IBV_ODP_SUPPORT, 0u);
  EXPECT_NE(caps.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_SEND, 0u);
  void* place = ::mmap(nullptr, kOctets, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  ASSERT_EQ(::munmap(place, kOctets), 0);
  EXPECT_EQ(ibv_reg_mr(pd, place, kOctets, IBV_ACCESS_LOCAL_WRITE), nullptr);
  ibv_mr* mr = ibv_reg_mr(pd, place, kOctets, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(::mmap(place, kOctets, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
            place);
  std::memcpy(b.memory, "demanded", 8);
  ASSERT_EQ(
      a.post(IBV_WR_RDMA_READ, 1, {{reinterpret_cast<std::uintptr_t>(place), 8, mr->lkey}}, &b), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(place, "demanded", 8), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  ::munmap(place, kOctets);
}

TEST_F(PersonaIB, WhatIsMadeWithAParentDomainWorksAndKeepsIt) {
  ibv_td_init_attr td_attr{};
  ibv_td* td = ibv_alloc_td(context, &td_attr);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd;
  attr.td = td;
  ibv_pd* domain = ibv_alloc_parent_domain(context, &attr);
  ASSERT_NE(domain, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);

  // One end with it, the other with its PD; memory of the PD is good for both.
  drop(a);
  ASSERT_NO_FATAL_FAILURE(equip(a, domain));
  EXPECT_EQ(a.qp->pd, domain);
  ASSERT_NO_FATAL_FAILURE(connect());
  ibv_mr* plain = ibv_reg_mr(pd, a.memory, 8, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(plain, nullptr);
  ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 1, {{a.sge(0, 8).addr, 8, plain->lkey}}, &b), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
  ASSERT_EQ(b.post(IBV_WR_RDMA_READ, 2, {b.sge(0, 8)}, &a), 0);
  EXPECT_EQ(b.complete().status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_rereg_mr(plain, IBV_REREG_MR_CHANGE_PD, domain, nullptr, 0, 0), 0);
  EXPECT_EQ(plain->pd, domain);

  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {4, 1, 0};
  ibv_srq* srq = ibv_create_srq(domain, &srq_attr);
  ASSERT_NE(srq, nullptr);
  ibv_mw* window = ibv_alloc_mw(domain, IBV_MW_TYPE_1);
  ASSERT_NE(window, nullptr);
  ibv_mw_bind bind{};
  bind.bind_info.mr = b.mr;  // of the PD
  EXPECT_EQ(context->ops.bind_mw(a.qp, window, &bind), 0);
  ibv_cq_init_attr_ex cq_attr{};
  cq_attr.cqe = 4;
  cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  cq_attr.parent_domain = domain;
  ibv_cq_ex* cq = ibv_create_cq_ex(context, &cq_attr);
  ASSERT_NE(cq, nullptr);
  cq_attr.parent_domain = pd;
  EXPECT_EQ(ibv_create_cq_ex(context, &cq_attr), nullptr);
  EXPECT_EQ(errno, EINVAL) << "a plain PD is no parent domain";

  // Each of them holds it alone.
  drop(a);
  EXPECT_EQ(ibv_dealloc_pd(domain), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(plain), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), EBUSY);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), EBUSY);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  drop(b);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY) << "its parent domain is there";
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

/// What a parent domain's functions were called with.
struct Heap {
  static void* allocate(ibv_pd* pd, void* context, std::size_t octets, std::size_t alignment,
                        std::uint64_t type) {
    auto* heap = static_cast<Heap*>(context);
    EXPECT_EQ(pd, heap->domain);
    EXPECT_EQ(alignment % 64, 0u);
    EXPECT_EQ(type >> 32, 0u) << "no driver's";
    heap->types.push_back(type);
    if (heap->left-- == 0) return nullptr;
    if (heap->declines) return IBV_ALLOCATOR_USE_DEFAULT;
    void* memory = std::aligned_alloc(alignment, (octets + alignment - 1) / alignment * alignment);
    // Whatever was there before does not matter.
    std::memset(memory, 0xa5, octets);
    auto* at = static_cast<std::uint8_t*>(memory) + (heap->misaligns ? 8 : 0);
    heap->pieces.push_back({at, memory, type});
    return at;
  }
  static void release(ibv_pd* pd, void* context, void* memory, std::uint64_t type) {
    auto* heap = static_cast<Heap*>(context);
    EXPECT_EQ(pd, heap->domain);
    const auto piece = std::find_if(heap->pieces.begin(), heap->pieces.end(),
                                    [&](const Piece& p) { return p.given == memory; });
    ASSERT_NE(piece, heap->pieces.end());
    EXPECT_EQ(piece->type, type);
    std::free(piece->whole);
    heap->pieces.erase(piece);
  }
  void open(ibv_context* context, ibv_pd* pd) {
    ibv_parent_domain_init_attr attr{};
    attr.pd = pd;
    attr.comp_mask =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    attr.alloc = allocate;
    attr.free = release;
    attr.pd_context = this;
    domain = ibv_alloc_parent_domain(context, &attr);
    ASSERT_NE(domain, nullptr);
  }

  struct Piece {
    void *given, *whole;
    std::uint64_t type;
  };
  ibv_pd* domain = nullptr;
  std::vector<Piece> pieces;
  std::vector<std::uint64_t> types;
  int left = -1;  ///< so many more calls are granted; negative: all
  bool declines = false, misaligns = false;
};

TEST_F(PersonaIB, QueuesLieInTheMemoryOfTheProgramsAllocator) {
  Heap heap;
  ASSERT_NO_FATAL_FAILURE(heap.open(context, pd));
  ibv_cq_init_attr_ex cq_attr{};
  cq_attr.cqe = 4;
  cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  cq_attr.parent_domain = heap.domain;
  ibv_cq_ex* cq = ibv_create_cq_ex(context, &cq_attr);
  ASSERT_NE(cq, nullptr);
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {4, 1, 0};
  ibv_srq* srq = ibv_create_srq(heap.domain, &srq_attr);
  ASSERT_NE(srq, nullptr);
  drop(a);
  ASSERT_NO_FATAL_FAILURE(equip(a, heap.domain));
  EXPECT_EQ(heap.pieces.size(), 4u);
  std::vector<std::uint64_t> types = heap.types;
  std::sort(types.begin(), types.end());
  EXPECT_EQ(std::unique(types.begin(), types.end()), types.end()) << "each kind has its number";

  ASSERT_NO_FATAL_FAILURE(connect());
  for (std::uint64_t i = 0; i < 40; ++i) {  // more than once around each ring
    a.memory[0] = static_cast<std::uint8_t>(i);
    ASSERT_EQ(b.receive(i, {b.sge(0, 8)}), 0);
    ASSERT_EQ(a.post(IBV_WR_SEND, i, {a.sge(0, 8)}), 0);
    EXPECT_EQ(a.complete().wr_id, i);
    EXPECT_EQ(b.complete().wr_id, i);
    EXPECT_EQ(b.memory[0], i);
    ASSERT_EQ(a.receive(i, {a.sge(8, 8)}), 0);
    ASSERT_EQ(b.post(IBV_WR_SEND, i, {b.sge(0, 8)}), 0);
    EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
    EXPECT_EQ(b.complete().status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 100), 0);
  EXPECT_EQ(heap.types.size(), 5u);
  EXPECT_EQ(heap.pieces.size(), 4u) << "the old ring went back";
  heap.left = 0;
  EXPECT_EQ(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 200), ENOMEM);
  EXPECT_EQ(heap.pieces.size(), 4u);

  drop(a);
  EXPECT_EQ(heap.pieces.size(), 2u);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  EXPECT_TRUE(heap.pieces.empty());
  EXPECT_EQ(ibv_dealloc_pd(heap.domain), 0);
}

TEST_F(PersonaIB, AnAllocatorThatGivesNothingMakesNoQueue) {
  Heap heap;
  ASSERT_NO_FATAL_FAILURE(heap.open(context, pd));
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = a.cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {4, 4, 1, 1, 0};
  for (const int granted : {0, 1}) {
    heap.left = granted;
    EXPECT_EQ(ibv_create_qp(heap.domain, &init), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_TRUE(heap.pieces.empty()) << granted;
  }
  heap.left = -1;
  heap.misaligns = true;
  EXPECT_EQ(ibv_create_qp(heap.domain, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_TRUE(heap.pieces.empty());
  // Or leaves it to us.
  heap.declines = true;
  ibv_qp* qp = ibv_create_qp(heap.domain, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_TRUE(heap.pieces.empty());
  EXPECT_EQ(ibv_dealloc_pd(heap.domain), 0);
}

TEST_F(PersonaIB, WhatIsMadeWithImportedObjectsWorks) {
  ibv_context* twin = ibv_import_device(::dup(context->cmd_fd));
  ASSERT_NE(twin, nullptr);
  ibv_pd* twin_pd = ibv_import_pd(twin, pd->handle);
  ASSERT_NE(twin_pd, nullptr);
  drop(a);
  std::swap(context, twin);
  ASSERT_NO_FATAL_FAILURE(equip(a, twin_pd));
  std::swap(context, twin);
  ASSERT_NO_FATAL_FAILURE(connect());
  ibv_mr* seen = ibv_import_mr(twin_pd, b.mr->handle);
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(seen->rkey, b.mr->rkey);
  std::memcpy(b.memory, "by an imported region", 21);
  ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 1, {{b.sge(0, 21).addr, 21, seen->lkey}}, &b), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
  // Taken back, what was made with them goes on.
  ibv_unimport_mr(seen);
  ibv_unimport_pd(twin_pd);
  ASSERT_EQ(b.receive(2, {b.sge(0, 8)}), 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 2, {a.sge(0, 8)}), 0);
  EXPECT_EQ(a.complete().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b.complete().status, IBV_WC_SUCCESS);
  drop(a);
  EXPECT_EQ(ibv_close_device(twin), 0);
}

TEST_F(PersonaIB, AReceiveThatCannotBeUsedFailsTheSend) {
  if (!waits_for_peer()) GTEST_SKIP() << "a Send is done when TCP has it";
  ASSERT_NO_FATAL_FAILURE(connect());
  ASSERT_EQ(b.receive(1, {b.sge(0, 8)}), 0);
  static std::uint8_t elsewhere[8];
  ASSERT_EQ(
      ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, elsewhere, sizeof elsewhere, 0),
      0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 2, {a.sge(0, 8)}), 0);
  const ibv_wc sent = a.complete();
  EXPECT_EQ(sent.wr_id, 2u);
  EXPECT_EQ(sent.status, IBV_WC_REM_OP_ERR) << ibv_wc_status_str(sent.status);
  EXPECT_EQ(b.complete().status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(PersonaIB, ImpossibleParentDomainsAreRefused) {
  const auto code = [&](ibv_parent_domain_init_attr attr) {
    errno = 0;
    EXPECT_EQ(ibv_alloc_parent_domain(context, &attr), nullptr);
    return errno;
  };
  EXPECT_EQ(code({}), EINVAL) << "of no PD";
  EXPECT_EQ(code({.pd = pd, .comp_mask = 1u << 9}), EINVAL);
  EXPECT_EQ(code({.pd = pd, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS}), EINVAL)
      << "without the functions";
  ibv_td_init_attr td{1};
  EXPECT_EQ(ibv_alloc_td(context, &td), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd;
  attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  ibv_pd* domain = ibv_alloc_parent_domain(context, &attr);
  ASSERT_NE(domain, nullptr);
  EXPECT_EQ(code({.pd = domain}), EINVAL) << "of a parent domain";
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

}  // namespace
}  // namespace weft::front::testing
