// What the user chose.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/leg.h"

namespace weft::bench {

/// One row of the table.
struct Point {
  Work work{};
  std::uint64_t octets = 0;
  std::uint64_t batch = 1;
};

struct Options {
  std::vector<std::string> crc;  ///< "on", "off": one pass each, in this order
  std::vector<Work> works;
  std::vector<std::uint64_t> sizes;          ///< of the bandwidths
  std::vector<std::uint64_t> latency_sizes;  ///< multiples of 8
  std::vector<Point> points;                 ///< instead of the three above, when there are any
  std::uint32_t rounds = 7;
  double seconds = 0.2;  ///< of one leg
  std::string address = "127.0.0.1";
  std::string congestion;        ///< in a network namespace of its own; empty: the machine's
  std::string raw_congestion;    ///< of the plain TCP sockets alone; empty: as all others
  bool choose_buffers = true;    ///< of plain TCP's streams, by trying
  std::string follower_network;  ///< file of the network namespace that the follower enters
  bool lines = false;            ///< JSON on standard output, a line for each row when it is done
  std::string json;              ///< file, "-" for standard output instead of the table, or empty
  bool quick = false;
};

/// Reads the command line. An exit status when there is nothing to run: help, or an error, which
/// has been printed.
std::optional<int> parse_options(int argc, char** argv, Options* options);

/// "write-bw:64K" or "write-rate:8x64"; empty when it is no row.
std::optional<Point> parse_point(std::string_view text);

/// The rows that were asked for, in the order of the table.
std::vector<Point> plan(const Options& options);

/// "write-rate 64 B x 16"
std::string point_text(const Point& point);

}  // namespace weft::bench
