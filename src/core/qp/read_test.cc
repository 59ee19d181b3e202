// Reads in both directions, their limits, and the RTR.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

using test::hex;
using test::to_hex;

StreamParameters with_rtr(RTR rtr, std::uint16_t depth = 8) {
  auto parameters = End::stream(Role::Initiator);
  parameters.peer_to_peer = true;
  parameters.rtr = rtr;
  parameters.ird = parameters.ord = depth;
  return parameters;
}

//= RDM-04 RDM-06 DDP-06
TEST(QPRead, RequestLeavesAsInTheExample) {
  End a;
  a.bind();
  const Region sink = a.region(8, End::kAll, kPD, 0x2000);
  a.read({sink.sge(8)}, {0xbb02}, 0x7f0000001000);
  // Example A6, but for the sink STag, which the memory table draws.
  Bytes expected = hex(
      "4141 00000000 00000001 00000001 00000000 0000aa01 00000000 00002000 00000008 0000bb02"
      "00007f00 00001000");
  store_be32(expected.data() + 18, sink.stag.value);
  EXPECT_EQ(to_hex(a.transmit()), to_hex(fpdu(expected)));
  EXPECT_TRUE(a.queues.sent.empty());
  EXPECT_EQ(a.qp->reads_open(), 1u);
}

//= RDM-04 RDM-07 RDM-10
TEST(QPRead, ResponseLeavesAsInTheExample) {
  End b;
  b.bind(Role::Responder);
  const Region source = b.region(64, kRemoteRead, kPD, 0x7f0000001000);
  source.fill(bytes("readdata"));
  b.deliver(fpdu(read_request(1, {{0xaa01}, 0x2000, 8, source.stag, source.to})));
  EXPECT_EQ(to_hex(b.transmit()),
            "0016c142 0000aa01 00000000 00002000 72656164 64617461 5dbf5691");  // A7
  EXPECT_EQ(b.qp->inbound_reads_open(), 0u);
}

//= RDM-16 RDM-21
TEST(QPRead, CompletesWithTheLastSegmentOfItsResponse) {
  Pair pair;
  const Region sink = pair.a.region(5000), source = pair.b.region(5000);
  source.fill(pattern(5000));
  pair.a.read({sink.sge(4000, 500)}, source.stag, source.to + 1000);
  pair.b.deliver(pair.a.transmit());
  const Bytes response = pair.b.transmit_all();
  const auto segments = ulpdus(response);
  ASSERT_EQ(segments.size(), 3u);
  pair.a.deliver(Bytes(response.begin(), response.end() - 1));
  EXPECT_TRUE(pair.a.queues.sent.empty());
  EXPECT_EQ(pair.a.qp->reads_open(), 1u);
  pair.a.deliver({response.back()});
  ASSERT_EQ(pair.a.queues.sent.size(), 1u);
  EXPECT_EQ(pair.a.queues.sent[0].octets, 4000u);
  EXPECT_EQ(pair.a.qp->reads_open(), 0u);
  EXPECT_EQ(Bytes(sink.data() + 500, sink.data() + 4500),
            Bytes(source.data() + 1000, source.data() + 5000));
}

//= RDM-08 DDP-09 SEC-10
TEST(QPRead, OfSizeZeroIsNotChecked) {
  Pair pair;
  pair.a.read({}, {0}, 0);
  const Bytes request = pair.a.transmit();
  EXPECT_EQ(to_hex(ulpdus(request).at(0)), to_hex(read_request(1, {{1}, 0, 0, {1}, 0})));
  pair.b.deliver(request);
  const Bytes response = pair.b.transmit();
  EXPECT_EQ(to_hex(response), "000ec142 00000001 00000000 00000000 21a3e83e");  // B4
  pair.a.deliver(response);
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Success});
}

TEST(QPRead, WithInvalidateTakesTheSinkAway) {
  Pair pair;
  const Region sink = pair.a.region(64), source = pair.b.region(64);
  pair.a.post({.opcode = WorkOpcode::ReadInvalidate, .remote_stag = source.stag,
               .remote_to = source.to}, {sink.sge()});
  pair.run();
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Success});
  EXPECT_FALSE(pair.a.table.check(sink.stag, sink.to, 1, kLocalWrite, kPD).ok());
}

