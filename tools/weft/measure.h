// weft ping, weft blast: their command lines.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "measure/plan.h"

namespace weft::tools {

/// What the words of one of the two commands say, before they are judged.
struct MeasureOptions {
  measure::Plan plan;
  std::string address;  ///< of the server; empty: be the server
  std::uint16_t port = 0;
  std::string bind;
  bool persistent = false;
  std::string over = "rdma", op = "send", wait = "poll", passive = "sleep", signal = "full";
  std::string post = "single", size, sweep, pin, json;
  std::string socket_buffers, chunk;
  std::uint64_t raw = 0;
  std::string verbs = "weft";
};

/// Adds a command's options to `app`.
void add_measure_options(CLI::App& app, measure::Tool tool, MeasureOptions& options);

/// What cannot be, as a sentence; else empty, and options.plan is whole.
std::string settle(const CLI::App& app, MeasureOptions& options);

/// Runs the command. words: this program's whole command line, in case it has to start again with
/// other libraries. Returns the exit status: 0, 1 it failed, 2 usage, 130 interrupted.
int measure_command(const CLI::App& app, MeasureOptions& options,
                    const std::vector<std::string>& words);

}  // namespace weft::tools
