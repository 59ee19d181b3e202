// Medians, percentiles, and ratios that belong to their round.
#include "measure/statistics.h"

#include <gtest/gtest.h>

namespace weft::measure {
namespace {

TEST(Median, IsTheMiddleOneOrTheMeanOfTwo) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({7}), 7);
}

TEST(Percentile, OfUnsortedNanosecondsIsInMicroseconds) {
  std::vector<std::uint32_t> ns;
  for (std::uint32_t i = 101; i-- > 0;) ns.push_back(i * 1000);
  EXPECT_EQ(percentile_us(ns, 0.5), 50);
  EXPECT_EQ(percentile_us(ns, 0.99), 99);
  EXPECT_EQ(percentile_us(ns, 1), 100);
  std::vector<std::uint32_t> one{1500};
  EXPECT_EQ(percentile_us(one, 0.99), 1.5);
}

TEST(RatiosOfRounds, AreNotSpoiltByAMachineThatChangesItsSpeed) {
  Rounds rounds;
  rounds.add(10, 8);
  rounds.add(5, 4);  // half as fast, both
  rounds.add(10, 9);
  const Figure figure = rounds.figure();
  EXPECT_EQ(figure.tcp, 10);
  EXPECT_EQ(figure.rdma, 8);
  EXPECT_EQ(figure.ratio, 0.8);
  EXPECT_EQ(figure.ratio_low, 0.8);
  EXPECT_EQ(figure.ratio_high, 0.9);
  EXPECT_EQ(figure.ratios, (std::vector<double>{0.8, 0.8, 0.9}));
}

}  // namespace
}  // namespace weft::measure
