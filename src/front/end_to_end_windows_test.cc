// Memory windows over real connections and from the public API: what they open, for whom, and when
// they close.
#include "front/testing/program.h"

namespace weft::front::testing {
namespace {

constexpr unsigned kRemote =
    unsigned{IBV_ACCESS_REMOTE_READ} | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

class Windows : public Program {
 protected:
  // Of the server: a region of its memory that every peer may use, and a window onto a part of it.
  static constexpr std::size_t kBegin = 1000, kOctets = 104;

  void connect_with_region(int access = End::kEverything | IBV_ACCESS_MW_BIND) {
    EndOptions options;
    options.send_ops = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    ASSERT_NO_FATAL_FAILURE(connect({}, options));
    region = ibv_reg_mr(server.id->pd, server.memory.data(), End::kOctets, access);
    ASSERT_NE(region, nullptr);
  }
  void TearDown() override {
    // A window holds its region, and regions and windows hold the domain.
    drop_queue(server);
    drop_queue(client);
    for (ibv_mw* window : windows) EXPECT_EQ(ibv_dealloc_mw(window), 0);
    if (region != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(region), 0);
    }
    drop(other_client);
    drop(other_server);
    Program::TearDown();
  }
  static void drop_queue(End& end) {
    if (end.id == nullptr || end.id->qp == nullptr) return;
    EXPECT_EQ(ibv_destroy_qp(end.id->qp), 0);
    end.id->qp = nullptr;
  }

  ibv_mw* allocate(ibv_mw_type type) {
    ibv_mw* window = ibv_alloc_mw(server.id->pd, type);
    EXPECT_NE(window, nullptr) << errno;
    if (window != nullptr) windows.push_back(window);
    return window;
  }
  ibv_mw_bind_info info(unsigned access = kRemote, std::uint64_t octets = kOctets,
                        std::size_t begin = kBegin) const {
    return {region, server.address(begin), octets, access};
  }
  int post_bind(ibv_mw* window, std::uint32_t rkey, const ibv_mw_bind_info& bind_info,
                unsigned flags = IBV_SEND_SIGNALED) {
    if (window->type == IBV_MW_TYPE_1) {
      ibv_mw_bind bind = {50, flags, bind_info};
      return ibv_bind_mw(server.qp(), window, &bind);
    }
    ibv_send_wr wr{};
    wr.wr_id = 50;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = flags;
    wr.bind_mw.mw = window;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = bind_info;
    return server.post(wr);
  }
  /// Binds under the next key, which it gives.
  std::uint32_t bind(ibv_mw* window, const ibv_mw_bind_info& bind_info) {
    const std::uint32_t rkey = ibv_inc_rkey(window->rkey);
    EXPECT_EQ(post_bind(window, rkey, bind_info), 0);
    server.complete(50, IBV_WC_BIND_MW);
    return rkey;
  }
  std::uint32_t open_window(ibv_mw_type type, unsigned access = kRemote) {
    ibv_mw* window = allocate(type);
    return window != nullptr ? bind(window, info(access)) : 0;
  }

  int read(End& from, std::uint32_t rkey, std::size_t offset, std::uint32_t octets) {
    return from.rdma(1, IBV_WR_RDMA_READ, {from.sge(0, octets)}, server.address(offset), rkey);
  }
  void expect_read(End& from, std::uint32_t rkey) {
    server.fill(3);
    ASSERT_EQ(read(from, rkey, kBegin, kOctets), 0);
    from.complete(1, IBV_WC_RDMA_READ);
    EXPECT_EQ(from.text(0, kOctets), server.text(kBegin, kOctets));
  }
  void expect_refused(End& from) {
    const auto failed = from.complete(1);
    ASSERT_EQ(failed.size(), 1u);
    EXPECT_EQ(failed[0].status, IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(failed[0].status);
  }

  End other_client, other_server;
  ibv_mr* region = nullptr;
  std::vector<ibv_mw*> windows;
};

TEST_P(Windows, TheDeviceSaysThatItHasThem) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(client.id->verbs, &attr), 0);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW, 0u);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0u);
  EXPECT_EQ(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0u);
  EXPECT_GT(attr.max_mw, 0);
}

