// Persona ib from the public API: regions and domains that only its programs use.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "front/testing/persona_ib.h"

namespace weft::front::testing {
namespace {

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
