// The histogram against sorting, which needs no buckets.
#include "measure/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace weft::measure {
namespace {

constexpr double kErrorMax = 0.004;

double percentile_by_sorting(std::vector<std::uint64_t> all, double p) {
  std::sort(all.begin(), all.end());
  const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(all.size())));
  return static_cast<double>(all[std::max<std::size_t>(rank, 1) - 1]);
}

TEST(Histogram, EveryValueLiesInItsBucketAndBucketsAreNarrow) {
  for (std::uint64_t ns = 1; ns < std::uint64_t{1} << 46; ns += 1 + ns / 97) {
    const auto bucket = Histogram::index_of(ns);
    ASSERT_LT(bucket, Histogram::kBuckets);
    ASSERT_GE(ns, Histogram::lower(bucket));
    ASSERT_LT(ns, Histogram::lower(bucket) + Histogram::width(bucket));
    ASSERT_LE(static_cast<double>(Histogram::width(bucket) - 1) / 2,
              kErrorMax * static_cast<double>(ns));
  }
}

TEST(Histogram, BucketsLieSideBySide) {
  for (std::size_t i = 0; i + 1 < Histogram::kBuckets; ++i) {
    ASSERT_EQ(Histogram::lower(i) + Histogram::width(i), Histogram::lower(i + 1));
  }
}

TEST(Histogram, PercentilesAgreeWithSortingWithinTheStatedError) {
  std::mt19937_64 random(42);
  std::lognormal_distribution<double> times(9, 1.5);
  for (const std::size_t count : {1, 2, 3, 10, 999, 1000, 1001, 20000}) {
    Histogram histogram;
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(static_cast<std::uint64_t>(times(random)));
      histogram.add(all.back());
    }
    for (const double p : {0.0, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      const double exact = percentile_by_sorting(all, p);
      EXPECT_NEAR(histogram.percentile(p), exact, kErrorMax * exact) << count << " at " << p;
    }
    EXPECT_EQ(histogram.count(), count);
    EXPECT_EQ(histogram.greatest(), *std::max_element(all.begin(), all.end()));
    EXPECT_EQ(histogram.least(), *std::min_element(all.begin(), all.end()));
  }
}

TEST(Histogram, OfSeveralThreadsIsMerged) {
  Histogram one, other, both;
  for (std::uint64_t ns = 1000; ns < 2000; ++ns) (ns % 3 == 0 ? one : other).add(ns);
  for (std::uint64_t ns = 1000; ns < 2000; ++ns) both.add(ns);
  one.merge(other);
  EXPECT_EQ(one.count(), both.count());
  EXPECT_EQ(one.mean(), both.mean());
  for (const double p : {0.01, 0.5, 0.999}) EXPECT_EQ(one.percentile(p), both.percentile(p));
}

TEST(Histogram, TimesBeyondTheLastBucketAreCountedThere) {
  Histogram histogram;
  histogram.add(~std::uint64_t{0} >> 1);
  histogram.add(5);
  EXPECT_EQ(histogram.count_of(Histogram::kBuckets - 1), 1u);
  EXPECT_EQ(histogram.percentile(0.5), 5);
}

}  // namespace
}  // namespace weft::measure
