// Rounds: how many messages a leg needs, then TCP and RDMA in turn.
#include "bench/ends.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "bench/connections.h"
#include "bench/media.h"
#include "bench/medium.h"
#include "bench/network.h"

namespace weft::bench {
namespace {

/// How often a row's first legs may grow, and by how much at once.
constexpr int kGrowthsMax = 12;
constexpr double kGrowthMax = 16.0;
constexpr std::uint64_t kTripsMin = 50;
/// A p99 rises by as much at least, so that there is a ratio.
constexpr double kRiseMinUs = 1.0;

std::size_t octets_needed(const Options& options) {
  std::size_t most = 64 * 1024;  // and the TCP receiver of small messages reads as much at a time
  for (const Point& point : plan(options)) {
    if (has_own_media(point.work)) continue;
    Leg leg;
    leg.work = point.work;
    leg.octets = point.octets;
    leg.batch = point.batch;
    most = std::max<std::size_t>(most, leg.span());
  }
  return most;
}

/// A descriptor for each connection of both media, and some for everything else.
constexpr std::uint64_t kDescriptorsBeside = 100;

void check_descriptors(std::uint64_t connections) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (2 * connections + kDescriptorsBeside > limit.rlim_cur) {
    fail("{} connections over both media need more than the {} open files that a process may have",
         connections, limit.rlim_cur);
  }
}

void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// All media of one end. Leader and follower make and drop them in step, leg by leg.
class Ends {
 public:
  Ends(Medium::Role role, const Options& options, Control& control)
      : role_(role),
        options_(options),
        control_(control),
        buffers_(octets_needed(options)),
        tcp_(make_tcp(role, options.address, control, buffers_, options.raw_congestion)),
        rdma_(make_rdma(role, options.address, control, buffers_)) {
    raise_descriptor_limit();
  }

  Medium& of(const Leg& leg) {
    const bool tcp = leg.medium == MediumKind::TCP;
    if (!has_own_media(leg.work)) return tcp ? *tcp_ : *rdma_;
    if (leg.work != own_work_ || leg.batch != own_batch_) {
      own_[0].reset();
      own_[1].reset();
      own_work_ = leg.work;
      own_batch_ = leg.batch;
    }
    auto& own = own_[tcp ? 0 : 1];
    if (own == nullptr) own = make(leg);
    return *own;
  }

  Buffers& buffers() { return buffers_; }

 private:
  std::unique_ptr<Medium> make(const Leg& leg) {
    const bool tcp = leg.medium == MediumKind::TCP;
    const std::string& address = options_.address;
    switch (leg.work) {
      case Work::Requests:
        return tcp ? make_requests_tcp(role_, address, control_, leg.batch)
                   : make_requests_rdma(role_, address, control_, leg.batch);
      case Work::WriteBeside:
        return tcp ? make_beside_tcp(role_, address, control_)
                   : make_beside_rdma(role_, address, control_);
      case Work::IdleMemory:
        return make_idle(role_, address, control_);
      default:
        return make_connecting(leg.medium, role_, address, control_);
    }
  }

  Medium::Role role_;
  const Options& options_;
  Control& control_;
  Buffers buffers_;
  std::unique_ptr<Medium> tcp_, rdma_;
  Work own_work_{};
  std::uint64_t own_batch_ = 0;
  std::unique_ptr<Medium> own_[2];
};

/// Making connections takes time too.
unsigned watchdog_seconds(const Options& options, const Leg& leg) {
  constexpr std::uint64_t kConnectionsPerSecondMin = 100;
  const std::uint64_t connections = leg.work == Work::Requests     ? leg.batch
                                    : leg.work == Work::IdleMemory ? leg.count
                                                                   : 0;
  return kLegSecondsMax + static_cast<unsigned>(4 * options.seconds) +
         static_cast<unsigned>(connections / kConnectionsPerSecondMin);
}

/// What one leg took.
struct Taken {
  Sample sample;
  double lead_cpu = 0, follow_cpu = 0;  ///< seconds
};

class Leader {
 public:
  Leader(const Options& options, Control& control)
      : options_(options), control_(control), ends_(Medium::Role::Leader, options, control) {}

