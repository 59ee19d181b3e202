// The command line, and the table's rows.
#include "bench/options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iterator>

#include "bench/connections.h"
#include "bench/requests.h"

namespace weft::bench {
namespace {

constexpr const char* kFooter = R"(
Each row is measured in rounds: TCP, RDMA, TCP, RDMA, ... The ratio is the median of the ratios
within a round, so that a machine that changes its speed does not spoil it.

Examples:
  weft_bench --only write-bw,write-lat --sizes 64K,1M --crc on
  weft_bench --congestion reno                  where the machine's own is bbr, say
  weft_bench --quick                            does it work? (the numbers mean nothing)
  weft_bench --address ::1 --json result.json
)";

constexpr std::uint64_t kSizesMax = 1u << 30;
constexpr std::uint64_t kBatchMax = 64;
constexpr std::uint64_t kConnectionsMax = 1u << 16;
constexpr std::uint64_t kRateOctetsMax = 1024;
constexpr std::uint64_t kRateSizes[] = {8, 16, 32, 64};
constexpr std::uint64_t kRateBatches[] = {1, 16, 64};

std::optional<std::uint64_t> parse_size(std::string_view text) {
  return measure::parse_size(text, kSizesMax);
}

constexpr bool is_whole_marks(std::uint64_t octets) {
  return octets % sizeof(std::uint64_t) == 0;
}

std::vector<Point> rate_points(bool quick) {
  std::vector<Point> points;
  for (const auto octets : kRateSizes) {
    for (const auto batch : kRateBatches) {
      if (!quick || octets == 8) points.push_back({Work::WriteRate, octets, batch});
    }
  }
  return points;
}

/// Of works that have one size that matters.
std::optional<Point> lone_point(Work work) {
  switch (work) {
    case Work::WriteCold:
    case Work::WritePassive:
      return Point{work, 1u << 20, 1};
    case Work::ReadLatency:
    case Work::WriteEvent:
    case Work::WriteBeside:
      return Point{work, sizeof(std::uint64_t), 1};
    case Work::Requests:
      return Point{work, kRequestOctets, 100};
    case Work::Connect:
      return Point{work, 1, 1};
    case Work::IdleMemory:
      return Point{work, 100, 1};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Point> parse_point(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == text.npos) return std::nullopt;
  auto size = text.substr(colon + 1);
  Point point;
  if (const auto times = size.find('x'); times != size.npos) {
    const auto batch = parse_size(size.substr(times + 1));
    if (!batch) return std::nullopt;
    point.batch = *batch;
    size = size.substr(0, times);
  }
  const auto octets = parse_size(size);
  const auto* row = std::find_if(std::begin(kWorks), std::end(kWorks), [&](const WorkTraits& one) {
    return one.name == text.substr(0, colon);
  });
  if (!octets || row == std::end(kWorks)) return std::nullopt;
  point.work = row->work;
  point.octets = *octets;
  if (is_latency(point.work) && !is_whole_marks(point.octets)) return std::nullopt;
  if (point.work == Work::WriteRate) {
    if (point.octets > kRateOctetsMax || point.batch > kBatchMax) return std::nullopt;
  } else if (point.work == Work::Requests) {
    if (point.octets != kRequestOctets || point.batch > kConnectionsMax) return std::nullopt;
  } else if (point.batch != 1) {
    return std::nullopt;
  }
  if (point.work == Work::WriteBeside && point.octets != sizeof(std::uint64_t)) return std::nullopt;
  if (point.work == Work::IdleMemory && point.octets > kIdleConnectionsMax) return std::nullopt;
  if (point.work == Work::WriteCold && kWalkOctets % point.octets != 0) return std::nullopt;
  return point;
}

std::optional<int> parse_options(int argc, char** argv, Options* options) {
  CLI::App app{"RDMA beside plain TCP, in the same run, between two processes of this machine",
               "weft_bench"};
  app.footer(kFooter);
  std::string crc = "both";
  std::vector<std::string> only;
  std::vector<std::uint64_t> sizes, latency_sizes;
  app.add_option("--crc", crc, "set WEFT_CRC, and run once for each setting (both)")
      ->type_name("on|off|both")
      ->check(CLI::IsMember({"on", "off", "both"}).description(""));
  std::vector<std::string> names;
  for (const WorkTraits& row : kWorks) names.emplace_back(row.name);
  app.add_option("--only", only, fmt::format("rows to measure (all): {}", fmt::join(names, ", ")))
      ->type_name("WORK,...")
      ->delimiter(',')
      ->check(CLI::IsMember(names).description(""));
  app.add_option("--sizes", sizes, "octets of a message, for bandwidth (64 .. 8M); K, M: 1024s")
      ->type_name("SIZE,...")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false).description(""));
  app.add_option("--latency-sizes", latency_sizes, "of latency: multiples of 8 (8,4K,64K)")
      ->type_name("SIZE,...")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false).description(""));
  std::vector<std::string> points;
  app.add_option("--points", points, "exactly these rows: write-bw:64K, write-rate:8x64, ...")
      ->type_name("WORK:SIZE[xBATCH],...")
      ->delimiter(',');
  app.add_option("--rounds", options->rounds, "rounds per row (7)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000).description(""));
  app.add_option("--seconds", options->seconds, "length of one measurement (0.2)")
      ->type_name("S")
      ->check(CLI::Range(0.001, 60.0).description(""));
  app.add_option("--address", options->address, "numeric address of this machine to run over")
      ->type_name("ADDRESS");
  app.add_option("--congestion", options->congestion,
                 "use this TCP congestion control, in a network namespace with loopback alone")
      ->type_name("NAME");
  app.add_option("--raw-congestion", options->raw_congestion,
                 "use this TCP congestion control for plain TCP alone")
      ->type_name("NAME");
  std::string buffers = "best";
  app.add_option("--tcp-buffers", buffers,
                 "socket buffers of plain TCP streams: the best of some, found by trying (best)")
      ->type_name("best|system")
      ->check(CLI::IsMember({"best", "system"}).description(""));
  app.add_option("--follower-network", options->follower_network,
                 "the follower enters this network namespace (a file such as /proc/1/ns/net)")
      ->type_name("FILE");
  app.add_flag("--lines", options->lines, "print JSON only, one line for each row when it is done");
  app.add_option("--json", options->json, "write the results here too; - for standard output only")
      ->type_name("FILE");
  app.add_flag("--quick", options->quick, "a moment of some rows: shows that it works");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const auto octets : sizes) {
    if (octets == 0 || octets > kSizesMax) {
      fmt::print(stderr, "weft_bench: --sizes takes 1 .. 1024M\n");
      return 2;
    }
  }
  for (const auto octets : latency_sizes) {
    if (octets == 0 || octets > kSizesMax || !is_whole_marks(octets)) {
      fmt::print(stderr, "weft_bench: --latency-sizes takes multiples of 8, 8 .. 1024M\n");
      return 2;
    }
  }
  for (const std::string& text : points) {
    const auto point = parse_point(text);
    if (!point) {
      fmt::print(stderr, "weft_bench: --points: {} is no row (write-bw:64K is one)\n", text);
      return 2;
    }
    options->points.push_back(*point);
  }
  options->choose_buffers = buffers == "best";
  options->crc = crc == "both" ? std::vector<std::string>{"on", "off"} : std::vector{crc};
  for (const WorkTraits& row : kWorks) {
    if (only.empty() || std::find(only.begin(), only.end(), row.name) != only.end()) {
      options->works.push_back(row.work);
    }
  }
  options->latency_sizes = {8, 4096, 65536};
  options->sizes = {64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 8388608};
  if (options->quick) {
    options->rounds = 1;
    options->seconds = 0.001;
    options->sizes = {64, 65536, 1048576};
  }
  if (!sizes.empty()) options->sizes = sizes;
  if (!latency_sizes.empty()) options->latency_sizes = latency_sizes;
  return std::nullopt;
}

std::vector<Point> plan(const Options& options) {
  if (!options.points.empty()) return options.points;
  std::vector<Point> points;
  for (const Work work : options.works) {
    if (const auto own = lone_point(work)) {
      // 256 MiB to fill and to check are no moment.
      if (!options.quick || work != Work::WriteCold) points.push_back(*own);
      continue;
    }
    if (work == Work::WriteRate) {
      const auto more = rate_points(options.quick);
      points.insert(points.end(), more.begin(), more.end());
      continue;
    }
    for (const auto octets : is_latency(work) ? options.latency_sizes : options.sizes) {
      points.push_back({work, octets, 1});
    }
  }
  return points;
}

std::string point_text(const Point& point) {
  if (point.work == Work::Connect) return std::string(traits(point.work).name);
  if (point.work == Work::IdleMemory) {
    return fmt::format("{} of {}", traits(point.work).name, point.octets);
  }
  auto text = fmt::format("{} {}", traits(point.work).name, size_text(point.octets));
  if (point.work == Work::WriteRate || point.work == Work::Requests) {
    text += fmt::format(" x {}", point.batch);
  }
  return text;
}

}  // namespace weft::bench
