// Instants and durations.
#include "base/time.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using namespace std::chrono_literals;

TEST(Time, InstantsOrderAndSubtract) {
  const Instant start{-5};
  const Instant later = start + 2ms;
  EXPECT_LT(start, later);
  EXPECT_EQ(later.ns, 1'999'995);
  EXPECT_EQ(later - start, 2ms);
  EXPECT_EQ(start - later, -2ms);
  EXPECT_EQ(start, Instant{-5});
}

}  // namespace
}  // namespace weft
