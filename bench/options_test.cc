// The names of rows, and which of them there are.
#include "bench/options.h"

#include <gtest/gtest.h>

namespace weft::bench {
namespace {

TEST(Point, IsNamedByWorkSizeAndBatch) {
  const auto write = parse_point("write-bw:64K");
  ASSERT_TRUE(write);
  EXPECT_EQ(write->work, Work::WriteBandwidth);
  EXPECT_EQ(write->octets, 65536u);
  EXPECT_EQ(write->batch, 1u);
  const auto rate = parse_point("write-rate:8x64");
  ASSERT_TRUE(rate);
  EXPECT_EQ(rate->work, Work::WriteRate);
  EXPECT_EQ(rate->octets, 8u);
  EXPECT_EQ(rate->batch, 64u);
  const auto requests = parse_point("requests:4Kx9900");
  ASSERT_TRUE(requests);
  EXPECT_EQ(requests->octets, 4096u);
  EXPECT_EQ(requests->batch, 9900u);
}

TEST(Point, ThatCannotBeMeasuredIsRefused) {
  for (const char* text : {
           "",
           "write-bw",
           "write-bw:",
           "write-bw:0",
           "write-bw:64X",
           "write-bw:4096M",
           "write-bw:64Kx2",     // one message per doorbell
           "write-rate:8x65",    // longer than a list may be
           "write-rate:4Kx64",   // no small message
           "write-lat:12",       // marks are of 8 octets
           "write-cold:3M",      // does not divide what is walked over
           "requests:64x10",     // a request has 4 KiB
           "requests:4Kx70000",  // more than there are ports
           "sendfile:64K",
       }) {
    EXPECT_FALSE(parse_point(text)) << text;
  }
}

TEST(Plan, IsThePointsAlone_WhenThereAreAny) {
  Options options;
  options.works = {Work::WriteBandwidth};
  options.sizes = {64, 4096};
  EXPECT_EQ(plan(options).size(), 2u);
  options.points = {*parse_point("read-lat:8")};
  ASSERT_EQ(plan(options).size(), 1u);
  EXPECT_EQ(plan(options)[0].work, Work::ReadLatency);
}

TEST(EveryWork, HasARowOfItsOwnInThePlan) {
  Options options;
  options.sizes = {4096};
  options.latency_sizes = {8};
  for (const WorkTraits& row : kWorks) {
    options.works = {row.work};
    const auto points = plan(options);
    ASSERT_FALSE(points.empty()) << row.name;
    for (const Point& point : points) EXPECT_EQ(point.work, row.work);
    EXPECT_EQ(traits(row.work).name, row.name);
  }
}

}  // namespace
}  // namespace weft::bench
