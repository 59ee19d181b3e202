// How often a thread looks before it sleeps.
#include "base/patience.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

/// How many sleeps pass before one that looks.
unsigned pauses(Patience& patience) {
  unsigned n = 0;
  while (!patience.is_worth()) ++n;
  return n;
}

TEST(PatienceTest, LooksAtFirstAndAsLongAsItFinds) {
  Patience patience;
  for (int round = 0; round < 1000; ++round) {
    EXPECT_TRUE(patience.is_worth());
    patience.tell(true);
  }
}

TEST(PatienceTest, InVainEverMoreRarely) {
  Patience patience;
  for (const unsigned expected : {0u, 1u, 3u, 7u, 15u, 31u, 63u, 127u, 255u, 255u, 255u}) {
    EXPECT_EQ(pauses(patience), expected);
    patience.tell(false);
  }
}

TEST(PatienceTest, OneFindIsEnoughToBeginAnew) {
  Patience patience;
  for (int round = 0; round < 10; ++round) patience.tell(false);
  patience.tell(true);
  EXPECT_EQ(pauses(patience), 0u);
  patience.tell(false);
  EXPECT_EQ(pauses(patience), 1u);
}

}  // namespace
}  // namespace weft
