// DDP headers: the worked examples both ways, every shorter prefix, reserved bits.
#include "wire/ddp.h"

#include <random>

#include <gtest/gtest.h>

#include "tests/support/hex.h"

namespace weft::wire {
namespace {

using test::hex;
using test::to_hex;
using Buffer = std::vector<std::uint8_t>;

DDPHeader tagged(Opcode op, std::uint32_t stag, std::uint64_t to, bool last = true) {
  DDPHeader header;
  header.tagged = true;
  header.last = last;
  header.rdmap_control = rdmap_control(op);
  header.stag = {stag};
  header.to = to;
  return header;
}

DDPHeader untagged(Opcode op, std::uint32_t msn, std::uint32_t mo = 0, bool last = true) {
  DDPHeader header;
  header.last = last;
  header.rdmap_control = rdmap_control(op);
  header.qn = traits(op).queue;
  header.msn = {msn};
  header.mo = mo;
  return header;
}

std::string encoded(const DDPHeader& header) {
  Buffer out(header.octets());
  EXPECT_EQ(header.encode(out), out.size());
  return to_hex(out);
}

/// A worked example: the ULPDU's first octets, and the header they are.
struct Example {
  const char* name;
  const char* octets;
  DDPHeader header;
};

std::vector<Example> examples() {
  DDPHeader invalidate = untagged(Opcode::SendSolicitedInvalidate, 1);
  invalidate.invalidate_stag = {0x00112233};
  return {
      {"A3 Send", "4143 00000000 00000000 00000001 00000000", untagged(Opcode::Send, 1)},
      {"A4 Write", "c140 00112233 00000000 00001000", tagged(Opcode::Write, 0x00112233, 0x1000)},
      {"A5 Send SE Inv", "4146 00112233 00000000 00000001 00000000", invalidate},
      {"A6 Read Request", "4141 00000000 00000001 00000001 00000000",
       untagged(Opcode::ReadRequest, 1)},
      {"A7 Read Response", "c142 0000aa01 00000000 00002000",
       tagged(Opcode::ReadResponse, 0xaa01, 0x2000)},
      {"A8a first of two", "0143 00000000 00000000 00000002 00000000",
       untagged(Opcode::Send, 2, 0, false)},
      {"A8b second of two", "4143 00000000 00000000 00000002 0000000b",
       untagged(Opcode::Send, 2, 11)},
      {"A10 Terminate", "4147 00000000 00000002 00000001 00000000", untagged(Opcode::Terminate, 1)},
      {"B4 empty Read Response", "c142 00000001 00000000 00000000",
       tagged(Opcode::ReadResponse, 1, 0)},
      {"B5 Immediate Data", "4148 00000000 00000000 00000001 00000000",
       untagged(Opcode::Immediate, 1)},
      {"B6 Atomic Request", "414a 00000000 00000001 00000002 00000000",
       untagged(Opcode::AtomicRequest, 2)},
      {"B7 Atomic Response", "414b 00000000 00000003 00000001 00000000",
       untagged(Opcode::AtomicResponse, 1)},
      {"Write, not last", "8140 00112233 ffffffff ffffff00",
       tagged(Opcode::Write, 0x00112233, 0xffffffffffffff00u, false)},
  };
}

//= rfc5041#4.2
//= rfc5041#4.3
TEST(DDPHeader, WorkedExamplesBothWays) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.name);
    const Buffer octets = hex(example.octets);
    EXPECT_EQ(encoded(example.header), to_hex(octets));
    const auto parsed = DDPHeader::parse(octets);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(*parsed, example.header);
  }
}

TEST(DDPHeader, PayloadAfterTheHeaderIsNotLookedAt) {
  for (const Example& example : examples()) {
    Buffer octets = hex(example.octets);
    octets.resize(octets.size() + 40, 0xff);
    ASSERT_TRUE(DDPHeader::parse(octets).has_value());
    EXPECT_EQ(*DDPHeader::parse(octets), example.header) << example.name;
  }
}

