// Framer: the worked examples octet for octet, and batches that are full or lose their memory.
#include "core/mpa/framer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/mpa/mpa_testing.h"
#include "gtest/gtest.h"

namespace weft::core {
namespace {

using namespace testing;
using weft::test::hex;
using weft::test::to_hex;

constexpr std::size_t kCopyAlways = ~std::size_t{0};

/// A framer with a batch that is large enough for anything.
struct Sender {
  Sender(bool markers, bool crc, std::size_t copy_below = kCopyAlways)
      : staging(1 << 20), pieces(64), batch(staging, pieces, 1 << 20),
        framer(markers, crc, &mover, copy_below) {}

  Framed append(const Bytes& header, std::initializer_list<Octets> payload, bool registered = true,
                bool snapshot = false) {
    std::vector<PayloadPiece> list;
    for (const Octets& piece : payload) list.push_back({piece.data(), piece.size(), registered});
    return framer.append(batch, header, list, snapshot);
  }
  /// What one more FPDU looks like, its ULPDU cut into header and payload anywhere.
  Bytes fpdu(const Bytes& ulpdu, std::size_t header_octets = 14) {
    batch.clear();
    const std::size_t n = std::min(header_octets, ulpdu.size());
    const Octets all(ulpdu);
    const Bytes header(ulpdu.begin(), ulpdu.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_EQ(append(header, {all.subspan(n)}), Framed::Done);
    return octets_of(batch);
  }

  TestMover mover;
  Bytes staging;
  std::vector<Piece> pieces;
  TransmitBatch batch;
  Framer framer;
};

//= MPA-01
//= MPA-06
//= MPA-13
TEST(Framer, WritesTheWorkedExamplesOctetForOctet) {
  for (const Example& example : plain_examples()) {
    EXPECT_EQ(to_hex(Sender(false, true).fpdu(example.ulpdu)), to_hex(example.fpdu))
        << example.name;
    EXPECT_EQ(to_hex(Sender(false, true, 0).fpdu(example.ulpdu)), to_hex(example.fpdu))
        << example.name << ", payload referenced in place";
  }
}

//= MPA-09
//= MPA-10
//= MPA-11
//= MPA-12
//= MPA-17
//= CON-04
TEST(Framer, WritesTheMarkerExamplesOctetForOctetAtTheirPositions) {
  Sender sender(true, true);
  const std::uint32_t ends[] = {492, 544, 1024, 1064, 1544, 2972, 3000};
  std::size_t i = 0;
  for (const Example& example : marker_examples()) {
    EXPECT_EQ(to_hex(sender.fpdu(example.ulpdu, 18)), to_hex(example.fpdu)) << example.name;
    EXPECT_EQ(sender.framer.position(), ends[i++]) << example.name;
  }
}

//= CON-16
//= MPA-08
TEST(Framer, TheFirstOctetsOfAStreamWithMarkersAreAZeroMarker) {
  const Example c2 = first_marker_example();
  EXPECT_EQ(to_hex(Sender(true, true).fpdu(c2.ulpdu, 18)), to_hex(c2.fpdu));
}

//= MPA-07
TEST(Framer, WithoutCRCTheFieldIsThereAndZero) {
  Sender sender(false, false);
  EXPECT_EQ(to_hex(sender.fpdu(hex("c140 00112233 00000000 00001000 77726974 6521"))),
            "0014c140 00112233 00000000 00001000 77726974 65210000 00000000");
  EXPECT_EQ(sender.mover.crc_calls, 0);
}

// Short payload goes a straight way of its own.
TEST(Framer, PayloadThatIsCopiedLooksLikePayloadThatIsReferencedWhateverItsLength) {
  for (const bool crc : {true, false}) {
    for (const std::size_t octets : {1, 2, 3, 4, 63, 1023, 1024, 1025, 1535, 1536, 2033, 3071, 3072,
                                     4096, 8190, 8191, 8192, 8193, 9000}) {
      Bytes payload(octets);
      for (std::size_t i = 0; i < octets; ++i) payload[i] = static_cast<std::uint8_t>(i * 7 + 1);
      const Octets all(payload);
      const std::size_t cut = octets / 3;
      Sender copies(false, crc), references(false, crc, 0);
      for (Sender* sender : {&copies, &references}) {
        EXPECT_EQ(sender->append(Bytes(14, 0xab), {all.first(cut), all.subspan(cut)}),
                  Framed::Done);
      }
      EXPECT_EQ(to_hex(octets_of(copies.batch)), to_hex(octets_of(references.batch))) << octets;
      EXPECT_EQ(copies.framer.position(), references.framer.position());
    }
  }
}

//= MPA-06
//= MPA-13
TEST(Framer, WhatIsWrittenInItsPlaceLooksLikeWhatIsAppended) {
  for (const bool crc : {true, false}) {
    Sender written(false, crc), appended(false, crc);
    EXPECT_TRUE(written.framer.writes_through());
    for (std::size_t octets = 1; octets < 4200; octets += octets < 70 ? 1 : 61) {
      const std::size_t header = std::min<std::size_t>(octets, octets % 20);
      Bytes ulpdu(octets);
      for (std::size_t i = 0; i < octets; ++i) ulpdu[i] = static_cast<std::uint8_t>(i * 7 + 1);
      // What an earlier FPDU left in staging shows in no PAD.
      std::fill(written.staging.begin(), written.staging.end(), 0xee);
      written.batch.clear();
      std::uint8_t* const at = written.framer.begin(written.batch, octets);
      ASSERT_NE(at, nullptr);
      std::copy_n(ulpdu.begin(), header, at);
      const PayloadPiece payload{ulpdu.data() + header, octets - header, octets % 2 == 0};
      ASSERT_TRUE(written.framer.finish(at, header, payload, ReadBy::ThisCore));
      EXPECT_EQ(to_hex(octets_of(written.batch)), to_hex(appended.fpdu(ulpdu))) << octets;
      EXPECT_EQ(written.framer.position(), appended.framer.position());
    }
  }
  EXPECT_FALSE(Sender(true, true).framer.writes_through());
}

TEST(Framer, WhereThereIsNoRoomNothingIsBegun) {
  Sender sender(false, true);
  Bytes staging(100);
  TransmitBatch small(staging, sender.pieces, 1000), full(staging, sender.pieces, 10);
  EXPECT_EQ(sender.framer.begin(small, 95), nullptr);
  EXPECT_EQ(small.octets(), 0u);
  ASSERT_NE(sender.framer.begin(full, 20), nullptr);
  const std::size_t octets = full.octets();
  EXPECT_EQ(sender.framer.begin(full, 20), nullptr);
  EXPECT_EQ(full.octets(), octets);
}

TEST(Framer, ReferencesLongPayloadInPlaceAndCopiesShort) {
  Sender sender(false, true, 100);
  const Bytes header(14, 0xc1), shorter(99, 1), longer(100, 2);
  ASSERT_EQ(sender.append(header, {shorter, longer, shorter}), Framed::Done);
  ASSERT_EQ(sender.batch.pieces().size(), 3u);
  EXPECT_EQ(sender.batch.pieces()[0].octets, 2u + 14 + 99);
  EXPECT_EQ(sender.batch.pieces()[1].data, longer.data());
  EXPECT_TRUE(sender.batch.pieces()[1].registered);
  EXPECT_EQ(sender.batch.pieces()[2].octets, 99u + 2 + 4);

  const Bytes all = weft::test::join({header, shorter, longer, shorter});
  EXPECT_EQ(to_hex(octets_of(sender.batch)), to_hex(SlowSender(false, true).fpdu(all)));
}

TEST(Framer, ASumThatIsKnownIsBelieved) {
  const Bytes header(14, 7), payload(20'000, 9);
  Sender plain(false, true, 8192);
  ASSERT_EQ(plain.append(header, {payload}), Framed::Done);
  const Bytes expected = octets_of(plain.batch);
  Sender summed(false, true, 8192);
  PayloadPiece piece{payload.data(), payload.size(), true, crc32c_extend(0, payload)};
  ASSERT_EQ(summed.framer.append(summed.batch, header, {&piece, 1}, false), Framed::Done);
  EXPECT_EQ(octets_of(summed.batch), expected);
  // One that is copied may have changed since.
  Bytes changed = payload;
  changed[5] = 1;
  piece.data = changed.data();
  Sender snapshot(false, true, 8192), again(false, true, 8192);
  ASSERT_EQ(snapshot.framer.append(snapshot.batch, header, {&piece, 1}, true), Framed::Done);
  ASSERT_EQ(again.append(header, {changed}), Framed::Done);
  EXPECT_EQ(octets_of(snapshot.batch), octets_of(again.batch));
}

TEST(Framer, InlineDataIsCopiedHoweverLong) {
  Sender sender(false, true, 0);
  Bytes data(5000, 7);
  ASSERT_EQ(sender.append(Bytes(14, 0xc1), {data}, false), Framed::Done);
  ASSERT_EQ(sender.batch.pieces().size(), 1u);
  const Bytes before = octets_of(sender.batch);
  std::fill(data.begin(), data.end(), 8);
  EXPECT_EQ(octets_of(sender.batch), before);
  Bytes ulpdu(14, 0xc1);
  ulpdu.insert(ulpdu.end(), 5000, 7);
  EXPECT_EQ(before, SlowSender(false, true).fpdu(ulpdu));
}

TEST(Framer, ASnapshotIsCopiedSoThatItsCRCFitsWhatIsSent) {
  Sender sender(false, true, 0);
  Bytes data(5000, 7);
  ASSERT_EQ(sender.append(Bytes(14, 0xc1), {data}, true, true), Framed::Done);
  std::fill(data.begin(), data.end(), 8);
  Bytes ulpdu(14, 0xc1);
  ulpdu.insert(ulpdu.end(), 5000, 7);
  EXPECT_EQ(octets_of(sender.batch), SlowSender(false, true).fpdu(ulpdu));
}

TEST(Framer, ItsMoverIsToldWhoReadsWhatItStages) {
  for (const ReadBy read_by : {ReadBy::ThisCore, ReadBy::AnotherCore}) {
    Sender sender(false, true);
    TransmitBatch batch(sender.staging, sender.pieces, SIZE_MAX, SIZE_MAX, read_by);
    const Bytes header(14, 0xc1), data(20'000, 7);
    const PayloadPiece piece{data.data(), data.size(), true};
    ASSERT_EQ(sender.framer.append(batch, header, {&piece, 1}, true), Framed::Done);
    ASSERT_EQ(sender.framer.append_run(batch, header, data.data(), 500, 4), 4u);
    EXPECT_EQ(sender.mover.readers, std::set{read_by});
  }
}

// Without a CRC nothing has to fit: it is lent, and there is room for a copy should it have to
// wait.
TEST(Framer, ASnapshotWithoutACRCIsLent) {
  Sender sender(false, false, 0);
  const Bytes header(14, 0xc1), shorter(98, 2);
  Bytes data(5001, 7);
  Bytes all = header;
  all.insert(all.end(), data.begin(), data.end());
  const Bytes fpdu = SlowSender(false, false).fpdu(all);
  ASSERT_EQ(sender.append(header, {data}, true, true), Framed::Done);
  ASSERT_EQ(sender.append(header, {data}, true, true), Framed::Done);
  const auto pieces = std::span(sender.pieces).first(sender.batch.pieces().size());
  ASSERT_EQ(pieces.size(), 5u) << "[header] [payload] [pad CRC header] [payload] [pad CRC]";
  EXPECT_EQ(pieces[1].data, data.data());
  EXPECT_EQ(to_hex(octets_of(sender.batch)), to_hex(weft::test::join({fpdu, fpdu})));

  // The first FPDU and half of the second have left.
  ASSERT_TRUE(keep_lent(pieces, fpdu.size() + 2500, sender.mover, ReadBy::ThisCore));
  std::fill(data.begin(), data.end(), 8);
  EXPECT_EQ(pieces[1].data, data.data()) << "that one is gone";
  EXPECT_FALSE(pieces[3].registered);
  const Bytes after = octets_of(sender.batch);
  EXPECT_TRUE(std::equal(fpdu.begin() + 2500, fpdu.end(),
                         after.begin() + static_cast<std::ptrdiff_t>(fpdu.size() + 2500)));
}

TEST(Framer, ARunIsAsLongAsThereIsRoom) {
  const Bytes header = hex("81400000 00070000 0000ffff ff00"), payload(50 * 100, 3);
  Sender sender(false, true);
  EXPECT_EQ(sender.framer.append_run(sender.batch, header, payload.data(), 100, 50), 50u);
  const std::size_t each = wire::fpdu_octets(14 + 100);
  EXPECT_EQ(sender.batch.octets(), 50 * each);
  EXPECT_EQ(sender.framer.position(), 50 * each);
  const Bytes second = octets_of(sender.batch);
  EXPECT_EQ(to_hex(Octets(second).subspan(each, 16)), "00728140 00000007 00000000 ffffffc8");

  for (const auto& [staging, octets_max, count] :
       {std::array{10 * each - 1, std::size_t{1} << 20, std::size_t{9}},
        std::array{100 * each, 4 * each, std::size_t{4}},
        std::array{100 * each, 4 * each + 1, std::size_t{5}},
        std::array{each - 1, each, std::size_t{0}}}) {
    TransmitBatch batch(MutableOctets(sender.staging).first(staging), sender.pieces, octets_max);
    EXPECT_EQ(sender.framer.append_run(batch, header, payload.data(), 100, 50), count);
    EXPECT_EQ(batch.octets(), count * each);
  }
}

TEST(Framer, WhatIsNotCopiedOrHasMarkersMakesNoRun) {
  const Bytes header(14, 0xc1), payload(2 * 9000, 3);
  Sender marked(true, true), below(false, true, 100);
  EXPECT_EQ(marked.framer.append_run(marked.batch, header, payload.data(), 100, 2), 0u);
  EXPECT_EQ(below.framer.append_run(below.batch, header, payload.data(), 100, 2), 0u);
  EXPECT_EQ(below.framer.append_run(below.batch, header, payload.data(), 9000, 2), 0u);
  EXPECT_EQ(below.framer.append_run(below.batch, header, payload.data(), 99, 2), 2u);
  EXPECT_EQ(marked.batch.octets() + marked.framer.position(), 0u);
}

TEST(Framer, AHeaderAloneAndAPayloadAloneAreULPDUsToo) {
  const Bytes one = {0x42};
  Sender header(false, true);
  ASSERT_EQ(header.append(one, {}), Framed::Done);
  Sender payload(false, true);
  ASSERT_EQ(payload.append({}, {one, Octets()}), Framed::Done);
  EXPECT_EQ(octets_of(header.batch), SlowSender(false, true).fpdu(one));
  EXPECT_EQ(octets_of(payload.batch), octets_of(header.batch));
}

TEST(Framer, NoRoomLeavesBatchAndPositionAsTheyWere) {
  const Bytes header(14, 0xc1), data(100, 2);
  // 2 + 14 + 100 + 4 octets fit, one less does not; with markers 4 more.
  for (const bool markers : {false, true}) {
    const std::size_t octets = markers ? 124 : 120;
    for (std::size_t staging = 0; staging <= octets; ++staging) {
      Sender sender(markers, true);
      TransmitBatch batch(MutableOctets(sender.staging).first(staging), sender.pieces, 1000);
      const PayloadPiece piece{data.data(), data.size(), true};
      const Framed framed = sender.framer.append(batch, header, {&piece, 1}, false);
      EXPECT_EQ(framed, staging == octets ? Framed::Done : Framed::NoRoom) << staging;
      EXPECT_EQ(batch.octets(), staging == octets ? octets : 0u);
      EXPECT_EQ(sender.framer.position(), batch.octets());
    }
  }
}

TEST(Framer, NoRoomInTheListLeavesEverythingAsItWas) {
  const Bytes header(14, 0xc1), data(100, 2);
  for (std::size_t count = 0; count <= 3; ++count) {
    Sender sender(false, true, 0);
    std::vector<Piece> pieces(count);
    TransmitBatch batch(sender.staging, pieces, 1000);
    const PayloadPiece piece{data.data(), data.size(), true};
    const Framed framed = sender.framer.append(batch, header, {&piece, 1}, false);
    EXPECT_EQ(framed, count == 3 ? Framed::Done : Framed::NoRoom) << count;
    EXPECT_EQ(batch.octets(), count == 3 ? 120u : 0u);
    EXPECT_EQ(batch.pieces().size(), count == 3 ? 3u : 0u);
  }
}

TEST(Framer, NoFPDUIsBegunInAFullBatchButTheLastOneMayPassTheLimit) {
  Sender sender(false, true);
  TransmitBatch batch(sender.staging, sender.pieces, 30);
  EXPECT_EQ(sender.framer.append(batch, Bytes(14), {}, false), Framed::Done);
  EXPECT_EQ(sender.framer.append(batch, Bytes(14), {}, false), Framed::Done);
  EXPECT_EQ(batch.octets(), 40u);
  EXPECT_EQ(sender.framer.append(batch, Bytes(14), {}, false), Framed::NoRoom);
  EXPECT_EQ(sender.framer.position(), 40u);
}

TEST(Framer, UnmappedMemoryLeavesBatchAndPositionAsTheyWere) {
  const Bytes header(14, 0xc1), first(3000, 1), gone(3000, 2);
  for (const std::size_t copy_below : {std::size_t{0}, kCopyAlways}) {
    for (const bool markers : {false, true}) {
      Sender sender(markers, true, copy_below);
      ASSERT_EQ(sender.append(header, {first}), Framed::Done);
      const Bytes before = octets_of(sender.batch);
      const std::uint32_t position = sender.framer.position();
      sender.mover.gone = gone.data() + 2999;
      sender.mover.gone_octets = 1;
      EXPECT_EQ(sender.append(header, {first, gone}), Framed::MemoryGone);
      EXPECT_EQ(octets_of(sender.batch), before);
      EXPECT_EQ(sender.framer.position(), position);
      EXPECT_EQ(sender.append(header, {first}), Framed::Done) << "the next one goes out";
    }
  }
}

//= MPA-03
TEST(FramerDeathTest, RefusesMoreThanAnyMULPDU) {
  Sender sender(true, true);
  const Bytes most(wire::kMulpduMax - 14, 3);
  EXPECT_EQ(sender.append(Bytes(14, 0xc1), {most}), Framed::Done);
  const Bytes more(wire::kMulpduMax - 13, 3);
  EXPECT_DEATH((void)sender.append(Bytes(14, 0xc1), {more}), "kMulpduMax");
  EXPECT_DEATH((void)sender.append({}, {}), "ulpdu >= 1");
}

// Any sizes, cut into any pieces, against the slow sender, for long enough to meet every marker
// position.
//= MPA-10
//= MPA-11
//= MPA-12
//= MPA-15
//= MPA-17
TEST(Framer, AgreesWithTheSlowSenderOverRandomStreams) {
  std::mt19937_64 random(20);
  for (int round = 0; round < 40; ++round) {
    const bool markers = round % 2 == 0, crc = round % 4 < 2;
    Sender sender(markers, crc, random() % 3 == 0 ? kCopyAlways : random() % 3000);
    SlowSender slow(markers, crc);
    for (int i = 0; i < 60; ++i) {
      const std::size_t bound = random() % 8 == 0 ? 9000 : random() % 8 == 1 ? 8 : 700;
      const Bytes ulpdu = random_octets(random, 1 + random() % bound);
      std::vector<PayloadPiece> list;
      std::size_t at = random() % (std::min<std::size_t>(ulpdu.size(), 46) + 1);
      const Bytes header(ulpdu.begin(), ulpdu.begin() + static_cast<std::ptrdiff_t>(at));
      while (at < ulpdu.size()) {
        const std::size_t n =
            list.size() == 20 ? ulpdu.size() - at : 1 + random() % (ulpdu.size() - at);
        list.push_back({ulpdu.data() + at, n, random() % 4 != 0});
        at += n;
      }
      sender.batch.clear();
      ASSERT_EQ(sender.framer.append(sender.batch, header, list, random() % 4 == 0), Framed::Done);
      ASSERT_EQ(to_hex(octets_of(sender.batch)), to_hex(slow.fpdu(ulpdu)));
      ASSERT_EQ(sender.framer.position(), slow.position);
    }
  }
}

// 2^32 octets are too many to send here, so the position is brought to the wrap by large FPDUs.
//= MPA-10
TEST(Framer, MarkersKeepTheirPlacesWhenThePositionWraps) {
  Sender sender(true, false);
  const Bytes data(wire::kMulpduMax - 14, 5);
  const Bytes header(14, 0xc1);
  const PayloadPiece piece{data.data(), data.size(), false};
  std::uint64_t total = 0;
  SlowSender slow(true, false);
  while (total < (std::uint64_t{1} << 32) + 4096) {
    sender.batch.clear();
    const bool large = total + 70000 < std::uint64_t{1} << 32;
    if (large) {
      ASSERT_EQ(sender.framer.append(sender.batch, header, {&piece, 1}, false), Framed::Done);
    } else {
      Bytes ulpdu(777, static_cast<std::uint8_t>(total));
      slow.position = sender.framer.position();
      ASSERT_EQ(sender.framer.append(sender.batch, ulpdu, {}, false), Framed::Done);
      ASSERT_EQ(to_hex(octets_of(sender.batch)), to_hex(slow.fpdu(ulpdu)));
    }
    total += sender.batch.octets();
    ASSERT_EQ(sender.framer.position(), static_cast<std::uint32_t>(total));
  }
}

}  // namespace
}  // namespace weft::core
