// Texts and rates of the enumerations, also for values that no enumeration has.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <climits>
#include <cstring>
#include <set>
#include <string>

// In rdma-core 50's header and later ones.
extern "C" const char* ibv_wr_opcode_str(ibv_wr_opcode opcode);

namespace {

/// A value as a C program may pass it: by octets, because a cast of it would be undefined.
template <typename Enum>
[[gnu::no_sanitize("enum")]] Enum any_value(int value) {
  Enum made;
  static_assert(sizeof made == sizeof value);
  std::memcpy(&made, &value, sizeof made);
  return made;
}

/// Every value of 0..last has a text of its own except those in `unknown`; nothing else has one.
template <typename Enum>
void expect_texts(const char* (*text)(Enum), int last, const std::set<int>& unknown = {}) {
  std::set<std::string> seen;
  for (int value = 0; value <= last; ++value) {
    const char* found = text(any_value<Enum>(value));
    ASSERT_NE(found, nullptr) << value;
    EXPECT_EQ(std::string(found) == "unknown", unknown.contains(value)) << value;
    if (!unknown.contains(value)) {
      EXPECT_TRUE(seen.insert(found).second) << value << " and an earlier one: " << found;
    }
  }
  for (int value : {-1, last + 1, INT_MAX, INT_MIN}) {
    EXPECT_STREQ(text(any_value<Enum>(value)), "unknown") << value;
  }
}

TEST(Names, EveryValueHasATextAndNothingElse) {
  expect_texts(ibv_node_type_str, IBV_NODE_UNSPECIFIED, {0});
  expect_texts(ibv_port_state_str, IBV_PORT_ACTIVE_DEFER);
  expect_texts(ibv_event_type_str, IBV_EVENT_WQ_FATAL);
  expect_texts(ibv_wc_status_str, IBV_WC_TM_RNDV_INCOMPLETE);
  expect_texts(ibv_wr_opcode_str, IBV_WR_ATOMIC_WRITE, {12, 13});
}

/// Scripts match on these; a table that slipped by a row shows here.
TEST(Names, TextsThatProgramsPrint) {
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_RNIC), "iWARP NIC");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_DOWN), "down");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
  EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_SRQ_LIMIT_REACHED), "SRQ limit reached");
  EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_QP_LAST_WQE_REACHED), "last WQE reached");
  EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_GID_CHANGE), "GID table change");
  EXPECT_STREQ(ibv_wr_opcode_str(IBV_WR_SEND), "send");
  EXPECT_STREQ(ibv_wr_opcode_str(IBV_WR_SEND_WITH_INV), "send-with-inv");
  EXPECT_STREQ(ibv_wr_opcode_str(IBV_WR_ATOMIC_WRITE), "atomic-write");
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_LOC_PROT_ERR), "local protection error");
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR), "Work Request Flushed Error");
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_REM_ACCESS_ERR), "remote access error");
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_GENERAL_ERR), "general error");
}

TEST(Names, RatesAndTheirNumbersAreInverse) {
  for (int value = IBV_RATE_2_5_GBPS; value <= IBV_RATE_1200_GBPS; ++value) {
    const auto rate = any_value<ibv_rate>(value);
    const int mbps = ibv_rate_to_mbps(rate);
    ASSERT_GT(mbps, 0) << value;
    EXPECT_EQ(mbps_to_ibv_rate(mbps), rate);
    const int multiple = ibv_rate_to_mult(rate);
    if (multiple == -1) continue;  // not a multiple of 2.5 Gbit/s
    EXPECT_GT(multiple, 0) << value;
    EXPECT_EQ(mult_to_ibv_rate(multiple), rate);
  }
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_120_GBPS), 48);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_100_GBPS), -1);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_2_5_GBPS), 2500);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
}

TEST(Names, NumbersThatAreNoRate) {
  for (int value : {int{IBV_RATE_MAX}, -1, 9999, INT_MIN, INT_MAX}) {
    EXPECT_EQ(ibv_rate_to_mult(any_value<ibv_rate>(value)), -1) << value;
    EXPECT_EQ(ibv_rate_to_mbps(any_value<ibv_rate>(value)), -1) << value;
  }
  for (int number : {0, -1, 3, INT_MAX, INT_MIN}) {
    EXPECT_EQ(mult_to_ibv_rate(number), IBV_RATE_MAX) << number;
    EXPECT_EQ(mbps_to_ibv_rate(number), IBV_RATE_MAX) << number;
  }
}

}  // namespace
