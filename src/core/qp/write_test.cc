// Writes: cut, placed, refused.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

using test::hex;
using test::to_hex;

//= RDM-02 RDM-05
TEST(QPWrite, LeavesAsInTheExample) {
  End a;
  a.bind();
  a.write("write!", {0x00112233}, 0x1000);
  EXPECT_EQ(to_hex(a.transmit()),
            "0014c140 00112233 00000000 00001000 77726974 65210000 d376b3de");
}

//= RDM-05 DDP-20 DDP-25
TEST(QPWrite, IsPlacedAndNotDelivered) {
  Pair pair;
  const Region source = pair.a.region(5000), target = pair.b.region(6000);
  source.fill(pattern(5000));
  pair.a.write({source.sge(1), source.sge(4999, 1)}, target.stag, target.to + 500);
  pair.run();
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Success});
  EXPECT_TRUE(pair.b.queues.received.empty());
  EXPECT_EQ(Bytes(target.data() + 500, target.data() + 5500), *source.memory);
  EXPECT_EQ(target.text(500), std::string(500, '\0'));
  EXPECT_EQ(target.text(500, 5500), std::string(500, '\0'));
}

//= DDP-01 DDP-04 DDP-07 DDP-08
TEST(QPWrite, SegmentsCarryTheirOffset) {
  End a;
  a.bind(Role::Initiator, 134);  // MULPDU 128, payload 114
  const Region source = a.region(300);
  a.write({source.sge(300)}, {0xabcd01}, 0xfffffffffffff000u);
  const auto segments = ulpdus(a.transmit_all());
  ASSERT_EQ(segments.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto header = *wire::DDPHeader::parse(segments[i]);
    EXPECT_TRUE(header.tagged);
    EXPECT_EQ(header.stag, STag{0xabcd01});
    EXPECT_EQ(header.to, 0xfffffffffffff000u + i * 114);
    EXPECT_EQ(header.last, i == 2);
    EXPECT_EQ(segments[i].size(), i < 2 ? 128u : 14u + 300 - 228);
  }
}

//= DDP-09
TEST(QPWrite, OfLengthZeroIsOneUncheckedSegment) {
  Pair pair;
  pair.a.write(std::vector<SGE>{}, {0}, 0);
  const Bytes octets = pair.a.transmit();
  EXPECT_EQ(to_hex(ulpdus(octets).at(0)), to_hex(tagged(wire::Opcode::Write, {1}, 0)));
  pair.b.deliver(octets);
  EXPECT_EQ(pair.b.qp->state(), QPState::RTS);
  EXPECT_EQ(pair.b.mover.placements, 0u);
}

