// Keys: their octets, and all that is no key.
#include "front/sockets/remote_key.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include <weft/sockets.h>

namespace weft::sockets {
namespace {

constexpr RemoteMemory kMemory{0x0102030405060708, 0x11223344, 0xa0b0c0d0,
                               IWARP_REMOTE_READ | IWARP_REMOTE_WRITE};

using Key = std::vector<std::uint8_t>;

Key key_of(const RemoteMemory& memory) {
  const auto octets = encode_key(memory);
  return {octets.begin(), octets.end()};
}

std::string text_of(const RemoteMemory& memory) {
  std::string text(IWARP_KEY_TEXT_OCTETS, '?');
  key_to_text(encode_key(memory), text.data());
  return text.c_str();
}

TEST(RemoteKey, SaysTheSameOnMachinesOfAnyByteOrder) {
  const Key expected{'I',  'W',  'R',  'K',  1,    6,    0, 0, 0xa0, 0xb0, 0xc0, 0xd0, 0x01, 0x02,
                     0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0, 0, 0,    0,    0x11, 0x22, 0x33, 0x44};
  Key key = key_of(kMemory);
  key.resize(28);
  EXPECT_EQ(key, expected);
}

TEST(RemoteKey, ComesBackAsItWentIn) {
  const auto memory = parse_key(key_of(kMemory));
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->address, kMemory.address);
  EXPECT_EQ(memory->octets, kMemory.octets);
  EXPECT_EQ(memory->key, kMemory.key);
  EXPECT_EQ(memory->rights, kMemory.rights);
}

TEST(RemoteKey, IsRefusedWithAnyBitWrong) {
  for (std::size_t bit = 0; bit < 8 * kKeyOctets; ++bit) {
    Key key = key_of(kMemory);
    key[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    EXPECT_FALSE(parse_key(key)) << "bit " << bit;
  }
}

TEST(RemoteKey, OfALaterVersionIsToldApart) {
  Key key = key_of(kMemory);
  key[4] = 2;
  EXPECT_EQ(parse_key(key).error().code, EPROTONOSUPPORT);
}

TEST(RemoteKey, OfAnotherLengthIsNone) {
  Key key = key_of(kMemory);
  key.push_back(0);
  EXPECT_EQ(parse_key(key).error().code, EBADMSG);
  key.resize(31);
  EXPECT_EQ(parse_key(key).error().code, EBADMSG);
  EXPECT_EQ(parse_key({}).error().code, EBADMSG);
}

struct Impossible {
  const char* what;
  RemoteMemory memory;
};

TEST(RemoteKey, OfMemoryThatCannotBeIsRefused) {
  const Impossible rows[] = {
      {"no octets", {4096, 0, 1, IWARP_REMOTE_READ}},
      {"beyond the end of the address space", {~std::uint64_t{0} - 9, 11, 1, IWARP_REMOTE_READ}},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(parse_key(key_of(row.memory)).error().code, EBADMSG) << row.what;
  }
  EXPECT_TRUE(parse_key(key_of({~std::uint64_t{0} - 9, 10, 1, IWARP_REMOTE_READ})));
}

TEST(RemoteKey, TravelsAsText) {
  const std::string text = text_of(kMemory);
  EXPECT_EQ(text.size(), 64u);
  EXPECT_EQ(text.substr(0, 16), "4957524b01060000");
  const auto key = key_from_text(text.c_str());
  ASSERT_TRUE(key);
  EXPECT_EQ(*key, encode_key(kMemory));
}

TEST(RemoteKey, TakesTextInCapitals) {
  std::string text = text_of(kMemory);
  for (char& c : text) c = static_cast<char>(std::toupper(c));
  EXPECT_TRUE(key_from_text(text.c_str()));
}

TEST(RemoteKey, TakesNoOtherText) {
  const std::string text = text_of(kMemory);
  for (const std::string& wrong : {std::string(), text.substr(1), text.substr(2), text + "0",
                                   "g" + text.substr(1), " " + text}) {
    EXPECT_EQ(key_from_text(wrong.c_str()).error().code, EBADMSG) << wrong;
  }
}

}  // namespace
}  // namespace weft::sockets
