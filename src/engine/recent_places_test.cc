// What is taken for held by a cache.
#include "engine/recent_places.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

constexpr std::size_t kBlock = RecentPlaces::kBlockOctets;
constexpr std::size_t kReach = RecentPlaces::kReachOctets;

const std::uint8_t* place(std::uint64_t address) {
  return reinterpret_cast<const std::uint8_t*>(address);
}

/// How many of the blocks of a walk over `octets` were placed lately.
std::size_t recent_in_walk(RecentPlaces& places, std::uint64_t from, std::size_t octets) {
  std::size_t recent = 0;
  for (std::size_t at = 0; at < octets; at += kBlock) {
    recent += places.note(place(from + at), kBlock) ? 1 : 0;
  }
  return recent;
}

TEST(RecentPlacesTest, NothingIsRecentAtFirst) {
  RecentPlaces places;
  EXPECT_EQ(recent_in_walk(places, 0, kReach), 0u);
}

TEST(RecentPlacesTest, AWalkWithinTheReachIsRecentTheSecondTime) {
  for (const std::uint64_t from : {0x7f12'3456'0000ull, 0x7f12'3456'0123ull}) {
    RecentPlaces places;
    EXPECT_EQ(recent_in_walk(places, from, kReach / 2), 0u);
    EXPECT_EQ(recent_in_walk(places, from, kReach / 2), kReach / 2 / kBlock);
  }
}

TEST(RecentPlacesTest, WhatLiesBesideARecentPlaceIsNot) {
  RecentPlaces places;
  std::uint64_t at = 0x7f12'3456'0123;
  for (std::size_t octets = kBlock; octets < 3 * kBlock; at += octets, octets += 1'001) {
    EXPECT_FALSE(places.note(place(at), octets)) << octets;
  }
}

TEST(RecentPlacesTest, AWalkOverMoreThanTheReachNeverIs) {
  for (const std::size_t octets : {kReach + kBlock, 2 * kReach, 8 * kReach}) {
    RecentPlaces places;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(recent_in_walk(places, 0x7f12'3456'0000, octets), 0u);
  }
}

TEST(RecentPlacesTest, OneThatComesBackIsRecentAmongAWalk) {
  RecentPlaces places;
  places.note(place(kBlock), kBlock);
  for (std::uint64_t at = 4 * kReach; at < 12 * kReach; at += kReach / 4) {
    recent_in_walk(places, at + 2 * kBlock, kReach / 8);
    EXPECT_TRUE(places.note(place(kBlock), kBlock));
  }
}

TEST(RecentPlacesTest, WhatSharesAnEntryIsNotTakenForTheOther) {
  RecentPlaces places;
  EXPECT_FALSE(places.note(place(kBlock), kBlock));
  EXPECT_FALSE(places.note(place(kBlock + 2 * kReach), kBlock));
  EXPECT_FALSE(places.note(place(kBlock), kBlock));
  EXPECT_TRUE(places.note(place(kBlock), kBlock));
}

// Time is kept in few bits: when it begins anew, what is recent stays so.
TEST(RecentPlacesTest, TimeMayBeginAnew) {
  RecentPlaces places;
  std::uint64_t missed = 0;
  for (int i = 0; i < 100'000; ++i) {
    missed += places.note(place(0), kReach / 4) ? 0 : 1;
    missed += places.note(place(kBlock), kReach / 4) ? 0 : 1;
  }
  EXPECT_EQ(missed, 2u);
}

}  // namespace
}  // namespace weft::engine
