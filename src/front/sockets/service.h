// The service of a process: its event channel, and the thread that serves connections nobody waits
// for.
//
// It takes all connection events, since any socket's may come at any time; it drives watched
// sockets and those that were closed with octets still to send; it alone destroys ids, so that no
// event can meet an id that has gone. Lives until the process ends.
//
// A thread of the program that waits with epoll serves the watched sockets in its place (epoll.cc,
// docs/adr/0019), one at a time. Their completion channels are in a set of their own, which the
// thread of the service does not watch meanwhile, nor for some time after.
//
// A forked child has none of it: its sockets stay behind, disowned, and the first socket it makes
// itself starts a service of its own.
#pragma once

#include <rdma/rdma_cma.h>
#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "front/sockets/ask.h"
#include "front/sockets/socket.h"

namespace weft::sockets {

class Service {
 public:
  /// The service of this process, made on first use. Errors: EMFILE, ENOMEM, EAGAIN (no thread),
  /// and what rdma_create_event_channel says.
  static Result<Service*> get();
  /// The service if there is one. Takes no lock.
  static Service* existing();

  /// Makes an id whose events go to `socket`, which lives until it is buried.
  Result<rdma_cm_id*> make_id(SocketPtr socket);
  /// The same for an id that came with a request.
  void adopt(rdma_cm_id* id, SocketPtr socket);
  /// Forgets an id that was adopted.
  void disown(rdma_cm_id* id);
  /// Has the thread look after the socket's completions.
  /// `itself`: none of the program's does, whatever they wait for.
  void watch(const SocketPtr& socket, int event_fd, bool itself);
  /// The same for the far end of a socket that another process has, or a listener's, which one
  /// may have; `first`: it is new here.
  void watch_relay(const SocketPtr& socket, int far, std::uint32_t events, bool first);
  /// Does not look at the far end any more, until watch_relay.
  void ignore_relay(int far);
  /// Its thread calls handle_relay() again, some moments later. Only from there.
  void try_again(const SocketPtr& socket);
  /// More or fewer sockets whose octets the thread carries to other processes. While there are some
  /// it works for the device where it waits: nobody else waits for what comes to them.
  void count_relays(int more) { relays_ += more; }
  /// Takes it out again.
  void unwatch(const Socket& socket, int event_fd);
  /// This process, as no other: where its children ask for connections (ask.h).
  std::uint64_t id() const { return id_; }
  /// Destroys what an attempt to connect leaves behind.
  void discard(rdma_cm_id* id, std::unique_ptr<VerbsLane> lane);
  /// The socket is closed: its thread destroys it when it is finished. `wait`: until it is gone.
  void bury(SocketPtr socket, bool wait);
  /// Attempts to connect under way. While there are some the thread asks for events now and then: a
  /// device that runs in its program's calls (`--engine inline`) keeps time in no other way.
  static inline std::atomic<int> connecting{0};

  /// At exit: until all that was closed has left, also by processes that have ended, at most for
  /// `patience`.
  void drain(Clock::duration patience);
  /// The same where the calling thread may do next to nothing: in a signal handler, which may have
  /// interrupted malloc. The thread of the service does it; this one waits, for as long as that
  /// makes progress (service_leave.cc).
  void leave(Clock::duration patience);

  /// The calling thread is about to wait: it serves the watched sockets until end_serving(). False:
  /// another one does.
  bool begin_serving();
  void end_serving();
  /// Readable: serve() has something to do.
  int completions() const { return completions_; }
  /// Takes the completions of watched sockets. True: that changed what some descriptor shows.
  bool serve();

  // What the thread that serves finds in these two calls, where it works for the device, no
  // descriptor tells it (VerbsLane::hand_events).
  /// As look(). True: it found completions of watched sockets, and serve_found() comes next.
  static bool look();
  /// serve(), and takes these, too.
  bool serve_found();
  /// The taker: there is an event of a Socket's.
  static bool take_found(void* socket);

 private:
  struct Dying {
    SocketPtr socket;
    Clock::time_point last;  ///< then it is destroyed, finished or not
    int wake_fd;             ///< of who waits, or -1
    bool* done;              ///< told to who waits, with mutex_ held
  };

  Service() = default;
  Result<void> start();
  void run();
  int wait(epoll_event* events, int count, int timeout_ms);
  void handle_connection_events();
  void handle_event(rdma_cm_event& event);
  void handle_relay(std::uint64_t number);
  void handle_delayed();
  void open_questions();
  void handle_questions();
  Answer answer(int near);
  SocketPtr find_watched(std::uint64_t number);
  bool serve_watched(std::uint64_t number);
  void tell_the_dying();
  int stand_back_ms();
  void mute(bool on);
  /// What a process wrote that has ended is still to be carried on.
  bool has_left_behind();
  void sweep();
  static bool is_service_thread();
  void beat() { beats_.fetch_add(1, std::memory_order_relaxed); }
  void handle_leaving();
  void begin_leaving();
  void go_on_leaving();
  SocketPtr find(rdma_cm_id* id);
  SocketPtr find(std::uint64_t number);
  void forget(const SocketPtr& socket);

  rdma_event_channel* channel_ = nullptr;
  int epoll_ = -1;
  int completions_ = -1;  ///< an epoll set too, of completion channels; in epoll_ unless muted
  int wake_ = -1;
  std::uint64_t id_ = 0;
  int questions_ = -1;
  unsigned made_in_ = 0;
  pid_t process_ = 0;
  enum class Leaving : std::uint32_t { No, Asked, Done };
  std::atomic<Leaving> leaving_{Leaving::No};
  std::atomic<std::uint32_t> beats_{0};  ///< what the thread did, for who waits for it to leave
  std::atomic<int> relays_{0};
  std::atomic<bool> serving_{false};     ///< some thread is between begin_serving and end_serving
  std::atomic<std::uint32_t> turns_{0};  ///< counts both
  std::atomic<bool> awaited_{false};     ///< the thread wants to be woken by end_serving()
  std::atomic<bool> muted_{false};       ///< changes with muting_ held
  Mutex muting_;
  std::uint32_t turns_seen_ = 0;                ///< the thread's own
  std::vector<std::weak_ptr<Socket>> delayed_;  ///< the thread's own
  std::atomic<bool> has_dying_{false};
  Mutex mutex_;
  // With mutex_ held.
  std::unordered_map<rdma_cm_id*, SocketPtr> ids_;
  std::unordered_map<std::uint64_t, std::weak_ptr<Socket>> watched_;
  std::vector<Dying> dying_;
  std::vector<std::pair<rdma_cm_id*, std::unique_ptr<VerbsLane>>> discarded_;
  std::vector<SocketPtr> leavers_;  ///< empty before handle_leaving(), with room for all
};

}  // namespace weft::sockets
