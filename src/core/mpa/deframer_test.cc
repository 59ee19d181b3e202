// Deframer: the worked examples, any split of the octets, and every way to be wrong.
#include "core/mpa/deframer.h"

#include <algorithm>

#include "core/mpa/framer.h"
#include "core/mpa/mpa_testing.h"
#include "gtest/gtest.h"

namespace weft::core {
namespace {

using namespace testing;
using weft::test::hex;
using weft::test::to_hex;
using wire::TermError;

/// What came out of a stream: the ULPDUs, then the error or how much more was wanted.
struct Outcome {
  std::vector<Bytes> ulpdus;
  std::optional<TermError> error;
  std::size_t needs = 0;
  std::size_t rest = 0;  ///< octets that were not consumed
};

/// Each part in memory of its own, so that AddressSanitizer sees a step past its end.
std::vector<Octets> spans(const std::vector<Bytes>& parts) {
  return std::vector<Octets>(parts.begin(), parts.end());
}

/// Cuts `octets` at random places into parts, some of them empty.
std::vector<Bytes> split(const Bytes& octets, std::size_t part_octets_max,
                         std::mt19937_64& random) {
  std::vector<Bytes> parts;
  for (std::size_t at = 0; at < octets.size();) {
    const std::size_t n = std::min(random() % (part_octets_max + 1), octets.size() - at);
    parts.emplace_back(octets.begin() + static_cast<std::ptrdiff_t>(at),
                       octets.begin() + static_cast<std::ptrdiff_t>(at + n));
    at += n;
  }
  return parts;
}

/// Reads the ULPDU in pieces of random size, by both ways that there are.
Bytes drain(UlpduCursor cursor, std::mt19937_64& random) {
  Bytes all;
  while (cursor.octets_left() > 0) {
    const std::size_t n = 1 + random() % 900;
    const std::size_t before = cursor.octets_left();
    if (random() % 2 == 0) {
      Bytes copy(std::min(n, before));
      cursor.copy(copy);
      all.insert(all.end(), copy.begin(), copy.end());
    } else {
      const Octets piece = cursor.next(n);
      EXPECT_FALSE(piece.empty());
      EXPECT_LE(piece.size(), n);
      all.insert(all.end(), piece.begin(), piece.end());
    }
  }
  EXPECT_TRUE(cursor.next(100).empty());
  return all;
}

/// What lies in one run, without markers and faults, next_whole() finds as next() did, and nothing
/// else.
void expect_same_whole(const Deframer& deframer, const Bytes& rest, bool markers,
                       const ArrivedFPDU* found) {
  ArrivedFPDU whole;
  ASSERT_EQ(deframer.next_whole(rest, whole), found != nullptr && !markers);
  if (found == nullptr || markers) return;
  EXPECT_EQ(whole.stream_octets, found->stream_octets);
  std::mt19937_64 same(1), seed(1);
  EXPECT_EQ(drain(whole.ulpdu, same), drain(found->ulpdu, seed));
}

/// Runs a whole stream that is there at once, in parts of at most part_octets_max octets.
Outcome receive(Deframer& deframer, const Bytes& stream, std::size_t part_octets_max,
                std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  Outcome outcome;
  Bytes rest = stream;
  for (;;) {
    outcome.rest = rest.size();
    const std::vector<Bytes> parts = split(rest, part_octets_max, random);
    const std::vector<Octets> views = spans(parts);
    const auto result = deframer.next(OctetList{views});
    expect_same_whole(deframer, rest, deframer.has_markers(), std::get_if<ArrivedFPDU>(&result));
    if (const auto* error = std::get_if<TermError>(&result)) {
      outcome.error = *error;
      return outcome;
    }
    if (const auto* needs = std::get_if<FPDUNeeds>(&result)) {
      outcome.needs = needs->octets_total;
      EXPECT_GT(needs->octets_total, rest.size());
      return outcome;
    }
    const ArrivedFPDU& fpdu = *std::get_if<ArrivedFPDU>(&result);
    outcome.ulpdus.push_back(drain(fpdu.ulpdu, random));
    deframer.consume(fpdu.stream_octets);
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(fpdu.stream_octets));
  }
}

Outcome receive(bool markers, bool crc, const Bytes& stream, std::size_t part_octets_max = 4096) {
  TestMover mover;
  Deframer deframer(markers, crc, &mover);
  return receive(deframer, stream, part_octets_max);
}

//= MPA-04
//= MPA-23
//= MPA-24
TEST(Deframer, AcceptsTheWorkedExamplesInAnyPieces) {
  for (const Example& example : plain_examples()) {
    for (const std::size_t part : {1u, 3u, 7u, 4096u}) {
      const Outcome outcome = receive(false, true, example.fpdu, part);
      ASSERT_EQ(outcome.ulpdus.size(), 1u) << example.name;
      EXPECT_EQ(to_hex(outcome.ulpdus[0]), to_hex(example.ulpdu)) << example.name;
      EXPECT_FALSE(outcome.error);
    }
  }
}

//= MPA-10
//= MPA-11
//= MPA-12
//= MPA-17
TEST(Deframer, AcceptsTheMarkerExamplesAsOneStream) {
  Bytes stream;
  for (const Example& example : marker_examples()) {
    stream.insert(stream.end(), example.fpdu.begin(), example.fpdu.end());
  }
  for (const std::size_t part : {1u, 2u, 5u, 100u, 4096u}) {
    const Outcome outcome = receive(true, true, stream, part);
    ASSERT_EQ(outcome.ulpdus.size(), marker_examples().size());
    for (std::size_t i = 0; i < outcome.ulpdus.size(); ++i) {
      EXPECT_EQ(to_hex(outcome.ulpdus[i]), to_hex(marker_examples()[i].ulpdu))
          << marker_examples()[i].name;
    }
  }
  const Outcome other_way = receive(true, true, first_marker_example().fpdu, 1);
  ASSERT_EQ(other_way.ulpdus.size(), 1u);
  EXPECT_EQ(to_hex(other_way.ulpdus[0]), to_hex(first_marker_example().ulpdu));
}

//= MPA-24
TEST(Deframer, TellsHowMuchItNeedsAndNeverTooMuch) {
  for (const bool markers : {false, true}) {
    SlowSender sender(markers, true);
    for (const std::size_t ulpdu : {14u, 15u, 500u, 502u, 1400u, 9000u}) {
      TestMover mover;
      Deframer deframer(markers, true, &mover);
      sender.position = 0;
      const Bytes fpdu = sender.fpdu(Bytes(ulpdu, 9));
      for (std::size_t n = 0; n < fpdu.size(); ++n) {
        const Octets part = Octets(fpdu).first(n);
        const auto result = deframer.next(OctetList{{&part, 1}});
        const auto* needs = std::get_if<FPDUNeeds>(&result);
        ASSERT_NE(needs, nullptr) << n;
        ASSERT_GT(needs->octets_total, n);
        if (n < (markers ? 6u : 2u)) {
          ASSERT_LE(needs->octets_total, fpdu.size());
        } else {
          ASSERT_EQ(needs->octets_total, fpdu.size());
        }
      }
    }
  }
}

TEST(Deframer, TheLongestLengthFieldIsBounded) {
  const Bytes plain = hex("ffff");
  EXPECT_EQ(receive(false, true, plain).needs, 65535u + 2 + 3 + 4);
  const Bytes marked = hex("00000000 ffff");
  EXPECT_EQ(receive(true, true, marked).needs, 65544u + 4 * 130);
}

// DDP refuses what is too short or too long for it: to MPA these are ULPDUs like any other.
TEST(Deframer, PassesEmptyAndOversizeULPDUsOn) {
  for (const bool markers : {false, true}) {
    SlowSender sender(markers, true);
    Bytes stream = sender.fpdu({});
    const Bytes long_one = sender.fpdu(Bytes(65535, 4));
    stream.insert(stream.end(), long_one.begin(), long_one.end());
    const Outcome outcome = receive(markers, true, stream, 5000);
    ASSERT_EQ(outcome.ulpdus.size(), 2u);
    EXPECT_TRUE(outcome.ulpdus[0].empty());
    EXPECT_EQ(outcome.ulpdus[1].size(), 65535u);
  }
}

//= MPA-18
//= MPA-26
TEST(Deframer, AnyFlippedBitUnderTheCRCIsFound) {
  for (const Example& example : plain_examples()) {
    for (std::size_t bit = 16; bit < example.fpdu.size() * 8; ++bit) {
      Bytes bad = example.fpdu;
      bad[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
      ASSERT_EQ(receive(false, true, bad).error, TermError::MPACRC) << example.name << " " << bit;
    }
  }
}

// C6 has its marker between PAD and CRC; C5 right before the length; C7 two inside.
//= MPA-17
//= MPA-08
TEST(Deframer, TheReservedHalfOfAMarkerIsIgnoredButCovered) {
  Bytes stream;
  for (const Example& example : marker_examples()) {
    stream.insert(stream.end(), example.fpdu.begin(), example.fpdu.end());
  }
  const std::size_t good_before[] = {0, 1, 3, 4, 5, 5};  // FPDUs before the one with marker i
  for (std::size_t i = 0; i < 6; ++i) {
    for (const std::size_t octet : {0u, 1u}) {
      Bytes bad = stream;
      bad[512 * i + octet] = 0x55;
      const Outcome outcome = receive(true, true, bad);
      EXPECT_EQ(outcome.error, TermError::MPACRC) << "marker " << i;
      EXPECT_EQ(outcome.ulpdus.size(), good_before[i]);
      const Outcome unchecked = receive(true, false, bad);
      EXPECT_FALSE(unchecked.error);
      EXPECT_EQ(unchecked.ulpdus.size(), marker_examples().size());
    }
    // The two low bits of FPDUPTR read as zero, but the CRC covers them.
    Bytes low = stream;
    low[512 * i + 3] |= 3;
    EXPECT_EQ(receive(true, true, low).error, TermError::MPACRC) << "marker " << i;
    EXPECT_EQ(receive(true, false, low).ulpdus.size(), marker_examples().size());
  }
}

//= MPA-27
//= MPA-26
TEST(Deframer, AMarkerThatPointsElsewhereIsAnErrorWithOrWithoutCRC) {
  Bytes stream;
  for (const Example& example : marker_examples()) {
    stream.insert(stream.end(), example.fpdu.begin(), example.fpdu.end());
  }
  const std::size_t good_before[] = {0, 1, 3, 4, 5, 5};
  for (std::size_t i = 0; i < 6; ++i) {
    for (const bool crc : {false, true}) {
      for (const unsigned flip : {0x0004u, 0x0008u, 0x0100u, 0x8000u}) {
        Bytes bad = stream;
        bad[512 * i + 2] ^= static_cast<std::uint8_t>(flip >> 8);
        bad[512 * i + 3] ^= static_cast<std::uint8_t>(flip);
        const Outcome outcome = receive(true, crc, bad, 3);
        EXPECT_EQ(outcome.error, TermError::MPAMarker) << "marker " << i;
        EXPECT_EQ(outcome.ulpdus.size(), good_before[i]);
      }
    }
  }
}

// The first FPDU ends at 512, where the marker of the second stands.
//= MPA-12
TEST(Deframer, AMarkerBehindTheCRCBelongsToTheNextFPDU) {
  SlowSender sender(true, true);
  const Bytes first = sender.fpdu(Bytes(512 - 4 - 2 - 4, 1));
  ASSERT_EQ(first.size(), 512u);
  const Bytes second = sender.fpdu(Bytes(20, 2));
  ASSERT_EQ(to_hex(Octets(second).first(6)), "00000000 0014");

  const Outcome alone = receive(true, true, first, 50);
  EXPECT_EQ(alone.ulpdus.size(), 1u) << "whole without the marker that follows";
  EXPECT_EQ(alone.rest, 0u);
  Bytes bad = weft::test::join({first, second});
  bad[512] ^= 1;
  const Outcome outcome = receive(true, true, bad, 50);
  EXPECT_EQ(outcome.ulpdus.size(), 1u);
  EXPECT_EQ(outcome.error, TermError::MPACRC);
}

//= MPA-07
//= MPA-16
TEST(Deframer, WithoutCRCTheFieldMayHoldAnything) {
  const Bytes fpdu = hex("0014c140 00112233 00000000 00001000 77726974 65210000 deadbeef");
  EXPECT_EQ(receive(false, false, fpdu).ulpdus.size(), 1u);
  EXPECT_EQ(receive(false, true, fpdu).error, TermError::MPACRC);
}

//= MPA-06
TEST(Deframer, ThePadMayHoldAnythingThatTheCRCCovers) {
  Bytes fpdu = hex("0014c140 00112233 00000000 00001000 77726974 6521 abcd 00000000");
  store_crc(fpdu.data() + 24,
            crc32c_finish(crc32c_extend_portable(kCRC32CStart, Octets(fpdu).first(24))));
  EXPECT_EQ(receive(false, true, fpdu).ulpdus.size(), 1u);
  fpdu[23] ^= 1;
  EXPECT_EQ(receive(false, true, fpdu).error, TermError::MPACRC);
}

//= MPA-28
//= MPA-29
TEST(Deframer, AfterAnErrorNothingMoreIsDelivered) {
  TestMover mover;
  Deframer deframer(false, true, &mover);
  const Bytes good = plain_examples()[0].fpdu;
  Bytes bad = good;
  bad[20] ^= 1;
  EXPECT_EQ(receive(deframer, bad, 100).error, TermError::MPACRC);
  const Outcome outcome = receive(deframer, good, 100);
  EXPECT_EQ(outcome.error, TermError::MPACRC) << "the first error stays the one reported";
  EXPECT_TRUE(outcome.ulpdus.empty());
  EXPECT_EQ(deframer.position(), 0u);
}

TEST(Deframer, OneSpanCostsOnePassOfTheCRC) {
  TestMover mover;
  Deframer deframer(false, true, &mover);
  const Bytes fpdu = SlowSender(false, true).fpdu(Bytes(60000, 3));
  const Octets part(fpdu);
  const auto result = deframer.next(OctetList{{&part, 1}});
  ASSERT_NE(std::get_if<ArrivedFPDU>(&result), nullptr);
  EXPECT_EQ(mover.crc_calls, 1);
  UlpduCursor cursor = std::get_if<ArrivedFPDU>(&result)->ulpdu;
  EXPECT_EQ(cursor.next(~std::size_t{0}).size(), 60000u) << "and one piece of ULPDU";
}

TEST(Deframer, WhatLiesBehindAHeaderThatEndsAPieceIsNotPeekedAt) {
  for (const std::uint8_t control : {0x40, 0xc1}) {
    const bool tagged = (control & wire::kTaggedBit) != 0;
    const std::size_t header = tagged ? wire::kTaggedHeaderOctets : wire::kUntaggedHeaderOctets;
    Bytes fpdu(wire::fpdu_octets(60));
    store_be16(fpdu.data(), 60);
    fpdu[wire::kUlpduLengthOctets] = control;
    TestMover mover;
    Deframer deframer(false, false, &mover);
    const std::size_t head = wire::kUlpduLengthOctets + header;
    const std::vector<Octets> parts{Octets(fpdu).first(head), Octets(fpdu).subspan(head)};
    const auto found = deframer.next(OctetList{parts});
    const auto* whole = std::get_if<ArrivedFPDU>(&found);
    ASSERT_NE(whole, nullptr);
    EXPECT_EQ(whole->ulpdu.header_octets(), header);
  }
}

//= MPA-10
//= MPA-23
//= MPA-24
TEST(Deframer, RandomStreamsOfTheSlowSenderComeOutAsTheyWentIn) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 48; ++round) {
    const bool markers = round % 2 == 0, crc = round % 4 < 2;
    SlowSender sender(markers, crc);
    std::vector<Bytes> ulpdus;
    Bytes stream;
    for (int i = 0; i < 25; ++i) {
      const std::size_t bound = random() % 8 == 0 ? 5000 : random() % 8 == 1 ? 8 : 600;
      ulpdus.push_back(random_octets(random, random() % bound));
      const Bytes fpdu = sender.fpdu(ulpdus.back());
      stream.insert(stream.end(), fpdu.begin(), fpdu.end());
    }
    TestMover mover;
    Deframer deframer(markers, crc, &mover);
    const std::size_t parts[] = {1, 2, 7, 600, 5000};
    const Outcome outcome = receive(deframer, stream, parts[round % 5], random());
    ASSERT_EQ(outcome.ulpdus, ulpdus);
    ASSERT_EQ(outcome.rest, 0u);
    ASSERT_EQ(deframer.position(), static_cast<std::uint32_t>(stream.size()));
  }
}

