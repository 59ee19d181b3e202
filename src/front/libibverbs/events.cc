// Completion channels and asynchronous events.
#include <new>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"
#include "front/libibverbs/hand_events.h"
#include "front/libibverbs/numbers.h"
#include "front/libibverbs/objects.h"

namespace weft::front {
namespace {

/// An event's object, and where its acknowledgements are counted.
struct EventTarget {
  verbs::AsyncQueue* queue;
  verbs::AsyncEventState* state;
};

/// The verbs' event of a device's event, with its object filled in.
ibv_async_event to_event(const verbs::AsyncQueue::Event& event) {
  using Kind = device::AsyncEventKind;
  ibv_async_event answer = {};
  switch (event.kind) {
    case Kind::CQError:
      answer.event_type = IBV_EVENT_CQ_ERR;
      answer.element.cq = static_cast<ibv_cq*>(event.owner);
      return answer;
    case Kind::SRQLimit:
      answer.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
      answer.element.srq = static_cast<ibv_srq*>(event.owner);
      return answer;
    case Kind::QPFatal: answer.event_type = IBV_EVENT_QP_FATAL; break;
    case Kind::QPRequestError: answer.event_type = IBV_EVENT_QP_REQ_ERR; break;
    case Kind::QPAccessError: answer.event_type = IBV_EVENT_QP_ACCESS_ERR; break;
    case Kind::LastReceive: answer.event_type = IBV_EVENT_QP_LAST_WQE_REACHED; break;
    case Kind::SendsDrained: answer.event_type = IBV_EVENT_SQ_DRAINED; break;
  }
  answer.element.qp = static_cast<ibv_qp*>(event.owner);
  return answer;
}

/// The context of what the event is about, or null: a port or a device, which ours never report.
const ibv_context* context_of(const ibv_async_event& event) {
  switch (to_number(event.event_type)) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq->context;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq->context;
    case IBV_EVENT_WQ_FATAL:
      return event.element.wq->context;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp->context;
  }
  return nullptr;
}

/// Counts the acknowledgement where the public struct shows it, too.
template <typename Object>
void count(Object* object, std::uint32_t* counter, std::uint32_t events) {
  pthread_mutex_lock(&object->mutex);
  *counter += events;
  pthread_cond_signal(&object->cond);
  pthread_mutex_unlock(&object->mutex);
}

}  // namespace
}  // namespace weft::front

using namespace weft::front;

WEFT_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (is_foreign(context)) return behind().ibv_create_comp_channel(context);
  ContextObject* owner = to_object(context);
  if (!owner->alive()) return fail_null(EIO);
  auto* object = new (std::nothrow) ChannelObject{};
  if (object == nullptr) return fail_null(ENOMEM);
  const weft::Numbers numbers = weft::verbs::ProcessRuntime::instance().numbers();
  if (auto opened = object->channel.open(*owner->device, numbers); !opened) {
    delete object;
    return fail_null(opened.error().code);
  }
  object->context = context;
  object->fd = object->channel.fd();
  owner->uses.add();
  return object;
}

WEFT_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (is_foreign(channel)) return behind().ibv_destroy_comp_channel(channel);
  ChannelObject* object = to_object(channel);
  if (object->uses.any()) return fail(EBUSY);
  to_object(channel->context)->uses.drop();
  delete object;
  return 0;
}

WEFT_VERB(int, get_cq_event, (ibv_comp_channel * channel, ibv_cq** cq, void** cq_context)) {
  if (is_foreign(channel)) return behind().ibv_get_cq_event(channel, cq, cq_context);
  void* owner;
  if (const int code = to_object(channel)->channel.get(&owner); code != 0) {
    errno = code;
    return -1;
  }
  *cq = static_cast<ibv_cq*>(owner);
  *cq_context = (*cq)->cq_context;
  return 0;
}

WEFT_VERB(void, ack_cq_events, (ibv_cq * cq, unsigned nevents)) {
  if (is_foreign(cq)) return behind().ibv_ack_cq_events(cq, nevents);
  if (nevents == 0 || cq->channel == nullptr) return;
  count(cq, &cq->comp_events_completed, nevents);
  // Last: from here on a waiting destroy may free the CQ.
  to_object(cq->channel)->channel.acknowledge(to_object(cq)->cq.completion_events(), nevents);
}

WEFT_EXPORT bool weft_hand_events(ibv_comp_channel* channel, bool (*taker)(void*), void* cookie) {
  if (is_foreign(channel)) return false;
  to_object(channel)->channel.hand(taker, cookie);
  return true;
}

WEFT_VERB(int, get_async_event, (ibv_context * context, ibv_async_event* event)) {
  if (is_foreign(context)) return behind().ibv_get_async_event(context, event);
  weft::verbs::AsyncQueue::Event found;
  if (const int code = to_object(context)->async.get(&found); code != 0) {
    errno = code;
    return -1;
  }
  *event = to_event(found);
  return 0;
}

WEFT_VERB(void, ack_async_event, (ibv_async_event * event)) {
  if (!is_ours(context_of(*event))) return behind().ibv_ack_async_event(event);
  EventTarget target = {};
  switch (to_number(event->event_type)) {
    case IBV_EVENT_CQ_ERR: {
      CQObject* object = to_object(event->element.cq);
      count(object, &object->async_events_completed, 1);
      target = {&object->cq.async(), &object->cq.async_events()};
      break;
    }
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      SRQObject* object = to_object(event->element.srq);
      count(object, &object->events_completed, 1);
      target = {&object->srq.async(), &object->srq.async_events()};
      break;
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_SQ_DRAINED: {
      QPObject* object = to_object(event->element.qp);
      count(&object->qp_base, &object->qp_base.events_completed, 1);
      target = {&object->qp.async(), &object->qp.async_events()};
      break;
    }
    default: return;  // we never gave such an event
  }
  target.queue->acknowledge(*target.state);
}
