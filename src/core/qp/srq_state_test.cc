// The shared RQ's limit event: the table against its checked-in copy, and what it means.
#include "core/qp/srq_state.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace weft::core {
namespace {

const char* const kStates[] = {"Unarmed", "Armed"};
const char* const kInputs[] = {"Arm", "Disarm", "Below"};

TEST(SRQStateTable, IsAsCheckedIn) {
  std::ostringstream table;
  for (const SRQTransition& row : srq_transitions()) {
    table << kStates[static_cast<int>(row.from)] << " + " << kInputs[static_cast<int>(row.input)]
          << " -> " << kStates[static_cast<int>(row.to)] << (row.event ? ", event" : "") << '\n';
  }
  std::ifstream file(WEFT_SRQ_STATE_TABLE);
  ASSERT_TRUE(file) << WEFT_SRQ_STATE_TABLE;
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(table.str(), expected) << "to accept the new table, write it to srq_state_table.txt";
}

TEST(SRQState, GivesOneEventForEachLimit) {
  SRQState state = SRQState::Unarmed;
  const auto step = [&state](SRQInput input) {
    const SRQTransition& row = srq_step(state, input);
    state = row.to;
    return row.event;
  };
  EXPECT_FALSE(step(SRQInput::Below));
  EXPECT_FALSE(step(SRQInput::Arm));
  EXPECT_TRUE(step(SRQInput::Below));
  EXPECT_FALSE(step(SRQInput::Below));
  EXPECT_FALSE(step(SRQInput::Arm));
  EXPECT_FALSE(step(SRQInput::Disarm));
  EXPECT_FALSE(step(SRQInput::Below));
}

}  // namespace
}  // namespace weft::core
