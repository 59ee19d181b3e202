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
//
// fork: what the parent made is not the child's. Its manager stays behind in the child for the ids
// and channels that came along, disowned: its device answers EIO, and the descriptors that both
// processes share are left alone, so that a child that cleans up after itself takes nothing from
// its parent. Ids of a disowned manager can only be destroyed.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "front/librdmacm/verbs_device.h"
#include "verbs/runtime.h"

namespace weft::front::cm {

struct Event;
struct EventChannel;
struct Id;

class Manager final : public verbs::ConnectionEvents {
 public:
  /// The manager of this process, made on first use; a forked child gets a new one. Errors: ENOSYS
  /// (libibverbs.so.1 is not the one built with this library; said once on stderr), and what
  /// Runtime::device says.
  static Result<Manager*> get();

  verbs::Runtime& runtime() { return runtime_; }
  device::Device& device() { return *device_; }
  VerbsDeviceTable& verbs_devices() { return verbs_devices_; }
  /// A blocking call has to run the device itself.
  bool is_inline() const { return progress_fd_ >= 0; }
  int progress_fd() const { return progress_fd_; }
  /// Of the parent process. Changes only in fork, when the child has one thread.
  bool disowned() const { return disowned_; }

  std::mutex mutex;

  // With mutex held.
  /// Gives the id its handle, the cookie of its connections and listeners. False: no memory.
  bool add(Id& id);
  void remove(Id& id);
  /// Keeps a destroyed channel for threads that come too late, and frees one of long ago.
  void leave_ruin(EventChannel* channel);
  /// Queues an event on its owner's channel.
  void queue(Event* event);

  /// Without mutex: tells the id which connection it just started, unless an event of it was faster
  /// and the id is gone already.
  void give_connection(std::uint64_t handle, device::ConnectionNumber connection);
  /// Without mutex: resets the connections nobody will answer. handle_connection_event cannot do
  /// that itself.
  void release_abandoned();

  void handle_connection_event(const device::ConnectionEvent& event) override;

 private:
  Manager(verbs::Runtime& runtime, device::Device& device);

  void handle_request(Id* listener, const device::ConnectionEvent& event);
  void handle_unanswered_end(Id& listener, const device::ConnectionEvent& event);

  // The locks are taken across a fork, so that the child's copies are of a moment when nobody was
  // inside.
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  verbs::Runtime& runtime_;
  device::Device* device_;
  int progress_fd_;
  bool disowned_ = false;
  VerbsDeviceTable verbs_devices_;
  // With mutex held.
  std::unordered_map<std::uint64_t, Id*> ids_;
  std::uint64_t last_handle_ = 0;
  std::vector<device::ConnectionNumber> abandoned_;
  std::deque<EventChannel*> ruins_;
};

}  // namespace weft::front::cm
