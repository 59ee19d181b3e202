// The loop around a work. The leader decides: how many of it make a leg of the length asked for.
#include "bench/measure.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "bench/end.h"

namespace weft::bench {
namespace {

/// How often the first legs may grow, and by how much at once.
constexpr int kGrowthsMax = 12;
constexpr double kGrowthMax = 16.0;
constexpr std::uint64_t kTripsMin = 50;
/// A leg of one request for each of many connections is a burst of posts from memory that nobody
/// touched for long, and what is faster makes more of them: no two legs were alike.
constexpr std::uint64_t kRequestsEachMin = 4;
/// A p99 rises by as much at least, so that there is a ratio.
constexpr double kRiseMinUs = 1.0;
/// A process has some descriptors beside one for each connection.
constexpr std::uint64_t kDescriptorsBeside = 100;

void allow_descriptors(std::uint64_t connections) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (connections + kDescriptorsBeside > limit.rlim_cur) {
    fail("{} connections need more than the {} open files that a process may have", connections,
         limit.rlim_cur);
  }
}

std::unique_ptr<End> make_end(const Place& place, const Point& point, Over over) {
  const bool tcp = over == Over::TCP;
  switch (point.work) {
    case Work::Requests:
      return tcp ? make_requests_tcp(place, point.connections)
                 : make_requests_rdma(place, point.connections);
    case Work::Connect:
      return tcp ? make_connect_tcp(place) : make_connect_rdma(place);
    case Work::WriteBeside:
      return tcp ? make_beside_tcp(place) : make_beside_rdma(place);
    case Work::Mixed:
      return tcp ? make_mixed_tcp(place) : make_mixed_rdma(place);
    default:
      if (tcp) fail("{} is of RDMA connections alone", traits(point.work).name);
      return make_idle_rdma(place);
  }
}

/// Making connections takes time too.
void watch(const Options& options, const Point& point) {
  constexpr std::uint64_t kConnectionsPerSecondMin = 100;
  ::alarm(kLegSecondsMax + static_cast<unsigned>(4 * options.seconds) +
          static_cast<unsigned>(point.connections / kConnectionsPerSecondMin));
}

class Leader {
 public:
  Leader(const Options& options, const Point& point, Over over, Control& control)
      : options_(options), point_(point), control_(control) {
    watch(options, point);
    end_ = make_end({Role::Leader, options.address, control}, point, over);
  }

  std::vector<Sample> measure() {
    if (point_.work == Work::IdleMemory) return measure_idle();
    Leg leg = first_leg();
    calibrate(&leg);
    if (leg.work == Work::Requests) {
      leg.count = std::max(leg.count, kRequestsEachMin * leg.connections);
    }
    return {run(leg)};
  }

  double value(const Sample& sample) const {
    switch (point_.work) {
      case Work::IdleMemory:
      case Work::Mixed:
        return sample.value;
      case Work::WriteBeside:
        return std::max(sample.value, kRiseMinUs);
      default:
        return static_cast<double>(count_) / sample.seconds * 1e-3;
    }
  }

 private:
  Leg first_leg() const {
    Leg leg{.work = point_.work, .connections = point_.connections};
    leg.count = point_.work == Work::Requests ? point_.connections : kTripsMin;
    return leg;
  }

  /// Every leg adds as many connections as there were at first.
  std::vector<Sample> measure_idle() {
    const Leg leg = first_leg();
    run(leg);  // what is there for the process and not for its connections
    std::vector<Sample> samples;
    for (std::uint64_t i = 0; i < kIdleLegs; ++i) samples.push_back(run(leg));
    return samples;
  }

  Sample run(Leg leg) {
    leg.seed = ++seed_;
    count_ = leg.count;
    watch(options_, point_);
    control_.put(leg);
    control_.get<char>();  // the follower is ready
    const Sample sample = end_->lead(leg);
    control_.get<char>();  // the follower is done
    return sample;
  }

  /// The legs it takes to find out warm up caches and congestion windows.
  void calibrate(Leg* leg) {
    const std::uint64_t step = point_.work == Work::Requests ? point_.connections : 1;
    // As many connections are made and ended before, too: the first of a process cost more.
    const std::uint64_t most =
        point_.work == Work::Connect ? kConnectionsAtOnceMax : ~std::uint64_t{0};
    for (int i = 0; i < kGrowthsMax; ++i) {
      const double took = std::max(run(*leg).seconds, 1e-7);
      const double factor = std::min(options_.seconds / took, kGrowthMax);
      if (factor <= 1.0) return;
      const auto grown = static_cast<std::uint64_t>(static_cast<double>(leg->count) * factor);
      if (leg->count == most) return;
      leg->count = std::min(std::max(leg->count, grown / step * step), most);
      // Near enough: the last factor is applied without another try.
      if (factor < 2.0 && leg->count < most) return;
    }
  }

  const Options& options_;
  const Point& point_;
  Control& control_;
  std::unique_ptr<End> end_;
  std::uint64_t seed_ = 0, count_ = 0;
};

}  // namespace

nlohmann::json lead(const Options& options, const Point& point, Over over, Control& control) {
  allow_descriptors(point.connections);
  Leader leader(options, point, over, control);
  const std::vector<Sample> samples = leader.measure();
  ::alarm(0);
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(leader.value(sample));
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  return {{"work", point_text(point)},
          {"over", over == Over::TCP ? "tcp" : "rdma"},
          {"value", sorted[sorted.size() / 2]},
          {"unit", traits(point.work).unit},
          {"values", values},
          {"bulk", samples.back().bulk}};
}

void follow(const Options& options, const Point& point, Over over, Control& control) {
  allow_descriptors(point.connections);
  watch(options, point);
  const auto end = make_end({Role::Follower, options.address, control}, point, over);
  Leg leg;
  while (control.try_get(&leg)) {
    watch(options, point);
    control.put('r');
    end->follow(leg);
    control.put('d');
  }
}

void pin_end(unsigned end) {
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
