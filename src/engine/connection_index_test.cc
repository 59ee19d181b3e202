// Numbers to connections.
#include "engine/connection_index.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

/// Places in memory; nobody looks at what is there.
Connection* connection(std::size_t i) {
  static char places[64];
  return reinterpret_cast<Connection*>(&places[i]);
}

TEST(ConnectionIndexTest, NobodyIsInTheBeginning) {
  EXPECT_EQ(ConnectionIndex().at(1), nullptr);
}

TEST(ConnectionIndexTest, GrowsAndSaysThatItIsEmptyThen) {
  ConnectionIndex index;
  EXPECT_TRUE(index.reserve(1));
  index.put(7, connection(7));
  EXPECT_EQ(index.at(7), connection(7));
  EXPECT_FALSE(index.reserve(1));
  EXPECT_EQ(index.at(7), connection(7));
  EXPECT_TRUE(index.reserve(50));
  EXPECT_EQ(index.at(7), nullptr);
}

TEST(ConnectionIndexTest, NumbersInTurnHavePlacesOfTheirOwn) {
  ConnectionIndex index;
  index.reserve(40);
  for (std::size_t i = 0; i < 40; ++i) index.put(1000 + i, connection(i));
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(index.at(1000 + i), connection(i));
}

TEST(ConnectionIndexTest, WhoGoesLeavesThePlaceOfAnotherAlone) {
  ConnectionIndex index;
  index.reserve(1);
  index.put(1, connection(1));
  index.put(1 + (1u << 20), connection(2));  // the same place
  index.remove(1, connection(1));
  EXPECT_EQ(index.at(1), connection(2));
  index.remove(1 + (1u << 20), connection(2));
  EXPECT_EQ(index.at(1), nullptr);
}

}  // namespace
}  // namespace weft::engine