//= RDM-23 SEC-08
TEST(QPRead, NeverMoreThanTheORDAreOpen) {
  auto parameters = End::stream(Role::Initiator);
  parameters.ord = 2;
  Pair pair({}, parameters);
  const Region sink = pair.a.region(64), source = pair.b.region(64);
  for (int i = 0; i < 5; ++i) pair.a.read({sink.sge(8)}, source.stag, source.to);
  const auto last = pair.a.send("behind the reads");
  pair.b.receive({source.sge()});
  Bytes requests = pair.a.transmit_all();
  EXPECT_EQ(ulpdus(requests).size(), 2u);
  EXPECT_FALSE(pair.a.qp->wants_transmit());
  EXPECT_EQ(pair.a.qp->reads_open(), 2u);
  pair.b.deliver(requests);
  EXPECT_EQ(pair.b.qp->inbound_reads_open(), 2u);
  pair.run();
  EXPECT_EQ(pair.a.queues.sent.size(), 6u);
  EXPECT_EQ(pair.a.queues.sent.back().id, last);
}

TEST(QPRead, WithAnORDOfZeroFails) {
  auto parameters = End::stream(Role::Initiator);
  parameters.ord = 0;
  End a;
  a.bind(parameters);
  const Region sink = a.region(8);
  a.send("before");
  a.read({sink.sge()}, {5}, 0);
  a.send("after");
  const auto sent = ulpdus(a.transmit_all());
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(to_hex(sent[1]), to_hex(terminate(0x0000)));
  EXPECT_EQ(statuses(a.queues.sent), (std::vector{WorkStatus::Success, WorkStatus::LocalQPOperation,
                                                  WorkStatus::Flushed}));
}

//= RDM-11 RDM-23 SEC-08
TEST(QPRead, BeyondTheIRDIsRefused) {
  auto parameters = End::stream(Role::Responder);
  parameters.ird = 2;
  End b;
  b.bind(parameters);
  const Region source = b.region(64);
  const wire::ReadRequest request{{1}, 0, 8, source.stag, source.to};
  b.deliver(fpdu(read_request(1, request)));
  b.deliver(fpdu(read_request(2, request)));
  EXPECT_EQ(b.qp->state(), QPState::RTS);
  const Bytes third = read_request(3, request);
  b.deliver(fpdu(third));
  EXPECT_EQ(to_hex(b.transmit()), to_hex(fpdu(terminate(0x1202, third))));
}

//= RDM-06 RDM-07 RDM-17
TEST(QPRead, SeesTheWriteBeforeIt) {
  Pair pair;
  const Region sink = pair.a.region(64), target = pair.b.region(64);
  pair.a.write("written first", target.stag, target.to);
  pair.a.read({sink.sge(13)}, target.stag, target.to);
  pair.a.read({sink.sge(3, 20)}, target.stag, target.to + 10);
  pair.run();
  EXPECT_EQ(sink.text(13), "written first");
  EXPECT_EQ(sink.text(3, 20), "rst");
}

// Messages take turns: neither a stream of Sends nor a stream of Reads starves the other.
TEST(QPRead, ResponsesAndSendsTakeTurns) {
  Pair pair;
  pair.open();
  const Region sink = pair.a.region(64), source = pair.b.region(64);
  for (int i = 0; i < 3; ++i) {
    pair.a.read({sink.sge(8)}, source.stag, source.to);
    pair.b.send("turn");
    pair.a.receive({sink.sge()});
  }
  pair.b.deliver(pair.a.transmit_all());
  std::string order;
  for (const Bytes& segment : ulpdus(pair.b.transmit_all())) {
    order += segment[1] == 0x42 ? 'R' : 'S';
  }
  EXPECT_EQ(order, "RSRSRS");
}

//= DDP-10
TEST(QPRead, MessagesAreNotInterleaved) {
  Pair pair;
  pair.open();
  const Region sink = pair.a.region(9000), source = pair.b.region(9000);
  for (int i = 0; i < 2; ++i) {
    pair.a.read({sink.sge(4000)}, source.stag, source.to);
    pair.b.send({source.sge(4000)});
    pair.a.receive({sink.sge()});
  }
  pair.b.deliver(pair.a.transmit_all());
  Bytes all;
  Bytes part;
  do {
    part = pair.b.transmit(true, 1000);
    all.insert(all.end(), part.begin(), part.end());
  } while (!part.empty());
  std::uint8_t open = 0;
  for (const Bytes& segment : ulpdus(all)) {
    if (open != 0) {
      EXPECT_EQ(segment[1], open);
    }
    open = segment[0] & 0x40 ? 0 : segment[1];
  }
  pair.a.deliver(all);
  EXPECT_EQ(pair.a.queues.sent.size(), 2u);
  EXPECT_EQ(pair.a.queues.received.size(), 2u);
}

