// One seed: two ends, the network between them, a script, and the truths they are held against.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/endpoint.h"
#include "tests/sim/model.h"
#include "tests/sim/verdict.h"
#include "tests/sim/workload.h"
#include "transport/loopback/loopback_network.h"

namespace weft::sim {

/// What all runs together did: shows that the seeds reach what they are meant to reach.
struct Tally {
  std::uint64_t seeds = 0, peaceful = 0, streams = 0, startups_failed = 0;
  std::uint64_t operations = 0, succeeded = 0, failed = 0, flushed = 0, receives = 0;
  std::uint64_t windows = 0;  ///< bound
  std::uint64_t terminates = 0, held_back = 0, retries = 0;
  std::uint64_t cuts = 0, early_fins = 0, corruptions = 0, delays = 0, splits = 0;
};

/// Runs one seed from beginning to end. Everything follows from the seed: the same seed gives the
/// same run, octet for octet.
class Simulation {
 public:
  Simulation(std::uint64_t seed, Verdict& verdict, Tally& tally);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  void run();
  const Settings& settings() const { return settings_; }

 private:
  /// Tells which end a completion belongs to.
  struct Sink final : CompletionSink {
    Sink(Simulation& owner, std::size_t which) : simulation(owner), end(which) {}
    void handle_completion(const core::Completion& completion) override {
      simulation.handle_completion(end, completion);
    }
    Simulation& simulation;
    std::size_t end;
  };
  struct Event {
    enum class Kind : std::uint8_t { Receive, Send, Deregister, Emss, Act } kind;
    std::size_t end = 0, index = 0;
    Instant at;
  };
  struct Guilty {
    std::uint64_t id = 0;
    core::WorkStatus status{};
  };

  // simulation.cc
  void run_round();
  void set_up_round();
  void set_up_script();
  void connect();
  void loop();
  void play(const Event&);
  bool may_post(std::size_t end, const Operation&) const;
  void post_send(std::size_t end, std::size_t index);
  bool post_waiting();
  void post_receive(std::size_t end, std::size_t index);
  bool turn();
  bool advance_clock();
  bool all_quiet() const;
  void end_in_peace();
  void handle_stall();
  void trace_settings() const;

  // simulation_checks.cc
  Effects& effects(std::size_t end);
  void handle_completion(std::size_t end, const core::Completion&);
  void handle_sent(std::size_t end, const core::Completion&);
  void check_memory_released(std::size_t end, std::size_t index);
  void handle_received(std::size_t end, const core::Completion&);
  void check_immediate(std::size_t end, const core::Completion&, const Operation& send);
  void handle_window(std::size_t end, const Operation&);
  void revoke(std::size_t end, std::size_t region);
  void check_zone(Mirror& mirror, std::size_t steps, const char* what);
  void check_memory();
  void check_post_mortem();
  void check_peace();
  void check_illegal();
  void check_corruption();
  void check_end();

  Verdict& verdict_;
  Tally& tally_;
  Random random_;
  Settings settings_;
  std::array<Sink, 2> sinks_;
  std::array<std::unique_ptr<Endpoint>, 2> ends_;

  // Of one round.
  std::array<std::unique_ptr<Arena>, 2> arenas_;
  std::array<Workload, 2> work_;
  std::array<std::unique_ptr<Effects>, 2> effects_;
  std::unique_ptr<transport::LoopbackNetwork> network_;
  std::unique_ptr<transport::FaultTransport> transport_;
  std::unique_ptr<transport::Listener> listener_;
  std::vector<Event> script_;
  std::size_t script_at_ = 0;
  /// Operations whose time has come, but not yet what they have to come after.
  std::array<std::deque<std::size_t>, 2> waiting_;
  std::array<std::set<std::uint64_t>, 2> completed_;  ///< operations of that end
  std::array<std::set<std::size_t>, 2> received_;     ///< operations of the other end's
  bool ending_ = false;  ///< the end was brought about on purpose
  bool startup_corrupted_ = false;
  bool gave_up_ = false;
  std::array<std::optional<Guilty>, 2> guilty_;
};

}  // namespace weft::sim
