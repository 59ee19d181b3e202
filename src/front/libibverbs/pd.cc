// Protection domains, thread domains, and parent domains, which join the two.
#include <new>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"

namespace weft::front {
namespace {

/// What the allocator of a parent domain is asked for. The upper half is the driver, of which there
/// is none (RDMA_DRIVER_UNKNOWN is 0), the lower one is ours to choose.
std::uint64_t to_resource_type(verbs::RingKind kind) {
  switch (kind) {
    case verbs::RingKind::Send:
      return 1;
    case verbs::RingKind::Receive:
      return 2;
    case verbs::RingKind::SharedReceive:
      return 3;
    case verbs::RingKind::Completion:
      return 4;
  }
  return 0;
}

}  // namespace

void DomainAllocator::set(ibv_pd* domain, const ibv_parent_domain_init_attr& attr) {
  domain_ = domain;
  alloc_ = attr.alloc;
  free_ = attr.free;
  if ((attr.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0) context_ = attr.pd_context;
}

Result<void*> DomainAllocator::allocate(verbs::RingKind kind, std::size_t octets) {
  void* const memory =
      alloc_(domain_, context_, octets, device::kRingAlignment, to_resource_type(kind));
  if (memory == nullptr) return Error{ENOMEM, "the program's allocator gave no memory"};
  if (memory == IBV_ALLOCATOR_USE_DEFAULT) return nullptr;
  if (reinterpret_cast<std::uintptr_t>(memory) % device::kRingAlignment != 0) {
    release(kind, memory);
    return Error{EINVAL, "the program's allocator gave memory that is not aligned"};
  }
  return memory;
}

/// Not in a child that inherited the queue by fork: the memory may not be there, which the man page
/// of ibv_alloc_parent_domain even recommends.
void DomainAllocator::release(verbs::RingKind kind, void* memory) {
  if (!to_object(domain_->context)->alive()) return;
  free_(domain_, context_, memory, to_resource_type(kind));
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
  ContextObject* owner = to_object(context);
  if (!owner->alive()) return fail_null(EIO);
  if (attr->comp_mask != 0) return fail_null(EINVAL);
  auto* object = new (std::nothrow) TDObject{};
  if (object == nullptr) return fail_null(ENOMEM);
  object->context = context;
  owner->uses.add();
  return object;
}

int dealloc_td(ibv_td* td) {
  TDObject* object = to_object(td);
  if (object->uses.any()) return fail(EBUSY);
  to_object(td->context)->uses.drop();
  delete object;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  ContextObject* owner = to_object(context);
  if (!owner->alive()) return fail_null(EIO);
  constexpr std::uint32_t kKnownMask =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if ((attr->comp_mask & ~kKnownMask) != 0) return fail_null(EINVAL);
  const bool allocates = (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if (allocates && (attr->alloc == nullptr || attr->free == nullptr)) return fail_null(EINVAL);
  if (attr->pd == nullptr || attr->pd->context != context) return fail_null(EINVAL);
  if (attr->td != nullptr && attr->td->context != context) return fail_null(EINVAL);
  PDObject* parent = to_object(attr->pd);
  if (parent->parent != nullptr) return fail_null(EINVAL);
  auto* object = new (std::nothrow) PDObject{};
  if (object == nullptr) return fail_null(ENOMEM);
  object->context = context;
  object->handle = parent->handle;
  object->shared = parent->shared;
  object->shared->add_reference();
  object->parent = parent;
  parent->add_user();
  parent->real().uses().add();
  if (allocates) object->allocator.set(object, *attr);
  if (attr->td != nullptr) {
    object->td = to_object(attr->td);
    object->td->uses.add();
  }
  owner->uses.add();
  return object;
}

namespace {

int dealloc_parent_domain(PDObject* object) {
  if (object->has_users()) return fail(EBUSY);
  object->real().uses().drop();
  if (object->td != nullptr) object->td->uses.drop();
  object->parent->drop_user();
  object->drop_user();
  return 0;
}

/// The object that programs get for a PD, with `shared`'s reference. Null: ENOMEM.
PDObject* make_face(ibv_context* context, SharedPD* shared) {
  auto* object = new (std::nothrow) PDObject{};
  if (object == nullptr) return nullptr;
  object->context = context;
  object->handle = shared->pd.number();
  object->shared = shared;
  to_object(context)->uses.add();
  return object;
}

}  // namespace

void PDObject::drop_user() {
  if (references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  ContextObject* const owner = to_object(context);
  shared->drop_reference();
  delete this;
  owner->uses.drop();
}
}  // namespace weft::front

using namespace weft::front;

WEFT_VERB(ibv_pd*, alloc_pd, (ibv_context * context)) {
  if (is_foreign(context)) return behind().ibv_alloc_pd(context);
  ContextObject* owner = to_object(context);
  if (!owner->alive()) return fail_null(EIO);
  auto* shared = new (std::nothrow) SharedPD;
  if (shared == nullptr) return fail_null(ENOMEM);
  int code = ENOMEM;
  auto opened = shared->pd.open(*owner->device);
  if (!opened) code = opened.error().code;
  PDObject* object = opened ? make_face(context, shared) : nullptr;
  if (object == nullptr) {
    if (opened) static_cast<void>(shared->pd.close());
    shared->drop_reference();
    return fail_null(code);
  }
  HandleTable<SharedPD>::instance().add(shared, owner->opening, object->handle);
  return object;
}

WEFT_VERB(int, dealloc_pd, (ibv_pd * pd)) {
  if (is_foreign(pd)) return behind().ibv_dealloc_pd(pd);
  PDObject* object = to_object(pd);
  if (object->parent != nullptr) return dealloc_parent_domain(object);
  if (to_object(pd->context)->alive()) {
    if (auto closed = object->real().close(); !closed) return finish(closed);
  }
  HandleTable<SharedPD>::instance().remove(object->shared);
  object->drop_user();
  return 0;
}

/// ENOENT: no PD of this opening of the device has that handle.
WEFT_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t pd_handle) {
  if (is_foreign(context)) return behind().ibv_import_pd(context, pd_handle);
  ContextObject* owner = to_object(context);
  if (!owner->alive()) return fail_null(EIO);
  SharedPD* shared = HandleTable<SharedPD>::instance().find(owner->opening, pd_handle);
  if (shared == nullptr) return fail_null(ENOENT);
  PDObject* object = make_face(context, shared);
  if (object != nullptr) return object;
  shared->drop_reference();
  return fail_null(ENOMEM);
}

/// The PD stays what it is, and so does what was made with it by this object.
WEFT_EXPORT void ibv_unimport_pd(ibv_pd* pd) {
  if (is_foreign(pd)) return behind().ibv_unimport_pd(pd);
  PDObject* object = to_object(pd);
  if (object->parent == nullptr) object->drop_user();
}
