// Completion queues: create, resize, moderate, destroy.
#include <new>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"

namespace weft::front {
namespace {

/// What read_* functions can tell; for the rest there is no function, and asking for it is refused.
constexpr std::uint64_t kTimestamps = std::uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP} |
                                      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint64_t kWcFlags = std::uint64_t{IBV_WC_STANDARD_FLAGS} | kTimestamps;
/// Hints: our lock costs nothing when nobody else has it, and an overrun is always told.
constexpr std::uint32_t kCreateFlags =
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

CQObject* create(ibv_context* context, std::uint32_t depth, void* cq_context,
                 ibv_comp_channel* channel, std::uint32_t vector, PDObject* domain, bool timed) {
  ContextObject* owner = to_object(context);
  if (!owner->alive()) return fail_null(EIO);
  if (vector >= static_cast<std::uint32_t>(context->num_comp_vectors)) return fail_null(EINVAL);
  if (channel != nullptr && channel->context != context) return fail_null(EINVAL);
  auto* object = new (std::nothrow) CQObject{};
  if (object == nullptr) return fail_null(ENOMEM);
  object->context = context;
  object->channel = channel;
  object->cq_context = cq_context;
  pthread_mutex_init(&object->mutex, nullptr);
  pthread_cond_init(&object->cond, nullptr);
  set_cq_ex_operations(object);
  ChannelObject* events = channel != nullptr ? to_object(channel) : nullptr;
  // What the event queue gives back is the public pointer.
  void* const face = static_cast<ibv_cq_ex*>(object);
  if (auto opened = object->cq.open(
          *owner->device, depth, events != nullptr ? &events->channel : nullptr, owner->async, face,
          domain != nullptr ? domain->ring_allocator() : nullptr, timed);
      !opened) {
    delete object;
    return fail_null(opened.error().code);
  }
  object->handle = object->cq.number();
  object->cqe = static_cast<int>(object->cq.depth());
  if (events != nullptr) {
    events->uses.add();
    ++channel->refcnt;
  }
  object->domain = domain;
  if (domain != nullptr) domain->add_user();
  owner->uses.add();
  return object;
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  const std::uint32_t known_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  if ((attr->comp_mask & ~known_mask) != 0) return fail_null(EOPNOTSUPP);
  if ((attr->wc_flags & ~kWcFlags) != 0) return fail_null(EOPNOTSUPP);
  if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
      (attr->flags & ~kCreateFlags) != 0) {
    return fail_null(EOPNOTSUPP);
  }
  PDObject* domain = nullptr;
  if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
    // A plain PD will not do: a CQ belongs to none.
    if (attr->parent_domain == nullptr || attr->parent_domain->context != context) {
      return fail_null(EINVAL);
    }
    domain = to_object(attr->parent_domain);
    if (domain->parent == nullptr) return fail_null(EINVAL);
  }
  return create(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector, domain,
                (attr->wc_flags & kTimestamps) != 0);
}

/// Any count and period will do: what query_device_ex says of them is all that their types hold.
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr) {
  if (!to_object(cq->context)->alive()) return fail(EIO);
  if ((attr->attr_mask & ~std::uint32_t{IBV_CQ_ATTR_MODERATE}) != 0) return fail(EOPNOTSUPP);
  if ((attr->attr_mask & IBV_CQ_ATTR_MODERATE) == 0) return 0;
  return finish(to_object(cq)->cq.moderate({attr->moderate.cq_count, attr->moderate.cq_period}));
}

}  // namespace weft::front

using namespace weft::front;

WEFT_VERB(ibv_cq*, create_cq,
          (ibv_context * context, int cqe, void* cq_context, ibv_comp_channel* channel,
           int comp_vector)) {
  if (is_foreign(context)) {
    if (is_ours(channel)) return fail_null(EINVAL);
    return behind().ibv_create_cq(context, cqe, cq_context, channel, comp_vector);
  }
  if (cqe <= 0 || comp_vector < 0) return fail_null(EINVAL);
  CQObject* object = create(context, static_cast<std::uint32_t>(cqe), cq_context, channel,
                            static_cast<std::uint32_t>(comp_vector), nullptr, false);
  return object != nullptr ? ibv_cq_ex_to_cq(object) : nullptr;
}

WEFT_VERB(int, resize_cq, (ibv_cq * cq, int cqe)) {
  if (is_foreign(cq)) return behind().ibv_resize_cq(cq, cqe);
  if (!to_object(cq->context)->alive()) return fail(EIO);
  if (cqe <= 0) return fail(EINVAL);
  CQObject* object = to_object(cq);
  if (auto done = object->cq.resize(static_cast<std::uint32_t>(cqe)); !done) return finish(done);
  cq->cqe = static_cast<int>(object->cq.depth());
  return 0;
}

WEFT_VERB(int, destroy_cq, (ibv_cq * cq)) {
  if (is_foreign(cq)) return behind().ibv_destroy_cq(cq);
  CQObject* object = to_object(cq);
  ContextObject* owner = to_object(cq->context);
  if (owner->alive()) {
    if (auto closed = object->cq.close(); !closed) return finish(closed);
  }
  if (cq->channel != nullptr) {
    --cq->channel->refcnt;
    to_object(cq->channel)->uses.drop();
  }
  PDObject* domain = object->domain;
  pthread_cond_destroy(&cq->cond);
  pthread_mutex_destroy(&cq->mutex);
  delete object;
  if (domain != nullptr) domain->drop_user();
  owner->uses.drop();
  return 0;
}
