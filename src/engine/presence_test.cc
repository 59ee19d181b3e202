// Who stays, who is away, and who is at work on what it got.
#include "engine/presence.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

constexpr Instant kBegin{1'000'000'000};

TEST(PresenceTest, WhoPollsOnAndOnStays) {
  Presence presence;
  Instant now = kBegin;
  EXPECT_FALSE(presence.note(now));
  while (now - kBegin < Presence::kLong) presence.note(now = now + std::chrono::microseconds(100));
  EXPECT_TRUE(presence.stays(now));
  EXPECT_EQ(presence.last_gap(), std::chrono::microseconds(100));
  now = now + Presence::kAway + Duration{1};
  EXPECT_FALSE(presence.stays(now));
  EXPECT_FALSE(presence.note(now)) << "it was away";
  EXPECT_EQ(presence.last_gap(), Presence::kAway + Duration{1});
}

TEST(PresenceTest, WhoGotMuchIsAtWorkForAWhileUnlessItArms) {
  Presence presence;
  EXPECT_FALSE(presence.is_at_work(kBegin));
  presence.note_much(kBegin);
  EXPECT_TRUE(presence.is_at_work(kBegin + Presence::kAway));
  EXPECT_FALSE(presence.is_at_work(kBegin + Presence::kAway + Duration{1}));
  presence.note_much(kBegin);
  presence.note_arming();
  EXPECT_FALSE(presence.is_at_work(kBegin));
}

}  // namespace
}  // namespace weft::engine
