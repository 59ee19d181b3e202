// Completions that wait for the peer: proven by a Read of no octets, or by one of the program's.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

QPConfig placed() {
  QPConfig config;
  config.complete_placed = true;
  return config;
}

struct QPProbe : ::testing::Test {
  QPProbe() { pair.open(); }
  /// What a's batch holds, by opcode.
  std::vector<wire::Opcode> transmit() {
    in_flight = pair.a.transmit();
    return opcodes(in_flight);
  }
  static std::vector<wire::Opcode> opcodes(const Bytes& stream) {
    std::vector<wire::Opcode> result;
    for (const Bytes& ulpdu : ulpdus(stream)) {
      result.push_back(wire::rdmap_opcode(wire::DDPHeader::parse(ulpdu)->rdmap_control));
    }
    return result;
  }
  void answer() {
    pair.b.deliver(in_flight);
    pair.a.deliver(pair.b.transmit_all());
  }

  Pair pair{placed()};
  Region source = pair.a.region(64), target = pair.b.region(64);
  Bytes in_flight;
};

using Opcodes = std::vector<wire::Opcode>;
constexpr auto kWrite = wire::Opcode::Write;
constexpr auto kSend = wire::Opcode::Send;
constexpr auto kRead = wire::Opcode::ReadRequest;
constexpr auto kResponse = wire::Opcode::ReadResponse;

TEST_F(QPProbe, WritesAndSendsAreDoneWhenTheProbeBehindThemIsAnswered) {
  pair.b.receive({target.sge()});
  pair.a.write({source.sge()}, target.stag, target.to);
  pair.a.send("done?");
  EXPECT_EQ(transmit(), (Opcodes{kWrite, kSend, kRead}));
  EXPECT_TRUE(pair.a.queues.sent.empty());
  EXPECT_FALSE(pair.a.qp->wants_transmit()) << "one probe is for all";
  answer();
  EXPECT_EQ(statuses(pair.a.queues.sent), (std::vector{WorkStatus::Success, WorkStatus::Success}));
  EXPECT_FALSE(pair.a.qp->wants_transmit());
  EXPECT_EQ(pair.a.qp->reads_open(), 0u);
}

TEST_F(QPProbe, AReadOrAnAtomicOfTheProgramProvesAsMuch) {
  const Region sink = pair.a.region(8);
  pair.a.write({source.sge()}, target.stag, target.to);
  pair.a.read({sink.sge()}, target.stag, target.to);
  EXPECT_EQ(transmit(), (Opcodes{kWrite, kRead}));
  answer();
  pair.a.write({source.sge()}, target.stag, target.to);
  pair.a.fetch_add(sink.sge(), target.stag, target.to, 1);
  EXPECT_EQ(transmit(), (Opcodes{kWrite, wire::Opcode::AtomicRequest}));
  answer();
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector(4, WorkStatus::Success));
}

TEST_F(QPProbe, ARefusalComesBackOnTheRequestItself) {
  pair.a.write({source.sge()}, target.stag, target.to);
  pair.a.write({source.sge()}, {0xabcd00}, target.to);
  pair.a.write({source.sge()}, target.stag, target.to);
  transmit();
  answer();
  EXPECT_EQ(statuses(pair.a.queues.sent),
            (std::vector{WorkStatus::Success, WorkStatus::RemoteAccess, WorkStatus::Flushed}));
}

TEST_F(QPProbe, ASendThatDoesNotFitComesBackToo) {
  const Region small = pair.b.region(4);
  pair.b.receive();
  pair.b.receive({small.sge()});
  pair.a.send(std::vector<SGE>{});
  pair.a.send("far too long");
  transmit();
  answer();
  EXPECT_EQ(statuses(pair.a.queues.sent),
            (std::vector{WorkStatus::Success, WorkStatus::RemoteOperation}));
}

TEST_F(QPProbe, ASendWhoseReceiveCannotBeUsedComesBackToo) {
  const Region gone = pair.b.region(16);
  pair.b.receive();
  pair.b.receive({gone.sge()});
  ASSERT_TRUE(pair.b.table.deregister(gone.stag).ok());
  pair.a.send(std::vector<SGE>{});
  pair.a.send("of no use");
  pair.a.send("behind it");
  transmit();
  answer();
  EXPECT_EQ(statuses(pair.b.queues.received),
            (std::vector{WorkStatus::Success, WorkStatus::LocalProtection}));
  EXPECT_EQ(statuses(pair.a.queues.sent),
            (std::vector{WorkStatus::Success, WorkStatus::RemoteOperation, WorkStatus::Flushed}));
}

TEST_F(QPProbe, ASendWaitsForItsReceive) {
  pair.a.send("early");
  transmit();
  answer();
  EXPECT_TRUE(pair.a.queues.sent.empty());
  const Region there = pair.b.region(8);
  pair.b.receive({there.sge()});
  pair.b.deliver({});
  pair.run();
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Success});
}

