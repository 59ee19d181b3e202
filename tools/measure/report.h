// What follows from what was counted, as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "measure/session.h"

namespace weft::measure {

/// Raised when a field changes its meaning; new fields leave it as it is.
inline constexpr std::string_view kSchema = "weft-measure/1";

/// What a side's CPU did for the work.
struct SideMetrics {
  double cpu_percent = 0;    ///< of one CPU: user and system time per second
  double cpus_per_gbps = 0;  ///< CPUs kept busy per Gb/s; CPU seconds per 10^9 bits
  double cpu_us_per_message = 0;
  double switches_per_message = 0;
};

/// Derived figures of one row; the definitions stand in docs/PING-AND-BLAST.md.
struct Metrics {
  double messages_per_second = 0;
  double gbps = 0;  ///< 10^9 bits of messages per second
  /// Ping only, in microseconds.
  double mean_us = 0, least_us = 0, p50_us = 0, p99_us = 0, p999_us = 0, greatest_us = 0;
  SideMetrics client, server;
};

/// Everything is 0 where nothing was counted. Pure.
Metrics derive(const Plan& plan, const Row& row);

/// The head of the table, and a line of it.
std::string table_head(const Plan& plan);
std::string table_line(const Plan& plan, const Row& row);

nlohmann::json to_json(const Run& run);

/// Throws Failure if write_file would fail now, as far as can be told without writing.
void try_file(const std::string& path);

/// Writes `text` to `path`: beside it first and then in its place, so that a full disk leaves what
/// was there. A path that is no regular file is written straight. Throws Failure.
void write_file(const std::string& path, const std::string& text);

}  // namespace weft::measure
