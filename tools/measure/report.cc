// Derived figures, the table, JSON.
#include "measure/report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace weft::measure {
namespace {

/// One-way messages that a row's count stands for: a ping's round trip is two, unless it is a Read.
double messages_moved(const Plan& plan, const Row& row) {
  const auto done = static_cast<double>(row.messages);
  return plan.tool == Tool::Ping ? done * plan.trips() : done;
}

SideMetrics derive_side(const SideFigures& figures, double messages, double bits) {
  SideMetrics metrics;
  if (figures.seconds <= 0 || messages <= 0) return metrics;
  const double cpu = figures.usage.cpu();
  metrics.cpu_percent = 100 * cpu / figures.seconds;
  metrics.cpus_per_gbps = cpu / (bits * 1e-9);
  metrics.cpu_us_per_message = cpu * 1e6 / messages;
  metrics.switches_per_message =
      static_cast<double>(figures.usage.voluntary + figures.usage.involuntary) / messages;
  return metrics;
}

void write_all(int fd, const std::string& path, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t taken = ::write(fd, text.data() + at, text.size() - at);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) fail("cannot write {}: {}", path, std::strerror(errno));
    at += static_cast<std::size_t>(taken);
  }
}

void write_to(const std::string& path, int flags, const std::string& text, bool sync) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0644);
  if (fd < 0) fail("cannot write {}: {}", path, std::strerror(errno));
  try {
    write_all(fd, path, text);
    if (sync && ::fsync(fd) != 0) fail("cannot write {}: {}", path, std::strerror(errno));
  } catch (...) {
    ::close(fd);
    throw;
  }
  if (::close(fd) != 0) fail("cannot write {}: {}", path, std::strerror(errno));
}

}  // namespace

Metrics derive(const Plan& plan, const Row& row) {
  Metrics metrics;
  const double messages = messages_moved(plan, row);
  const double bits = messages * static_cast<double>(row.octets) * 8;
  if (row.client.seconds > 0) {
    metrics.messages_per_second = messages / row.client.seconds;
    metrics.gbps = bits * 1e-9 / row.client.seconds;
  }
  if (row.trips.count() > 0) {
    const double one_way_us = 1e-3 / plan.trips();
    metrics.mean_us = row.trips.mean() * one_way_us;
    metrics.least_us = static_cast<double>(row.trips.least()) * one_way_us;
    metrics.p50_us = row.trips.percentile(0.5) * one_way_us;
    metrics.p99_us = row.trips.percentile(0.99) * one_way_us;
    metrics.p999_us = row.trips.percentile(0.999) * one_way_us;
    metrics.greatest_us = static_cast<double>(row.trips.greatest()) * one_way_us;
  }
  metrics.client = derive_side(row.client, messages, bits);
  if (row.server) metrics.server = derive_side(*row.server, messages, bits);
  return metrics;
}

std::string table_head(const Plan& plan) {
  const auto op = plan.over == Over::TCP       ? std::string("TCP")
                  : plan.over == Over::Sockets ? fmt::format("{} over sockets", name_of(plan.op))
                                               : std::string(name_of(plan.op));
  const auto head =
      fmt::format("{} by {}, waiting by {}", name_of(plan.tool), op, name_of(plan.wait));
  if (plan.tool == Tool::Ping) {
    return fmt::format("{}; one-way time in us\n{:>9} {:>10} {:>9} {:>9} {:>9} {:>9} {:>10}  {}\n",
                       head, "size", "trips", "mean", "p50", "p99", "p99.9", "max",
                       "CPU % client, server");
  }
  return fmt::format("{}, {} outstanding\n{:>9} {:>10} {:>9} {:>9} {:>11}  {}\n", head,
                     plan.outstanding, "size", "messages", "Gb/s", "MB/s", "messages/s",
                     "CPU % client, server   CPUs per Gb/s client, server");
}