/// What has to be checked before it is placed fits a first-level cache, unless somebody waits for
/// it alone; what may be received in place is as long as the path allows.
TEST(QPWrite, SegmentsOfStreamsWithACRCAreNoLongerThanACacheHolds) {
  constexpr std::uint32_t kMulpdu = 60'000, kFew = 100'000, kMany = 300'000;
  for (const bool crc : {true, false}) {
    for (const bool sends : {true, false}) {
      const auto lengths_of = [&](std::uint32_t payload, QP::LoneCut cut) {
        End a;
        StreamParameters stream = End::stream(Role::Initiator);
        stream.crc = crc;
        a.bind(stream, kMulpdu + 6);
        a.qp->set_lone_cut(cut);
        const Region source = a.region(payload);
        sends ? a.send({source.sge()}) : a.write({source.sge()}, {0xabcd01}, 0);
        const std::size_t header = sends ? wire::kUntaggedHeaderOctets : wire::kTaggedHeaderOctets;
        std::vector<std::size_t> lengths;  // of payload
        const Bytes octets = a.transmit_all();
        for (std::size_t at = 0; at < octets.size();) {
          const std::size_t length = load_be16(octets.data() + at);
          lengths.push_back(length - header);
          at += wire::fpdu_octets(length);
        }
        return lengths;
      };
      using Lengths = std::vector<std::size_t>;
      using Cut = QP::LoneCut;
      const bool checked = crc && !sends;
      const Lengths full = {32'768, 32'768, 32'768, 1'696};
      if (checked) {
        EXPECT_EQ(lengths_of(kFew, Cut::None), full);
      } else {
        EXPECT_GT(lengths_of(kFew, Cut::None).at(0), kMulpdu - 512);
      }
      const Lengths short_end = {43'750, 43'750, 12'500};
      const Lengths checked_short_end = {29'167, 29'167, 29'167, 12'499};
      EXPECT_EQ(lengths_of(kFew, Cut::ShortEnd), checked ? checked_short_end : short_end);
      // One that somebody waits for may be as long as a packet.
      const Lengths packets = lengths_of(kFew, Cut::Long);
      EXPECT_EQ(packets.size(), 2u);
      EXPECT_GT(packets.at(0), kMulpdu - 512);
      for (const Cut cut : {Cut::None, Cut::Long, Cut::ShortEnd}) {
        const Lengths lengths = lengths_of(kMany, cut);
        const std::size_t most = checked ? 32 * 1024 : lengths.at(0);
        EXPECT_EQ(lengths.at(0), most);
        EXPECT_EQ(lengths.size(), (kMany + most - 1) / most);
        if (!checked) {
          EXPECT_GT(most, kMulpdu - 512);
        }
      }
    }
  }
}

TEST(QPWrite, LongPayloadIsSentFromWhereItLies) {
  QPConfig config;
  config.gather_octets_min = 1024;
  Pair pair(config, End::stream(Role::Initiator), 9000);
  const Region source = pair.a.region(8000), target = pair.b.region(8000);
  source.fill(pattern(8000));
  pair.a.write({source.sge()}, target.stag, target.to);
  Bytes staging(1 << 12);
  std::vector<Piece> pieces(16);
  TransmitBatch batch(staging, pieces, 65536);
  ASSERT_TRUE(pair.a.qp->poll_transmit(batch, pair.a.now));
  Bytes octets;
  bool registered = false;
  for (const Piece& piece : batch.pieces()) {
    octets.insert(octets.end(), piece.data, piece.data + piece.octets);
    registered |= piece.registered && piece.data == source.data();
  }
  EXPECT_TRUE(registered);
  pair.b.deliver(octets);
  EXPECT_EQ(*target.memory, *source.memory);
  // Until the transport has taken it, the memory is not the program's again.
  EXPECT_TRUE(pair.a.queues.sent.empty());
  pair.a.qp->handle_sent(octets.size(), pair.a.now);
  EXPECT_EQ(pair.a.queues.sent.size(), 1u);
}

// A batch without room gets nothing, and the WR goes on where it was.
TEST(QPWrite, SmallBatchesGiveTheSameOctets) {
  const auto octets_with = [](std::size_t staging_octets, std::size_t piece_count) {
    End a;
    a.bind(Role::Initiator, 256);
    Region source = a.region(3000, End::kAll, kPD, 0x10000);
    source.fill(pattern(3000));
    a.write({source.sge(10), source.sge(1490, 10), source.sge(1500, 1500)}, {0x1234}, 0);
    Bytes all;
    for (int i = 0; i < 1000; ++i) {
      Bytes staging(staging_octets);
      std::vector<Piece> pieces(piece_count);
      TransmitBatch batch(staging, pieces, 4096);
      if (!a.qp->poll_transmit(batch, a.now)) break;
      for (const Piece& piece : batch.pieces()) {
        all.insert(all.end(), piece.data, piece.data + piece.octets);
      }
      a.qp->handle_sent(batch.octets(), a.now);
    }
    EXPECT_EQ(a.queues.sent.size(), 1u);
    return all;
  };
  const Bytes whole = octets_with(65536, 64);
  EXPECT_EQ(octets_with(300, 64), whole);
  EXPECT_EQ(octets_with(700, 3), whole);
}

TEST(QPWrite, InlineDataNeedsNoRegion) {
  Pair pair;
  const Region target = pair.b.region(200);
  pair.a.write(std::string(200, 'i'), target.stag, target.to);
  pair.run();
  EXPECT_EQ(target.text(200), std::string(200, 'i'));
}

//= DDP-24 SEC-01 SEC-02 SEC-03
TEST(QPWrite, NothingIsPlacedWhereItMayNotBe) {
  struct Case {
    const char* what;
    std::uint32_t access;
    PD pd;
    std::uint64_t offset;
    std::size_t octets;
    std::uint16_t error;
  };
  constexpr std::uint32_t kAll = End::kAll;
  const Case cases[] = {
      {"one octet past the end", kAll, kPD, 1, 64, 0x1101},
      {"one octet before the start", kAll, kPD, ~std::uint64_t{0}, 64, 0x1101},
      {"other PD", kAll, kOtherPD, 0, 64, 0x1102},
      {"no remote write", kLocalWrite | kRemoteRead, kPD, 0, 64, 0x1100},
      {"wrap", kAll, kPD, 0xffffffffffffffc1u - 0x10000, 64, 0x1103},
  };
  for (const Case& c : cases) {
    End b;
    b.bind(Role::Responder);
    const Region target = b.region(64, c.access, c.pd, 0x10000);
    const Bytes bad = tagged(wire::Opcode::Write, target.stag, target.to + c.offset,
                             Bytes(c.octets, 0xee));
    b.deliver(fpdu(bad));
    EXPECT_EQ(*target.memory, Bytes(64)) << c.what;
    EXPECT_EQ(to_hex(b.transmit()), to_hex(fpdu(terminate(c.error, bad)))) << c.what;
  }
}

//= SEC-04
TEST(QPWrite, NothingIsPlacedAfterDeregistration) {
  Pair pair;
  const Region target = pair.b.region(64);
  pair.a.write("before", target.stag, target.to);
  pair.run();
  ASSERT_TRUE(pair.b.table.deregister(target.stag).ok());
  pair.a.write("after!", target.stag, target.to);
  pair.run();
  EXPECT_EQ(target.text(6), "before");
  EXPECT_EQ(pair.b.qp->state(), QPState::Terminate);
}

}  // namespace
}  // namespace weft::core::testing