// Each prefix lies in memory of exactly its size, so that the address sanitizer sees any step past.
TEST(DDPHeader, NoShorterPrefixIsAHeader) {
  for (const Example& example : examples()) {
    const Buffer whole = hex(example.octets);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Buffer prefix(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(DDPHeader::parse(prefix).has_value()) << example.name << ", " << size;
    }
  }
}

TEST(DDPHeader, ATaggedHeaderIsNotEnoughForAnUntaggedOne) {
  Buffer octets = hex("c140 00112233 00000000 00001000");
  EXPECT_TRUE(DDPHeader::parse(octets).has_value());
  octets[0] &= 0x7f;
  EXPECT_FALSE(DDPHeader::parse(octets).has_value());
}

//= rfc5041#4.1
TEST(DDPHeader, ReservedBitsAreIgnoredAndSentAsZero) {
  for (const Example& example : examples()) {
    Buffer octets = hex(example.octets);
    octets[0] |= 0x3c;
    const auto parsed = DDPHeader::parse(octets);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(*parsed, example.header) << example.name;
    EXPECT_EQ(encoded(*parsed), to_hex(hex(example.octets)));
  }
}

TEST(DDPHeader, VersionsAndControlOctetsAreReportedNotJudged) {
  for (int version = 0; version < 4; ++version) {
    Buffer octets = hex("4043 00000000 00000000 00000001 00000000");
    octets[0] = static_cast<std::uint8_t>(octets[0] | version);
    for (int control = 0; control < 256; ++control) {
      octets[1] = static_cast<std::uint8_t>(control);
      const auto parsed = DDPHeader::parse(octets);
      ASSERT_TRUE(parsed.has_value());
      EXPECT_EQ(parsed->version, version);
      EXPECT_EQ(parsed->rdmap_control, control);
      EXPECT_EQ(encoded(*parsed), to_hex(octets));
    }
  }
}

TEST(DDPHeader, AVersionTooWideForItsFieldDoesNotSpill) {
  DDPHeader header = tagged(Opcode::Write, 1, 2, false);
  header.version = 0xff;
  EXPECT_EQ(encoded(header), "83400000 00010000 00000000 0002");
}

TEST(DDPHeader, RandomValuesSurviveTheRoundTrip) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    DDPHeader header;
    header.tagged = random() & 1;
    header.last = random() & 1;
    header.version = random() & 3;
    header.rdmap_control = static_cast<std::uint8_t>(random());
    if (header.tagged) {
      header.stag = {static_cast<std::uint32_t>(random())};
      header.to = random();
    } else {
      header.invalidate_stag = {static_cast<std::uint32_t>(random())};
      header.qn = static_cast<std::uint32_t>(random());
      header.msn = {static_cast<std::uint32_t>(random())};
      header.mo = static_cast<std::uint32_t>(random());
    }
    Buffer out(kDDPHeaderOctetsMax + 3, 0xee);
    const std::size_t size = header.encode(out);
    ASSERT_EQ(size, header.octets());
    for (std::size_t i = size; i < out.size(); ++i) ASSERT_EQ(out[i], 0xee);
    ASSERT_EQ(DDPHeader::parse(Octets(out).first(size)), header);
  }
}

TEST(DDPHeaderDeathTest, ABufferThatIsTooSmallIsOurBug) {
  Buffer small(kTaggedHeaderOctets - 1);
  EXPECT_DEATH(tagged(Opcode::Write, 1, 1).encode(small), "out.size\\(\\) >= octets\\(\\)");
  Buffer tagged_only(kTaggedHeaderOctets);
  EXPECT_DEATH(untagged(Opcode::Send, 1).encode(tagged_only), "out.size\\(\\) >= octets\\(\\)");
}

//= rfc5041#4.3
TEST(MSN, StartsAtOneAndWrapsToZero) {
  EXPECT_EQ(MSN{}.value, 1u);
  EXPECT_EQ(MSN{}.next(), MSN{2});
  EXPECT_EQ(MSN{0xffffffff}.next(), MSN{0});
}

}  // namespace
}  // namespace weft::wire
