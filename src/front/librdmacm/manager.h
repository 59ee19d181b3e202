// The connection manager of the process: all ids and channels, and the receiver of the device's
// connection events.
//
// Locks, in the order in which they may be taken:
//
//   VerbsDeviceTable's mutex  ->  the device's progress lock  ->  Manager::mutex
//
// The device reports connection events with its progress lock held and handle_connection_event
// takes Manager::mutex. Hence nobody calls the device or libibverbs while holding Manager::mutex.
// It guards every member marked so of Id and EventChannel, and is held for moments only. Members of
// the public rdma_cm_id are written only by the threads of the program, inside its own calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "front/librdmacm/verbs_device.h"
#include "verbs/runtime.h"

namespace weft::front::cm {

struct Event;
struct Id;

class Manager final : public verbs::ConnectionEvents {
 public:
  /// The manager of this process, made on first use; a forked child gets a new one. Errors: ENOSYS
  /// (libibverbs.so.1 is not the one built with this library; said once on stderr), and what
  /// Runtime::device says.
  static Result<Manager*> get();

  verbs::Runtime& runtime() { return runtime_; }
  device::Device& device() { return device_; }
  VerbsDeviceTable& verbs_devices() { return verbs_devices_; }
  /// A blocking call has to run the device itself.
  bool is_inline() const { return progress_fd_ >= 0; }
  int progress_fd() const { return progress_fd_; }

  std::mutex mutex;

  // With mutex held.
  /// Gives the id its handle, the cookie of its connections and listeners.
  void add(Id& id);
  void remove(Id& id);
  /// Queues an event on its owner's channel.
  void queue(Event* event);

  /// Without mutex: resets the connections nobody will answer. handle_connection_event cannot do
  /// that itself.
  void release_abandoned();

  void handle_connection_event(const device::ConnectionEvent& event) override;

 private:
  Manager(verbs::Runtime& runtime, device::Device& device);

  void handle_request(Id* listener, const device::ConnectionEvent& event);
  void handle_unanswered_end(Id& listener, const device::ConnectionEvent& event);
  static void forget_parent();

  verbs::Runtime& runtime_;
  device::Device& device_;
  const int progress_fd_;
  VerbsDeviceTable verbs_devices_;
  // With mutex held.
  std::unordered_map<std::uint64_t, Id*> ids_;
  std::uint64_t last_handle_ = 0;
  std::vector<device::ConnectionNumber> abandoned_;
};

}  // namespace weft::front::cm