// The two halves against each other, with the tail kept between calls as an engine does.
TEST(Deframer, ReadsWhatTheFramerWritesInTrickles) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 24; ++round) {
    const bool markers = round % 2 == 0, crc = round % 4 < 2;
    TestMover mover;
    Framer framer(markers, crc, &mover, 300);
    Deframer deframer(markers, crc, &mover);
    Bytes staging(1 << 17);
    std::vector<Piece> pieces(64);
    Bytes stream;
    std::vector<Bytes> ulpdus;
    for (int i = 0; i < 30; ++i) {
      TransmitBatch batch(staging, pieces, 1 << 20);
      ulpdus.push_back(random_octets(random, 15 + random() % (i == 7 ? 64000 : 1500)));
      const PayloadPiece piece{ulpdus.back().data() + 14, ulpdus.back().size() - 14, true};
      ASSERT_EQ(framer.append(batch, Octets(ulpdus.back()).first(14), {&piece, 1}, false),
                Framed::Done);
      const Bytes sent = octets_of(batch);
      stream.insert(stream.end(), sent.begin(), sent.end());
    }
    std::vector<Bytes> received;
    Bytes tail;
    std::size_t wanted = 0;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t n = std::min(1 + random() % 3000, stream.size() - at);
      tail.insert(tail.end(), stream.begin() + static_cast<std::ptrdiff_t>(at),
                  stream.begin() + static_cast<std::ptrdiff_t>(at + n));
      at += n;
      while (tail.size() >= wanted) {
        const std::vector<Bytes> parts = split(tail, 2000, random);
        const std::vector<Octets> views = spans(parts);
        const auto result = deframer.next(OctetList{views});
        ASSERT_EQ(std::get_if<TermError>(&result), nullptr);
        if (const auto* needs = std::get_if<FPDUNeeds>(&result)) {
          wanted = needs->octets_total;
          continue;
        }
        const ArrivedFPDU& fpdu = *std::get_if<ArrivedFPDU>(&result);
        received.push_back(drain(fpdu.ulpdu, random));
        deframer.consume(fpdu.stream_octets);
        tail.erase(tail.begin(), tail.begin() + static_cast<std::ptrdiff_t>(fpdu.stream_octets));
        wanted = 0;
      }
    }
    ASSERT_EQ(received, ulpdus);
    ASSERT_EQ(framer.position(), deframer.position());
  }
}

}  // namespace
}  // namespace weft::core
