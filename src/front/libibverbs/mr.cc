// Memory regions.
#include <limits>
#include <new>
#include <utility>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace weft::front {

bool region_access(unsigned flags, std::uint32_t* access, int* code) {
  // The device's rights have the values of the verbs'.
  static_assert(unsigned{device::kLocalWrite} == IBV_ACCESS_LOCAL_WRITE &&
                unsigned{device::kRemoteWrite} == IBV_ACCESS_REMOTE_WRITE &&
                unsigned{device::kRemoteRead} == IBV_ACCESS_REMOTE_READ &&
                unsigned{device::kRemoteAtomic} == IBV_ACCESS_REMOTE_ATOMIC &&
                unsigned{device::kWindowBind} == IBV_ACCESS_MW_BIND &&
                unsigned{device::kZeroBased} == IBV_ACCESS_ZERO_BASED);
  constexpr unsigned kRights = (IBV_ACCESS_ZERO_BASED << 1) - 1;
  // Hints that a device may leave alone: the optional range by its definition, huge pages because
  // nothing here is pinned by page.
  constexpr unsigned kHints = unsigned{IBV_ACCESS_OPTIONAL_RANGE} | IBV_ACCESS_HUGETLB;
  // No page is ever pinned, so that every region is on demand; asked for, it may begin as a hole.
  *code = (flags & ~(kRights | kHints | unsigned{IBV_ACCESS_ON_DEMAND})) != 0 ? EINVAL : 0;
  *access = flags & kRights;
  return *code == 0;
}

/// Pages come when they are touched, by us as by the program: there is nothing to fetch before.
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count) {
  if (!to_object(pd->context)->alive()) return fail(EIO);
  const std::uint32_t kind = to_number(advice);
  if (kind > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return fail(EOPNOTSUPP);
  if ((flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0 || list == nullptr || count == 0) {
    return fail(EINVAL);
  }
  return 0;
}

namespace {

/// The object that programs get for a region, with `shared`'s reference. Null: ENOMEM.
MRObject* make_face(ibv_pd* pd, void* address, SharedMR* shared) {
  auto* object = new (std::nothrow) MRObject{};
  if (object == nullptr) return nullptr;
  const verbs::RegionShape& shape = shared->mr.shape();
  to_object(pd)->add_user();
  object->shared = shared;
  object->context = pd->context;
  object->pd = pd;
  object->addr = address;
  object->length = shape.octets;
  object->handle = object->lkey = object->rkey = shared->mr.stag();
  // A null region is for our own work requests alone.
  if ((shape.access & device::kNull) != 0) object->rkey = 0;
  return object;
}

void destroy_face(MRObject* object) {
  object->shared->drop_reference();
  to_object(object->pd)->drop_user();
  delete object;
}

ibv_mr* open_region(ibv_pd* pd, void* address, const verbs::RegionShape& shape) {
  auto* shared = new (std::nothrow) SharedMR;
  if (shared == nullptr) return fail_null(ENOMEM);
  int code = ENOMEM;
  auto opened = shared->mr.open(to_object(pd)->real(), shape);
  if (!opened) code = opened.error().code;
  MRObject* object = opened ? make_face(pd, address, shared) : nullptr;
  if (object == nullptr) {
    if (opened) static_cast<void>(shared->mr.close());
    shared->drop_reference();
    return fail_null(code);
  }
  shared->domain = to_object(pd)->shared;
  shared->domain->add_reference();
  HandleTable<SharedMR>::instance().add(shared, to_object(pd->context)->opening, object->handle);
  return object;
}

ibv_mr* register_region(ibv_pd* pd, void* address, std::size_t octets, std::uint64_t iova,
                        unsigned flags) {
  if (!to_object(pd->context)->alive()) return fail_null(EIO);
  verbs::RegionShape shape;
  int code;
  if (!region_access(flags, &shape.access, &code)) return fail_null(code);
  shape.address = reinterpret_cast<std::uintptr_t>(address);
  shape.octets = octets;
  shape.base_to = (shape.access & device::kZeroBased) != 0 ? 0 : iova;
  shape.on_demand = (flags & IBV_ACCESS_ON_DEMAND) != 0;
  // Implicit on-demand paging.
  shape.everything =
      shape.on_demand && address == nullptr && octets == std::numeric_limits<std::size_t>::max();
  if (shape.everything && (iova != 0 || (flags & IBV_ACCESS_HUGETLB) != 0)) {
    return fail_null(EINVAL);
  }
  return open_region(pd, address, shape);
}

}  // namespace

/// Between the two libraries no region moves: the other would take our PD for one of its own.
int rereg_foreign(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length, int access) {
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && is_ours(pd)) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  return behind().ibv_rereg_mr(mr, flags, pd, addr, length, access);
}

/// As long as can be.
ibv_mr* alloc_null_mr(ibv_pd* pd) {
  if (!to_object(pd->context)->alive()) return fail_null(EIO);
  verbs::RegionShape shape;
  shape.access = unsigned{device::kLocalWrite} | device::kNull;
  shape.octets = std::numeric_limits<std::size_t>::max();
  return open_region(pd, nullptr, shape);
}

}  // namespace weft::front

using namespace weft::front;

