// The two processes: one leads and measures, one follows.
#pragma once

#include <functional>

#include "bench/control.h"
#include "bench/options.h"
#include "measure/statistics.h"

namespace weft::bench {

/// What one row found.
struct Result {
  Point point;
  Figure figure;  ///< in the unit of the work
  Figure cpu;     ///< of streams: CPU seconds of both ends per GB
  /// Latency only, over all trips of all rounds.
  double tcp_p50 = 0, tcp_p99 = 0, rdma_p50 = 0, rdma_p99 = 0;
  double tcp_bulk = 0, rdma_bulk = 0;  ///< GB/s of the stream beside, where there is one
  std::uint32_t tcp_buffer = 0;        ///< of kTCPChoices, the one that was fastest
};

/// What the leader tells while it works.
struct Listener {
  std::function<void(const std::string& device)> connected;
  std::function<void(const Point&)> started;
  std::function<void(const Result&)> finished;
};

/// Both block until all is measured or the other end is gone; both throw Failure. A leg that takes
/// longer than kLegSecondsMax (beyond what was asked for) ends the process by SIGALRM.
inline constexpr unsigned kLegSecondsMax = 20;
void lead(const Options& options, Control& control, const Listener& listener);
void follow(const Options& options, Control& control);

/// Pins this process and the threads it will have to one of the cores it may use, when there are at
/// least two: leader 0, follower 1.
void pin(unsigned end);

}  // namespace weft::bench
