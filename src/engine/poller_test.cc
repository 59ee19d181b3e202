// What a wait in the poller tells.
#include "engine/poller.h"

#include <gtest/gtest.h>

#include <array>

namespace weft::engine {
namespace {

constexpr Instant kLongAgo{1};

// A timer stays due until it is set anew. Who took its waits for waits in vain would never sleep.
TEST(PollerTest, ABriefWaitTellsOfATimerThatIsDue) {
  Poller poller;
  ASSERT_TRUE(poller.open().ok());
  ASSERT_TRUE(poller.open_timer().ok());
  std::array<epoll_event, 4> events;
  bool due = true;
  EXPECT_TRUE(poller.wait_briefly(Duration(1), events, due).empty());
  EXPECT_FALSE(due);

  poller.set_timer(kLongAgo);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(poller.wait_briefly(std::chrono::milliseconds(900), events, due).empty());
    EXPECT_TRUE(due);
  }
  poller.set_timer({});
  EXPECT_TRUE(poller.wait_briefly(Duration(1), events, due).empty());
  EXPECT_FALSE(due);
}

TEST(PollerTest, ABriefWaitTakesAWakeUp) {
  Poller poller;
  ASSERT_TRUE(poller.open().ok());
  std::array<epoll_event, 4> events;
  bool due = false;
  poller.wake();
  EXPECT_TRUE(poller.wait_briefly(std::chrono::milliseconds(900), events, due).empty());
  EXPECT_FALSE(due);
  EXPECT_TRUE(poller.look(events).empty());
}

}  // namespace
}  // namespace weft::engine