TEST_P(Windows, APeerWritesReadsAndAddsInsideOfOne) {
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    const std::uint32_t rkey = open_window(type);
    client.fill(static_cast<std::uint8_t>(40 * type));
    ASSERT_EQ(
        client.rdma(1, IBV_WR_RDMA_WRITE, {client.sge(0, kOctets)}, server.address(kBegin), rkey),
        0);
    ASSERT_EQ(
        client.rdma(2, IBV_WR_RDMA_READ, {client.sge(1000, kOctets)}, server.address(kBegin), rkey),
        0);
    ibv_sge original = client.sge(2000, 8);
    ibv_send_wr add{};
    add.wr_id = 3;
    add.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    add.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;  // the Read must not see its effect
    add.sg_list = &original;
    add.num_sge = 1;
    add.wr.atomic.remote_addr = server.address(kBegin + kOctets - 8);
    add.wr.atomic.rkey = rkey;
    add.wr.atomic.compare_add = 1;
    ASSERT_EQ(client.post(add), 0);
    client.complete(1, IBV_WC_RDMA_WRITE);
    client.complete(2, IBV_WC_RDMA_READ);
    client.complete(3, IBV_WC_FETCH_ADD);
    EXPECT_EQ(client.text(1000, kOctets), client.text(0, kOctets));
    EXPECT_EQ(client.text(2000, 8), client.text(kOctets - 8, 8));
    EXPECT_EQ(server.text(kBegin, kOctets - 8), client.text(0, kOctets - 8));
    EXPECT_EQ(server.memory[kBegin + kOctets - 8], client.memory[kOctets - 8] + 1);
  }
}

TEST_P(Windows, AZeroBasedWindowCountsFromItsStart) {
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  const std::uint32_t rkey = open_window(IBV_MW_TYPE_2, kRemote | IBV_ACCESS_ZERO_BASED);
  server.put("at its start", kBegin);
  ASSERT_EQ(client.rdma(1, IBV_WR_RDMA_READ, {client.sge(0, 12)}, 0, rkey), 0);
  client.complete(1, IBV_WC_RDMA_READ);
  EXPECT_EQ(client.text(0, 12), "at its start");
}

struct Outside {
  const char* what;
  ibv_mw_type type;
  unsigned access;
  std::size_t offset;
  std::uint32_t octets;
};

//= SEC-02
//= SEC-03
TEST_P(Windows, NothingOutsideAndNoOtherRightAlthoughTheRegionHasThem) {
  constexpr std::size_t kSize = kOctets;
  for (const Outside& c :
       {Outside{"one octet before", IBV_MW_TYPE_1, kRemote, kBegin - 1, 8},
        Outside{"one octet behind", IBV_MW_TYPE_1, kRemote, kBegin + kSize, 1},
        Outside{"one octet too long", IBV_MW_TYPE_2, kRemote, kBegin, kSize + 1},
        Outside{"no right to read", IBV_MW_TYPE_1, IBV_ACCESS_REMOTE_WRITE, kBegin, 8},
        Outside{"no right at all", IBV_MW_TYPE_2, 0, kBegin, 8}}) {
    SCOPED_TRACE(c.what);
    ASSERT_NO_FATAL_FAILURE(connect_with_region());
    ASSERT_EQ(read(client, region->rkey, c.offset, c.octets), 0);
    client.complete(1, IBV_WC_RDMA_READ);  // the region would allow it
    const std::uint32_t rkey = open_window(c.type, c.access);
    ASSERT_EQ(read(client, rkey, c.offset, c.octets), 0);
    expect_refused(client);
    expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
    drop_queue(server);
    EXPECT_EQ(ibv_dealloc_mw(windows.back()), 0);
    windows.pop_back();
    EXPECT_EQ(ibv_dereg_mr(region), 0);
    region = nullptr;
    drop(client);
    drop(server);
  }
}

TEST_P(Windows, AWriteOutsideChangesNothing) {
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  const std::uint32_t rkey = open_window(IBV_MW_TYPE_2);
  server.fill(1);
  const std::string before(server.text(0, 4000));
  client.put("xxxxxxxx");
  ASSERT_EQ(client.rdma(1, IBV_WR_RDMA_WRITE, {client.sge(0, 8)},
                        server.address(kBegin + kOctets - 7), rkey, 0),
            0);
  expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(server.text(0, 4000), before);
}

