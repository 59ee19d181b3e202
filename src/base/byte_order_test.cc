// Big-endian loads and stores: order, alignment, and no octet beside them touched.
#include "base/byte_order.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/hex.h"

namespace weft {
namespace {

using test::hex;
using test::to_hex;

static_assert([] {
  std::array<std::uint8_t, 8> octets{};
  store_be64(octets.data(), 0x0102030405060708u);
  return octets[0] == 1 && octets[7] == 8 && load_be64(octets.data()) == 0x0102030405060708u;
}());

TEST(ByteOrder, StoresMostSignificantOctetFirst) {
  std::array<std::uint8_t, 14> octets{};
  store_be16(octets.data(), 0xfedc);
  store_be32(octets.data() + 2, 0x89abcdef);
  store_be64(octets.data() + 6, 0xf1e2d3c4b5a69788u);
  EXPECT_EQ(to_hex(octets), "fedc89ab cdeff1e2 d3c4b5a6 9788");
}

TEST(ByteOrder, LoadsAtAnyAlignmentWithoutSignExtension) {
  const auto octets = hex("00 80ff ffffffff 80 00000000000000ff 00");
  for (std::size_t shift = 0; shift < 8; ++shift) {
    std::vector<std::uint8_t> moved(shift);
    moved.insert(moved.end(), octets.begin(), octets.end());
    const std::uint8_t* p = moved.data() + shift;
    EXPECT_EQ(load_be16(p + 1), 0x80ffu);
    EXPECT_EQ(load_be32(p + 1), 0x80ffffffu);
    EXPECT_EQ(load_be32(p + 3), 0xffffffffu);
    EXPECT_EQ(load_be64(p + 7), 0x8000000000000000u);
    EXPECT_EQ(load_be64(p + 8), 0xffu);
  }
}

TEST(ByteOrder, StoresTouchOnlyTheirOwnOctets) {
  std::array<std::uint8_t, 10> octets;
  octets.fill(0xaa);
  store_be64(octets.data() + 1, 0);
  EXPECT_EQ(to_hex(octets), "aa000000 00000000 00aa");
  octets.fill(0xaa);
  store_be32(octets.data() + 1, 0);
  EXPECT_EQ(to_hex(octets), "aa000000 00aaaaaa aaaa");
  octets.fill(0xaa);
  store_be16(octets.data() + 1, 0);
  EXPECT_EQ(to_hex(octets), "aa0000aa aaaaaaaa aaaa");
}

}  // namespace
}  // namespace weft
