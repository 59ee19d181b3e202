// The names of works.
#include "bench/options.h"

#include <gtest/gtest.h>

namespace weft::bench {
namespace {

TEST(Point, IsNamedByWorkAndConnections) {
  const auto requests = parse_point("requests:9900");
  ASSERT_TRUE(requests);
  EXPECT_EQ(requests->work, Work::Requests);
  EXPECT_EQ(requests->connections, 9900u);
  const auto connect = parse_point("connect");
  ASSERT_TRUE(connect);
  EXPECT_EQ(connect->work, Work::Connect);
  EXPECT_EQ(connect->connections, 1u);
}

TEST(Point, ThatCannotBeMeasuredIsRefused) {
  for (const char* text : {
           "", "requests:", "requests:0",
           "requests:70000",  // more than there are ports
           "requests:x", "idle-memory:5000",
           "connect:1",  // one after the other
           "write-beside:8",
           "write-bw",  // weft blast's
       }) {
    EXPECT_FALSE(parse_point(text)) << text;
  }
}

TEST(EveryWork, HasANameThatIsUnderstood) {
  for (const WorkTraits& row : kWorks) {
    const auto point = parse_point(row.name);
    ASSERT_TRUE(point) << row.name;
    EXPECT_EQ(point->work, row.work);
    EXPECT_EQ(traits(row.work).name, row.name);
    EXPECT_EQ(parse_point(point_text(*point))->connections, point->connections);
  }
}

}  // namespace
}  // namespace weft::bench
