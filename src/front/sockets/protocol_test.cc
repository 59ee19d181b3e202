// Connection data and messages, as octets.
#include "front/sockets/protocol.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

namespace weft::sockets {
namespace {

ConnectData example() {
  ConnectData data;
  data.credits = 384;
  data.iomap_entries = 5;
  data.target_sgl = {0x0102030405060708, 0x11121314, 2};
  data.buffer = {0x2122232425262728, 0x31323334, 65536};
  return data;
}

TEST(ConnectDataTest, IsFortyOctetsInNetworkOrder) {
  const std::array<std::uint8_t, 40> expected{
      1,    2,    0x01, 0x80, 0,    0,    0,    5,                                         //
      1,    2,    3,    4,    5,    6,    7,    8,    0x11, 0x12, 0x13, 0x14, 0, 0, 0, 2,  //
      0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0, 1, 0, 0};
  EXPECT_EQ(encode(example()), expected);
}

TEST(ConnectDataTest, IsReadAsItWasWritten) {
  auto octets = encode(example());
  const auto data = parse_connect_data(octets);
  ASSERT_TRUE(data);
  EXPECT_FALSE(data->big_endian);
  EXPECT_EQ(data->credits, 384);
  EXPECT_EQ(data->iomap_entries, 5u);
  EXPECT_EQ(data->target_sgl.address, 0x0102030405060708u);
  EXPECT_EQ(data->buffer.length, 65536u);
  octets[1] |= 1;
  EXPECT_TRUE(parse_connect_data(octets)->big_endian);
}

TEST(ConnectDataTest, PaddingOfTheConnectionManagerIsIgnored) {
  const auto octets = encode(example());
  std::vector<std::uint8_t> padded(octets.begin(), octets.end());
  padded.resize(196);
  EXPECT_TRUE(parse_connect_data(padded));
}

TEST(ConnectDataTest, NonsenseIsRefused) {
  const auto octets = encode(example());
  EXPECT_FALSE(parse_connect_data({}));
  EXPECT_FALSE(parse_connect_data(Octets(octets).first(39)));
  for (const std::size_t at : {0u, 3u, 23u}) {  // version, credits, entries of the SGL
    auto wrong = octets;
    wrong[at] = 0;
    wrong[2] = 0;
    const auto parsed = parse_connect_data(wrong);
    ASSERT_FALSE(parsed) << at;
    EXPECT_EQ(parsed.error().code, EPROTO);
  }
}

TEST(ConnectDataTest, LargeIomapsAreScaled) {
  struct Row {
    std::uint32_t wanted, announced;
  };
  for (const Row& row : {Row{0, 0}, Row{128, 128}, Row{129, 256}, Row{256, 256}, Row{257, 512},
                         Row{1'000'000, 0x7f00}}) {
    EXPECT_EQ(announced_iomap_entries(row.wanted), row.announced);
    auto data = example();
    data.iomap_entries = row.announced;
    EXPECT_EQ(parse_connect_data(encode(data))->iomap_entries, row.announced);
  }
}

TEST(MessageTest, IsAWordOfThreeAndTwentyNineBits) {
  EXPECT_EQ(make_message(Op::Data, 1024), 0x00000400u);
  EXPECT_EQ(make_message(Op::Credits, 384), 0x80000180u);
  EXPECT_EQ(make_message(Control::Disconnect), 0xe0000000u);
  EXPECT_EQ(make_message(Control::Shutdown), 0xe0000002u);
  EXPECT_EQ(make_message(Op::Credits, 0xffffffff), 0x9fffffffu) << "a limit is cut";
}

}  // namespace
}  // namespace weft::sockets
