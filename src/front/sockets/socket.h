// A socket whose stream travels over RDMA: its states, its calls, its readiness.
//
//     Fresh -> Bound -> Listening
//         \------\-> Connecting -> Connected        a request at a listener: Accepting -> Connected
//                        \-> Refused
//
// Who makes progress. Calls that find nothing to do drive the connection themselves: they poll its
// CQ, arm it, and wait in the kernel on its completion channel. So a blocking program needs no
// thread of ours. A socket that is in an epoll set is watched: the service (service.h) drives it
// and shows its readiness on the descriptor. Connection events are the service's alone.
//
// Locks: one mutex in each socket; a listener's is never taken with its connection's held, nor the
// other way round. The service's mutex comes after both and is held for moments.
#pragma once

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/octets.h"
#include "base/result.h"
#include "base/signals.h"
#include "front/sockets/ask.h"
#include "front/sockets/cursor.h"
#include "front/sockets/mirror.h"
#include "front/sockets/mutex.h"
#include "front/sockets/verbs_lane.h"
#include "front/sockets/waiter.h"

namespace weft::sockets {

class Socket;
class SocketMemory;
using SocketPtr = std::shared_ptr<Socket>;

/// What the service takes out of a connection event, which it acknowledges at once.
struct ConnectionEvent {
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
  int status = 0;
  std::array<std::uint8_t, UINT8_MAX> private_octets{};
  std::uint8_t private_count = 0;
  Octets private_data() const { return {private_octets.data(), private_count}; }
};

class Socket : public std::enable_shared_from_this<Socket> {
 public:
  enum class State : std::uint8_t {
    Fresh,
    Bound,
    Listening,
    Connecting,
    Accepting,
    Connected,
    Refused,
    Closed,
  };

  /// `family`: AF_INET or AF_INET6.
  explicit Socket(int family);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Descriptors. The numbers are kept by the table (descriptors.h).
  /// Makes the descriptor; see Mirror::open.
  Result<int> open_descriptor(int flags, Mirror::Near near = Mirror::Near::Program);
  /// Undoes it, when the program did not get it.
  void close_descriptor();
  void add_number(int fd);
  /// True: it was the last.
  bool remove_number(int fd);
  std::vector<int> numbers();

  // Calls, as their manual pages have them. With `blocking` they may wait.
  Result<void> bind(const sockaddr& address);
  Result<void> listen(int backlog);
  Result<SocketPtr> accept(bool blocking);
  Result<void> connect(const sockaddr& address, bool blocking);
  Result<std::size_t> send(Cursor from, int flags, bool blocking);
  Result<std::size_t> receive(Cursor to, int flags, bool blocking);
  Result<void> shutdown(int how);
  /// The last descriptor is gone. What was written still arrives; the service sees to it.
  /// `blocking`: waits until it has left, as long as that makes progress.
  void close(bool blocking);

  /// The last number in this process is about to be closed, `fd`: readiness is shown no more.
  void before_last_close(int fd);
  /// After it: when another process still has the descriptor, the service carries the octets
  /// between it and the stream, until that is closed too. False: nobody has it.
  bool hand_over();
  /// Another process wants to use the connection now, which this one has still. From then on all go
  /// to the descriptor, between which and the stream the service carries the octets. No: the
  /// program has registered memory on it, or `asked_for` only calls itself its descriptor. Only the
  /// service's thread calls it, and then handle_relay().
  Answer share_stream(int asked_for);
  /// share_stream() did so: its numbers in this process are served as another process's are.
  bool is_shared() const { return born_in_ == fork_generation() && made_in != fork_generation(); }
  /// For a process that has the descriptor and did not make it: the first use of a connection asks
  /// the maker, which may have it still.
  void begin_use(int fd) {
    if (!in_use_.load(std::memory_order_relaxed)) begin_first_use(fd);
  }
  /// For another process that has the descriptor, which may only read what was settled before it
  /// came to be.
  const sockaddr_storage& settled_name(bool peer) const { return peer ? peer_ : local_; }

  bool was_listening() const { return peer_.ss_family == 0 && state_ == State::Listening; }
  /// Tells a listener's maker that this process wants connections.
  void ask_for_connections(int fd);
  /// A number in this process; -1: there is none.
  int any_number();
  /// This object stands for a socket of another process, of these names.
  void settle_names(const sockaddr_storage& local, const sockaddr_storage& peer);

  // Direct placement (riomap and its kin).
  Result<std::uint64_t> map(void* memory, std::size_t octets, bool peer_writes,
                            std::optional<std::uint64_t> offset);
  Result<void> unmap(void* memory, std::size_t octets);
  Result<std::size_t> write_at(Cursor from, std::uint64_t offset, int flags, bool blocking);
  Result<void> set_iomap_entries(std::uint32_t entries);
  std::uint32_t iomap_entries() const { return size_.iomap_entries; }

