// Event channels: the queue behind the descriptor that programs poll.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "front/librdmacm/manager.h"
#include "verbs/wake_fd.h"

namespace weft::front::cm {

/// An event from the moment it is queued until the program acknowledges it. Queued by the device's
/// thread; completed and handed out by rdma_get_cm_event (delivery.cc).
struct Event final : rdma_cm_event {
  Event(Id& owner_, rdma_cm_event_type type, int status_);

  /// Copies at most 255 octets: conn.private_data_len has no room for more.
  void set_private_data(Octets data);

  Id* owner;                                 ///< the id whose destruction waits for this event
  device::ConnectionNumber connection = 0;   ///< of CONNECT_REQUEST, until an id has it
  bool has_depths = false;
  std::uint16_t peer_ird = 0, peer_ord = 0;
  bool has_addresses = false;
  sockaddr_storage local = {}, peer = {};
  std::array<std::uint8_t, 256> private_data;  ///< zeros follow the data
};

/// One rdma_event_channel. Its descriptor is a WakeFd's; inline it may be readable though no event
/// is there yet.
///
/// Works until the program destroyed it, its last id is gone and nobody waits on it: a thread that
/// still waits is left waiting, as the kernel leaves it. So is one that comes a moment too late, as
/// rping's may when its main thread is ending: the object stays among the manager's ruins for that.
struct EventChannel final : rdma_event_channel {
  static EventChannel& of(rdma_event_channel* channel) {
    return *static_cast<EventChannel*>(channel);
  }
  /// With one reference, the creator's. Errors: EMFILE, ENFILE, ENOMEM.
  static Result<EventChannel*> create(Manager& manager);

  // Without Manager::mutex.
  void add_reference();
  void drop_reference();
  /// By the program: drops the creator's reference.
  void destroy();

  // With Manager::mutex held.
  void push(std::unique_ptr<Event> event);
  std::unique_ptr<Event> pop();  ///< null: none
  /// Takes out the queued events for which `matches(event)`, in order.
  template <typename Matches>
  std::vector<std::unique_ptr<Event>> take_if(Matches matches) {
    std::vector<std::unique_ptr<Event>> taken;
    for (auto at = queue_.begin(); at != queue_.end();) {
      if (matches(**at)) {
        taken.push_back(std::move(*at));
        at = queue_.erase(at);
        consume();
      } else {
        ++at;
      }
    }
    return taken;
  }

  /// Without Manager::mutex. The next event, counted as unacknowledged; waits for it unless the
  /// program made the descriptor non-blocking. Errors: EAGAIN, EINTR. A cancellation point.
  Result<std::unique_ptr<Event>> next();

  Manager& manager;

 private:
  explicit EventChannel(Manager& manager_) : rdma_event_channel{}, manager(manager_) {}
  friend class Manager;  // frees ruins
  ~EventChannel() = default;

  class Waiter;

  std::unique_ptr<Event> try_next();
  void consume();

  /// False: the channel is a ruin.
  bool try_add_reference();
  static Error be_left_waiting();

  // With Manager::mutex held.
  std::optional<verbs::WakeFd> wake_{std::in_place};
  unsigned references_ = 1;
  bool destroyed_ = false;
  std::deque<std::unique_ptr<Event>> queue_;  ///< what wake_ counts
};

}  // namespace weft::front::cm
