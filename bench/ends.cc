// Rounds: how many messages a leg needs, then TCP and RDMA in turn.
#include "bench/ends.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/medium.h"

namespace weft::bench {
namespace {

/// How often a row's first legs may grow, and by how much at once.
constexpr int kGrowthsMax = 12;
constexpr double kGrowthMax = 16.0;
constexpr std::uint64_t kTripsMin = 50;

std::size_t octets_needed(const Options& options) {
  std::size_t most = 64 * 1024;  // and the TCP receiver of small messages reads as much at a time
  for (const Point& point : plan(options)) {
    most = std::max<std::size_t>(most, point.octets * point.batch);
  }
  return most;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Sorts; p in 0..1.
double percentile_us(std::vector<std::uint32_t>& ns, double p) {
  std::sort(ns.begin(), ns.end());
  const auto last = static_cast<double>(ns.size() - 1);
  return ns[static_cast<std::size_t>(std::lround(p * last))] * 1e-3;
}

/// Both media of one end, over the same memory.
struct Ends {
  Ends(Medium::Role role, const Options& options, Control& control)
      : buffers(octets_needed(options)),
        tcp(make_tcp(role, options.address, control, buffers)),
        rdma(make_rdma(role, options.address, control, buffers)) {}

  Medium& of(MediumKind kind) const { return kind == MediumKind::TCP ? *tcp : *rdma; }

  Buffers buffers;
  std::unique_ptr<Medium> tcp, rdma;
};

unsigned watchdog_seconds(const Options& options) {
  return kLegSecondsMax + static_cast<unsigned>(4 * options.seconds);
}

class Leader {
 public:
  Leader(const Options& options, Control& control)
      : options_(options), control_(control), ends_(Medium::Role::Leader, options, control) {}

  Result measure(const Point& point) {
    const std::uint64_t counts[] = {calibrate(point, MediumKind::TCP),
                                    calibrate(point, MediumKind::RDMA)};
    std::vector<double> values[2], ratios;
    std::vector<std::uint32_t> trips[2];
    for (std::uint32_t round = 0; round < options_.rounds; ++round) {
      double now[2];
      for (const MediumKind kind : {MediumKind::TCP, MediumKind::RDMA}) {
        const auto i = static_cast<std::size_t>(kind);
        Sample sample = run(point, kind, counts[i]);
        now[i] = value(point, counts[i], sample);
        values[i].push_back(now[i]);
        trips[i].insert(trips[i].end(), sample.half_trips_ns.begin(), sample.half_trips_ns.end());
      }
      ratios.push_back(now[1] / now[0]);
    }
    Result result;
    result.point = point;
    result.tcp = median(values[0]);
    result.rdma = median(values[1]);
    result.ratio = median(ratios);
    result.ratio_low = *std::min_element(ratios.begin(), ratios.end());
    result.ratio_high = *std::max_element(ratios.begin(), ratios.end());
    if (is_latency(point.work)) {
      result.tcp_p50 = percentile_us(trips[0], 0.5);
      result.tcp_p99 = percentile_us(trips[0], 0.99);
      result.rdma_p50 = percentile_us(trips[1], 0.5);
      result.rdma_p99 = percentile_us(trips[1], 0.99);
    }
    return result;
  }

 private:
  Sample run(const Point& point, MediumKind kind, std::uint64_t count) {
    const Leg leg{point.work, kind, point.octets, point.batch, count, ++seed_};
    Medium& medium = ends_.of(kind);
    ::alarm(watchdog_seconds(options_));
    control_.put(leg);
    medium.prepare(leg, Medium::Role::Leader);
    control_.get<char>();  // the follower is ready
    Sample sample = medium.lead(leg);
    verify_buffers(leg, Medium::Role::Leader, ends_.buffers);
    control_.get<char>();  // the follower has verified
    ::alarm(0);
    return sample;
  }

  /// How many messages make a leg of the length asked for. The legs it takes to find out warm up
  /// caches and congestion windows.
  std::uint64_t calibrate(const Point& point, MediumKind kind) {
    const std::uint64_t step = point.batch;
    std::uint64_t count = is_latency(point.work) ? kTripsMin : step;
    const double wanted = options_.seconds;
    for (int i = 0; i < kGrowthsMax; ++i) {
      const double took = std::max(run(point, kind, count).seconds, 1e-7);
      const double factor = std::min(wanted / took, kGrowthMax);
      if (factor <= 1.0) break;
      const auto grown = static_cast<std::uint64_t>(static_cast<double>(count) * factor);
      count = std::max(count, grown / step * step);
      // Near enough: the last factor is applied without another try.
      if (factor < 2.0) break;
    }
    return count;
  }

  static double value(const Point& point, std::uint64_t count, Sample& sample) {
    if (is_latency(point.work)) return percentile_us(sample.half_trips_ns, 0.5);
    const double rate = static_cast<double>(count) / sample.seconds;
    if (point.work == Work::WriteRate) return rate * 1e-6;
    return rate * static_cast<double>(point.octets) * 1e-9;
  }

  const Options& options_;
  Control& control_;
  Ends ends_;
  std::uint64_t seed_ = 0;
};

}  // namespace

void lead(const Options& options, Control& control, const Listener& listener) {
  ::alarm(watchdog_seconds(options));
  Leader leader(options, control);
  ::alarm(0);
  listener.connected(rdma_device_text());
  for (const Point& point : plan(options)) {
    listener.started(point);
    listener.finished(leader.measure(point));
  }
}

void follow(const Options& options, Control& control) {
  ::alarm(watchdog_seconds(options));
  Ends ends(Medium::Role::Follower, options, control);
  ::alarm(0);
  Leg leg;
  while (control.try_get(&leg)) {
    Medium& medium = ends.of(leg.medium);
    ::alarm(watchdog_seconds(options));
    medium.prepare(leg, Medium::Role::Follower);
    control.put('r');
    medium.follow(leg);
    verify_buffers(leg, Medium::Role::Follower, ends.buffers);
    control.put('v');
    ::alarm(0);
  }
}

void pin(unsigned end) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    if (end-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

}  // namespace weft::bench
