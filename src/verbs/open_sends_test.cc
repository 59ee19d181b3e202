// What a program knows to be done, by its completions.
#include "verbs/open_sends.h"

#include <gtest/gtest.h>

namespace weft::verbs {
namespace {

constexpr OpenSends::List kSignalled{.entries = 1, .signaled = 1};
constexpr OpenSends::List kSilent{.entries = 1, .silent = 1};

/// Polls that find nothing lie between all posts, so that nothing is carried over.
struct WaitingProgram {
  OpenSends sends;
  std::uint32_t empty_polls = 0;

  std::uint32_t open(std::uint32_t polled) { return sends.open(polled, ++empty_polls); }
  void add(const OpenSends::List& list) { sends.add(list); }
};

TEST(OpenSendsTest, ASignalledSendIsOpenUntilItIsPolled) {
  WaitingProgram program;
  EXPECT_EQ(program.open(0), 0u);
  program.add(kSignalled);
  EXPECT_EQ(program.open(0), 1u);
  program.add(kSignalled);
  EXPECT_EQ(program.open(0), 2u);
  EXPECT_EQ(program.open(1), 1u);
  EXPECT_EQ(program.open(2), 0u);
}

TEST(OpenSendsTest, UnsignalledSendsAreOpenUntilASignalledOneBehindThemIsPolled) {
  WaitingProgram program;
  for (int i = 0; i < 7; ++i) program.add(kSilent);
  EXPECT_EQ(program.open(0), 7u);
  program.add(kSignalled);
  EXPECT_EQ(program.open(0), 8u);
  program.add(kSilent);
  EXPECT_EQ(program.open(0), 9u);
  EXPECT_EQ(program.open(1), 1u);
}

TEST(OpenSendsTest, OfAListWhatStandsBeforeItsLastSignalledSendIsDoneWithIt) {
  WaitingProgram program;
  program.add({.entries = 3, .silent = 3});
  program.add({.entries = 9, .signaled = 2, .covered = 2, .silent = 5});
  EXPECT_EQ(program.open(0), 9u);  // at least: what stood before the first of the two is not told
  EXPECT_EQ(program.open(1), 8u);
  EXPECT_EQ(program.open(2), 5u);
}

/// After an error unsignalled requests complete too; more is polled than was signalled.
TEST(OpenSendsTest, CompletionsOfFailedUnsignalledSendsDoNotMakeUpForLaterOnes) {
  WaitingProgram program;
  program.add(kSignalled);
  program.add({.entries = 4, .silent = 4});
  EXPECT_EQ(program.open(5), 4u);
  program.add(kSignalled);
  EXPECT_EQ(program.open(5), 5u);
  EXPECT_EQ(program.open(6), 0u);
}

TEST(OpenSendsTest, ABatchThatWasDoneAtTheFirstLookStillCountsForTheNextOne) {
  OpenSends sends;
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(sends.open(0, 3), i);
    sends.add(kSignalled);
  }
  // All are polled at once, and the next batch is posted one by one.
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(sends.open(8, 3), 8u);
    sends.add(kSignalled);
  }
  // A poll that finds nothing: now something is waited for.
  EXPECT_EQ(sends.open(16, 4), 0u);
}

TEST(OpenSendsTest, OneAtATimeStaysOneAtATime) {
  OpenSends sends;
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_LE(sends.open(i, 0), 1u);
    sends.add(kSignalled);
  }
}

}  // namespace
}  // namespace weft::verbs