  Result measure(const Point& point) {
    if (point.work == Work::IdleMemory) return measure_idle(point);
    if (point.work == Work::Requests) check_descriptors(point.batch);
    Leg legs[] = {make_leg(point, MediumKind::TCP), make_leg(point, MediumKind::RDMA)};
    choose(&legs[0]);
    calibrate(&legs[1], options_.seconds);
    Rounds values, cpu;
    std::vector<std::uint32_t> trips[2];
    std::vector<double> bulk[2];
    for (std::uint32_t round = 0; round < options_.rounds; ++round) {
      double now[2], now_cpu[2];
      for (std::size_t i = 0; i < 2; ++i) {
        Taken taken = run(legs[i]);
        now[i] = value(legs[i], taken);
        bulk[i].push_back(taken.sample.bulk);
        now_cpu[i] = (taken.lead_cpu + taken.follow_cpu) / gigabytes(legs[i]);
        const auto& more = taken.sample.trips_ns;
        trips[i].insert(trips[i].end(), more.begin(), more.end());
      }
      values.add(now[0], now[1]);
      cpu.add(now_cpu[0], now_cpu[1]);
    }
    Result result;
    result.point = point;
    result.figure = values.figure();
    if (is_stream(point.work)) result.cpu = cpu.figure();
    result.tcp_buffer = kTCPChoices[legs[0].choice];
    result.tcp_bulk = median(bulk[0]);
    result.rdma_bulk = median(bulk[1]);
    if (!trips[0].empty()) {
      result.tcp_p50 = percentile_us(trips[0], 0.5);
      result.tcp_p99 = percentile_us(trips[0], 0.99);
      result.rdma_p50 = percentile_us(trips[1], 0.5);
      result.rdma_p99 = percentile_us(trips[1], 0.99);
    }
    return result;
  }

 private:
  /// Every round adds as many connections as there were at first. TCP has no part in it.
  Result measure_idle(const Point& point) {
    Leg leg = make_leg(point, MediumKind::RDMA);
    leg.count = point.octets;
    run(leg);  // what is there for the process and not for its connections
    Rounds values;
    const std::uint32_t rounds = std::min<std::uint32_t>(options_.rounds, kIdleRoundsMax);
    for (std::uint32_t round = 0; round < rounds; ++round) values.add(1, run(leg).sample.value);
    Result result;
    result.point = point;
    result.figure = values.figure();
    return result;
  }

  static Leg make_leg(const Point& point, MediumKind kind) {
    Leg leg;
    leg.work = point.work;
    leg.medium = kind;
    leg.octets = point.octets;
    leg.batch = point.batch;
    leg.count = counts_trips(point.work) ? kTripsMin : leg.step();
    return leg;
  }

  static bool counts_trips(Work work) {
    return is_latency(work) || work == Work::WriteBeside || work == Work::Connect;
  }

  Taken run(Leg leg) {
    leg.seed = ++seed_;
    ::alarm(watchdog_seconds(options_, leg));
    control_.put(leg);
    Medium& medium = ends_.of(leg);
    medium.prepare(leg, Medium::Role::Leader);
    control_.get<char>();  // the follower is ready
    Taken taken;
    const double cpu = cpu_seconds();
    taken.sample = medium.lead(leg);
    taken.lead_cpu = cpu_seconds() - cpu;
    if (!has_own_media(leg.work)) {
      verify_buffers(leg, Medium::Role::Leader, ends_.buffers());
    }
    taken.follow_cpu = control_.get<double>();  // the follower has verified
    ::alarm(0);
    return taken;
  }