//= DDP-24
//= SEC-01
TEST_P(Windows, Type1IsForAllOfTheDomainAndType2ForTheQPThatBoundIt) {
  ASSERT_NO_FATAL_FAILURE(connect());
  std::swap(client, other_client);
  std::swap(server, other_server);
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  ASSERT_EQ(server.id->pd, other_server.id->pd);
  const std::uint32_t one = open_window(IBV_MW_TYPE_1), two = open_window(IBV_MW_TYPE_2);
  expect_read(client, one);
  expect_read(client, two);
  expect_read(other_client, one);
  ASSERT_EQ(read(other_client, two, kBegin, 8), 0);
  expect_refused(other_client);
  expect(RDMA_CM_EVENT_DISCONNECTED);
  expect(RDMA_CM_EVENT_DISCONNECTED);
  expect_read(client, two);
}

//= RDM-13
TEST_P(Windows, ThePeerInvalidatesType2WhichTheReceiverIsTold) {
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  const std::uint32_t rkey = open_window(IBV_MW_TYPE_2);
  expect_read(client, rkey);
  EXPECT_EQ(ibv_dereg_mr(region), EBUSY);
  ASSERT_EQ(server.receive(9, {}), 0);
  ASSERT_EQ(client.invalidate(2, IBV_WR_SEND_WITH_INV, rkey), 0);
  client.complete(2, IBV_WC_SEND);
  const ibv_wc received = server.complete(9, IBV_WC_RECV);
  EXPECT_EQ(received.wc_flags, unsigned{IBV_WC_WITH_INV});
  EXPECT_EQ(received.invalidated_rkey, rkey);
  // Invalid, it may be bound again, under another key.
  const std::uint32_t next = ibv_inc_rkey(rkey);
  ASSERT_EQ(post_bind(windows[0], next, info()), 0);
  server.complete(50, IBV_WC_BIND_MW);
  expect_read(client, next);
  ASSERT_EQ(read(client, rkey, kBegin, 8), 0);
  expect_refused(client);
}

//= SEC-05
//= RDM-13
TEST_P(Windows, ThePeerInvalidatesNoWindowOfType1) {
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  const std::uint32_t rkey = open_window(IBV_MW_TYPE_1);
  ASSERT_EQ(server.receive(9, {}), 0);
  ASSERT_EQ(client.invalidate(2, IBV_WR_SEND_WITH_INV, rkey), 0);
  const auto received = server.complete(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, IBV_WC_LOC_PROT_ERR);
  expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(ibv_dereg_mr(region), EBUSY) << "still bound";
}

TEST_P(Windows, LocalInvalidateClosesType2) {
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  const std::uint32_t rkey = open_window(IBV_MW_TYPE_2);
  ASSERT_EQ(server.invalidate(3, IBV_WR_LOCAL_INV, rkey), 0);
  server.complete(3, IBV_WC_LOCAL_INV);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  region = nullptr;
  ASSERT_EQ(read(client, rkey, kBegin, 8), 0);
  expect_refused(client);
}

TEST_P(Windows, LocalInvalidateOfType1Fails) {
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  const std::uint32_t rkey = open_window(IBV_MW_TYPE_1);
  ASSERT_EQ(server.invalidate(3, IBV_WR_LOCAL_INV, rkey), 0);
  const auto failed = server.complete(1);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].status, IBV_WC_LOC_PROT_ERR);
  expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_P(Windows, BindingType1AgainKillsTheOldKeyAndZeroOctetsUnbindIt) {
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  ibv_mw* window = allocate(IBV_MW_TYPE_1);
  const std::uint32_t first = bind(window, info()), second = bind(window, info());
  EXPECT_EQ(second, ibv_inc_rkey(first));
  EXPECT_EQ(window->rkey, second);
  expect_read(client, second);
  EXPECT_EQ(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EBUSY);
  bind(window, {});
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  region = nullptr;
  ASSERT_EQ(read(client, second, kBegin, 8), 0);
  expect_refused(client);
}

