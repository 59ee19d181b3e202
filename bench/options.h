// What the user chose.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/work.h"

namespace weft::bench {

/// One figure: a work, and how many connections it has (or adds, or counts for nothing).
struct Point {
  Work work{};
  std::uint64_t connections = 1;
};

struct Options {
  std::vector<Point> points;
  std::vector<Over> over{Over::RDMA};
  double seconds = 0.2;  ///< of one leg
  std::string address = "127.0.0.1";
};

/// Reads the command line. An exit status when there is nothing to run: help, or an error, which
/// has been printed.
std::optional<int> parse_options(int argc, char** argv, Options* options);

/// "requests:1000", "idle-memory:50", "connect", "mixed"; empty when it is none.
std::optional<Point> parse_point(std::string_view text);

/// The form that parse_point takes.
std::string point_text(const Point& point);

}  // namespace weft::bench
