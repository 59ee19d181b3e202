// Whether something was just now, by the processor's counter: sure when it says so.
#include "engine/time_stamp.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace weft::engine {
namespace {

#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
constexpr bool kCounts = true;
#else
constexpr bool kCounts = false;
#endif

/// Is it ever right behind a note()? Whoever is preempted in between tries again.
bool becomes_fresh(TimeStamp& stamp) {
  for (int i = 0; i < 10'000; ++i) {
    stamp.note();
    if (stamp.is_fresh()) return true;
  }
  return false;
}

TEST(TimeStampTest, WhatWasNeverNotedIsNotFresh) {
  EXPECT_FALSE(TimeStamp().is_fresh());
}

TEST(TimeStampTest, WhatWasJustNotedIsFreshWhereThereIsACounter) {
  TimeStamp stamp;
  EXPECT_EQ(becomes_fresh(stamp), kCounts);
}

TEST(TimeStampTest, WhatIsAWhileAgoIsNotFreshUntilItIsNotedAgain) {
  TimeStamp stamp;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(becomes_fresh(stamp), kCounts);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(stamp.is_fresh());
    EXPECT_FALSE(stamp.is_fresh()) << "to ask is not to note";
  }
}

}  // namespace
}  // namespace weft::engine