WEFT_VERB(ibv_mr*, reg_mr, (ibv_pd * pd, void* addr, std::size_t length, int access)) {
  if (is_foreign(pd)) return behind().ibv_reg_mr(pd, addr, length, access);
  return register_region(pd, addr, length, reinterpret_cast<std::uintptr_t>(addr),
                         static_cast<unsigned>(access));
}

WEFT_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, std::size_t length,
                                    std::uint64_t iova, int access) {
  if (is_foreign(pd)) return behind().ibv_reg_mr_iova(pd, addr, length, iova, access);
  return register_region(pd, addr, length, iova, static_cast<unsigned>(access));
}

WEFT_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t length,
                                     std::uint64_t iova, unsigned access) {
  if (is_foreign(pd)) return behind().ibv_reg_mr_iova2(pd, addr, length, iova, access);
  return register_region(pd, addr, length, iova, access);
}

/// Returns 0 or an ibv_rereg_mr_err_code, with errno.
WEFT_EXPORT int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length,
                             int access) {
  if (is_foreign(mr)) return rereg_foreign(mr, flags, pd, addr, length, access);
  MRObject* object = to_object(mr);
  const bool move = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool change_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  const bool change_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  weft::verbs::MR& region = object->shared->mr;
  weft::verbs::RegionShape shape = region.shape();
  int code = 0;
  const bool sensible = flags != 0 && (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) == 0 &&
                        !(move && (addr == nullptr || length == 0)) &&
                        !(change_pd && (pd == nullptr || pd->context != mr->context)) &&
                        !(!change_access && access != 0) &&
                        (shape.access & weft::device::kNull) == 0;
  if (!sensible) code = EINVAL;
  if (!to_object(mr->context)->alive()) code = EIO;
  if (code == 0 && change_access) {
    region_access(static_cast<unsigned>(access), &shape.access, &code);
    shape.on_demand = (access & IBV_ACCESS_ON_DEMAND) != 0;
  }
  if (code != 0) {
    errno = code;
    return IBV_REREG_MR_ERR_INPUT;
  }
  if (move) {
    shape.address = reinterpret_cast<std::uintptr_t>(addr);
    shape.octets = length;
    shape.everything = false;
  }
  if (move || change_access) {
    const bool zero_based = (shape.access & weft::device::kZeroBased) != 0;
    const bool was_zero_based = (region.shape().access & weft::device::kZeroBased) != 0;
    if (zero_based) {
      shape.base_to = 0;
    } else if (move || was_zero_based) {
      shape.base_to = shape.address;
    }
  }
  ibv_pd* target = change_pd ? pd : mr->pd;
  if (auto done = region.reopen(to_object(target)->real(), shape); !done) {
    errno = done.error().code;
    // The device refuses before it changes anything, so the region is what it was.
    return IBV_REREG_MR_ERR_INPUT;
  }
  to_object(target)->add_user();
  to_object(target)->shared->add_reference();
  std::exchange(object->shared->domain, to_object(target)->shared)->drop_reference();
  to_object(mr->pd)->drop_user();
  mr->pd = target;
  if (move) {
    mr->addr = addr;
    mr->length = length;
  }
  return 0;
}

WEFT_VERB(int, dereg_mr, (ibv_mr * mr)) {
  if (is_foreign(mr)) return behind().ibv_dereg_mr(mr);
  MRObject* object = to_object(mr);
  if (to_object(mr->context)->alive()) {
    if (auto closed = object->shared->mr.close(); !closed) return finish(closed);
  }
  HandleTable<SharedMR>::instance().remove(object->shared);
  destroy_face(object);
  return 0;
}

WEFT_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                                      std::uint64_t iova, int fd, int access) {
  if (is_foreign(pd)) return behind().ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);
  return fail_null(EOPNOTSUPP);
}

/// ENOENT: no region of this opening of the device has that handle. EINVAL: it belongs to another
/// PD. Where the memory lies, the program knows from elsewhere: `addr` is null.
WEFT_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t mr_handle) {
  if (is_foreign(pd)) return behind().ibv_import_mr(pd, mr_handle);
  ContextObject* owner = to_object(pd->context);
  if (!owner->alive()) return fail_null(EIO);
  SharedMR* shared = HandleTable<SharedMR>::instance().find(owner->opening, mr_handle);
  if (shared == nullptr) return fail_null(ENOENT);
  const bool same_pd = shared->domain == to_object(pd)->shared;
  MRObject* object = same_pd ? make_face(pd, nullptr, shared) : nullptr;
  if (object != nullptr) return object;
  shared->drop_reference();
  return fail_null(same_pd ? ENOMEM : EINVAL);
}

/// The region stays what it is.
WEFT_EXPORT void ibv_unimport_mr(ibv_mr* mr) {
  if (is_foreign(mr)) return behind().ibv_unimport_mr(mr);
  destroy_face(to_object(mr));
}

/// None of our devices has memory of its own.
WEFT_EXPORT ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t handle) {
  if (is_foreign(context)) return behind().ibv_import_dm(context, handle);
  return fail_null(EOPNOTSUPP);
}
WEFT_EXPORT void ibv_unimport_dm(ibv_dm* dm) {
  if (is_foreign(dm)) behind().ibv_unimport_dm(dm);
}
