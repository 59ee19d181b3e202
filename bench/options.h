// What the user chose.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/leg.h"

namespace weft::bench {

struct Options {
  std::vector<std::string> crc;  ///< "on", "off": one pass each, in this order
  std::vector<Work> works;
  std::vector<std::uint64_t> sizes;          ///< of the bandwidths
  std::vector<std::uint64_t> latency_sizes;  ///< multiples of 8
  std::uint32_t rounds = 5;
  double seconds = 0.2;  ///< of one leg
  std::string address = "127.0.0.1";
  std::string congestion;  ///< in a network namespace of its own; empty: the machine's
  std::string json;  ///< file, "-" for standard output instead of the table, or empty
  bool quick = false;
};

/// One row of the table.
struct Point {
  Work work{};
  std::uint64_t octets = 0;
  std::uint64_t batch = 1;
};

/// Reads the command line. An exit status when there is nothing to run: help, or an error, which
/// has been printed.
std::optional<int> parse_options(int argc, char** argv, Options* options);

/// The rows that were asked for, in the order of the table.
std::vector<Point> plan(const Options& options);

/// "write-rate 64 B x 16"
std::string point_text(const Point& point);

}  // namespace weft::bench
