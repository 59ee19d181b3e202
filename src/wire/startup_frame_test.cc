// Startup frames: worked examples both ways, every prefix, every way to be malformed.
#include "wire/startup_frame.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/hex.h"

namespace weft::wire {
namespace {

using test::ascii;
using test::hex;
using test::join;
using test::to_hex;
using Buffer = std::vector<std::uint8_t>;

const char* const kA1 = "4d504120 49442052 65712046 72616d65 40010004 70696e67";
const char* const kA2 = "4d504120 49442052 65702046 72616d65 40010005 706f6e67 21";
const char* const kB1 = "4d504120 49442052 65712046 72616d65 50020006 8004c008 7064";
const char* const kB2 = "4d504120 49442052 65702046 72616d65 50020004 80084004";

std::string encoded(const StartupFrame& frame) {
  Buffer out(frame.octets());
  EXPECT_EQ(frame.encode(out), out.size());
  return to_hex(out);
}

void expect_same(const StartupFrame& actual, const StartupFrame& expected) {
  EXPECT_EQ(actual.kind, expected.kind);
  EXPECT_EQ(actual.markers, expected.markers);
  EXPECT_EQ(actual.crc, expected.crc);
  EXPECT_EQ(actual.rejected, expected.rejected);
  EXPECT_EQ(actual.revision, expected.revision);
  EXPECT_EQ(actual.enhanced, expected.enhanced);
  EXPECT_EQ(to_hex(actual.private_data), to_hex(expected.private_data));
}

/// The frame at the front of `in`, which must hold one.
StartupFrame parse_frame(Octets in) {
  const auto parsed = parse_startup_frame(in);
  const StartupFrame* frame = std::get_if<StartupFrame>(&parsed);
  EXPECT_NE(frame, nullptr) << to_hex(in);
  return frame ? *frame : StartupFrame{};
}

/// How many octets in all the parser asks for; 0 if it does not.
std::size_t wanted(Octets in) {
  const auto parsed = parse_startup_frame(in);
  const NeedMore* more = std::get_if<NeedMore>(&parsed);
  return more ? more->octets_total : 0;
}

std::optional<StartupFault> fault(Octets in) {
  const auto parsed = parse_startup_frame(in);
  const StartupFault* found = std::get_if<StartupFault>(&parsed);
  return found ? std::optional(*found) : std::nullopt;
}

void expect_both_ways(const StartupFrame& frame, const char* text) {
  const Buffer octets = hex(text);
  EXPECT_EQ(encoded(frame), to_hex(octets));
  const StartupFrame parsed = parse_frame(octets);
  expect_same(parsed, frame);
  EXPECT_EQ(parsed.octets(), octets.size());
}

//= rfc5044#7.1.1
TEST(StartupFrame, WorkedExampleA1Request) {
  const Buffer data = ascii("ping");
  StartupFrame frame;
  frame.crc = true;
  frame.private_data = data;
  expect_both_ways(frame, kA1);
}

TEST(StartupFrame, WorkedExampleA2ReplyOfOddLength) {
  const Buffer data = ascii("pong!");
  StartupFrame frame;
  frame.kind = StartupKind::Reply;
  frame.crc = true;
  frame.private_data = data;
  expect_both_ways(frame, kA2);
}

//= rfc6581#9
TEST(StartupFrame, WorkedExampleB1EnhancedRequest) {
  const Buffer data = ascii("pd");
  StartupFrame frame;
  frame.crc = true;
  frame.revision = 2;
  frame.enhanced =
      Enhanced{.ird = 4, .ord = 8, .peer_to_peer = true, .rtr_write = true, .rtr_read = true};
  frame.private_data = data;
  expect_both_ways(frame, kB1);
}

TEST(StartupFrame, WorkedExampleB2EnhancedReply) {
  StartupFrame frame;
  frame.kind = StartupKind::Reply;
  frame.crc = true;
  frame.revision = 2;
  frame.enhanced = Enhanced{.ird = 8, .ord = 4, .peer_to_peer = true, .rtr_read = true};
  expect_both_ways(frame, kB2);
}

TEST(StartupFrame, RejectionWithPrivateData) {
  const Buffer data = ascii("no");
  StartupFrame frame;
  frame.kind = StartupKind::Reply;
  frame.crc = true;
  frame.rejected = true;
  frame.private_data = data;
  expect_both_ways(frame, "4d504120 49442052 65702046 72616d65 60010002 6e6f");
}

//= rfc6581#9.1
TEST(StartupFrame, EachEnhancedBitHasItsOwnPlace) {
  struct Row {
    Enhanced enhanced;
    const char* words;
  };
  const Row rows[] = {
      {{}, "00000000"},
      {{.peer_to_peer = true}, "80000000"},
      {{.rtr_send = true}, "40000000"},
      {{.rtr_write = true}, "00008000"},
      {{.rtr_read = true}, "00004000"},
      {{.ird = kDepthByULP}, "3fff0000"},
      {{.ord = kDepthByULP}, "00003fff"},
      {{.ird = 1, .ord = 0x2000}, "00012000"},
      {{0x3fff, 0x3fff, true, true, true, true}, "ffffffff"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.words);
    StartupFrame frame;
    frame.revision = 2;
    frame.enhanced = row.enhanced;
    expect_both_ways(
        frame, (std::string("4d504120 49442052 65712046 72616d65 10020004") + row.words).c_str());
  }
}

TEST(StartupFrame, EachFlagHasItsOwnPlace) {
  for (int flags = 0; flags < 8; ++flags) {
    StartupFrame frame;
    frame.markers = flags & 4;
    frame.crc = flags & 2;
    frame.rejected = flags & 1;
    Buffer expected = hex("4d504120 49442052 65712046 72616d65 00010000");
    expected[16] = static_cast<std::uint8_t>(flags << 5);
    expect_both_ways(frame, to_hex(expected).c_str());
  }
}

//= rfc5044#7.1.1
TEST(StartupFrame, ReservedFlagsAreIgnoredAndSentAsZero) {
  Buffer octets = hex(kA1);
  octets[16] |= 0x0f;
  const StartupFrame frame = parse_frame(octets);
  EXPECT_EQ(encoded(frame), to_hex(hex(kA1)));
}

TEST(StartupFrame, AnyRevisionIsReportedNotJudged) {
  for (int revision = 0; revision < 256; ++revision) {
    Buffer octets = hex(kA1);
    octets[17] = static_cast<std::uint8_t>(revision);
    EXPECT_EQ(parse_frame(octets).revision, revision);
  }
}

// Every prefix in memory of exactly its size, so that the address sanitizer sees a step past it.
TEST(StartupFrame, EveryPrefixAsksForMoreAndNeverReadsPastItsEnd) {
  for (const char* text : {kA1, kA2, kB1, kB2}) {
    const Buffer whole = hex(text);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      SCOPED_TRACE(size);
      const Buffer prefix(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_EQ(wanted(prefix), size < kStartupHeaderOctets ? kStartupHeaderOctets : whole.size());
    }
    EXPECT_EQ(wanted(whole), 0u);
  }
}

TEST(StartupFrame, OctetsOfTheNextThingAreLeftAlone) {
  const Buffer next = hex("00164147 00000000");
  for (const char* text : {kA1, kA2, kB1, kB2}) {
    const Buffer frame = hex(text);
    const Buffer stream = join({frame, next});
    const StartupFrame parsed = parse_frame(stream);
    EXPECT_EQ(parsed.octets(), frame.size());
    EXPECT_EQ(encoded(parsed), to_hex(frame));
    if (parsed.private_data.empty()) continue;
    // Borrowed, not copied.
    EXPECT_GE(parsed.private_data.data(), stream.data());
    EXPECT_EQ(parsed.private_data.data() + parsed.private_data.size(),
              stream.data() + frame.size());
  }
}

//= rfc5044#7.1.1
TEST(StartupFrame, OneWrongKeyOctetIsFoundAtOnce) {
  for (std::size_t at = 0; at < 16; ++at) {
    for (const char* text : {kA1, kA2}) {
      Buffer octets = hex(text);
      octets[at] ^= 0x80;
      const Octets in = octets;
      EXPECT_EQ(fault(in.first(at)), std::nullopt) << at;
      EXPECT_EQ(fault(in.first(at + 1)), StartupFault::BadKey) << at;
      EXPECT_EQ(fault(in), StartupFault::BadKey) << at;
    }
  }
}

TEST(StartupFrame, AKeyThatIsHalfRequestHalfReplyIsBad) {
  Buffer octets = hex(kA1);
  octets[9] = 'p';
  EXPECT_EQ(parse_frame(octets).kind, StartupKind::Reply);
  octets[10] = 'p';
  EXPECT_EQ(fault(octets), StartupFault::BadKey);
}

TEST(StartupFrame, OtherProtocolsAreFoundAtTheirFirstWrongOctet) {
  struct Row {
    const char* text;
    std::size_t good_octets;
  };
  for (const Row& row : {Row{"HTTP/1.1 400 Bad Request\r\n", 0}, Row{"GET / HTTP/1.1\r\n", 0},
                         Row{"SSH-2.0-OpenSSH_9.2\r\n", 0}, Row{"MPA is not what follows", 4},
                         Row{"MPA ID Req frame....", 11}}) {
    SCOPED_TRACE(row.text);
    const Buffer octets = ascii(row.text);
    for (std::size_t size = 0; size <= octets.size(); ++size) {
      const Buffer prefix(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_EQ(fault(prefix),
                size > row.good_octets ? std::optional(StartupFault::BadKey) : std::nullopt);
    }
  }
}

//= rfc5044#7.1.1
TEST(StartupFrame, PrivateDataUpTo512OctetsAndNoMore) {
  for (const std::size_t size : {0, 1, 3, 4, 511, 512}) {
    const Buffer data(size, 0x5a);
    StartupFrame frame;
    frame.private_data = data;
    const Buffer octets = hex(encoded(frame));
    EXPECT_EQ(octets.size(), 20 + size);
    expect_same(parse_frame(octets), frame);
  }
  // The length alone condemns it: nothing of the private data has to arrive.
  for (const std::size_t size : {513, 514, 1024, 0x8000, 0xffff}) {
    Buffer octets = hex("4d504120 49442052 65712046 72616d65 40010000");
    octets[18] = static_cast<std::uint8_t>(size >> 8);
    octets[19] = static_cast<std::uint8_t>(size);
    EXPECT_EQ(fault(octets), StartupFault::PrivateDataLength) << size;
    octets.resize(20 + size);
    EXPECT_EQ(fault(octets), StartupFault::PrivateDataLength) << size;
  }
}

//= rfc6581#6
TEST(StartupFrame, EnhancedNeedsItsFourOctets) {
  for (int size = 0; size < 4; ++size) {
    Buffer octets = hex("4d504120 49442052 65712046 72616d65 50020000");
    octets[19] = static_cast<std::uint8_t>(size);
    EXPECT_EQ(fault(octets), StartupFault::PrivateDataLength) << size;
    octets.resize(octets.size() + 8);
    EXPECT_EQ(fault(octets), StartupFault::PrivateDataLength) << size;
  }
  const Buffer four = hex("4d504120 49442052 65712046 72616d65 50020004 00010002");
  EXPECT_TRUE(parse_frame(four).private_data.empty());
}

TEST(StartupFrame, EnhancedLeaves508OctetsToTheULP) {
  const Buffer data(kPrivateDataOctetsMaxEnhanced, 0x33);
  StartupFrame frame;
  frame.revision = 2;
  frame.enhanced = Enhanced{.ird = 1, .ord = 1};
  frame.private_data = data;
  const Buffer octets = hex(encoded(frame));
  EXPECT_EQ(octets.size(), kStartupFrameOctetsMax);
  expect_same(parse_frame(octets), frame);
}

TEST(StartupFrame, RandomFramesSurviveTheRoundTrip) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 1000; ++round) {
    StartupFrame frame;
    frame.kind = random() & 1 ? StartupKind::Request : StartupKind::Reply;
    frame.markers = random() & 1;
    frame.crc = random() & 1;
    frame.rejected = random() & 1;
    frame.revision = static_cast<std::uint8_t>(random());
    if (random() & 1) {
      frame.enhanced = Enhanced{static_cast<std::uint16_t>(random() & 0x3fff),
                                static_cast<std::uint16_t>(random() & 0x3fff),
                                (random() & 1) != 0,
                                (random() & 1) != 0,
                                (random() & 1) != 0,
                                (random() & 1) != 0};
    }
    Buffer data(random() % (kPrivateDataOctetsMaxEnhanced + 1));
    for (std::uint8_t& octet : data) octet = static_cast<std::uint8_t>(random());
    frame.private_data = data;
    Buffer out(frame.octets() + 5, 0xee);
    ASSERT_EQ(frame.encode(out), frame.octets());
    ASSERT_EQ(to_hex(Octets(out).subspan(frame.octets())), "eeeeeeee ee");
    expect_same(parse_frame(out), frame);
  }
}

TEST(StartupFrameDeathTest, WhatDoesNotFitIsOurBug) {
  const Buffer data(kPrivateDataOctetsMax + 1);
  Buffer out(1000);
  StartupFrame frame;
  frame.private_data = data;
  EXPECT_DEATH(frame.encode(out), "kStartupFrameOctetsMax");
  frame.private_data = Octets(data).first(kPrivateDataOctetsMaxEnhanced + 1);
  frame.enhanced = Enhanced{};
  EXPECT_DEATH(frame.encode(out), "kStartupFrameOctetsMax");
  frame.private_data = {};
  EXPECT_DEATH(frame.encode(MutableOctets(out).first(23)), "out.size");
  frame.enhanced->ird = 0x4000;
  EXPECT_DEATH(frame.encode(out), "kDepthMask");
}

}  // namespace
}  // namespace weft::wire