  // Readiness.
  /// The events of poll(2) that hold, POLLERR and POLLHUP whether asked or not. Where not all that
  /// are asked do, the connection is driven first, unless this did so less than `age` ago.
  short poll_events(short asked, Clock::time_point now, Clock::duration age);
  short poll_events(short asked) { return poll_events(asked, Clock::now(), Clock::duration(1)); }
  /// From now on the kernel's descriptor shows the readiness.
  void watch();
  /// What a thread adds to its poll while it waits for this socket, between the two calls below;
  /// -1: nothing but its own wake descriptor.
  int begin_wait(int wake_fd);
  /// `readable`: what begin_wait gave is.
  void end_wait(int wake_fd, bool readable);

  // What is so.
  int family() const { return family_; }
  State state();
  bool is_listening() { return state() == State::Listening; }
  sockaddr_storage local_address();
  Result<sockaddr_storage> peer_address();
  /// As TCP_INFO has it.
  int tcp_state();
  /// SO_ERROR: what went wrong, once.
  int take_error();
  std::uint64_t readable_octets();
  LaneSize& size() { return size_; }
  void set_v6_only(bool on) { v6_only_ = on; }
  bool v6_only() const { return v6_only_; }
  void set_timeouts(bool receiving, std::optional<Clock::duration> wait);
  std::optional<Clock::duration> timeout(bool receiving) const;
  /// SO_LINGER with no time: close() resets.
  void set_abortive(bool on) { abortive_ = on; }
  bool is_abortive() const { return abortive_; }

  std::atomic<bool> nonblocking{false};
  /// The process whose calls are served here; of another one, once share_stream() was here.
  std::atomic<unsigned> made_in{fork_generation()};
  std::mutex options_mutex;
  std::map<std::pair<int, int>, std::vector<std::uint8_t>> options;  ///< under options_mutex

  /// What to do when an attempt to connect that nobody waits for is over; in the service's thread,
  /// once. True: the numbers lead to another socket now.
  using Settle = std::function<bool(const SocketPtr&)>;
  void set_settle(Settle settle);
  /// Such a thing happened: nothing comes here any more.
  bool has_moved() const { return moved_ || made_in != fork_generation(); }

  // For the service.
  void handle_event(const ConnectionEvent& event);
  /// There is no memory to handle what happened: the connection ends.
  void handle_shortage();
  /// A request came: makes the connection on `id` and accepts. False: the id is to be rejected.
  bool handle_request(rdma_cm_id* id, Octets private_data);
  /// Its completion channel is readable. `relays`: the caller is the service's thread, which alone
  /// carries octets for other processes. True: the descriptor shows another readiness.
  bool handle_completions(bool relays);
  /// Its far end is ready, for a socket that other processes have.
  void handle_relay();
  /// At the end of this process. True: another one had it and has ended, and what that wrote is
  /// still to be carried on; or what this one wrote beside others is. After that it closes the
  /// connection, for all.
  bool end_with_process();
  /// Ends all at once. Only the service's thread calls it, and no event comes after.
  void destroy();
  /// The program had no room for what accept() gave it.
  void put_back(SocketPtr connection);
  /// The connection that was refused may be tried by TCP: nobody said that it is unwanted, and
  /// nothing was short here.
  bool may_fall_back() const { return may_fall_back_; }
  bool is_refused() { return state() == State::Refused; }
  /// An accepted connection stands.
  void enqueue(SocketPtr connection);
  /// Closed, and nothing is left to be sent or heard.
  bool finished();
  // The process ends, and the thread that waits for that may have the lock of malloc: these need no
  // memory, but for a socket that other processes have. Only the service's thread calls them.
  /// Closes all numbers. True: other processes have it, and hand_over() comes next.
  bool begin_leaving();
  /// True: nothing is left to be done.
  bool go_on_leaving();
  /// Does not return when the device is held for ever by a thread that will never run again.
  void ask_device();
  std::uint64_t number() const { return number_; }
  SocketPtr take_listener() { return std::move(listener_); }

 private:
  friend class SocketMemory;  // registered memory and its operations

  struct EndOfWait;
  template <typename Ready>
  Result<void> wait(std::unique_lock<Mutex>& lock, std::optional<NoSignals>& none,
                    Deadline deadline, Ready ready);
  template <typename Ready>
  Result<void> wait(std::unique_lock<Mutex>& lock, Deadline deadline, Ready ready);
  Deadline deadline(bool receiving) const;