/// A Send behind an unsignalled bind may carry the key: the peer never sees it before it is good.
TEST_P(Windows, AKeySentBehindItsBindIsGood) {
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  ibv_mw* window = allocate(IBV_MW_TYPE_1);
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(client.receive(100 + i, {client.sge(4000, 4)}), 0);
    ASSERT_EQ(post_bind(window, 0, info(), 0), 0);
    std::memcpy(server.memory.data(), &window->rkey, 4);
    ASSERT_EQ(server.send(i, {server.sge(0, 4)}), 0);
    server.complete(i, IBV_WC_SEND);
    client.complete(100 + i, IBV_WC_RECV);
    std::uint32_t rkey;
    std::memcpy(&rkey, client.memory.data() + 4000, 4);
    expect_read(client, rkey);
  }
}

struct BadBind {
  const char* what;
  int region_access;
  unsigned access;
  std::size_t begin;
  std::uint64_t octets;
};

TEST_P(Windows, ABadBindEndsInItsOwnErrorAndTheConnection) {
  constexpr int kAll = End::kEverything | IBV_ACCESS_MW_BIND;
  for (const BadBind& c :
       {BadBind{"a region that is not for windows", End::kEverything, kRemote, kBegin, kOctets},
        BadBind{"remote write to a read-only region", IBV_ACCESS_MW_BIND, kRemote, kBegin, 8},
        BadBind{"one octet beyond the region", kAll, kRemote, End::kOctets - 7, 8}}) {
    for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
      SCOPED_TRACE(c.what);
      ASSERT_NO_FATAL_FAILURE(connect_with_region(c.region_access));
      ibv_mw* window = allocate(type);
      ASSERT_EQ(post_bind(window, ibv_inc_rkey(window->rkey), info(c.access, c.octets, c.begin), 0),
                0);
      const auto failed = server.complete(1);
      ASSERT_EQ(failed.size(), 1u);
      EXPECT_EQ(failed[0].status, IBV_WC_MW_BIND_ERR) << ibv_wc_status_str(failed[0].status);
      EXPECT_EQ(failed[0].wr_id, 50u);
      expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
      EXPECT_EQ(ibv_dereg_mr(region), 0) << "nothing is bound";
      region = nullptr;
      EXPECT_EQ(ibv_dealloc_mw(window), 0) << "its key is not the one that it has";
      windows.pop_back();
      drop(client);
      drop(server);
    }
  }
}

TEST_P(Windows, Type2IsNotBoundTwice) {
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  const std::uint32_t rkey = open_window(IBV_MW_TYPE_2);
  ASSERT_EQ(post_bind(windows[0], ibv_inc_rkey(rkey), info()), 0);
  const auto failed = server.complete(1);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].status, IBV_WC_MW_BIND_ERR);
}

TEST_P(Windows, BindingByCalls) {
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  ibv_mw* window = allocate(IBV_MW_TYPE_2);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(server.qp());
  ASSERT_NE(qp, nullptr);
  const std::uint32_t rkey = ibv_inc_rkey(window->rkey);
  const ibv_mw_bind_info bind_info = info();
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  qp->wr_id = 4;
  ibv_wr_bind_mw(qp, window, rkey, &bind_info);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  server.complete(4, IBV_WC_BIND_MW);
  expect_read(client, rkey);
  ibv_wr_start(qp);
  qp->wr_id = 5;
  ibv_wr_local_inv(qp, rkey);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  server.complete(5, IBV_WC_LOCAL_INV);
  ASSERT_EQ(read(client, rkey, kBegin, 8), 0);
  expect_refused(client);
}

TEST_P(Windows, DeallocationAndTheQPsEndUnbind) {
  ASSERT_NO_FATAL_FAILURE(connect_with_region());
  open_window(IBV_MW_TYPE_1);
  open_window(IBV_MW_TYPE_2);
  EXPECT_EQ(ibv_dereg_mr(region), EBUSY);
  EXPECT_EQ(ibv_dealloc_mw(windows[0]), 0);
  windows.erase(windows.begin());
  EXPECT_EQ(ibv_dereg_mr(region), EBUSY);
  drop_queue(server);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  region = nullptr;
}

INSTANTIATE_TEST_SUITE_P(Families, Windows, kFamilies, family_name);

}  // namespace
}  // namespace weft::front::testing
