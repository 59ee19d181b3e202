// Regions of every kind, over real connections: where their offsets begin, and what ibv_rereg_mr
// may change of them.
#include <sys/mman.h>

#include <ctime>
#include <limits>

#include "front/testing/program.h"

#undef ibv_reg_mr

namespace weft::front::testing {
namespace {

class Memory : public Program {
 protected:
  static constexpr std::size_t kBegin = 1000;
  static constexpr std::size_t kSize = 5000;
  void TearDown() override {
    if (region != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(region), 0);
    }
    if (other != nullptr) {
      EXPECT_EQ(ibv_dealloc_pd(other), 0);
    }
    Program::TearDown();
  }
  /// Writes and reads back at `to` of the region, which is to lie at `offset` of the server's
  /// memory.
  void expect_reaches(std::uint64_t to, std::size_t offset) {
    client.put("by its name");
    client.put("###########", 100);
    ASSERT_EQ(client.rdma(1, IBV_WR_RDMA_WRITE, {client.sge(0, 11)}, to, region->rkey), 0);
    client.complete(1, IBV_WC_RDMA_WRITE);
    ASSERT_EQ(client.rdma(2, IBV_WR_RDMA_READ, {client.sge(100, 11)}, to, region->rkey), 0);
    client.complete(2, IBV_WC_RDMA_READ);
    EXPECT_EQ(client.text(100, 11), "by its name");
    EXPECT_EQ(server.text(offset, 11), "by its name");
    server.put("-----------", offset);
  }
  void expect_refused(std::uint64_t to) {
    ASSERT_EQ(client.rdma(3, IBV_WR_RDMA_READ, {client.sge(0, 8)}, to, region->rkey), 0);
    const auto found = client.complete(1);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].status, IBV_WC_REM_ACCESS_ERR);
  }

  ibv_mr* region = nullptr;
  ibv_pd* other = nullptr;
};

TEST_P(Memory, AnIovaIsWhereItsOffsetsBegin) {
  constexpr std::uint64_t kIova = 0x123456789000;
  ASSERT_NO_FATAL_FAILURE(connect());
  region = ibv_reg_mr_iova(server.id->pd, server.memory.data() + kBegin, kSize, kIova,
                           End::kEverything | IBV_ACCESS_RELAXED_ORDERING);
  ASSERT_NE(region, nullptr);
  expect_reaches(kIova, kBegin);
  expect_reaches(kIova + kSize - 11, kBegin + kSize - 11);
  expect_refused(kIova + kSize - 7);
}

TEST_P(Memory, AZeroBasedRegionBeginsAtZero) {
  ASSERT_NO_FATAL_FAILURE(connect());
  region = ibv_reg_mr(
      server.id->pd, server.memory.data() + kBegin, kSize,
      End::kEverything | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB);
  ASSERT_NE(region, nullptr);
  expect_reaches(0, kBegin);
  expect_reaches(77, kBegin + 77);
  // To the program itself, too.
  server.put("to itself", kBegin + 10);
  ASSERT_EQ(client.receive(5, {client.sge(200, 9)}), 0);
  ASSERT_EQ(server.send(6, {{10, 9, region->lkey}}), 0);
  server.complete(6, IBV_WC_SEND);
  client.complete(5, IBV_WC_RECV);
  EXPECT_EQ(client.text(200, 9), "to itself");
  expect_refused(server.address(kBegin));
}

constexpr std::size_t kAllMemory = std::numeric_limits<std::size_t>::max();

TEST_P(Memory, ARegionOfAllMemoryReachesWhatThereIsAndWhatComes) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ibv_device_attr_ex caps{};
  ASSERT_EQ(ibv_query_device_ex(server.id->verbs, nullptr, &caps), 0);
  EXPECT_NE(caps.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT, 0u);
  region = ibv_reg_mr(server.id->pd, nullptr, kAllMemory, End::kEverything | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->addr, nullptr);
  EXPECT_EQ(region->length, kAllMemory);
  expect_reaches(server.address(123), 123);
  std::string later(64, '-');
  ibv_sge advised{reinterpret_cast<std::uintptr_t>(later.data()), 64, region->lkey};
  EXPECT_EQ(ibv_advise_mr(server.id->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                          IBV_ADVISE_MR_FLAG_FLUSH, &advised, 1),
            0);
  client.put("came later");
  ASSERT_EQ(client.rdma(1, IBV_WR_RDMA_WRITE, {client.sge(0, 10)}, advised.addr, region->rkey), 0);
  client.complete(1, IBV_WC_RDMA_WRITE);
  ASSERT_EQ(client.rdma(2, IBV_WR_RDMA_READ, {client.sge(0, 10)}, advised.addr, region->rkey), 0);
  client.complete(2, IBV_WC_RDMA_READ);
  EXPECT_EQ(later.substr(0, 12), "came later--");
  // To the program itself, too, for a receive and for a Send.
  ASSERT_EQ(server.receive(3, {{advised.addr + 16, 32, region->lkey}}), 0);
  ASSERT_EQ(client.send(4, {client.sge(0, 4)}), 0);
  client.complete(4, IBV_WC_SEND);
  server.complete(3, IBV_WC_RECV);
  ASSERT_EQ(client.receive(5, {client.sge(200, 4)}), 0);
  ASSERT_EQ(server.send(6, {{advised.addr + 16, 4, region->lkey}}), 0);
  server.complete(6, IBV_WC_SEND);
  client.complete(5, IBV_WC_RECV);
  EXPECT_EQ(client.text(200, 4), "came");
  expect_refused(0xffff'8000'0000'0000);  // never of a program's
}

