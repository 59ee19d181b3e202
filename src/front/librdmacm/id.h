// The id: what a program knows as rdma_cm_id, and what stands behind it.
#pragma once

#include <rdma/rdma_cma.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <vector>

#include "front/librdmacm/event_channel.h"
#include "front/librdmacm/manager.h"

namespace weft::front::cm {

/// Idle -> Bound -> AddressResolved -> RouteResolved -> Connecting -> Established -> Disconnected
///             \-> Listening        Requested -> Accepting ---------/
/// An id that could not connect, or whose request was rejected, ends in Failed: as in the kernel it
/// cannot connect again.
enum class IdState : std::uint8_t {
  Idle, Bound, AddressResolved, RouteResolved, Connecting, Requested, Accepting, Established,
  Disconnected, Listening, Failed,
};

struct Id final : rdma_cm_id {
  static Id& of(rdma_cm_id* id) { return *static_cast<Id*>(id); }

  /// A new Idle id. `home` null: a synchronous id with a channel of its own. Errors: ENOMEM, and
  /// those of EventChannel::create.
  static Result<Id*> create(Manager& manager, EventChannel* home, void* context,
                            rdma_port_space port_space);
  /// Ends what the id does, drops its undelivered events, waits for the unacknowledged ones and
  /// frees it. The program's QP, CQs and SRQ are its own business.
  static void destroy(Id* id);

  sockaddr& source() { return route.addr.src_addr; }
  sockaddr& target() { return route.addr.dst_addr; }

  /// Has it a device, and one of persona ib?
  bool is_ib() const {
    return verbs != nullptr && verbs->device->transport_type == IBV_TRANSPORT_IB;
  }

  IdState current_state();
  void set_state(IdState to);
  /// Changes the state if it is `from`; false: it is not.
  bool advance(IdState from, IdState to);

  /// Binds the id to the device of an interface: verbs, pd, port_num.
  Result<void> bind_device(const verbs::Interface& interface);
  /// Reserves the port of the source address; see hold_port.
  Result<void> reserve_port();
  void drop_port();

  /// Queues an event that this library makes itself.
  void report(rdma_cm_event_type type, int status);
  /// Acknowledges `event` of a synchronous id, if there is one.
  void acknowledge_kept_event();
  /// Waits until the program has acknowledged all that it was given. `lock` holds the mutex.
  void wait_acknowledged(std::unique_lock<std::mutex>& lock);

  Manager& manager;
  std::uint64_t handle = 0;  ///< the cookie at the device; written once by Manager::add

  // With Manager::mutex held.
  IdState state = IdState::Idle;
  EventChannel* home = nullptr;          ///< holds a reference
  device::ConnectionNumber connection = 0;
  device::ListenerNumber listener = 0;
  unsigned backlog = 0;                  ///< most CONNECT_REQUESTs queued at once
  unsigned requests_queued = 0;
  unsigned unacknowledged = 0;
  bool disconnect_delivered = false;
  std::condition_variable acknowledged;

  // Only in the program's calls on this id.
  bool synchronous = false;
  bool external_qp = false;              ///< connected with a QP that the id does not own
  bool passive = false;
  device::QPNumber qp_number = 0;        ///< of the last connect or accept
  VerbsDevice* bound = nullptr;
  int port_holder = -1;
  bool port_picked = false;              ///< by us: a connection may pick another
  bool v6_only = false;
  std::uint8_t ack_timeout = 0;          ///< as the program set it; what its QPs show
  std::uint8_t offered_ird = 0, offered_ord = 0;    ///< of the request, from our point of view
  std::unique_ptr<ibv_qp_init_attr> endpoint_qp;    ///< of rdma_create_ep, for requests
  std::vector<std::uint8_t> endpoint_private_data;  ///< of rdma_create_ep, for connect
  std::unique_ptr<ibv_sa_path_rec> path;
  ibv_ece local_ece = {};

 private:
  explicit Id(Manager& manager_) : rdma_cm_id{}, manager(manager_) {}
  ~Id() = default;

  void end_connection();
};

/// Gives back an event that was handed out; the owner may be gone afterwards.
void acknowledge(Event* event);

/// How an operation on an id ends: a synchronous id waits for the event, others return at once.
/// Made before the operation starts: once its event is out, the thread that takes it may destroy an
/// asynchronous id, and the one that started the operation must not look at the id again.
class Waiting {
 public:
  explicit Waiting(const Id& id) : synchronous_(id.synchronous) {}
  explicit operator bool() const { return synchronous_; }
  /// Keeps the event in id.event; gives 0, or -1 with the event's errno. Otherwise 0 at once.
  int complete(Id& id) const;

 private:
  const bool synchronous_;
};

}  // namespace weft::front::cm
