// From the queue to the program: what rdma_get_cm_event fills in, and acknowledging.
#include <algorithm>
#include <cstdint>

#include "front/libibverbs/export.h"
#include "front/librdmacm/address.h"
#include "front/librdmacm/error.h"
#include "front/librdmacm/id.h"

namespace weft::front::cm {
namespace {

/// The peer's depths from our point of view, as iw_cm gives them: the Reads it may open at us are
/// our responder resources. Cut to what this device can do, so that a program may hand them back to
/// accept. A peer that told nothing gets the most.
void fill_depths(Event& event, const VerbsDevice& device) {
  std::uint16_t ird = device.ird_max;
  std::uint16_t ord = device.ord_max;
  if (event.has_depths) {
    ird = std::min(ird, event.peer_ord);
    ord = std::min(ord, event.peer_ird);
  }
  event.param.conn.responder_resources = static_cast<std::uint8_t>(ird);
  event.param.conn.initiator_depth = static_cast<std::uint8_t>(ord);
}

void copy_addresses(Id& id, const Event& event) {
  if (!event.has_addresses) return;
  copy_unmapped(id.route.addr.src_storage, reinterpret_cast<const sockaddr&>(event.local));
  copy_unmapped(id.route.addr.dst_storage, reinterpret_cast<const sockaddr&>(event.peer));
}

/// Makes the id of a request. False: no device of ours serves the address it came to.
bool adopt_request(Event& event) {
  Id& listener = *event.owner;
  Manager& manager = listener.manager;
  auto made = Id::create(manager, listener.synchronous ? nullptr : listener.home,
                         listener.context, listener.ps);
  if (!made) return false;
  Id& id = **made;
  copy_addresses(id, event);
  const verbs::Interface* interface = manager.runtime().interface_of(&id.source());
  if (interface == nullptr || !id.bind_device(*interface)) {
    Id::destroy(&id);
    return false;
  }
  fill_depths(event, *id.bound);
  id.passive = true;
  id.offered_ird = event.param.conn.responder_resources;
  id.offered_ord = event.param.conn.initiator_depth;
  {
    std::lock_guard lock(manager.mutex);
    id.connection = event.connection;
    id.state = IdState::Requested;
  }
  event.connection = 0;
  event.id = &id;
  event.listen_id = &listener;
  return true;
}

/// In InfiniBand the connection manager walks the QP to RTS itself, so that ibv_qp::state shows it
/// without a query. By number first: the program may have destroyed the QP behind our back.
void show_connected(Id& id) {
  if (!id.is_ib() || id.qp == nullptr || id.external_qp) return;
  if (!id.manager.device().query_qp(id.qp_number)) return;
  ibv_qp_attr attributes;
  ibv_qp_init_attr made_from;
  static_cast<void>(ibv_query_qp(id.qp, &attributes, IBV_QP_STATE, &made_from));
}

/// Completes an event in the program's thread. False: the program need not see it.
bool prepare(Event& event) {
  Id& id = *event.owner;
  switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      if (adopt_request(event)) return true;
      static_cast<void>(id.manager.device().reject(event.connection, {}));
      return false;
    case RDMA_CM_EVENT_ESTABLISHED:
      copy_addresses(id, event);
      fill_depths(event, *id.bound);
      show_connected(id);
      // The program's own QP: it says when it is ready, with rdma_establish.
      if (id.external_qp && !id.passive) event.event = RDMA_CM_EVENT_CONNECT_RESPONSE;
      return true;
    case RDMA_CM_EVENT_REJECTED:
      // Posted receives come back, as after a rejected connection on an RNIC. By number: the
      // program may have destroyed the QP.
      if (id.qp_number != 0 && !id.external_qp) {
        static_cast<void>(
            id.manager.device().command_qp(id.qp_number, device::QPCommand::Fail));
      }
      return true;
    case RDMA_CM_EVENT_DISCONNECTED: {
      std::lock_guard lock(id.manager.mutex);
      id.disconnect_delivered = true;
      return true;
    }
    default:
      return true;
  }
}

}  // namespace
}  // namespace weft::front::cm

using namespace weft::front::cm;

WEFT_EXPORT int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (channel == nullptr || event == nullptr) return fail(EINVAL);
  for (;;) {
    auto taken = EventChannel::of(channel).next();
    if (!taken) return fail(taken.error());
    Event* made = taken->release();
    if (prepare(*made)) {
      *event = made;
      return 0;
    }
    acknowledge(made);
  }
}

WEFT_EXPORT int rdma_ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return fail(EINVAL);
  acknowledge(static_cast<Event*>(event));
  return 0;
}
