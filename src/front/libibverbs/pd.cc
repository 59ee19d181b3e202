// Protection domains, thread domains, and parent domains, which join the two.
#include <new>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"

namespace weft::front {

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
  // The rings are the device's, which maps them itself. The context is for the allocators only.
  if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0) {
    return fail_null(EOPNOTSUPP);
  }
  if (attr->pd == nullptr || attr->pd->context != context) return fail_null(EINVAL);
  if (attr->td != nullptr && attr->td->context != context) return fail_null(EINVAL);
  PDObject* parent = to_object(attr->pd);
  if (parent->parent != nullptr) return fail_null(EINVAL);
  auto* object = new (std::nothrow) PDObject{};
  if (object == nullptr) return fail_null(ENOMEM);
  object->context = context;
  object->handle = parent->handle;
  object->parent = parent;
  parent->pd.uses().add();
  if (attr->td != nullptr) {
    object->td = to_object(attr->td);
    object->td->uses.add();
  }
  owner->uses.add();
  return object;
}

namespace {

int dealloc_parent_domain(PDObject* object) {
  if (object->users.any()) return fail(EBUSY);
  object->parent->pd.uses().drop();
  if (object->td != nullptr) object->td->uses.drop();
  to_object(object->context)->uses.drop();
  delete object;
  return 0;
}

}  // namespace
}  // namespace weft::front

using namespace weft::front;

WEFT_VERB(ibv_pd*, alloc_pd, (ibv_context * context)) {
  if (is_foreign(context)) return behind().ibv_alloc_pd(context);
  ContextObject* owner = to_object(context);
  if (!owner->alive()) return fail_null(EIO);
  auto* object = new (std::nothrow) PDObject{};
  if (object == nullptr) return fail_null(ENOMEM);
  if (auto opened = object->pd.open(*owner->device); !opened) {
    delete object;
    return fail_null(opened.error().code);
  }
  object->context = context;
  object->handle = object->pd.number();
  owner->uses.add();
  return object;
}

WEFT_VERB(int, dealloc_pd, (ibv_pd * pd)) {
  if (is_foreign(pd)) return behind().ibv_dealloc_pd(pd);
  PDObject* object = to_object(pd);
  if (object->parent != nullptr) return dealloc_parent_domain(object);
  ContextObject* owner = to_object(pd->context);
  if (owner->alive()) {
    if (auto closed = object->pd.close(); !closed) return finish(closed);
  }
  delete object;
  owner->uses.drop();
  return 0;
}

WEFT_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  if (is_foreign(context)) return behind().ibv_import_pd(context, handle);
  return fail_null(EOPNOTSUPP);
}
WEFT_EXPORT void ibv_unimport_pd(ibv_pd* pd) {
  if (is_foreign(pd)) behind().ibv_unimport_pd(pd);
}
