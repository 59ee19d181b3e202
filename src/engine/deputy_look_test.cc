// When the progress thread stops looking on behalf of a program.
#include <gtest/gtest.h>

#include <chrono>

#include "engine/thread/deputy_look.h"

namespace weft::engine {
namespace {

using std::chrono::microseconds;

class DeputyLookTest : public ::testing::Test {
 protected:
  /// A question, and then others' turn.
  bool turn(Duration took, bool programs = false) {
    const Instant given = now_ + kQuestion;
    now_ = given + took;
    return look_.goes_on(given, now_, programs);
  }

  static constexpr Duration kQuestion = std::chrono::nanoseconds(300);
  static constexpr Duration kNobodys = Crowding::kTurn, kSomebodys = Crowding::kTurn * 2;
  const Instant began_{1'000'000'000};
  Instant now_ = began_;
  DeputyLook look_{began_};
};

TEST_F(DeputyLookTest, LastsSoLongWhereNobodyWantsTheProcessor) {
  while (turn(kNobodys)) {
  }
  EXPECT_GT(now_ - began_, LookHabit::kLook);
  EXPECT_LE(now_ - began_, LookHabit::kLook + kQuestion + kNobodys);
}

TEST_F(DeputyLookTest, KeepsTheProcessorFromFewOthers) {
  for (int i = 1; i < DeputyLook::kTurnsMost; ++i) EXPECT_TRUE(turn(kSomebodys)) << i;
  EXPECT_FALSE(turn(kSomebodys));
  EXPECT_LT(now_ - began_, LookHabit::kLook);
}

TEST_F(DeputyLookTest, TheProgramMayHaveAnyNumberOfTurns) {
  for (int i = 0; i < 4 * DeputyLook::kTurnsMost; ++i) EXPECT_TRUE(turn(kSomebodys, true)) << i;
}

TEST_F(DeputyLookTest, AlsoTheProgramsTurnsTakeOfItsTime) {
  EXPECT_FALSE(turn(LookHabit::kLook, true));
}

}  // namespace
}  // namespace weft::engine
