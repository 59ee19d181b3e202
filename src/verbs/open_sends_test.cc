// What a program knows to be done, by its completions.
#include "verbs/open_sends.h"

#include <gtest/gtest.h>

namespace weft::verbs {
namespace {

TEST(OpenSendsTest, ASignalledSendIsOpenUntilItIsPolled) {
  OpenSends sends;
  EXPECT_EQ(sends.open(0), 0u);
  sends.add(1, 0);
  sends.add(1, 0);
  EXPECT_EQ(sends.open(0), 2u);
  EXPECT_EQ(sends.open(1), 1u);
  EXPECT_EQ(sends.open(2), 0u);
}

TEST(OpenSendsTest, UnsignalledSendsAreOpenUntilASignalledOneBehindThemIsPolled) {
  OpenSends sends;
  for (int i = 0; i < 7; ++i) sends.add(0, 1);
  EXPECT_EQ(sends.open(0), 7u);
  sends.add(1, 0);
  EXPECT_EQ(sends.open(0), 1u);
  EXPECT_EQ(sends.open(1), 0u);
}

TEST(OpenSendsTest, OfAListOnlyWhatStandsBehindItsLastSignalledSendIsSilent) {
  OpenSends sends;
  sends.add(0, 3);
  sends.add(2, 5);
  EXPECT_EQ(sends.open(0), 7u);
  EXPECT_EQ(sends.open(2), 5u);
}

/// After an error unsignalled requests complete too; more is polled than was signalled.
TEST(OpenSendsTest, CompletionsOfFailedUnsignalledSendsDoNotMakeUpForLaterOnes) {
  OpenSends sends;
  sends.add(1, 0);
  sends.add(0, 4);
  EXPECT_EQ(sends.open(5), 4u);
  sends.add(1, 0);
  EXPECT_EQ(sends.open(5), 1u);
  EXPECT_EQ(sends.open(6), 0u);
}

}  // namespace
}  // namespace weft::verbs
