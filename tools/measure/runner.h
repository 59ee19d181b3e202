// One connection's part of a measurement, as a state machine that a thread turns.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "measure/histogram.h"
#include "measure/line.h"
#include "measure/memory.h"
#include "measure/plan.h"

namespace weft::measure {

enum class Side : std::uint8_t { Client, Server };

/// By a blast. (A ping uses all.)
inline BuffersUsed buffers_used(const Plan& plan, Side side) {
  const bool client = side == Side::Client;
  return {plan.sends(client), plan.takes(client)};
}

/// One uninterrupted measurement: so many messages of one size on each connection. Both sides have
/// the same.
struct Leg {
  std::uint64_t octets = 0;
  std::uint64_t count = 0;  ///< messages (both ways: each way), or round trips
  std::uint64_t seed = 0;   ///< of the patterns; differs from leg to leg
};

/// One end of one connection. Calls match `(prepare (step | arm)* [check])*`; all throw Failure.
/// One thread at a time.
class Runner {
 public:
  virtual ~Runner() = default;

  /// Before either side starts: memory is filled or poisoned, receives are posted.
  virtual void prepare(const Leg& leg) = 0;
  /// Does what can be done without waiting. False: nothing could.
  virtual bool step() = 0;
  /// The end's part is done, and what it sent is known to have arrived.
  virtual bool done() const = 0;
  /// Event waiting: asks to be woken through descriptor(). What came before is found by a step().
  virtual void arm() = 0;
  /// What to wait for: a descriptor, and the events of poll(2).
  virtual int descriptor() const = 0;
  virtual short events() const = 0;
  /// After poll(2) said so. With --wait block it sleeps until there is something, but over TCP.
  virtual void woken() = 0;
  /// With --verify, after both sides are done: what could not be looked at while it ran.
  virtual void check() = 0;

  /// Round trips of this leg in nanoseconds; ping's client only.
  const Histogram& trips() const { return trips_; }
  /// Messages of this leg that are complete (round trips, for ping).
  virtual std::uint64_t completed() const = 0;
  /// Round trips in order of time, up to the vector's capacity; for --raw.
  std::vector<std::uint64_t>& raw() { return raw_; }

 protected:
  void note_trip(std::uint64_t ns) {
    trips_.add(ns);
    if (raw_.size() < raw_.capacity()) raw_.push_back(ns);
  }
  void forget_trips() {
    trips_.clear();
    raw_.clear();
  }

 private:
  Histogram trips_;
  std::vector<std::uint64_t> raw_;
};

/// Turns the runners of one side until all are done, with the plan's number of threads.
class Crew {
 public:
  /// cpus: what thread i is pinned to, i modulo the list; empty: not pinned.
  Crew(const Plan& plan, std::vector<std::unique_ptr<Runner>>& runners, Line& line,
       std::vector<int> cpus)
      : plan_(plan), runners_(runners), line_(line), cpus_(std::move(cpus)) {}

  /// Throws what the first thread that failed threw.
  void run();

 private:
  void work(std::size_t thread);
  void turn_polling(std::vector<Runner*> mine, bool watches);
  void turn_sleeping(std::vector<Runner*> mine, bool watches);
  /// Waits for what the armed runners are to be woken by. False: nothing came for a while.
  bool sleep(const std::vector<Runner*>& mine);
  /// Throws if somebody wants to stop, the peer is gone, or nothing has moved for long.
  void watch(bool watches, std::uint64_t last_progress_ns);

  const Plan& plan_;
  std::vector<std::unique_ptr<Runner>>& runners_;
  Line& line_;
  std::vector<int> cpus_;
  std::atomic<bool> failed_{false};
};

/// Confines the calling thread (and those it starts) to `cpus`.
void pin(const std::vector<int>& cpus);

/// Marks of Failure texts that only follow from another thread's failure.
struct Abandoned : Failure {
  Abandoned() : Failure("another thread failed") {}
};

}  // namespace weft::measure
