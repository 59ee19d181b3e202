// CQ events: the table against its checked-in copy, and what it means.
#include "core/qp/cq_state.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace weft::core {
namespace {

const char* const kStates[] = {"Quiet", "ArmedSolicited", "ArmedAny", "Overflowed"};
const char* const kInputs[] = {"ArmSolicited", "ArmAny", "Completion", "SolicitedCompletion",
                               "Overflow"};

std::string table() {
  std::ostringstream out;
  for (const CQTransition& row : cq_transitions()) {
    out << kStates[static_cast<int>(row.from)] << " + " << kInputs[static_cast<int>(row.input)]
        << " -> " << kStates[static_cast<int>(row.to)] << (row.event ? ", event" : "") << '\n';
  }
  return out.str();
}

TEST(CQStateTable, IsAsCheckedIn) {
  std::ifstream file(WEFT_CQ_STATE_TABLE);
  ASSERT_TRUE(file) << WEFT_CQ_STATE_TABLE;
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(table(), expected) << "to accept the new table, write it to cq_state_table.txt:\n"
                               << table();
}

TEST(CQStateTable, IsComplete) {
  EXPECT_EQ(cq_transitions().size(), 20u);
  for (int s = 0; s < 4; ++s) {
    for (int i = 0; i < 5; ++i) {
      const CQTransition& row = cq_step(CQState(s), CQInput(i));
      EXPECT_EQ(row.from, CQState(s));
      EXPECT_EQ(row.input, CQInput(i));
    }
  }
}

// verbs draft §8.2.1: one-shot, and entries that were there before do not count.
TEST(CQState, GivesOneEventForEachArming) {
  CQState state = CQState::Quiet;
  const auto step = [&state](CQInput input) {
    const CQTransition& row = cq_step(state, input);
    state = row.to;
    return row.event;
  };
  EXPECT_FALSE(step(CQInput::Completion));
  EXPECT_FALSE(step(CQInput::ArmSolicited));
  EXPECT_FALSE(step(CQInput::Completion));
  EXPECT_TRUE(step(CQInput::SolicitedCompletion));
  EXPECT_FALSE(step(CQInput::SolicitedCompletion));
  EXPECT_FALSE(step(CQInput::ArmAny));
  EXPECT_FALSE(step(CQInput::ArmSolicited));  // does not narrow
  EXPECT_TRUE(step(CQInput::Completion));
  EXPECT_FALSE(step(CQInput::Completion));
}

//= SEC-07
TEST(CQState, OverflowIsToldOnceAndStays) {
  for (int s = 0; s < 3; ++s) {
    const CQTransition& row = cq_step(CQState(s), CQInput::Overflow);
    EXPECT_TRUE(row.event);
    EXPECT_EQ(row.to, CQState::Overflowed);
  }
  for (int i = 0; i < 5; ++i) {
    const CQTransition& row = cq_step(CQState::Overflowed, CQInput(i));
    EXPECT_FALSE(row.event);
    EXPECT_EQ(row.to, CQState::Overflowed);
  }
}

}  // namespace
}  // namespace weft::core
