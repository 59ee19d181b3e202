// Shared receive queues.
#include <new>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"

using namespace weft::front;

WEFT_VERB(ibv_srq*, create_srq, (ibv_pd * pd, ibv_srq_init_attr* init)) {
  if (is_foreign(pd)) return behind().ibv_create_srq(pd, init);
  ContextObject* owner = to_object(pd->context);
  if (!owner->alive()) return fail_null(EIO);
  auto* object = new (std::nothrow) SRQObject{};
  if (object == nullptr) return fail_null(ENOMEM);
  object->context = pd->context;
  object->srq_context = init->srq_context;
  object->pd = pd;
  void* const face = static_cast<ibv_srq*>(object);
  if (auto opened = object->srq.open(to_object(pd)->real(), init->attr.max_wr, init->attr.max_sge,
                                     owner->async, face, to_object(pd)->ring_allocator());
      !opened) {
    delete object;
    return fail_null(opened.error().code);
  }
  pthread_mutex_init(&object->mutex, nullptr);
  pthread_cond_init(&object->cond, nullptr);
  object->handle = object->srq.number();
  to_object(pd)->add_user();
  init->attr.max_wr = object->srq.receives().depth();
  init->attr.max_sge = object->srq.receives().sges_max();
  return object;
}

WEFT_VERB(int, modify_srq, (ibv_srq * srq, ibv_srq_attr* attr, int attr_mask)) {
  if (is_foreign(srq)) return behind().ibv_modify_srq(srq, attr, attr_mask);
  if (!to_object(srq->context)->alive()) return fail(EIO);
  if ((attr_mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return fail(EINVAL);
  // The device attributes do not promise resizing.
  if ((attr_mask & IBV_SRQ_MAX_WR) != 0) return fail(EOPNOTSUPP);
  if ((attr_mask & IBV_SRQ_LIMIT) == 0) return 0;
  return finish(to_object(srq)->srq.set_limit(attr->srq_limit));
}

WEFT_VERB(int, query_srq, (ibv_srq * srq, ibv_srq_attr* attr)) {
  if (is_foreign(srq)) return behind().ibv_query_srq(srq, attr);
  weft::verbs::SRQ& queue = to_object(srq)->srq;
  attr->max_wr = queue.receives().depth();
  attr->max_sge = queue.receives().sges_max();
  attr->srq_limit = queue.limit();
  return 0;
}

WEFT_VERB(int, destroy_srq, (ibv_srq * srq)) {
  if (is_foreign(srq)) return behind().ibv_destroy_srq(srq);
  SRQObject* object = to_object(srq);
  if (to_object(srq->context)->alive()) {
    if (auto closed = object->srq.close(); !closed) return finish(closed);
  }
  PDObject* domain = to_object(srq->pd);
  pthread_cond_destroy(&srq->cond);
  pthread_mutex_destroy(&srq->mutex);
  delete object;
  domain->drop_user();
  return 0;
}
