// FPDU arithmetic against a model that walks the stream octet by octet.
#include "wire/fpdu.h"

#include <array>

#include <gtest/gtest.h>

#include "tests/support/hex.h"

namespace weft::wire {
namespace {

/// Markers in an FPDU by walking its stream octet by octet, as RFC 5044 §4.3 describes them: a
/// marker stands wherever the position is a multiple of 512, unless no octet of the FPDU is left
/// to follow it (then it belongs to the next one).
std::size_t count_by_walking(std::uint32_t position, std::size_t octets) {
  std::size_t markers = 0;
  while (octets > 0) {
    if (position % 512 == 0) {
      ++markers;
      position += 4;
    }
    --octets;
    ++position;
  }
  return markers;
}

//= rfc5044#4.1
TEST(FPDU, LengthUlpduAndPadFillWholeWords) {
  for (std::size_t ulpdu = 0; ulpdu <= kMulpduMax; ++ulpdu) {
    ASSERT_LE(pad_octets(ulpdu), 3u);
    ASSERT_EQ((2 + ulpdu + pad_octets(ulpdu)) % 4, 0u) << ulpdu;
    ASSERT_EQ(fpdu_octets(ulpdu), 2 + ulpdu + pad_octets(ulpdu) + 4) << ulpdu;
  }
}

TEST(FPDU, SizesOfTheWorkedExamples) {
  EXPECT_EQ(fpdu_octets(14), 20u);    // B4, the smallest useful one
  EXPECT_EQ(fpdu_octets(0x23), 44u);  // A3
  EXPECT_EQ(fpdu_octets(0x14), 28u);  // A4
  EXPECT_EQ(fpdu_octets(0x2e), 52u);  // A6
  EXPECT_EQ(fpdu_octets(0x1d), 36u);  // A8a
  EXPECT_EQ(fpdu_octets(0x46), 76u);  // A10
  EXPECT_EQ(fpdu_octets(0x16), 28u);  // C8
  EXPECT_EQ(pad_octets(0x23), 3u);
  EXPECT_EQ(pad_octets(0x14), 2u);
  EXPECT_EQ(pad_octets(0x16), 0u);
  EXPECT_EQ(pad_octets(0x1d), 1u);
}

//= rfc5044#4.3
// C1 to C8 share one direction: each FPDU must begin where the document says the last one ended.
TEST(Markers, PositionsOfTheWorkedExamples) {
  struct Row {
    std::uint32_t first;
    std::size_t ulpdu;
    std::size_t markers;
    std::uint32_t next;
  };
  constexpr Row kRows[] = {
      {0, 18 + 464, 1, 492},       // C1: marker 0 stands before its first octet
      {492, 0x2a, 1, 544},         // C3
      {544, 14 + 460, 0, 1024},    // C4 ends exactly at a marker position, which is C5's
      {1024, 0x1e, 1, 1064},       // C5
      {1064, 0x1d3, 1, 1544},      // C6: marker between PAD and CRC
      {1544, 14 + 1400, 2, 2972},  // C7
      {2972, 0x16, 0, 3000},       // C8
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.first);
    const std::size_t octets = fpdu_octets(row.ulpdu);
    EXPECT_EQ(marker_count(row.first, octets), row.markers);
    EXPECT_EQ(row.first + octets + 4 * row.markers, row.next);
  }
}

TEST(Markers, CountAgreesWithWalkingTheStream) {
  for (std::uint32_t position = 0; position < 1024; position += 4) {
    for (std::size_t octets = 0; octets <= 3000; octets += 4) {
      ASSERT_EQ(marker_count(position, octets), count_by_walking(position, octets))
          << octets << " octets at " << position;
    }
  }
}

TEST(Markers, CountAgreesForTheLargestFPDUs) {
  for (std::uint32_t position = 0; position < 512; position += 4) {
    for (std::size_t ulpdu = kMulpduMax - 600; ulpdu <= kMulpduMax; ulpdu += 37) {
      const std::size_t octets = fpdu_octets(ulpdu);
      ASSERT_EQ(marker_count(position, octets), count_by_walking(position, octets))
          << octets << " octets at " << position;
    }
  }
}

TEST(Markers, PositionsWrapWithTheSequenceSpace) {
  for (std::uint32_t back = 0; back <= 1024; back += 4) {
    for (std::size_t octets = 0; octets <= 2100; octets += 20) {
      const std::uint32_t position = 0u - back;
      ASSERT_EQ(marker_count(position, octets), count_by_walking(position, octets))
          << octets << " octets, " << back << " before the wrap";
    }
  }
}

//= rfc5044#4.2
TEST(Markers, StoreAndLoad) {
  std::array<std::uint8_t, 4> octets{0xaa, 0xaa, 0xaa, 0xaa};
  store_marker(octets.data(), 0x1d8);
  EXPECT_EQ(test::to_hex(octets), "000001d8");
  EXPECT_EQ(load_marker(octets.data()), 0x1d8);
  store_marker(octets.data(), 0xffff);
  EXPECT_EQ(test::to_hex(octets), "0000fffc") << "the low two bits are sent as 0";
}

TEST(Markers, LoadIgnoresTheReservedHalfAndTheLowBits) {
  EXPECT_EQ(load_marker(test::hex("ffff0017").data()), 0x14);
  EXPECT_EQ(load_marker(test::hex("12340003").data()), 0);
}

//= rfc5044#4.5
//= MPA-20
TEST(Mulpdu, TableOfKnownValues) {
  struct Row {
    std::size_t emss;
    std::size_t without;
    std::size_t with;
  };
  constexpr Row kRows[] = {{128, 128, 128},    {536, 530, 522},      {1448, 1442, 1430},
                           {1459, 1450, 1438}, {1460, 1454, 1442},   {8948, 8942, 8870},
                           {8960, 8954, 8882}, {65483, 64768, 64768}};
  for (const Row& row : kRows) {
    EXPECT_EQ(mulpdu(row.emss, false), row.without) << row.emss;
    EXPECT_EQ(mulpdu(row.emss, true), row.with) << row.emss;
  }
}

//= MPA-21
TEST(Mulpdu, IsClampedAtBothEnds) {
  for (const std::size_t emss : {0, 1, 5, 6, 7, 127, 134}) {
    EXPECT_EQ(mulpdu(emss, false), kMulpduMin) << emss;
    EXPECT_EQ(mulpdu(emss, true), kMulpduMin) << emss;
  }
  EXPECT_EQ(mulpdu(140, false), 134u);
  for (const std::size_t emss : {std::size_t{65536}, std::size_t{1} << 20, ~std::size_t{0} >> 8}) {
    EXPECT_EQ(mulpdu(emss, false), kMulpduMax) << emss;
    EXPECT_EQ(mulpdu(emss, true), kMulpduMax) << emss;
  }
}

// What MULPDU is for: an FPDU of that size fits one TCP segment wherever its markers fall.
TEST(Mulpdu, AnFPDUOfThatSizeFitsTheSegment) {
  for (std::size_t emss = 160; emss <= 9000; ++emss) {
    ASSERT_LE(fpdu_octets(mulpdu(emss, false)), emss) << emss;
    const std::size_t octets = fpdu_octets(mulpdu(emss, true));
    for (std::uint32_t position = 0; position < 512; position += 4) {
      ASSERT_LE(octets + 4 * marker_count(position, octets), emss) << emss << " at " << position;
    }
  }
}

}  // namespace
}  // namespace weft::wire
