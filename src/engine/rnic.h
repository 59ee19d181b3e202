// The software RNIC: device::Device over the core and a transport.
#pragma once

#include <poll.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/memory/memory_table.h"
#include "device/device.h"
#include "engine/answer_habit.h"
#include "engine/brisk.h"
#include "engine/connection.h"
#include "engine/connection_index.h"
#include "engine/courtesy.h"
#include "engine/guarded_mover.h"
#include "engine/late_ends.h"
#include "engine/look_habit.h"
#include "engine/others_turn.h"
#include "engine/poller.h"
#include "engine/poller_place.h"
#include "engine/presence.h"
#include "engine/progress_lock.h"
#include "engine/queue_pair.h"
#include "engine/reading_peers.h"
#include "engine/rendezvous.h"
#include "engine/settings.h"
#include "engine/sleep_habit.h"
#include "engine/thread/nap.h"
#include "engine/time_stamp.h"
#include "transport/transport.h"

namespace weft::engine {

/// Limits of one device; every refusal is ENOMEM.
inline constexpr std::uint32_t kRegionCountMax = 1u << 20;
inline constexpr std::uint32_t kQPCountMax = 1u << 16;
inline constexpr std::uint32_t kCQCountMax = 1u << 16;
inline constexpr std::uint32_t kSRQCountMax = 1u << 14;
inline constexpr std::uint32_t kPDCountMax = 1u << 16;
/// For connections that no consumer owns yet see listener_places.h.

/// Invariants: everything but the doorbell atomics is touched only under the progress lock; every
/// public entry goes through Entry (rnic_entry.h), which after unlocking looks for doorbells
/// rung meanwhile, so none is lost.
class Rnic final : public device::Device,
                   private QueuePairOwner,
                   private ConnectionOwner,
                   private RendezvousHost {
 public:
  Rnic(const Settings& settings, device::Events& events, transport::Transport& transport);
  ~Rnic() override;
  Result<void> start();

  Result<device::PDNumber> create_pd() override;
  Result<void> destroy_pd(device::PDNumber) override;
  Result<std::uint32_t> register_region(const device::RegionRequest&) override;
  Result<void> reregister_region(std::uint32_t stag, const device::RegionRequest&) override;
  Result<void> deregister_region(std::uint32_t stag) override;
  Result<std::uint32_t> allocate_window(device::PDNumber, device::WindowKind) override;
  Result<void> deallocate_window(std::uint32_t stag) override;

  Result<device::CQFace> create_cq(std::uint32_t depth, std::uint64_t cookie, void* place = nullptr,
                                   bool timed = true) override;
  Result<void> destroy_cq(device::CQNumber) override;
  Result<device::CQFace> resize_cq(device::CQNumber, std::uint32_t depth,
                                   void* place = nullptr) override;
  Result<void> moderate_cq(device::CQNumber, const device::CQModeration&) override;
  Result<device::SRQFace> create_srq(device::PDNumber, std::uint32_t depth, std::uint32_t sges,
                                     std::uint64_t cookie, void* place = nullptr) override;
  Result<void> destroy_srq(device::SRQNumber) override;
  Result<void> set_srq_limit(device::SRQNumber, std::uint32_t limit) override;
  Result<device::QPFace> create_qp(const device::QPRequest&) override;
  Result<void> destroy_qp(device::QPNumber) override;
  Result<void> command_qp(device::QPNumber, device::QPCommand) override;
  Result<void> modify_qp(device::QPNumber, const device::QPAttributes&) override;
  Result<device::QPStatus> query_qp(device::QPNumber) override;
  Result<void> take_sums(device::QPNumber, device::Sums& sums) override;
  Result<void> keep_writes(device::QPNumber, std::uint32_t stag,
                           std::atomic<std::uint32_t>& count) override;
  bool read_written(device::QPNumber, std::uint8_t* target, Octets source, bool peek) override;

  Result<device::ListenerNumber> listen(const sockaddr* local, int backlog, bool v6_only,
                                        std::uint64_t cookie) override;
  Result<void> listener_address(device::ListenerNumber, sockaddr_storage* local) override;
  Result<void> close_listener(device::ListenerNumber) override;
  Result<device::ConnectionNumber> connect(const sockaddr* local, const sockaddr* remote,
                                           const device::ConnectRequest&,
                                           std::uint64_t cookie) override;
  Result<void> accept(device::ConnectionNumber, const device::ConnectRequest&,
                      std::uint64_t cookie) override;
  Result<void> reject(device::ConnectionNumber, Octets private_data) override;
  Result<void> disconnect(device::ConnectionNumber) override;
  Result<void> release(device::ConnectionNumber) override;
  Result<std::uint32_t> name_qp(device::QPNumber) override;
  Result<void> pair_qp(const device::PairRequest&) override;

  void ring_send(device::QPNumber, const device::Posted&) override;
  void ring_receive(device::QPNumber) override;
  void ring_shared_receive(device::SRQNumber) override;
  Result<void> arm_cq(device::CQNumber, bool solicited_only) override;

  void poll(device::CQNumber empty) override;
  int progress_fd() const override;
  void progress() override;
  int timeout_ms() override;
  device::Slept sleep(const std::atomic<std::uint32_t>& events, const sigset_t& mask) override;
  device::Slept sleep_among(const device::Watched& watched) override;
  void abandon_sleep() override;
  void prepare_exit() override;
  bool end_sleep(const std::atomic<std::uint32_t>& events) override;
  bool sleeps_for(const std::atomic<std::uint32_t>& events) const {
    return sleeper_.load(std::memory_order_seq_cst) == &events;
  }

  bool sleeps_among() const { return sleeps_for(no_events_); }
  /// Change with each part of an exchange, whose next one is likely to come soon: an event of which
  /// a descriptor has to tell the program, and something had been sent since the last one; and a
  /// Read of little or an atomic operation of a peer's that the program made no call for.
  std::uint32_t told() const { return told_.load(std::memory_order_relaxed); }
  std::uint32_t answered() const { return answered_.load(std::memory_order_relaxed); }

  // For the progress thread.
  Poller& poller() { return poller_; }
  /// To be held while waiting in the poller.
  PollerPlace& place() { return place_; }
  /// How often consumers had nothing to do and ran the protocol themselves: found their CQ empty,
  /// or slept.
  std::uint32_t empty_polls() const override {
    return empty_polls_.load(std::memory_order_relaxed);
  }
  /// How often consumers armed a CQ, and empty_polls() when they did so last.
  std::uint32_t armings() const { return sleep_habit_.armings(); }
  std::uint32_t polls_at_arming() const { return polls_at_arming_.load(std::memory_order_relaxed); }
  /// In which the progress thread stands back.
  Nap& nap() { return nap_; }
  OthersTurn& others_turn() { return others_turn_; }
  const Presence& presence() const { return presence_; }
  /// How often consumers were in here at all, posting or polling.
  std::uint32_t consumer_entries() const {
    return consumer_entries_.load(std::memory_order_relaxed);
  }
  /// Staging that connections hold to receive into. Waits for whoever is in here.
  std::size_t receive_buffers_lent();
  /// Is a poll under way just now?
  bool is_polled() const { return in_poll_.load(std::memory_order_relaxed) || has_poll_asleep(); }
  /// Is one that sleeps for what comes?
  bool has_poll_asleep() const { return polls_asleep_.load(std::memory_order_relaxed) != 0; }
  /// Posts wait for a later call of their program: whoever this is true for has to look whether one
  /// comes. False again by end_watch.
  bool watched() const { return watched_.load(std::memory_order_seq_cst); }
  /// Changes with every post that waits; and when some that waited are sent.
  std::uint32_t gathered() const { return gathered_.load(std::memory_order_relaxed); }
  std::uint32_t gathered_left() const { return gathered_left_.load(std::memory_order_relaxed); }
  /// Do posts wait?
  bool rung() const { return rung_.load(std::memory_order_seq_cst) != nullptr; }
  /// Does nothing if a post waits just now.
  void end_watch();
  /// Sends the posts that wait although their program did not come again, nor posted since
  /// `gathered` was read. Does nothing while somebody is in a call: who leaves one leaves no post
  /// behind.
  void serve_forgotten(std::uint32_t gathered);
  /// Serves what a wait() of the poller brought, and what is due. Waits for the lock. True: some of
  /// what was spliced may not be read yet.
  bool progress_events(std::span<const epoll_event> ready);
  /// Then whoever waits in the poller takes no events without the lock: the others would not be
  /// told again.
  bool watches_edges() const { return watches_edges_.load(std::memory_order_seq_cst); }
  /// The same with what the poller has. Leaves a wake-up to who waits there now.
  bool progress_edges();
  /// The same for who calls again at once: asks also what of the spliced was read.
  SplicedState progress_spliced();
  /// Who called it does so no more: the timer asks in its stead, soon.
  void leave_spliced();
  /// The poller watches what was left to polls (leave_to_polls). Waits for the lock if there is
  /// something. To be called with the place taken.
  void watch_again();
  bool has_left_to_polls() const { return left_to_polls_.load(std::memory_order_seq_cst); }

 private:
  class Entry;
  class Sleeper;
  struct ListenerSlot;

  // QueuePairOwner
  void handle_cq_notify(CompletionQueue&) override;
  void handle_cq_hold(CompletionQueue&) override;
  void handle_cq_overflow(CompletionQueue&) override;
  void handle_completion_lost(QueuePair&) override;
  void handle_srq_limit(SharedReceiveQueue&) override;
  Instant exact_now() override;
  // ConnectionOwner
  BufferPool<ReceiveBuffer>& receive_buffers() override { return receive_buffers_; }
  TransmitPool& transmit_buffers() override { return transmit_buffers_; }
  core::Mover& mover() override { return mover_; }
  Instant now() const override { return now_; }
  void handle_arrival(std::size_t octets) override {
    tick_roughly();
    ++arrivals_;
    moved_ += octets;
  }
  void handle_answered() override { ++all_answered_; }
  void handle_departure(std::size_t octets) override {
    departures_.store(departures() + 1, std::memory_order_relaxed);
    moved_ += octets;
  }
  Instant read_clock() override {
    tick();
    return now_;
  }
  void handle_interest(Connection&) override;
  void handle_deadline(Connection&) override;
  bool may_splice() override { return poller_.open_timer().ok(); }
  bool splices_always() const override { return settings_.splice_always; }
  bool stages_always() const override { return settings_.stage_always; }
  void note_spliced(Connection&) override;
  void handle_brisk(const Connection&) override;
  bool turn_is_short(const Connection&) const override;
  bool peer_reads(transport::Stream& s) override { return reading_peers_.has(s, now_); }
  void unwatch(Connection&) override;
  Duration close_timeout() const override { return settings_.close_timeout; }
  void report(const device::ConnectionEvent&) override;
  void report_end(const device::ConnectionEvent&, QueuePair&) override;
  bool exits() const override { return exits_; }
  void report_async(device::AsyncEventKind, QueuePair&) override;
  bool reconnect(Connection&) override;
  // RendezvousHost
  Result<Listening> listen_anywhere(std::uint64_t cookie) override;
  Result<device::ConnectionNumber> begin_connect(const transport::Address& local,
                                                 const transport::Address& remote,
                                                 const device::ConnectRequest&,
                                                 std::uint64_t cookie) override;
  Result<void> accept_for(device::ConnectionNumber, const device::ConnectRequest&,
                          std::uint64_t cookie) override;
  void refuse_connection(device::ConnectionNumber) override;
  void forget_connection(device::ConnectionNumber) override;
  void fail_unreachable(QueuePair&) override;
  void wake_at(Instant) override;
  QueuePair* find_qp(device::QPNumber) override;
  Duration early_patience() const override { return settings_.startup_timeout; }

  bool is_pd(device::PDNumber) const;
  /// By number or, where a program gave it, by name.
  QueuePair* find_qp(const device::ConnectRequest&);
  SharedReceiveQueue* find_srq(device::SRQNumber);
  Connection* find_connection(device::ConnectionNumber);
  Result<Connection*> make_connection(const transport::Address& local,
                                      const transport::Address& remote,
                                      const device::ConnectRequest&, std::uint64_t cookie);
  Result<ListenerSlot*> begin_listen(const transport::Address&, int backlog, bool v6_only,
                                     std::uint64_t cookie);
  core::StartupConfig startup_config(const device::ConnectRequest&) const;
  Result<core::RegionAttributes> region_attributes(const device::RegionRequest&);
  void end_keeping(std::uint32_t stag);
  void end_users_of(const core::RegionAttributes& gone);
  void tick();
  void tick_roughly();
  void mark_rung(QueuePair&);
  /// QPs, or shared receive queues.
  bool any_rung() const { return rung() || srq_rung_.load(std::memory_order_seq_cst); }
  void serve_rung();
  /// With at most this many streams a polling consumer asks each directly, which is cheaper than
  /// asking the poller; more, and it asks the poller.
  static constexpr std::size_t kDirectStreamsMax = 2;
  /// With more, the poller tells of each by edges: it need not look, at every call, at all those of
  /// which it told the last time, which are in no cache any more.
  static constexpr std::size_t kLevelStreamsMax = 64;
  /// So many that are ready at once are worth looking ahead among.
  static constexpr std::size_t kManyReady = 8;
  /// With more, polls ask in turn those that have something most of the time (adr/0031); not with
  /// so many that none has something often.
  static constexpr std::size_t kRolledStreamsMin = 32, kRolledStreamsMax = 4096;
  std::uint32_t interest_of(Connection&) const;
  void leave_to_polls();
  void watch_left();
  /// From now on polls ask them, perhaps.
  void come_on_roll(std::span<const epoll_event> served);
  void go_off_roll(Connection&);
  /// May streams come on the roll, as many as there are?
  bool may_roll() const {
    return streaming_.size() > kRolledStreamsMin && streaming_.size() <= kRolledStreamsMax;
  }
  void share_with_roll(std::span<const epoll_event> served);
  void call_roll(std::size_t most, std::uint32_t found_most);
  /// How long what was spliced is left alone where the program sleeps; where it polls, and asks
  /// itself, more; and twice as long each time that nothing of it was read.
  static constexpr Duration kSplicePauseMin = std::chrono::microseconds(50);
  static constexpr Duration kSplicePauseOfPolls = std::chrono::milliseconds(1);
  static constexpr Duration kSplicePauseMax = std::chrono::milliseconds(10);
  void list_direct(Connection&, bool reads);
  void swap_direct();
  void serve_shared();
  void serve(QueuePair&);
  void serve_now(QueuePair&);
  Duration answer_wait(QueuePair&, bool lone, Instant began);
  void await_answer(device::QPNumber, Duration wait);
  static HangUp hang_up_of(std::uint32_t events);
  bool look_around(device::CQNumber empty);
  void note_much(device::CQNumber empty);
  bool poll_directly(device::CQNumber empty);
  bool ask_streams(device::CQNumber empty, bool all);
  bool ask_stream(Connection&);
  bool passes_over(Connection&, device::CQNumber empty) const;
  /// What a poll that finds nothing may sleep for instead of yielding. Not for its CQ, in which
  /// another thread may put something meanwhile; so not for long.
  struct Expected {
    static constexpr Duration kMost = std::chrono::microseconds(100);
    std::span<pollfd> room() { return std::span(readiness).first(count); }

    std::array<pollfd, kDirectStreamsMax + 1> readiness;
    std::size_t count = 0;  ///< the poller, behind the others, is one; 0: it may not
  };
  Expected what_may_come() const;
  bool sleep_for(Expected&);
  void give_way(Expected);
  std::uint32_t departures() const { return departures_.load(std::memory_order_relaxed); }
  void note_told();
  void note_empty_polls(std::uint32_t polls);
  void note_consumer(std::uint32_t calls = 1);
  void note_arming();
  bool gather(QueuePair&, const device::Posted&);
  void publish_deadline();
  void wake_waiter();
  bool take_place();
  bool leave_to_thread();
  bool begin_sleep();
  bool is_soon(const std::atomic<std::uint32_t>& events);
  device::Slept sleep_unseen(const std::atomic<std::uint32_t>& events, const sigset_t& mask);
  device::Slept sleep_now(const sigset_t& mask);
  device::Slept awake() const;
  void serve_ready(std::span<const epoll_event> ready);
  void serve_unasked(std::span<const epoll_event> ready);
  void prefetch_ready(std::span<const epoll_event> ready, std::size_t at);
  void add_connection(std::unique_ptr<Connection>);
  bool begin_at_once(Connection&);
  void accept_all(ListenerSlot&);
  void pause(ListenerSlot&);
  void serve_timers();
  void serve_holds();
  bool look_at_spliced();
  void serve_spliced();
  bool may_put_off_spliced();
  void hasten_spliced();
  void set_timer();
  void serve_late_ends();
  void fault_overflowed();
  void fault(QueuePair&);
  static bool is_ending(QueuePair&);
  void tell_last_receive(QueuePair&);
  void end_unwatched();
  void bury();
  /// Something is left to do that could not be done in the middle of a connection's work.
  bool has_loose_ends() const {
    return has_unwatched_ || !rendezvous_.settled() || !overflowed_.empty() ||
           some_completion_lost_ || !late_ends_.empty() || !dead_.empty();
  }
  void end_loose();

  const Settings settings_;
  device::Events& events_;
  transport::Transport& transport_;
  GuardedMover mover_;
  Poller poller_;
  PollerPlace place_;
  ProgressLock lock_;
  Instant now_;
  bool now_is_exact_ = false;
  TimeStamp now_stamp_;  ///< of when the clock was read

  std::unique_ptr<std::uint8_t, void (*)(std::uint8_t*)> memory_storage_;
  std::optional<core::MemoryTable> memory_;
  std::uint8_t* null_memory_ = nullptr;  ///< of null regions; made with the first
  std::vector<std::uint32_t>
      pd_users_;  ///< index PDNumber: QPs and SRQs + 1 when it exists, 0: free
  std::unordered_map<device::CQNumber, std::unique_ptr<CompletionQueue>> cqs_;
  std::unique_ptr<std::atomic<SharedReceiveQueue*>[]> srqs_;  ///< by number, 0 unused
  /// QP slots, read without the lock by doorbells. Number = generation << 16 | slot, slot 0 unused.
  std::unique_ptr<std::atomic<QueuePair*>[]> qps_;
  std::vector<std::uint8_t> qp_generations_;
  std::uint32_t qp_search_ = 1;
  std::uint32_t qp_count_ = 0;
  std::uint32_t next_cq_ = 1;
  /// By STag: whose peer's Writes into it are kept.
  std::unordered_map<std::uint32_t, QueuePair*> keepers_;

  std::unordered_map<device::ConnectionNumber, std::unique_ptr<Connection>> connections_;
  ConnectionIndex index_;  ///< of connections_
  std::unordered_map<device::ListenerNumber, std::unique_ptr<ListenerSlot>> listeners_;
  std::uint64_t next_key_ = 1;          ///< connections and listeners; 0 is the poller's wake-up
  std::vector<Connection*> streaming_;  ///< with read interest: what a lone poller looks at first
  std::vector<Connection*> roll_;       ///< asked in turn by polls, out of the poller's sight
  std::size_t roll_at_ = 0;             ///< who was asked last
  RollBudget roll_budget_;
  RollLoad roll_load_;
  std::atomic<bool> watches_edges_{false};
  std::atomic<bool> left_to_polls_{false};  ///< some may be that the poller does not watch
  Rendezvous rendezvous_{*this};
  Brisk brisk_;
  LateEnds late_ends_;
  ReadingPeers reading_peers_;
  std::vector<device::ConnectionNumber> dead_;  ///< to be buried, with room for all connections
  bool exits_ = false;          ///< no memory is asked for or given back where that is possible
  bool has_unwatched_ = false;  ///< some connection's poller_error is set
  std::optional<Instant> next_deadline_;
  bool deadline_moved_ = false;  ///< to an earlier time than whoever waits knows of
  std::vector<CompletionQueue*> overflowed_;  ///< with room for all CQs
  bool some_completion_lost_ = false;  ///< QueuePair::completion_lost of some QP
  std::vector<Connection*> timed_;  ///< of serve_timers(), with room for all connections
  std::vector<CompletionQueue*> moderated_;
  /// The poller's timer is the earlier of the two: never after the end of a hold, and
  std::optional<Instant> hold_timer_;
  std::optional<Instant> splice_timer_;  ///< when splicing_ are looked at
  Duration splice_pause_ = kSplicePauseMin;
  bool asks_on_and_on_ = false;  ///< the progress thread just now
  std::uint32_t entries_at_splice_timer_ = 0;  ///< consumer_entries() when it was put off last
  std::vector<Connection*> splicing_;  ///< with room for all connections

  BufferPool<ReceiveBuffer> receive_buffers_;
  TransmitPool transmit_buffers_;

  std::atomic<QueuePair*> rung_{nullptr};  ///< a stack of rung QPs, linked by next_rung
  std::atomic<bool> srq_rung_{false};
  std::atomic<bool> watched_{false};
  std::atomic<std::uint32_t> gathered_{0};
  std::atomic<std::uint32_t> gathered_left_{0};
  Company company_;
  bool forgotten_ = false;  ///< what is being served waited in vain
  std::atomic<std::uint32_t> empty_polls_{0};
  std::atomic<std::uint32_t> consumer_entries_{0};
  SleepHabit sleep_habit_;
  LookHabit look_habit_;
  AnswerHabit answer_habit_;
  std::atomic<std::uint32_t> polls_at_arming_{0};
  Nap nap_;
  /// For what the thread in place_ sleeps, unless it is the progress thread.
  std::atomic<const std::atomic<std::uint32_t>*> sleeper_{nullptr};
  std::atomic<bool> sleeper_awake_{false};
  std::atomic<std::uint32_t> sleeper_turn_{
      0};  ///< counts those who slept, and those who jumped away
  std::atomic<std::uint32_t> told_{0}, answered_{0};
  const std::atomic<std::uint32_t> no_events_{0};  ///< what a sleeper among descriptors sleeps for
  static constexpr std::int64_t kNoDeadline = INT64_MAX;
  std::atomic<std::int64_t> deadline_ns_{kNoDeadline};  ///< next_deadline_, for who has no lock
  std::uint32_t poll_turn_ = 0;
  std::uint32_t arrivals_ = 0;    ///< receives that found something
  std::uint32_t all_answered_ = 0;  ///< turns of streams of which the poller told
  std::atomic<std::uint32_t> departures_{0};   ///< sends of which something was taken
  std::atomic<std::uint32_t> left_by_told_{0};  ///< of these, when told_ changed last
  std::uint64_t moved_ = 0;       ///< octets, of either
  std::atomic<bool> in_poll_{false};
  std::atomic<std::uint32_t> polls_asleep_{0};
  Courtesy courtesy_;
  OthersTurn others_turn_;
  Presence presence_;
  class ThreadHolder;
  std::unique_ptr<ThreadHolder> thread_;
};

}  // namespace weft::engine
