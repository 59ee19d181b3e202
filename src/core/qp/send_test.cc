// Sends from post to completion, and how arrived octets may be divided.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

using test::hex;
using test::to_hex;

const char* const kExampleA3 =
    "00234143 00000000 00000000 00000001 00000000 68656c6c 6f206977 61727020 776f726c 64000000"
    "9d27ef3d";
const char* const kExampleA5 =
    "00164146 00112233 00000000 00000001 00000000 646f6e65 46f6a710";

//= RDM-01 RDM-02 RDM-03 RDM-12 DDP-02 DDP-03 DDP-06
TEST(QPSend, LeavesAsInTheExample) {
  End a;
  a.bind();
  a.send("hello iwarp world");
  EXPECT_EQ(to_hex(a.transmit()), to_hex(hex(kExampleA3)));
  ASSERT_EQ(a.queues.sent.size(), 1u);
  EXPECT_EQ(a.queues.sent[0].status, WorkStatus::Success);
  EXPECT_EQ(a.queues.sent[0].octets, 17u);
}

TEST(QPSend, SolicitedWithInvalidateLeavesAsInTheExample) {
  End a;
  a.bind();
  a.post({.opcode = WorkOpcode::SendInvalidate, .solicited = true, .invalidate_stag = {0x00112233}},
         {}, bytes("done"));
  EXPECT_EQ(to_hex(a.transmit()), to_hex(hex(kExampleA5)));
}

//= DDP-05 DDP-13 RDM-12
TEST(QPSend, ArrivesAsInTheExample) {
  End b;
  b.bind(Role::Responder);
  const Region buffer = b.region(64);
  const auto id = b.receive({buffer.sge()});
  EXPECT_EQ(b.deliver(hex(kExampleA3)).consumed, 44u);
  ASSERT_EQ(b.queues.received.size(), 1u);
  EXPECT_EQ(b.queues.received[0].id, id);
  EXPECT_EQ(b.queues.received[0].octets, 17u);
  EXPECT_FALSE(b.queues.received[0].solicited);
  EXPECT_EQ(buffer.text(17), "hello iwarp world");
  EXPECT_EQ(buffer.text(1, 17), std::string(1, '\0'));
  EXPECT_TRUE(b.noticed(QPNotice::Kind::FirstFPDUArrived));
}

//= DDP-01 DDP-04 DDP-07 DDP-08 DDP-10
//= MPA-02, MPA-22
TEST(QPSend, IsCutAtTheMULPDUAndScattered) {
  Pair pair({}, End::stream(Role::Initiator), 256);
  const Region source = pair.a.region(2000), target = pair.b.region(2000);
  source.memory->assign(2000, 0);
  const Bytes data = pattern(1500);
  std::copy(data.begin(), data.end(), source.memory->begin());
  pair.a.send({source.sge(100), source.sge(0), source.sge(1400, 100)});
  pair.b.receive({target.sge(7), target.sge(0), target.sge(500, 7), target.sge(1000, 507)});
  const Bytes octets = pair.a.transmit_all();
  const std::size_t mulpdu = wire::mulpdu(256, false);
  std::uint32_t mo = 0;
  const auto segments = ulpdus(octets);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto header = *wire::DDPHeader::parse(segments[i]);
    EXPECT_LE(segments[i].size(), mulpdu);
    EXPECT_EQ(header.last, i + 1 == segments.size());
    EXPECT_EQ(header.mo, mo);
    EXPECT_EQ(header.msn, MSN{1});
    EXPECT_EQ(header.rdmap_control, 0x43);
    mo += static_cast<std::uint32_t>(segments[i].size() - 18);
  }
  EXPECT_EQ(mo, 1500u);
  pair.b.deliver(octets);
  ASSERT_EQ(pair.b.queues.received.size(), 1u);
  EXPECT_EQ(pair.b.queues.received[0].octets, 1500u);
  EXPECT_EQ(Bytes(target.data(), target.data() + 1500), data);
}