TEST_P(Memory, ARegionOfAllMemoryRefusesWhereThereIsNone) {
  ASSERT_NO_FATAL_FAILURE(connect());
  region = ibv_reg_mr(server.id->pd, nullptr, kAllMemory, End::kEverything | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(region, nullptr);
  void* gone = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  ASSERT_EQ(::munmap(gone, 4096), 0);
  expect_refused(reinterpret_cast<std::uintptr_t>(gone));
}

TEST_P(Memory, ARegionOfAllMemoryGivesPeersNoMoreThanItSays) {
  ASSERT_NO_FATAL_FAILURE(connect());
  region = ibv_reg_mr(server.id->pd, nullptr, kAllMemory,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_MW_BIND);
  ASSERT_NE(region, nullptr);
  // A part of it by a window, and the rest not at all.
  ibv_mw* window = ibv_alloc_mw(server.id->pd, IBV_MW_TYPE_1);
  ASSERT_NE(window, nullptr);
  ibv_mw_bind bind{};
  bind.wr_id = 1;
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {region, server.address(500), 11, IBV_ACCESS_REMOTE_READ};
  ASSERT_EQ(ibv_bind_mw(server.qp(), window, &bind), 0);
  server.complete(1, IBV_WC_BIND_MW);
  EXPECT_EQ(ibv_dereg_mr(region), EBUSY);
  server.put("by a window", 500);
  ASSERT_EQ(
      client.rdma(2, IBV_WR_RDMA_READ, {client.sge(0, 11)}, server.address(500), window->rkey), 0);
  client.complete(2, IBV_WC_RDMA_READ);
  EXPECT_EQ(client.text(0, 11), "by a window");
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  expect_refused(server.address(500));
}

TEST_P(Memory, ARegionOfAllMemoryIsImplicitlyOnDemandOrNotAtAll) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ibv_pd* pd = server.id->pd;
  const auto refused = [&](int access, std::uint64_t iova) {
    errno = 0;
    EXPECT_EQ(ibv_reg_mr_iova(pd, nullptr, kAllMemory, iova, access), nullptr);
    return errno;
  };
  constexpr int kOnDemand = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
  EXPECT_EQ(refused(IBV_ACCESS_LOCAL_WRITE, 0), EFAULT) << "not all of it is there";
  EXPECT_EQ(refused(kOnDemand | IBV_ACCESS_ZERO_BASED, 0), EINVAL);
  EXPECT_EQ(refused(kOnDemand | IBV_ACCESS_HUGETLB, 0), EINVAL);
  EXPECT_EQ(refused(kOnDemand, 4096), EINVAL);
  region = ibv_reg_mr(pd, nullptr, kAllMemory, kOnDemand);
  ASSERT_NE(region, nullptr);
  const auto change = [&](int flags, void* place, std::size_t octets, int access) {
    return ibv_rereg_mr(region, flags, pd, place, octets, access);
  };
  EXPECT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, IBV_ACCESS_LOCAL_WRITE),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, kOnDemand | IBV_ACCESS_ZERO_BASED),
            IBV_REREG_MR_ERR_INPUT);
  ASSERT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, End::kEverything | IBV_ACCESS_ON_DEMAND),
            0);
  expect_reaches(server.address(77), 77);
  // Made into another one, it is that.
  ASSERT_EQ(change(IBV_REREG_MR_CHANGE_TRANSLATION, server.memory.data() + kBegin, kSize, 0), 0);
  EXPECT_EQ(region->length, kSize);
  expect_reaches(server.address(kBegin), kBegin);
  expect_refused(server.address(kBegin - 1));
}

