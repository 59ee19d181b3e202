// Columns are aligned by hand-picked widths: numbers grow to the left.
#include "bench/report.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace weft::bench {
namespace {

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line.empty() ? "unknown" : line;
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

/// Of the working tree this program was built in; "unknown" elsewhere.
std::string commit() {
  std::error_code failed;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  if (failed || folder.string().find('\'') != std::string::npos) return "unknown";
  const auto command =
      fmt::format("git -C '{}' describe --always --dirty 2>/dev/null", folder.string());
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "unknown";
  char text[128] = "";
  const bool got = std::fgets(text, sizeof text, pipe) != nullptr;
  ::pclose(pipe);
  std::string line = got ? text : "unknown";
  if (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

nlohmann::json weft_variables() {
  nlohmann::json found = nlohmann::json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (variable.rfind("WEFT_", 0) != 0) continue;
    const auto equals = variable.find('=');
    found[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return found;
}

}  // namespace

nlohmann::json describe_setup(const Options& options) {
  utsname kernel{};
  ::uname(&kernel);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  const int cores = CPU_COUNT(&allowed);
  return {
      {"processor", processor()},
      {"cores", cores},
      {"pinned", cores >= 2},
      {"kernel", kernel.release},
#ifdef __clang__
      {"compiler", "clang " __clang_version__},
#else
      {"compiler", "g++ " __VERSION__},
#endif
#ifdef __OPTIMIZE__
      {"optimised", true},
#else
      {"optimised", false},
#endif
      {"commit", commit()},
      {"congestion_control", options.congestion.empty()
                                 ? first_line("/proc/sys/net/ipv4/tcp_congestion_control")
                                 : options.congestion},
      {"raw_congestion_control", options.raw_congestion},
      {"address", options.address},
      {"rounds", options.rounds},
      {"seconds", options.seconds},
      {"settings", weft_variables()},
  };
}

void print_setup(const nlohmann::json& setup) {
  const auto text = [&](const char* key) { return setup.at(key).get<std::string>(); };
  fmt::print("machine   {}, {} core(s){}\n", text("processor"), setup.at("cores").get<int>(),
             setup.at("pinned").get<bool>() ? ", ends pinned to one each" : "");
  fmt::print("software  Linux {}, {}{}, commit {}\n", text("kernel"), text("compiler"),
             setup.at("optimised").get<bool>() ? "" : " WITHOUT OPTIMISATION", text("commit"));
  fmt::print("network   {}, congestion control {}\n", text("address"), text("congestion_control"));
  fmt::print(
      "method    {} round(s) of TCP then RDMA, {} s each; ratio: median of RDMA/TCP within "
      "a round\n",
      setup.at("rounds").get<int>(), setup.at("seconds").get<double>());
  if (!setup.at("settings").empty()) {
    fmt::print("settings  {}\n", setup.at("settings").dump());
  }
}

void print_heading(Work work, const std::string& crc) {
  const auto& row = traits(work);
  fmt::print("\n{}, {}, CRC {}{}\n", row.title, unit(row.measure), crc,
             is_less_better(work) ? " (a ratio below 1: RDMA does better)" : "");
  if (is_latency(work)) {
    fmt::print("{:>14} {:>10} {:>9} {:>10} {:>9} {:>8}  {}\n", "size", "RDMA p50", "p99", "TCP p50",
               "p99", "ratio", "lowest .. highest");
  } else {
    fmt::print("{:>14} {:>10} {:>10} {:>8}  {:<18}{}\n", "size", "RDMA", "TCP", "ratio",
               "lowest .. highest", is_stream(work) ? "  CPU s/GB RDMA, TCP, ratio" : "");
  }
}

namespace {

std::string size_column(const Point& point) {
  switch (point.work) {
    case Work::WriteRate:
    case Work::Requests:
      return fmt::format("{} x {:>2}", size_text(point.octets), point.batch);
    case Work::IdleMemory:
      return fmt::format("{} QPs", point.octets);
    case Work::Connect:
      return "";
    default:
      return size_text(point.octets);
  }
}

}  // namespace

void print_row(const Result& result) {
  const Point& point = result.point;
  const Figure& figure = result.figure;
  const auto size = size_column(point);
  if (is_latency(point.work)) {
    fmt::print("{:>14} {:>10.2f} {:>9.2f} {:>10.2f} {:>9.2f}", size, result.rdma_p50,
               result.rdma_p99, result.tcp_p50, result.tcp_p99);
  } else {
    fmt::print("{:>14} {:>10.3f} {:>10.3f}", size, figure.rdma, figure.tcp);
  }
  const auto range = fmt::format("{:.2f} .. {:.2f}", figure.ratio_low, figure.ratio_high);
  fmt::print(" {:>8.2f}  {}", figure.ratio, range);
  if (is_stream(point.work)) {
    fmt::print("{:>{}}{:>12.3f} {:.3f} {:.2f}", "", 18 - std::min<std::size_t>(18, range.size()),
               result.cpu.rdma, result.cpu.tcp, result.cpu.ratio);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

nlohmann::json to_json(const Figure& figure) {
  return {{"rdma", figure.rdma},
          {"tcp", figure.tcp},
          {"ratio", figure.ratio},
          {"ratio_low", figure.ratio_low},
          {"ratio_high", figure.ratio_high},
          {"ratios", figure.ratios}};
}

Figure figure_from_json(const nlohmann::json& json) {
  return {json.at("tcp"),       json.at("rdma"),       json.at("ratio"),
          json.at("ratio_low"), json.at("ratio_high"), json.at("ratios")};
}

nlohmann::json to_json(const Result& result) {
  const auto& row = traits(result.point.work);
  nlohmann::json json = to_json(result.figure);
  json["work"] = row.name;
  json["unit"] = unit(row.measure);
  json["octets"] = result.point.octets;
  json["batch"] = result.point.batch;
  json["tcp_buffer"] = result.tcp_buffer;
  if (is_stream(result.point.work)) json["cpu"] = to_json(result.cpu);
  if (traits(result.point.work).measure == Measure::Rise) {
    json["rdma_bulk"] = result.rdma_bulk;
    json["tcp_bulk"] = result.tcp_bulk;
  }
  if (result.tcp_p50 > 0) {
    json["rdma_p50"] = result.rdma_p50;
    json["rdma_p99"] = result.rdma_p99;
    json["tcp_p50"] = result.tcp_p50;
    json["tcp_p99"] = result.tcp_p99;
  }
  return json;
}

Result result_from_json(const nlohmann::json& json) {
  Result result;
  for (const WorkTraits& row : kWorks) {
    if (json.at("work") == row.name) result.point.work = row.work;
  }
  result.point.octets = json.at("octets");
  result.point.batch = json.at("batch");
  result.tcp_buffer = json.at("tcp_buffer");
  result.figure = figure_from_json(json);
  if (json.contains("cpu")) result.cpu = figure_from_json(json.at("cpu"));
  result.rdma_bulk = json.value("rdma_bulk", 0.0);
  result.tcp_bulk = json.value("tcp_bulk", 0.0);
  result.rdma_p50 = json.value("rdma_p50", 0.0);
  result.rdma_p99 = json.value("rdma_p99", 0.0);
  result.tcp_p50 = json.value("tcp_p50", 0.0);
  result.tcp_p99 = json.value("tcp_p99", 0.0);
  return result;
}

}  // namespace weft::bench
