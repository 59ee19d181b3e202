// Protection domains.
#include <new>

#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"

using namespace weft::front;

WEFT_VERB(ibv_pd*, alloc_pd, (ibv_context * context)) {
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
  PDObject* object = to_object(pd);
  ContextObject* owner = to_object(pd->context);
  if (owner->alive()) {
    if (auto closed = object->pd.close(); !closed) return finish(closed);
  }
  delete object;
  owner->uses.drop();
  return 0;
}

WEFT_EXPORT ibv_pd* ibv_import_pd(ibv_context*, std::uint32_t) { return fail_null(EOPNOTSUPP); }
WEFT_EXPORT void ibv_unimport_pd(ibv_pd*) {}