TEST_P(Memory, AChangedRegionKeepsItsKeyAndIsWhatItWasMadeInto) {
  ASSERT_NO_FATAL_FAILURE(connect());
  region = ibv_reg_mr(server.id->pd, server.memory.data() + kBegin, kSize, End::kEverything);
  ASSERT_NE(region, nullptr);
  const std::uint32_t key = region->rkey;
  const auto change = [&](int flags, ibv_pd* pd, std::size_t at, std::size_t octets, int access) {
    return ibv_rereg_mr(region, flags, pd, octets != 0 ? server.memory.data() + at : nullptr,
                        octets, access);
  };
  // Elsewhere.
  ASSERT_EQ(change(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, 20'000, 100, 0), 0);
  expect_reaches(server.address(20'000), 20'000);
  // With other rights, and again with all.
  ASSERT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, 0, End::kEverything), 0);
  expect_reaches(server.address(20'089), 20'089);
  // To another domain, and back together with another place and zero based.
  other = ibv_alloc_pd(server.id->verbs);
  ASSERT_NE(other, nullptr);
  ASSERT_EQ(change(IBV_REREG_MR_CHANGE_PD, other, 0, 0, 0), 0);
  EXPECT_EQ(region->pd, other);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  ASSERT_EQ(
      change(IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS,
             server.id->pd, 30'000, 64, End::kEverything | IBV_ACCESS_ZERO_BASED),
      0);
  expect_reaches(0, 30'000);
  EXPECT_EQ(region->rkey, key);
  EXPECT_EQ(region->length, 64u);
  ASSERT_EQ(change(IBV_REREG_MR_CHANGE_PD, other, 0, 0, 0), 0);
  expect_refused(0);
}

TEST_P(Memory, ARegionThatLostItsRightRefuses) {
  ASSERT_NO_FATAL_FAILURE(connect());
  region = ibv_reg_mr(server.id->pd, server.memory.data(), kSize, End::kEverything);
  ASSERT_NE(region, nullptr);
  expect_reaches(server.address(), 0);
  ASSERT_EQ(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
            0);
  expect_refused(server.address());
}

TEST_P(Memory, ANullRegionIsForOurOwnRequestsOnly) {
  ASSERT_NO_FATAL_FAILURE(connect());
  region = ibv_alloc_null_mr(server.id->pd);
  ASSERT_NE(region, nullptr);
  server.put("discarded", 0);
  ASSERT_EQ(client.receive(1, {client.sge(0, 32)}), 0);
  ASSERT_EQ(server.send(2, {{12345, 32, region->lkey}}), 0);
  server.complete(2, IBV_WC_SEND);
  client.complete(1, IBV_WC_RECV);
  EXPECT_EQ(client.text(0, 32), std::string(32, '\0'));
  region->rkey = region->lkey;  // not even with the right number
  expect_refused(0);
}

TEST_P(Memory, CompletionsTellTheTimeOfBothClocks) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 8;
  attr.wc_flags = std::uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP} |
                  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* cq = ibv_create_cq_ex(client.id->verbs, &attr);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
  init.qp_type = IBV_QPT_RC;
  init.cap = {4, 4, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(client.id->pd, &init);
  ASSERT_NE(qp, nullptr);
  const auto now = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
           static_cast<std::uint64_t>(time.tv_nsec);
  };
  const std::uint64_t first = now(CLOCK_MONOTONIC), first_wall = now(CLOCK_REALTIME);
  ibv_recv_wr wr{}, *bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  ibv_qp_attr change{};
  change.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &change, IBV_QP_STATE), 0);  // flushes it
  ibv_poll_cq_attr poll{};
  ASSERT_TRUE(eventually([&] { return ibv_start_poll(cq, &poll) == 0; }));
  EXPECT_GE(ibv_wc_read_completion_ts(cq), first);
  EXPECT_LE(ibv_wc_read_completion_ts(cq), now(CLOCK_MONOTONIC));
  // The wall clock may be set while we look; not by more than this here.
  constexpr std::uint64_t kSlack = 1'000'000'000;
  EXPECT_GE(ibv_wc_read_completion_wallclock_ns(cq) + kSlack, first_wall);
  EXPECT_LE(ibv_wc_read_completion_wallclock_ns(cq), now(CLOCK_REALTIME) + kSlack);
  ibv_end_poll(cq);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

INSTANTIATE_TEST_SUITE_P(Families, Memory, kFamilies, family_name);

}  // namespace
}  // namespace weft::front::testing