  /// How many messages make a leg of the length asked for. The legs it takes to find out warm up
  /// caches and congestion windows. Returns the last one's messages per second.
  double calibrate(Leg* leg, double wanted) {
    double rate = 0;
    for (int i = 0; i < kGrowthsMax; ++i) {
      const double took = std::max(run(*leg).sample.seconds, 1e-7);
      rate = static_cast<double>(leg->count) / took;
      const double factor = std::min(wanted / took, kGrowthMax);
      if (factor <= 1.0) break;
      const auto grown = static_cast<std::uint64_t>(static_cast<double>(leg->count) * factor);
      leg->count = std::max(leg->count, grown / leg->step() * leg->step());
      if (leg->work == Work::Connect && leg->count > kConnectionsAtOnceMax) {
        leg->count = kConnectionsAtOnceMax;
        break;
      }
      // Near enough: the last factor is applied without another try.
      if (factor < 2.0) break;
    }
    return rate;
  }

  /// Plain TCP streams with the socket buffers that serve them best; a ping-pong has nothing to
  /// choose, since its buffers are nearly empty.
  void choose(Leg* leg) {
    if (is_latency(leg->work) || has_own_media(leg->work) || !options_.choose_buffers) {
      calibrate(leg, options_.seconds);
      return;
    }
    double best = 0;
    Leg chosen = *leg;
    for (std::size_t i = 0; i < std::size(kTCPChoices); ++i) {
      leg->choice = i;
      const double rate = calibrate(leg, options_.seconds / 2);
      // The best of two, so that a stall does not decide.
      const double again = static_cast<double>(leg->count) / run(*leg).sample.seconds;
      if (std::max(rate, again) <= best) continue;
      best = std::max(rate, again);
      chosen = *leg;
    }
    *leg = chosen;
    const auto count = static_cast<std::uint64_t>(best * options_.seconds);
    leg->count = std::max(leg->count, count / leg->step() * leg->step());
  }

  static double gigabytes(const Leg& leg) {
    return static_cast<double>(leg.count) * static_cast<double>(leg.octets) * 1e-9;
  }

  static double value(const Leg& leg, Taken& taken) {
    switch (traits(leg.work).measure) {
      case Measure::Latency:
        return percentile_us(taken.sample.trips_ns, 0.5);
      case Measure::Rate:
        return static_cast<double>(leg.count) / taken.sample.seconds * 1e-6;
      case Measure::Bandwidth:
        return gigabytes(leg) / taken.sample.seconds;
      case Measure::Cost:
        return taken.follow_cpu / gigabytes(leg);
      case Measure::Thousands:
        return static_cast<double>(leg.count) / taken.sample.seconds * 1e-3;
      case Measure::Memory:
        return taken.sample.value;
      case Measure::Rise:
        return std::max(taken.sample.value, kRiseMinUs);
    }
    return 0;
  }

  const Options& options_;
  Control& control_;
  Ends ends_;
  std::uint64_t seed_ = 0;
};

}  // namespace

void lead(const Options& options, Control& control, const Listener& listener) {
  ::alarm(watchdog_seconds(options, {}));
  Leader leader(options, control);
  ::alarm(0);
  listener.connected(rdma_device_text());
  for (const Point& point : plan(options)) {
    listener.started(point);
    listener.finished(leader.measure(point));
  }
}

void follow(const Options& options, Control& control) {
  if (!options.follower_network.empty()) enter_network(options.follower_network);
  ::alarm(watchdog_seconds(options, {}));
  Ends ends(Medium::Role::Follower, options, control);
  ::alarm(0);
  Leg leg;
  while (control.try_get(&leg)) {
    ::alarm(watchdog_seconds(options, leg));
    Medium& medium = ends.of(leg);
    medium.prepare(leg, Medium::Role::Follower);
    control.put('r');
    const double cpu = cpu_seconds();
    medium.follow(leg);
    const double spent = cpu_seconds() - cpu;
    if (!has_own_media(leg.work)) {
      verify_buffers(leg, Medium::Role::Follower, ends.buffers());
    }
    control.put(spent);
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
