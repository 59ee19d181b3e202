// The command line.
#include "bench/options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iterator>

namespace weft::bench {
namespace {

constexpr const char* kFooter = R"(
Prints a line of JSON for each: its value, unit, and what it is of. One work over one medium: what
it is beside the other, in rounds, bench/run tells.

Examples:
  weft_bench requests:1000
  weft_bench --over tcp requests:1000 connect
  weft_bench --quick                            does it work? (the numbers mean nothing)
)";

constexpr std::uint64_t kConnectionsMax = 1u << 16;
constexpr Point kMoment[] = {
    {Work::Requests, 20}, {Work::Connect, 1}, {Work::IdleMemory, 20}, {Work::WriteBeside, 1},
                            {Work::Mixed, 1}};
constexpr double kMomentSeconds = 0.001;

/// 1: it has none to choose.
constexpr std::uint64_t connections_max(Work work) {
  return work == Work::Requests     ? kConnectionsMax
         : work == Work::IdleMemory ? kIdleConnectionsMax
                                    : 1;
}

}  // namespace

std::optional<Point> parse_point(std::string_view text) {
  const auto colon = text.find(':');
  const auto* row = std::find_if(std::begin(kWorks), std::end(kWorks), [&](const WorkTraits& one) {
    return one.name == text.substr(0, colon);
  });
  if (row == std::end(kWorks)) return std::nullopt;
  const std::uint64_t most = connections_max(row->work);
  if (colon == text.npos) return Point{row->work, most == 1 ? 1u : 100u};
  const auto connections = parse_size(text.substr(colon + 1), most);
  if (!connections || most == 1) return std::nullopt;
  return Point{row->work, *connections};
}

std::optional<int> parse_options(int argc, char** argv, Options* options) {
  CLI::App app{
      "What weft ping and weft blast do not measure, over RDMA or plain sockets, between "
      "two processes of this machine",
      "weft_bench"};
  app.footer(kFooter);
  std::vector<std::string> names, points;
  for (const WorkTraits& row : kWorks) {
    names.push_back(
        fmt::format("{}{}: {}", row.name, connections_max(row.work) > 1 ? "[:N]" : "", row.title));
  }
  app.add_option("work", points, fmt::format("{}", fmt::join(names, "; ")))->type_name("");
  std::string over = "rdma";
  app.add_option("--over", over, "RDMA, or plain sockets")
      ->type_name("rdma|tcp")
      ->check(CLI::IsMember({"rdma", "tcp"}).description(""))
      ->capture_default_str();
  app.add_option("--seconds", options->seconds, "length of one measurement (0.2)")
      ->type_name("S")
      ->check(CLI::Range(0.001, 60.0).description(""));
  app.add_option("--address", options->address, "numeric address of this machine to run over")
      ->type_name("ADDRESS");
  bool quick = false;
  app.add_flag("--quick", quick, "a moment of every work: shows that it works");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options->over = {over == "tcp" ? Over::TCP : Over::RDMA};
  if (quick) {
    options->over = {Over::TCP, Over::RDMA};
    options->points.assign(std::begin(kMoment), std::end(kMoment));
    options->seconds = kMomentSeconds;
    return std::nullopt;
  }
  for (const std::string& text : points) {
    const auto point = parse_point(text);
    if (!point) {
      fmt::print(stderr, "weft_bench: {} is no work (requests:1000 is one; see --help)\n", text);
      return 2;
    }
    options->points.push_back(*point);
  }
  if (options->points.empty()) {
    fmt::print(stderr, "weft_bench: measure what? See weft_bench --help\n");
    return 2;
  }
  return std::nullopt;
}

std::string point_text(const Point& point) {
  const auto name = traits(point.work).name;
  return connections_max(point.work) > 1 ? fmt::format("{}:{}", name, point.connections)
                                         : std::string(name);
}

}  // namespace weft::bench