//= SEC-04 RDM-30
TEST(QPRead, StopsWhenTheSourceIsDeregisteredMeanwhile) {
  Pair pair;
  const Region sink = pair.a.region(5000), source = pair.b.region(5000);
  const auto id = pair.a.read({sink.sge(4000)}, source.stag, source.to);
  pair.b.deliver(pair.a.transmit());
  const Bytes first = pair.b.transmit(true, 1);  // one FPDU
  ASSERT_TRUE(pair.b.table.deregister(source.stag).ok());
  const Bytes rest = pair.b.transmit_all();
  const std::uint32_t sent = 1454 - 14;
  const Bytes left = read_request(
      1, {sink.stag, sink.to + sent, 4000 - sent, source.stag, source.to + sent});
  EXPECT_EQ(to_hex(rest), to_hex(fpdu(terminate(0x0100, left, true))));
  pair.a.deliver(first);
  pair.a.deliver(rest);
  ASSERT_EQ(pair.a.queues.sent.size(), 1u);
  EXPECT_EQ(pair.a.queues.sent[0].id, id);
  EXPECT_EQ(pair.a.queues.sent[0].status, WorkStatus::RemoteAccess);
}

//= SEC-04
TEST(QPRead, StopsWhenTheRightIsTakenBackMeanwhile) {
  Pair pair;
  const Region sink = pair.a.region(5000), source = pair.b.region(5000);
  pair.a.read({sink.sge(4000)}, source.stag, source.to);
  pair.b.deliver(pair.a.transmit());
  pair.b.transmit(true, 1);
  RegionAttributes attributes = *pair.b.table.find(source.stag);
  attributes.access = kLocalWrite;
  ASSERT_TRUE(pair.b.table.reregister(source.stag, attributes).ok());
  EXPECT_EQ(ulpdus(pair.b.transmit_all()).size(), 1u);
  EXPECT_EQ(pair.b.qp->terminate_sent(), wire::TermError::RDMAPAccess);
}

TEST(QPRead, SourcePagesThatVanishEndTheStream) {
  Pair pair;
  const Region sink = pair.a.region(64), source = pair.b.region(64);
  pair.b.mover.unmap(source.data(), 64);
  pair.a.read({sink.sge()}, source.stag, source.to);
  pair.run();
  EXPECT_EQ(pair.b.qp->terminate_sent(), wire::TermError::RDMAPInvalidSTag);
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::RemoteAccess});
}

TEST(QPRead, SinkDeregisteredMeanwhileIsNotWritten) {
  Pair pair;
  const Region sink = pair.a.region(64), source = pair.b.region(64);
  source.fill(pattern(64));
  pair.a.read({sink.sge()}, source.stag, source.to);
  pair.b.deliver(pair.a.transmit());
  ASSERT_TRUE(pair.a.table.deregister(sink.stag).ok());
  pair.a.deliver(pair.b.transmit());
  pair.run();
  EXPECT_EQ(*sink.memory, Bytes(64));
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::LocalProtection});
}

//= ENH-15
TEST(QPRead, RTRReadIsFirstAndCountsAgainstTheORD) {
  auto parameters = with_rtr(RTR::Read, 1);
  Pair pair({}, parameters);
  const Region sink = pair.a.region(64), source = pair.b.region(64);
  pair.a.read({sink.sge()}, source.stag, source.to);
  const Bytes first = pair.a.transmit_all();
  EXPECT_EQ(to_hex(first),  // B3
            "002e4141 00000000 00000001 00000001 00000000 00000001 00000000 00000000 00000000"
            " 00000001 00000000 00000000 27dbd7e7");
  EXPECT_EQ(pair.a.qp->reads_open(), 1u);
  pair.b.deliver(first);
  EXPECT_TRUE(pair.b.noticed(QPNotice::Kind::FirstFPDUArrived));
  EXPECT_EQ(pair.b.qp->inbound_reads_open(), 1u);
  pair.run();
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Success});
  EXPECT_EQ(pair.a.qp->reads_open(), 0u);
}

TEST(QPRead, RTRWriteAndSend) {
  Pair write({}, with_rtr(RTR::Write));
  const Bytes octets = write.a.transmit();
  EXPECT_EQ(to_hex(octets), to_hex(fpdu(tagged(wire::Opcode::Write, {1}, 0))));
  write.b.deliver(octets);
  EXPECT_TRUE(write.b.noticed(QPNotice::Kind::FirstFPDUArrived));

  Pair send({}, with_rtr(RTR::Send));
  const Region buffer = send.b.region(64);
  send.a.send("second");
  send.b.receive({buffer.sge()});
  send.b.receive({buffer.sge()});
  send.run();
  ASSERT_EQ(send.b.queues.received.size(), 2u);
  EXPECT_EQ(send.b.queues.received[0].octets, 0u);
  EXPECT_EQ(send.b.queues.received[1].octets, 6u);
  EXPECT_EQ(send.a.queues.sent.size(), 1u);
}

}  // namespace
}  // namespace weft::core::testing
