// Percentiles walk over the buckets: rarely asked, and there are only a few thousand.
#include "measure/histogram.h"

#include <algorithm>
#include <cmath>

namespace weft::measure {

void Histogram::merge(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  least_ = std::min(least_, other.least_);
  greatest_ = std::max(greatest_, other.greatest_);
}

double Histogram::percentile(double p) const {
  const auto whole = static_cast<double>(count_);
  const auto rank = static_cast<std::uint64_t>(std::clamp(std::ceil(p * whole), 1.0, whole));
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  while (seen + counts_[bucket] < rank) seen += counts_[bucket++];
  const auto middle =
      static_cast<double>(lower(bucket)) + static_cast<double>(width(bucket) - 1) / 2;
  // The ends are known exactly, and no percentile lies beyond them.
  return std::clamp(middle, static_cast<double>(least_), static_cast<double>(greatest_));
}

}  // namespace weft::measure