  // With mutex_ held.
  bool drive();
  bool poll_queue(int most = VerbsLane::kAll);
  void end_connection();
  bool arm();
  void show();
  void notify();
  void stop_waiting(int wake_fd);
  void refuse(int error);
  void end_memory();  // without it
  Result<void> make_id();
  Result<void> start_connecting(const sockaddr& address);
  bool accept_request(rdma_cm_id* id, const ConnectData& offer, const LaneSize& size);
  void handle_connecting(const ConnectionEvent& event);
  void finish_settling(bool moved);
  void open_connection();
  void established(const ConnectData& peer, bool accepted);
  void keep_addresses();
  void serve_in_background();
  void write_names();
  void expect_sharers();
  void share();
  bool hand_listener_over();
  void begin_first_use(int fd);
  Result<void> start_relaying();
  void keep_timeouts();
  void end_sharing();
  void wait_for_sharers(std::uint32_t events);
  void handle_sharers();
  void give_away();
  void give_away_later();
  bool relay();
  bool relay_out();
  bool relay_in();
  void set_relaying(bool on);
  short events_now() const;
  bool is_over() const;
  int near() const { return numbers_.empty() ? -1 : numbers_.front(); }
  bool publish_maps();
  void advance_memory();
  bool memory_sends_wait() const;
  Error write_error();
  Stream& stream() { return lane_->stream(); }
  const Stream& stream() const { return lane_->stream(); }

  const int family_;
  const std::uint64_t number_;
  unsigned born_in_ = fork_generation();
  std::atomic<bool> in_use_{false};  ///< by a process that did not make it: see begin_use
  mutable Mutex mutex_;

  // With mutex_ held.
  State state_ = State::Fresh;
  rdma_cm_id* id_ = nullptr;
  std::unique_ptr<VerbsLane> lane_;
  Mirror mirror_;
  std::vector<int> numbers_;
  struct Waiter {
    int wake_fd;
    pthread_t thread;
  };
  std::vector<Waiter> waiters_;
  bool show_always_ = false;    ///< the descriptor shows the readiness
  bool watched_ = false;        ///< the service looks after the completions
  Clock::time_point asked_at_;  ///< when poll_events last drove the connection
  bool error_told_ = false;     ///< the stream's, to the program
  bool disconnecting_ = false;  ///< rdma_disconnect was called
  Deadline left_;               ///< who left first calls it then at the latest
  Deadline held_until_;         ///< closed, and not all that was written has left
  bool gone_ = false;           ///< the connection manager says that the connection ended
  bool closing_ = false;
  std::uint64_t shown_ = 0;     ///< unread octets, or connections, when readiness was last shown
  int error_ = 0;                   ///< for SO_ERROR
  bool owes_word_ = false;          ///< the next connect() tells how the one under way ended
  LaneSize size_;
  ConnectData offer_;  ///< the peer's, while Accepting
  sockaddr_storage local_ = {}, peer_ = {};
  bool v6_only_ = false;
  std::atomic<bool> abortive_{false};
  std::optional<Clock::duration> receive_wait_, send_wait_;

  Settle settle_;
  bool settling_ = false;  ///< refused, but that is not the last word
  std::atomic<bool> moved_{false};
  std::atomic<bool> may_fall_back_{true};

  // Of a listener.
  std::deque<SocketPtr> accepted_;
  unsigned backlog_ = 0;
  unsigned arriving_ = 0;  ///< requests accepted that do not stand yet
  SocketPtr listener_;     ///< of a connection that is Accepting
  bool shut_ = false;      ///< by shutdown: takes no connections any more
  bool shared_ = false;    ///< its connections are handed to whoever takes them (socket_share.cc)
  bool orphaned_ = false;  ///< only other processes have its descriptor
  std::atomic<bool> asked_{false};

  // Handed over to another process; see relay().
  bool relaying_ = false;
  bool relayed_ = false;                                ///< once, and for ever
  bool relay_told_end_ = false;                         ///< the stream's end, to the other process
  bool relay_heard_end_ = false;                        ///< the other process's, to the stream
  std::uint32_t relay_waits_ = 0;                       ///< epoll events asked for
  std::vector<std::uint8_t> relayed_out_, relayed_in_;  ///< what did not fit yet

  // Direct placement.
  struct Map {
    std::uint32_t index = 0;
    ibv_mr* region = nullptr;
    std::uint64_t offset = 0;
    bool told = false;
  };
  std::vector<Map> maps_;

  std::shared_ptr<SocketMemory> memory_;  ///< null: none was ever registered
};

}  // namespace weft::sockets
