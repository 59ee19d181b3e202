// Sorting is cheap beside what was measured.
#include "measure/statistics.h"

#include <algorithm>
#include <cmath>

namespace weft::measure {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double percentile_us(std::vector<std::uint32_t>& ns, double p) {
  std::sort(ns.begin(), ns.end());
  const auto last = static_cast<double>(ns.size() - 1);
  return ns[static_cast<std::size_t>(std::lround(p * last))] * 1e-3;
}

void Rounds::add(double tcp, double rdma) {
  tcp_.push_back(tcp);
  rdma_.push_back(rdma);
  ratios_.push_back(rdma / tcp);
}

Figure Rounds::figure() const {
  return {median(tcp_),
          median(rdma_),
          median(ratios_),
          *std::min_element(ratios_.begin(), ratios_.end()),
          *std::max_element(ratios_.begin(), ratios_.end()),
          ratios_};
}

}  // namespace weft::measure
