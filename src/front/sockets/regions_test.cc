// Which region holds which octets.
#include "front/sockets/regions.h"

#include <gtest/gtest.h>

#include <cerrno>

#include <weft/sockets.h>

namespace weft::sockets {
namespace {

class RegionsTest : public ::testing::Test {
 protected:
  int add(std::uintptr_t address, std::size_t octets, int rights = 0) {
    Region region;
    region.address = address;
    region.octets = octets;
    region.rights = rights;
    const auto added = regions.add(region);
    return added ? (*added)->number : -added.error().code;
  }
  /// The number of the region, or an errno below 0.
  int around(std::uintptr_t address, std::size_t octets, int rights = 0) {
    const auto found = regions.around(reinterpret_cast<const void*>(address), octets, rights);
    return found ? (*found)->number : -found.error().code;
  }

  Regions regions;
};

TEST_F(RegionsTest, HoldOctetsFromTheFirstToTheLast) {
  const int region = add(1000, 100);
  EXPECT_EQ(around(1000, 100), region);
  EXPECT_EQ(around(1000, 1), region);
  EXPECT_EQ(around(1099, 1), region);
  EXPECT_EQ(around(999, 1), -EFAULT);
  EXPECT_EQ(around(999, 101), -EFAULT);
  EXPECT_EQ(around(1100, 1), -EFAULT);
  EXPECT_EQ(around(1001, 100), -EFAULT);
  EXPECT_EQ(around(1050, SIZE_MAX), -EFAULT) << "wraps";
}

TEST_F(RegionsTest, ThatMeetDoNotHoldWhatLiesInBoth) {
  add(1000, 100);
  add(1100, 100);
  EXPECT_EQ(around(1050, 100), -EFAULT);
}

TEST_F(RegionsTest, MayOverlapAndEachIsFound) {
  const int outer = add(1000, 1000);
  const int inner = add(1400, 10, IWARP_LOCAL_WRITE);
  EXPECT_EQ(around(1500, 100), outer) << "behind the nearer region";
  EXPECT_EQ(around(1400, 10, IWARP_LOCAL_WRITE), inner);
  EXPECT_EQ(around(1405, 100), outer);
  const int twin = add(1000, 1000, IWARP_LOCAL_WRITE);
  EXPECT_EQ(around(1900, 50, IWARP_LOCAL_WRITE), twin);
}

TEST_F(RegionsTest, WithoutTheRightAreTellingMoreThanNone) {
  add(1000, 100, IWARP_REMOTE_READ);
  EXPECT_EQ(around(1000, 10, IWARP_LOCAL_WRITE), -EACCES);
  EXPECT_EQ(around(2000, 10, IWARP_LOCAL_WRITE), -EFAULT);
}

TEST_F(RegionsTest, NumbersAreNeverGivenAgain) {
  const int first = add(1000, 100);
  EXPECT_NE(regions.take(first), nullptr);
  EXPECT_NE(add(1000, 100), first);
  EXPECT_EQ(regions.take(first), nullptr);
  EXPECT_EQ(regions.find(first), nullptr);
}

TEST_F(RegionsTest, ThatWereTakenHoldNothing) {
  const int region = add(1000, 100);
  EXPECT_EQ(around(1000, 100), region);
  const auto taken = regions.take(region);
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(taken->address, 1000u);
  EXPECT_EQ(around(1000, 100), -EFAULT);
  EXPECT_EQ(regions.size(), 0u);
}

TEST_F(RegionsTest, AreLimited) {
  for (unsigned i = 0; i < IWARP_REGIONS_MAX; ++i) ASSERT_GE(add(1000 + i, 100), 0);
  EXPECT_EQ(add(1000, 100), -ENOBUFS);
  EXPECT_GE(around(2000, 100), 0);
}

}  // namespace
}  // namespace weft::sockets
