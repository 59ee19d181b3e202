// Synchronous ids: each call waits for its event. Endpoints, which are such ids.
#include <rdma/rdma_verbs.h>

#include <new>

#include "front/libibverbs/export.h"
#include "front/librdmacm/error.h"
#include "front/librdmacm/id.h"

namespace weft::front::cm {

int Waiting::complete(Id& id) const {
  if (!synchronous_) return 0;
  id.acknowledge_kept_event();
  if (rdma_get_cm_event(id.channel, &id.event) != 0) return -1;
  if (id.event->status == 0) return 0;
  // A rejection's status may be a reason and not an errno.
  return fail(id.event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : -id.event->status);
}

namespace {

/// A listening endpoint keeps what its requests' QPs will be made from.
int start_passive(Id& id, const rdma_addrinfo& info, ibv_pd* pd, const ibv_qp_init_attr* qp) {
  if (rdma_bind_addr(&id, info.ai_src_addr) != 0) return -1;
  if (pd != nullptr) id.pd = pd;
  if (qp == nullptr) return 0;
  id.endpoint_qp.reset(new (std::nothrow) ibv_qp_init_attr(*qp));
  if (id.endpoint_qp == nullptr) return fail(ENOMEM);
  id.endpoint_qp->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
  return 0;
}

int start_active(Id& id, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* qp) {
  constexpr int kTimeoutMs = 2000;
  if (rdma_resolve_addr(&id, info.ai_src_addr, info.ai_dst_addr, kTimeoutMs) != 0 ||
      rdma_resolve_route(&id, kTimeoutMs) != 0) {
    return -1;
  }
  if (info.ai_connect != nullptr && info.ai_connect_len > 0) {
    if (info.ai_connect_len > 255) return fail(EINVAL);
    const auto* data = static_cast<const std::uint8_t*>(info.ai_connect);
    id.endpoint_private_data.assign(data, data + info.ai_connect_len);
  }
  if (qp == nullptr) return 0;
  qp->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
  return rdma_create_qp(&id, pd, qp);
}

}  // namespace
}  // namespace weft::front::cm

using namespace weft::front::cm;

WEFT_EXPORT int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd,
                               ibv_qp_init_attr* qp) {
  if (id == nullptr || info == nullptr) return fail(EINVAL);
  rdma_cm_id* made = nullptr;
  if (rdma_create_id(nullptr, &made, nullptr, static_cast<rdma_port_space>(info->ai_port_space)) !=
      0) {
    return -1;
  }
  const int result = (info->ai_flags & RAI_PASSIVE) != 0
                         ? start_passive(Id::of(made), *info, pd, qp)
                         : start_active(Id::of(made), *info, pd, qp);
  if (result != 0) {
    const int code = errno;
    rdma_destroy_id(made);
    return fail(code);
  }
  *id = made;
  return 0;
}

WEFT_EXPORT void rdma_destroy_ep(rdma_cm_id* id) {
  if (id == nullptr) return;
  rdma_destroy_qp(id);
  rdma_destroy_srq(id);
  rdma_destroy_id(id);
}

WEFT_EXPORT int rdma_get_request(rdma_cm_id* public_listener, rdma_cm_id** id) {
  if (public_listener == nullptr || id == nullptr) return fail(EINVAL);
  Id& listener = Id::of(public_listener);
  if (!listener.synchronous) return fail(EINVAL);
  listener.acknowledge_kept_event();
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(listener.channel, &event) != 0) return -1;
  if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST || event->status != 0) {
    listener.event = event;
    return fail(event->status != 0 ? -event->status : EINVAL);
  }
  Id& request = Id::of(event->id);
  if (listener.endpoint_qp != nullptr) {
    ibv_qp_init_attr attributes = *listener.endpoint_qp;
    if (rdma_create_qp(&request, listener.pd, &attributes) != 0) {
      const int code = errno;
      rdma_ack_cm_event(event);
      rdma_destroy_id(&request);  // which rejects it
      return fail(code);
    }
  }
  {
    // From here on the event is the new id's, so that the listener may be destroyed before it.
    std::lock_guard lock(listener.manager.mutex);
    static_cast<Event*>(event)->owner = &request;
    --listener.unacknowledged;
    ++request.unacknowledged;
    if (listener.unacknowledged == 0) listener.acknowledged.notify_all();
  }
  request.event = event;
  *id = &request;
  return 0;
}
