// Medians and percentiles of what the rounds found.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::measure {

/// The middle one, or the mean of the two in the middle. `values` is not empty.
double median(std::vector<double> values);

/// The value that the share `p` (0..1) of all does not exceed. Sorts `ns`, which is not empty.
double percentile_us(std::vector<std::uint32_t>& ns, double p);

/// One quantity on both media: medians over the rounds, and the ratio RDMA / TCP within a round,
/// which is what a machine that changes its speed does not spoil.
struct Figure {
  double tcp = 0, rdma = 0;
  double ratio = 0, ratio_low = 0, ratio_high = 0;  ///< median, extremes
  std::vector<double> ratios;                       ///< in order of time
};

/// Collects a Figure round by round.
class Rounds {
 public:
  void add(double tcp, double rdma);
  /// After at least one round.
  Figure figure() const;

 private:
  std::vector<double> tcp_, rdma_, ratios_;
};

}  // namespace weft::measure
