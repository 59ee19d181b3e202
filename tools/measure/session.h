// The two sides of a measurement from end to end: who tells whom what, and what was found.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "measure/histogram.h"
#include "measure/line.h"
#include "measure/plan.h"
#include "measure/usage.h"

namespace weft::measure {

/// What one side counted while one size was measured.
struct SideFigures {
  double seconds = 0;  ///< of its own clock
  Usage usage;
};

/// One size.
struct Row {
  std::uint64_t octets = 0;
  std::uint64_t count = 0;     ///< planned for each connection (and direction)
  std::uint64_t messages = 0;  ///< done: all connections and directions; round trips for ping
  bool complete = false;
  SideFigures client;
  std::optional<SideFigures> server;  ///< empty if it was cut short
  Histogram trips;                    ///< round trips in nanoseconds; ping only
  std::vector<std::uint64_t> raw;     ///< the same one by one, for --raw
};

/// What a run found, also when it was cut short.
struct Run {
  Plan plan;
  nlohmann::json client, server;  ///< who they are: see describe_side
  std::vector<Row> rows;
  std::string error;  ///< why it was cut short; empty if it was not
  bool interrupted = false;
};

struct ClientOptions {
  std::string host;
  std::uint16_t port = kPort;
  std::vector<int> cpus;  ///< threads are pinned to them, one after the other; empty: not pinned
  std::uint64_t raw_max = 0;  ///< round trips kept one by one
};

/// Measures every size of the plan. told: after each row, and after the last one if it was cut
/// short. Never throws for what goes wrong while it measures: see Run::error.
Run run_client(const Plan& plan, const ClientOptions& options,
               const std::function<void(const Run&, const Row&)>& told);

struct ServerOptions {
  std::string address;         ///< to listen at; empty: every one of this machine
  std::uint16_t port = kPort;  ///< 0: a free one, which is told
  std::vector<int> cpus;
  bool persistent = false;
};

/// Serves one client, or one after the other until interrupted. `told` gets a line for people. True
/// if the last client got all it wanted. Throws Failure if it cannot listen.
bool run_server(const ServerOptions& options, const std::function<void(const std::string&)>& told);

/// Machine, kernel, CPUs, version, verbs library and WEFT_* settings of this process.
nlohmann::json describe_side();

/// The form in which a side's figures travel and are reported.
nlohmann::json to_json(const SideFigures& figures);
/// Throws Failure unless `json` holds finite figures. It may come from anyone.
SideFigures figures_from_json(const nlohmann::json& json);

}  // namespace weft::measure
