// Connections: connect, accept, reject, disconnect, establish, notify.
#include <algorithm>

#include "front/libibverbs/export.h"
#include "front/librdmacm/address.h"
#include "front/librdmacm/error.h"
#include "front/librdmacm/id.h"

namespace weft::front::cm {
namespace {

struct Depths {
  std::uint8_t ird, ord;
};

/// What the program asks for; without parameters, or for 255, `fallback`.
Result<Depths> chosen_depths(const Id& id, const rdma_conn_param* param, Depths fallback) {
  Depths depths = fallback;
  if (param == nullptr) return depths;
  if (param->responder_resources != RDMA_MAX_RESP_RES) depths.ird = param->responder_resources;
  if (param->initiator_depth != RDMA_MAX_INIT_DEPTH) depths.ord = param->initiator_depth;
  if (depths.ird > id.bound->ird_max || depths.ord > id.bound->ord_max) {
    return Error{EINVAL, "more RDMA Reads at once than the device can do"};
  }
  return depths;
}

/// The QP of the id, else the one whose number the program gives.
Result<device::ConnectRequest> make_request(Id& id, const rdma_conn_param* param,
                                            Depths fallback) {
  device::ConnectRequest request;
  if (id.qp != nullptr) {
    request.qp = id.manager.runtime().qp_number(id.qp);
  } else if (param != nullptr) {
    request.qp = param->qp_num;
    request.by_name = true;
  }
  if (request.qp == 0) return Error{EINVAL, "the id has no QP"};
  const auto depths = chosen_depths(id, param, fallback);
  if (!depths) return depths.error();
  request.ird = depths->ird;
  request.ord = depths->ord;
  if (param != nullptr && param->private_data_len != 0) {
    if (param->private_data == nullptr) return Error{EINVAL, "no private data"};
    request.private_data = {static_cast<const std::uint8_t*>(param->private_data),
                            param->private_data_len};
  }
  id.external_qp = id.qp == nullptr;
  id.qp_number = request.qp;
  return request;
}

}  // namespace
}  // namespace weft::front::cm

using namespace weft::front::cm;
namespace device = weft::device;

WEFT_EXPORT int rdma_connect(rdma_cm_id* public_id, rdma_conn_param* param) {
  if (public_id == nullptr) return fail(EINVAL);
  Id& id = Id::of(public_id);
  const Waiting waiting(id);
  if (!id.advance(IdState::RouteResolved, IdState::Connecting)) return fail(EINVAL);
  auto request = make_request(id, param, {id.bound->ird_max, id.bound->ord_max});
  if (!request) {
    id.set_state(IdState::RouteResolved);
    return fail(request.error());
  }
  if (request->private_data.empty()) request->private_data = id.endpoint_private_data;
  id.drop_port();  // the connection binds it itself
  sockaddr_storage local = id.route.addr.src_storage;
  if (id.port_picked) set_port(reinterpret_cast<sockaddr&>(local), 0);
  Manager& manager = id.manager;
  const std::uint64_t handle = id.handle;
  auto connection = manager.device().connect(reinterpret_cast<const sockaddr*>(&local),
                                             &id.target(), *request, handle);
  if (!connection) {
    id.set_state(IdState::RouteResolved);
    return fail(connection.error());
  }
  manager.give_connection(handle, *connection);
  return waiting.complete(id);
}

WEFT_EXPORT int rdma_accept(rdma_cm_id* public_id, rdma_conn_param* param) {
  if (public_id == nullptr) return fail(EINVAL);
  Id& id = Id::of(public_id);
  const Waiting waiting(id);
  if (!id.advance(IdState::Requested, IdState::Accepting)) return fail(EINVAL);
  auto request = make_request(id, param, {id.offered_ird, id.offered_ord});
  if (!request) {
    id.set_state(IdState::Requested);
    return fail(request.error());
  }
  if (auto accepted = id.manager.device().accept(id.connection, *request, id.handle); !accepted) {
    // It may be the QP's fault: the program may still reject, or accept with another.
    id.set_state(IdState::Requested);
    return fail(accepted.error());
  }
  return waiting.complete(id);
}

WEFT_EXPORT int rdma_reject(rdma_cm_id* public_id, const void* private_data,
                            std::uint8_t private_data_len) {
  if (public_id == nullptr || (private_data == nullptr && private_data_len != 0)) {
    return fail(EINVAL);
  }
  Id& id = Id::of(public_id);
  if (!id.advance(IdState::Requested, IdState::Failed)) return fail(EINVAL);
  const device::ConnectionNumber connection = id.connection;
  {
    // The number ends with the rejection; releasing it would reset the reply on its way.
    std::lock_guard lock(id.manager.mutex);
    id.connection = 0;
  }
  auto rejected = id.manager.device().reject(
      connection, {static_cast<const std::uint8_t*>(private_data), private_data_len});
  return rejected ? 0 : fail(rejected.error());
}

/// iWARP has no reason codes in its reply, so this is the same.
WEFT_EXPORT int rdma_reject_ece(rdma_cm_id* id, const void* private_data,
                                std::uint8_t private_data_len) {
  return rdma_reject(id, private_data, private_data_len);
}

WEFT_EXPORT int rdma_disconnect(rdma_cm_id* public_id) {
  if (public_id == nullptr) return fail(EINVAL);
  Id& id = Id::of(public_id);
  const Waiting waiting(id);
  device::ConnectionNumber connection = 0;
  bool event_comes = false;
  {
    std::lock_guard lock(id.manager.mutex);
    switch (id.state) {
      case IdState::Established:
      case IdState::Disconnected:
        connection = id.connection;
        event_comes = !id.disconnect_delivered;
        break;
      case IdState::Connecting:  // gives up, and the event of a failed attempt tells when
      case IdState::Accepting:
        connection = id.connection;
        break;
      case IdState::Requested:  // as iw_cm: nothing to end, and no error
      case IdState::Failed:
        return 0;
      default:
        return fail(EINVAL);
    }
  }
  auto ended = id.manager.device().disconnect(connection);
  // Over already, by the peer or with the QP: its event has come or will.
  if (!ended && ended.error().code != ENOTCONN && ended.error().code != EINVAL) {
    return fail(ended.error());
  }
  if (!waiting || !event_comes) return 0;
  const int result = waiting.complete(id);
  // However it ended, it is over, which is what was asked for.
  const bool over = id.event != nullptr && id.event->event == RDMA_CM_EVENT_DISCONNECTED;
  return over ? 0 : result;
}

WEFT_EXPORT int rdma_establish(rdma_cm_id* public_id) {
  if (public_id == nullptr) return fail(EINVAL);
  Id& id = Id::of(public_id);
  // On iWARP the device has both ends running when the response arrives; there is nothing to send.
  if (id.qp != nullptr || !id.external_qp) return fail(EINVAL);
  const IdState state = id.current_state();
  return state == IdState::Established || state == IdState::Disconnected ? 0 : fail(EINVAL);
}

WEFT_EXPORT int rdma_notify(rdma_cm_id* public_id, ibv_event_type) {
  if (public_id == nullptr) return fail(EINVAL);
  // Only InfiniBand can see data before the connection stands.
  const IdState state = Id::of(public_id).current_state();
  const bool connected = state == IdState::Connecting || state == IdState::Accepting ||
                         state == IdState::Established || state == IdState::Disconnected;
  return connected ? 0 : fail(EINVAL);
}
