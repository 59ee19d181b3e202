// Sums that the host made while it copied: found for what is sent as they expect, and for nothing
// else.
#include "device/sums.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/crc32c.h"

namespace weft::device {
namespace {

constexpr std::uint32_t kSegment = 32 * 1024;

class SumsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(1);
    for (std::uint8_t& octet : source) octet = static_cast<std::uint8_t>(random());
  }

  /// As the host does for a Write of these octets.
  void copy(std::size_t at, std::size_t octets) {
    sums.copy(&ring[at], Octets(source).subspan(at, octets));
    EXPECT_TRUE(std::equal(&ring[at], &ring[at] + octets, &source[at]));
  }
  /// As the device does when it cuts it.
  bool find(std::size_t at, std::uint32_t octets, std::uint32_t segment = kSegment) {
    const auto sum = sums.find(&ring[at], octets, segment);
    if (sum) {
      EXPECT_EQ(*sum, crc32c_extend(0, Octets(ring).subspan(at, octets)));
    }
    return sum.has_value();
  }

  std::vector<std::uint8_t> source = std::vector<std::uint8_t>(1 << 20), ring = source;
  Sums sums;
};

TEST_F(SumsTest, BeginOnceSomethingWasCut) {
  copy(0, kSegment);
  EXPECT_FALSE(find(0, kSegment));
  copy(kSegment, 2 * kSegment + 10'000);
  EXPECT_TRUE(find(kSegment, kSegment));
  EXPECT_TRUE(find(2 * kSegment, kSegment));
  EXPECT_TRUE(find(3 * kSegment, 10'000));
  EXPECT_FALSE(find(3 * kSegment, 10'000)) << "each once";
}

TEST_F(SumsTest, ThePlaceOfAnEarlierOneHasTheLaterSum) {
  find(0, 100);
  for (int i = 0; i < 200; ++i) {
    source[5] = static_cast<std::uint8_t>(i);
    copy(0, kSegment);
    ASSERT_TRUE(find(0, kSegment)) << i;
  }
}

TEST_F(SumsTest, WhatIsCutOtherwiseIsNotFoundAndHoldsUpNothing) {
  find(0, 100);
  copy(0, 2 * kSegment);
  EXPECT_FALSE(find(0, 24 * 1024, 24 * 1024));
  EXPECT_FALSE(find(24 * 1024, 24 * 1024, 24 * 1024));
  EXPECT_FALSE(find(48 * 1024, 16 * 1024, 24 * 1024));
  copy(2 * kSegment, 48 * 1024);
  EXPECT_TRUE(find(2 * kSegment, 24 * 1024, 24 * 1024)) << "the host follows";
  EXPECT_TRUE(find(2 * kSegment + 24 * 1024, 24 * 1024, 24 * 1024));
}

TEST_F(SumsTest, WhatIsShortHasNone) {
  find(0, 100);
  copy(0, 1000);
  copy(1000, kSegment);
  EXPECT_FALSE(find(0, 1000));
  EXPECT_TRUE(find(1000, kSegment));
}

TEST_F(SumsTest, WhatWillNotBeSentIsForgotten) {
  find(0, 100);
  copy(0, kSegment);
  sums.drop();
  source[7] ^= 1;
  copy(0, kSegment);
  EXPECT_TRUE(find(0, kSegment));
}

TEST_F(SumsTest, MoreThanAreKeptAreMadeByTheDevice) {
  find(0, 100, 8 * 1024);
  copy(0, source.size());
  std::size_t found = 0;
  for (std::size_t at = 0; at < source.size(); at += 8 * 1024) {
    if (find(at, 8 * 1024, 8 * 1024)) ++found;
  }
  EXPECT_EQ(found, 64u);
  copy(0, 8 * 1024);
  EXPECT_TRUE(find(0, 8 * 1024, 8 * 1024));
}

}  // namespace
}  // namespace weft::device