std::string table_line(const Plan& plan, const Row& row) {
  const Metrics m = derive(plan, row);
  const auto mark = row.complete ? "" : "   (cut short)";
  if (plan.tool == Tool::Ping) {
    return fmt::format(
        "{:>9} {:>10} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>10.2f}  {:>8.0f} {:>8.0f}{}\n",
        size_text(row.octets), row.messages, m.mean_us, m.p50_us, m.p99_us, m.p999_us,
        m.greatest_us, m.client.cpu_percent, m.server.cpu_percent, mark);
  }
  return fmt::format(
      "{:>9} {:>10} {:>9.3f} {:>9.1f} {:>11.0f}  {:>8.0f} {:>8.0f} {:>16.4f} {:>8.4f}{}\n",
      size_text(row.octets), row.messages, m.gbps, m.gbps * 1e3 / 8, m.messages_per_second,
      m.client.cpu_percent, m.server.cpu_percent, m.client.cpus_per_gbps, m.server.cpus_per_gbps,
      mark);
}

namespace {

nlohmann::json to_json(const SideMetrics& metrics) {
  return {{"cpu_percent", metrics.cpu_percent},
          {"cpus_per_gbps", metrics.cpus_per_gbps},
          {"cpu_us_per_message", metrics.cpu_us_per_message},
          {"switches_per_message", metrics.switches_per_message}};
}

/// Buckets that hold something, of whole round trips: lower end, width, count.
nlohmann::json histogram_json(const Histogram& histogram) {
  auto list = nlohmann::json::array();
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i) {
    if (histogram.count_of(i) == 0) continue;
    list.push_back({Histogram::lower(i), Histogram::width(i), histogram.count_of(i)});
  }
  return list;
}

nlohmann::json row_json(const Plan& plan, const Row& row) {
  const Metrics m = derive(plan, row);
  nlohmann::json json = {{"octets", row.octets},
                         {"count", row.count},
                         {"messages", row.messages},
                         {"complete", row.complete},
                         {"seconds", row.client.seconds},
                         {"messages_per_s", m.messages_per_second},
                         {"gbps", m.gbps},
                         {"client", to_json(m.client)}};
  json["client"]["counted"] = to_json(row.client);
  if (row.server) {
    json["server"] = to_json(m.server);
    json["server"]["counted"] = to_json(*row.server);
  }
  if (row.trips.count() > 0) {
    json["one_way_us"] = {{"mean", m.mean_us}, {"min", m.least_us},  {"p50", m.p50_us},
                          {"p99", m.p99_us},   {"p99.9", m.p999_us}, {"max", m.greatest_us}};
    json["round_trips_ns"] = {{"count", row.trips.count()},
                              {"sum", row.trips.sum()},
                              {"histogram", histogram_json(row.trips)}};
  }
  if (!row.raw.empty()) json["round_trips_ns"]["raw"] = row.raw;
  return json;
}

}  // namespace

nlohmann::json to_json(const Run& run) {
  auto rows = nlohmann::json::array();
  for (const Row& row : run.rows) rows.push_back(row_json(run.plan, row));
  nlohmann::json json = {{"schema", kSchema},
                         {"plan", to_json(run.plan)},
                         {"complete", run.error.empty()},
                         {"interrupted", run.interrupted},
                         {"client", run.client},
                         {"server", run.server},
                         {"results", std::move(rows)}};
  if (!run.error.empty()) json["error"] = run.error;
  return json;
}

void try_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    // Not by opening it: whoever reads a pipe would take its closing for the end.
    const bool folder = S_ISDIR(status.st_mode);
    if (!folder && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0) return;
    fail("cannot write {}: {}", path, std::strerror(folder ? EISDIR : errno));
  }
  const std::string beside = path + ".new";
  write_to(beside, O_CREAT, "", false);
  ::unlink(beside.c_str());
}

void write_file(const std::string& path, const std::string& text) {
  struct stat status {};
  const bool special = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  if (special) return write_to(path, 0, text, false);
  const std::string beside = path + ".new";
  try {
    write_to(beside, O_CREAT | O_TRUNC, text, true);
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(beside.c_str());
    fail("cannot write {}: {}", path, std::strerror(error));
  }
}

}  // namespace weft::measure
