// Listening. A request becomes an id when the program takes its event: see delivery.cc.
#include <algorithm>

#include "front/libibverbs/export.h"
#include "front/librdmacm/address.h"
#include "front/librdmacm/error.h"
#include "front/librdmacm/id.h"

namespace weft::front::cm {
namespace {

/// What the kernel's CM uses for "as many as you like".
constexpr int kBacklogMax = 1024;
constexpr int kBacklogMin = 128;

/// An id that was never bound listens on any IPv4 address, on a port that is picked.
int bind_any(Id& id) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  return rdma_bind_addr(&id, reinterpret_cast<sockaddr*>(&any));
}

/// Listens while the port is still held. A device that cannot share it gets it a moment later.
Result<device::ListenerNumber> listen_at_device(Id& id, int backlog) {
  device::Device& device = id.manager.device();
  auto listener = device.listen(&id.source(), backlog, id.v6_only, id.handle);
  if (!listener && listener.error().code == EADDRINUSE && id.port_holder >= 0) {
    id.drop_port();
    listener = device.listen(&id.source(), backlog, id.v6_only, id.handle);
  }
  return listener;
}

}  // namespace
}  // namespace weft::front::cm

using namespace weft::front::cm;

WEFT_EXPORT int rdma_listen(rdma_cm_id* public_id, int backlog) {
  if (public_id == nullptr) return fail(EINVAL);
  Id& id = Id::of(public_id);
  if (id.current_state() == IdState::Idle && bind_any(id) != 0) return -1;
  if (backlog <= 0 || backlog > kBacklogMax) backlog = kBacklogMax;
  // Programs name tiny backlogs (perftest: its number of QPs) and connect several times at once; a
  // request that comes before the program has looked at the one before is not one too many.
  backlog = std::max(backlog, kBacklogMin);
  {
    std::lock_guard lock(id.manager.mutex);
    if (id.state != IdState::Bound) return fail(EINVAL);
    // Before the device listens: requests may come before it returns.
    id.state = IdState::Listening;
    id.backlog = static_cast<unsigned>(backlog);
  }
  auto listener = listen_at_device(id, backlog);
  if (!listener) {
    id.set_state(IdState::Bound);
    return fail(listener.error());
  }
  id.drop_port();
  {
    std::lock_guard lock(id.manager.mutex);
    id.listener = *listener;
  }
  sockaddr_storage local{};
  if (id.manager.device().listener_address(*listener, &local)) {
    set_port(id.source(), port_of(reinterpret_cast<const sockaddr&>(local)));
  }
  return 0;
}