//= DDP-04 DDP-07
TEST(QPSend, OfALittleMoreThanALongestSegmentMayEndInAShortOne) {
  using Lengths = std::vector<std::size_t>;
  using Cut = QP::LoneCut;
  const auto segments_of = [](std::size_t octets, std::size_t emss, std::size_t messages,
                              Cut cut = Cut::ShortEnd) {
    Pair pair({}, End::stream(Role::Initiator), emss);
    pair.a.qp->set_lone_cut(cut);
    const Region source = pair.a.region(octets), target = pair.b.region(octets);
    for (std::size_t i = 0; i < messages; ++i) {
      pair.a.send({source.sge()});
      pair.b.receive({target.sge()});
    }
    Lengths lengths;
    const Bytes sent = pair.a.transmit_all();
    for (const Bytes& segment : ulpdus(sent)) lengths.push_back(segment.size() - 18);
    pair.b.deliver(sent);
    EXPECT_EQ(pair.b.queues.received.size(), messages);
    return lengths;
  };
  const std::size_t emss = wire::fpdu_octets(60000), most = wire::mulpdu(emss, false) - 18;
  EXPECT_EQ(segments_of(most, emss, 1), Lengths{most});
  const std::size_t end = (most + 1) / 8;
  EXPECT_EQ(segments_of(most + 1, emss, 1), (Lengths{most + 1 - end, end}));
  for (const Cut cut : {Cut::None, Cut::Long}) {
    EXPECT_EQ(segments_of(most + 1, emss, 1, cut), (Lengths{most, 1}));
  }
  const std::size_t three = 3 * most, other = (three - three / 8 + 2) / 3;
  EXPECT_EQ(segments_of(three, emss, 1), (Lengths{other, other, other, three - 3 * other}));
  // Of many the last is no great part; what is cut to packets fills them.
  EXPECT_EQ(segments_of(3 * most + 1, emss, 1), (Lengths{most, most, most, 1}));
  EXPECT_EQ(segments_of(3 * 8948, 8948, 1).front(), wire::mulpdu(8948, false) - 18);
  // Among others it leaves in as few octets as can be.
  EXPECT_EQ(segments_of(most + 1, emss, 2), (Lengths{most, 1, most, 1}));
}

//= DDP-12 DDP-11 RDM-16
TEST(QPSend, IsDeliveredOnceWithItsLastSegment) {
  End b;
  b.bind(Role::Responder);
  const Region buffer = b.region(64);
  b.receive({buffer.sge()});
  b.receive({buffer.sge()});
  b.deliver(fpdu(send(1, bytes("first-part-"), 0, false)));
  EXPECT_TRUE(b.queues.received.empty());
  b.deliver(fpdu(send(1, bytes("second-part"), 11)));
  ASSERT_EQ(b.queues.received.size(), 1u);
  EXPECT_EQ(b.queues.received[0].octets, 22u);
  EXPECT_EQ(buffer.text(22), "first-part-second-part");
  // The same message again is an error, not a second delivery.
  b.deliver(fpdu(send(1, bytes("first-part-"), 0, true)));
  EXPECT_EQ(statuses(b.queues.received),
            (std::vector{WorkStatus::Success, WorkStatus::Flushed}));
}

//= DDP-09 RDM-12
TEST(QPSend, OfLengthZeroIsOneSegmentAndConsumesAReceive) {
  Pair pair;
  pair.a.send(std::vector<SGE>{});
  pair.b.receive();
  const Bytes octets = pair.a.transmit();
  EXPECT_EQ(to_hex(ulpdus(octets).at(0)), to_hex(send(1)));
  pair.b.deliver(octets);
  ASSERT_EQ(pair.b.queues.received.size(), 1u);
  EXPECT_EQ(pair.b.queues.received[0].octets, 0u);
}

//= RDM-18 RDM-20
TEST(QPSend, ManyKeepTheirOrder) {
  Pair pair;
  const Region target = pair.b.region(400);
  std::vector<std::uint64_t> receives, sends;
  for (std::uint32_t i = 0; i < 100; ++i) {
    receives.push_back(pair.b.receive({target.sge(4, i * 4)}));
    sends.push_back(pair.a.send(std::string(4, static_cast<char>('0' + i % 75))));
  }
  pair.run();
  EXPECT_EQ(ids(pair.a.queues.sent), sends);
  EXPECT_EQ(ids(pair.b.queues.received), receives);
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(target.text(4, i * 4), std::string(4, static_cast<char>('0' + i % 75)));
  }
}

//= RDM-19
TEST(QPSend, CompletesWhenTheTransportTookItsLastOctet) {
  End a;
  a.bind();
  a.send("hello iwarp world");
  a.post({.opcode = WorkOpcode::Send, .signaled = false}, {}, bytes("x"));
  const Bytes octets = a.transmit(false);
  a.qp->handle_sent(43, a.now);
  EXPECT_TRUE(a.queues.sent.empty());
  a.qp->handle_sent(1, a.now);
  ASSERT_EQ(a.queues.sent.size(), 1u);
  EXPECT_TRUE(a.queues.sent[0].signaled);
  a.qp->handle_sent(octets.size() - 44, a.now);
  ASSERT_EQ(a.queues.sent.size(), 2u);
  EXPECT_FALSE(a.queues.sent[1].signaled);
}