// A program may post the receive for our answer when its own Send is done. Were our answer ahead of
// what completes that Send, each end would wait for the other.
TEST_F(QPProbe, IsAnsweredBeforeASendThatWasPostedMeanwhile) {
  const Region there = pair.a.region(8);
  for (int round = 0; round < 3; ++round) {
    pair.b.receive({target.sge()});
    pair.a.send("request");
    EXPECT_EQ(transmit(), (Opcodes{kSend, kRead}));
    pair.b.deliver(in_flight);
    pair.b.send("answer");
    const Bytes back = pair.b.transmit_all();
    EXPECT_EQ(opcodes(back), (Opcodes{kResponse, kSend, kRead}));
    pair.a.queues.sent.clear();
    pair.a.deliver(back);
    EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Success});
    pair.a.receive({there.sge()});
    pair.a.deliver({});
    pair.run();
  }
}

TEST_F(QPProbe, AReadOfTheProgramIsAnsweredBeforeThatSendToo) {
  const Region sink = pair.a.region(8);
  pair.a.receive({sink.sge()});
  for (int reads = 1; reads <= 3; ++reads) {  // an answer before costs this one no turn
    pair.a.read({sink.sge()}, target.stag, target.to);
    pair.b.deliver(pair.a.transmit());
    if (reads < 3) pair.a.deliver(pair.b.transmit_all());
  }
  pair.b.send("answer");
  EXPECT_EQ(opcodes(pair.b.transmit_all()), (Opcodes{kResponse, kSend, kRead}));
}

// Not even while the send queue is never empty.
TEST_F(QPProbe, IsAnsweredAtOnceByABusySender) {
  for (int i = 0; i < 3; ++i) pair.b.write({target.sge()}, source.stag, source.to);
  pair.a.read({source.sge()}, target.stag, target.to);
  pair.a.write({source.sge()}, target.stag, target.to);
  EXPECT_EQ(transmit(), (Opcodes{kRead, kWrite, kRead}));
  pair.b.deliver(in_flight);
  EXPECT_EQ(opcodes(pair.b.transmit_all()),
            (Opcodes{kResponse, kResponse, kWrite, kWrite, kWrite, kRead}));
}

// Its answers and our probe take turns, as they do with our work.
TEST_F(QPProbe, GoesWhileThePeerReadsWithoutAPause) {
  pair.b.receive({target.sge()});
  for (int i = 0; i < 4; ++i) pair.b.read({target.sge()}, source.stag, source.to);
  pair.a.deliver(pair.b.transmit());
  pair.a.send("done?");
  EXPECT_EQ(transmit(), (Opcodes{kResponse, kSend, kResponse, kRead, kResponse, kResponse}));
}

TEST_F(QPProbe, WithoutAPeerNothingIsDone) {
  pair.a.qp->set_paired();
  pair.a.write({source.sge()}, target.stag, target.to);
  transmit();
  pair.a.qp->handle_llp_lost(pair.a.now);
  pair.a.drain();
  EXPECT_TRUE(pair.a.qp->misses_peer());
  ASSERT_TRUE(pair.a.qp->fail_unreachable(pair.a.now).ok());
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::RetryExceeded});
}

TEST_F(QPProbe, GoesWhileThePauseLasts) {
  pair.a.write({source.sge()}, target.stag, target.to);
  const Bytes begun = pair.a.transmit(true, 84);  // the Write alone
  EXPECT_EQ(ulpdus(begun).size(), 1u);
  pair.a.qp->pause_sends(true);
  EXPECT_FALSE(pair.a.qp->sends_drained());
  pair.b.deliver(begun);
  pair.run();
  EXPECT_TRUE(pair.a.qp->sends_drained());
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Success});
}

TEST(QPProbeDepth, ProbesKeepToTheDepthAndShareItsSlotsWithReads) {
  StreamParameters parameters = End::stream(Role::Initiator);
  parameters.ord = parameters.ird = 1;
  Pair pair(placed(), parameters);
  pair.open();
  const Region source = pair.a.region(64), target = pair.b.region(64);
  for (int i = 0; i < 3; ++i) {
    pair.a.write({source.sge()}, target.stag, target.to);
    pair.a.read({source.sge()}, target.stag, target.to);
    pair.b.deliver(pair.a.transmit());
    EXPECT_LE(pair.a.qp->reads_open(), 1u);
    EXPECT_LE(pair.b.qp->inbound_reads_open(), 1u);
  }
  pair.run();
  pair.a.qp->set_ord(0);  // what the program allows itself does not count for probes
  pair.a.write({source.sge()}, target.stag, target.to);
  pair.run();
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector(7, WorkStatus::Success));
}

TEST(QPProbeDepth, WithoutADepthWorkIsDoneWhenItIsTaken) {
  StreamParameters parameters = End::stream(Role::Initiator);
  parameters.ord = 0;
  End a(placed());
  a.bind(parameters);
  a.write("taken", {7}, 0);
  a.transmit();
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::Success});
}

TEST(QPProbeDepth, WithoutTheOptionThereIsNone) {
  Pair pair;
  pair.open();
  const Region target = pair.b.region(64);
  pair.a.write("taken", target.stag, target.to);
  EXPECT_EQ(ulpdus(pair.a.transmit()).size(), 1u);
  EXPECT_EQ(pair.a.queues.sent.size(), 1u);
}

}  // namespace
}  // namespace weft::core::testing
