// QP states: the table against its checked-in copy.
#include "core/qp/qp_state.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace weft::core {
namespace {

constexpr int kStates = static_cast<int>(QPState::Error) + 1;
constexpr int kEvents = static_cast<int>(QPEvent::BadClose) + 1;

/// One line per event, one column per state; "-" where the event is not allowed.
std::string table() {
  std::ostringstream out;
  const auto cell = [&out](const std::string& text) {
    out << text << std::string(text.size() < 20 ? 20 - text.size() : 1, ' ');
  };
  cell("event \\ state");
  for (int s = 0; s < kStates; ++s) {
    out << (s ? " " : "") << std::string(name(QPState(s)))
        << std::string(s + 1 < kStates ? 9 - std::string(name(QPState(s))).size() : 0, ' ');
  }
  out << '\n';
  for (int e = 0; e < kEvents; ++e) {
    cell(name(QPEvent(e)));
    for (int s = 0; s < kStates; ++s) {
      const auto next = next_state(QPState(s), QPEvent(e));
      const std::string to = next ? name(*next) : "-";
      out << (s ? " " : "") << to << std::string(s + 1 < kStates ? 9 - to.size() : 0, ' ');
    }
    out << '\n';
  }
  return out.str();
}

TEST(QPStateTable, IsAsCheckedIn) {
  std::ifstream file(WEFT_QP_STATE_TABLE);
  ASSERT_TRUE(file) << WEFT_QP_STATE_TABLE;
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(table(), expected) << "to accept the new table, write it to qp_state_table.txt:\n"
                               << table();
}

TEST(QPStateTable, HasNoRowTwice) {
  const auto rows = qp_transitions();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t k = i + 1; k < rows.size(); ++k) {
      EXPECT_FALSE(rows[i].from == rows[k].from && rows[i].event == rows[k].event) << i << ' ' << k;
    }
  }
}

TEST(QPStateTable, EveryStateButIdleReachesError) {
  for (const QPState s : {QPState::RTS, QPState::Closing, QPState::Terminate, QPState::Error}) {
    EXPECT_EQ(next_state(s, QPEvent::ErrorRequested), QPState::Error);
  }
}

}  // namespace
}  // namespace weft::core