//= DDP-05 RDM-13
TEST(QPSend, InvalidatesBeforeItsReceiveCompletes) {
  Pair pair;
  const Region victim = pair.b.tied_region(64), buffer = pair.b.region(64);
  pair.a.post({.opcode = WorkOpcode::SendInvalidate, .solicited = true,
               .invalidate_stag = victim.stag}, {}, bytes("bye"));
  pair.b.receive({buffer.sge()});
  pair.run();
  ASSERT_EQ(pair.b.queues.received.size(), 1u);
  const Completion& completion = pair.b.queues.received[0];
  EXPECT_EQ(completion.status, WorkStatus::Success);
  EXPECT_TRUE(completion.solicited);
  EXPECT_TRUE(completion.invalidated);
  EXPECT_EQ(completion.invalidated_stag, victim.stag);
  EXPECT_EQ(pair.b.table.check(victim.stag, victim.to, 1, kRemoteWrite, {kPD, kStream}).error(),
            MemoryFault::InvalidSTag);
}

TEST(QPSend, TakesNothingBeforeThereIsAStream) {
  End a;
  a.send("early");
  EXPECT_FALSE(a.qp->wants_transmit());
  EXPECT_TRUE(a.transmit().empty());
  EXPECT_EQ(a.queues.sends_taken, 0u);
  a.bind();
  EXPECT_TRUE(a.qp->wants_transmit());
  EXPECT_FALSE(a.transmit().empty());
  EXPECT_FALSE(a.qp->wants_transmit());
}

// CON-15: the responder speaks when it was spoken to.
//= CON-15, CON-02
TEST(QPSend, OfAResponderWaitsForTheFirstFPDU) {
  Pair pair;
  pair.b.send("too early");
  EXPECT_FALSE(pair.b.qp->wants_transmit());
  EXPECT_TRUE(pair.b.transmit().empty());
  const Region buffer = pair.a.region(64);
  pair.a.receive({buffer.sge()});
  pair.open();
  EXPECT_EQ(pair.b.queues.sent.size(), 1u);
  EXPECT_EQ(pair.a.queues.received.size(), 1u);
}

TEST(QPSend, MarkersInBothDirectionsChangeNothingForTheReceiver) {
  auto parameters = End::stream(Role::Initiator);
  parameters.transmit_markers = parameters.receive_markers = true;
  Pair pair({}, parameters);
  const Region source = pair.a.region(9000), target = pair.b.region(9000);
  source.fill(pattern(9000));
  pair.a.send({source.sge()});
  pair.b.receive({target.sge()});
  pair.run();
  EXPECT_EQ(*target.memory, *source.memory);
}

// The octets arrive one by one, in parts of any size, or in more parts than are ever copied.
TEST(QPSend, AnyDivisionOfTheStreamGivesTheSame) {
  for (const std::size_t step : {1u, 2u, 3u, 7u, 44u, 1000u}) {
    Pair pair;
    const Region target = pair.b.region(640);
    for (std::uint32_t i = 0; i < 20; ++i) {
      pair.a.send(std::string(20 + i % 3, static_cast<char>('a' + i)));
      pair.b.receive({target.sge(32, i * 32)});
    }
    const Bytes octets = pair.a.transmit_all();
    std::vector<Octets> parts;
    for (std::size_t at = 0; at < octets.size(); at += step) {
      parts.push_back(Octets(octets).subspan(at, std::min(step, octets.size() - at)));
    }
    std::size_t consumed = 0;
    for (int calls = 0; consumed < octets.size() && calls < 100; ++calls) {
      std::vector<Octets> rest;
      std::size_t skip = consumed;
      for (Octets part : parts) {
        const std::size_t n = std::min(skip, part.size());
        skip -= n;
        if (n < part.size()) rest.push_back(part.subspan(n));
      }
      consumed += pair.b.qp->handle_octets({rest}, pair.b.now).consumed;
    }
    EXPECT_EQ(consumed, octets.size()) << step;
    EXPECT_EQ(pair.b.queues.received.size(), 20u) << step;
    EXPECT_EQ(target.text(20, 19 * 32), std::string(20, 't')) << step;
  }
}

TEST(QPSend, OneCallTakesABoundedNumberOfFPDUs) {
  Pair pair;
  for (int i = 0; i < 100; ++i) {
    pair.a.send(std::vector<SGE>{});
    pair.b.receive();
  }
  const Bytes octets = pair.a.transmit_all();
  const Octets part(octets);
  const Received received = pair.b.qp->handle_octets({std::span(&part, 1)}, pair.b.now);
  EXPECT_EQ(received.wanted, 0u);
  EXPECT_EQ(pair.b.queues.received.size(), 64u);
  EXPECT_EQ(received.consumed, 64u * 24);
}

}  // namespace
}  // namespace weft::core::testing
