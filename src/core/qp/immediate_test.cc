// Immediate Data: behind a Write, before a Send, alone (RFC 7306 §6).
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

using test::hex;
using test::to_hex;
using With = Completion::With;
using wire::Opcode;

constexpr std::uint64_t kValue = 0x0102030405060708;
constexpr std::uint64_t kVerbsValue = 0xa1b2c3d400000000;  // the verbs' four octets, then zeros
constexpr std::uint64_t kMarked = 0xa1b2c3d453656e64;

const char* const kExampleB5 =
    "001a4148 00000000 00000000 00000001 00000000 01020304 05060708 06c22805";

/// What a receive ended with, in one line.
std::string described(const Completion& completion) {
  const char* const kinds[] = {"", " with", " Immediate"};
  std::string text = completion.status == WorkStatus::Success ? "ok " : "error ";
  text += std::to_string(completion.octets) + kinds[static_cast<int>(completion.with)];
  if (completion.with != With::Nothing) {
    Bytes octets(8);
    completion.immediate.encode(octets);
    text += " " + to_hex(octets);
  }
  return text + (completion.solicited ? " SE" : "");
}
std::vector<std::string> described(const std::deque<Completion>& completions) {
  std::vector<std::string> all;
  for (const Completion& completion : completions) all.push_back(described(completion));
  return all;
}
using Lines = std::vector<std::string>;

//= EXT-01 EXT-10 RDM-02
TEST(QPImmediate, FollowsItsWriteAsInTheExample) {
  End a;
  a.bind();
  const auto id = a.write_immediate("write!", {0x00112233}, 0x1000, kValue);
  // A4, then B5.
  EXPECT_EQ(to_hex(a.transmit()),
            to_hex(hex("0014c140 00112233 00000000 00001000 77726974 65210000 d376b3de")) + " " +
                to_hex(hex(kExampleB5)));
  ASSERT_EQ(ids(a.queues.sent), std::vector{id}) << "one completion for both messages";
  EXPECT_EQ(a.queues.sent[0].octets, 6u);
  EXPECT_EQ(a.queues.sent[0].opcode, WorkOpcode::WriteImmediate);
}

//= EXT-10
TEST(QPImmediate, AloneArrivesAsInTheExample) {
  End b;
  b.bind(Role::Responder);
  const Region buffer = b.region(64);
  const auto id = b.receive({buffer.sge()});
  EXPECT_EQ(b.deliver(hex(kExampleB5)).consumed, 32u);
  ASSERT_EQ(ids(b.queues.received), std::vector{id}) << "a receive of its own";
  EXPECT_EQ(described(b.queues.received), (Lines{"ok 0 Immediate 01020304 05060708"}));
  EXPECT_EQ(*buffer.memory, Bytes(64)) << "whose memory stays as it is";
}

TEST(QPImmediate, TheWriteAndItsImmediateAreOneRequestAndOneReceive) {
  Pair pair;
  const Region target = pair.b.region(64), buffer = pair.b.region(8);
  pair.b.receive();
  pair.b.receive({buffer.sge()});
  const auto id = pair.a.write_immediate("placed", target.stag, target.to, kVerbsValue, true);
  const auto send = pair.a.send("x");
  pair.run();
  EXPECT_EQ(ids(pair.a.queues.sent), (std::vector{id, send}));
  EXPECT_EQ(target.text(6), "placed");
  ASSERT_EQ(pair.b.queues.received.size(), 2u);
  EXPECT_EQ(described(pair.b.queues.received[0]), "ok 6 Immediate a1b2c3d4 00000000 SE");
}

//= EXT-10
TEST(QPImmediate, CompletesWhenTheTransportTookBothMessages) {
  End a;
  a.bind();
  a.write_immediate("write!", {0x00112233}, 0x1000, kValue);
  const Bytes octets = a.transmit(false);
  a.qp->handle_sent(octets.size() - 1, a.now);
  EXPECT_TRUE(a.queues.sent.empty());
  a.qp->handle_sent(1, a.now);
  EXPECT_EQ(a.queues.sent.size(), 1u);
}

// The last Write since the message before on queue 0; several segments of it, or none.
TEST(QPImmediate, TellsTheLengthOfItsWrite) {
  Pair pair({}, End::stream(Role::Initiator), 256);
  const Region source = pair.a.region(2000), target = pair.b.region(2000);
  source.fill(pattern(2000));
  for (int i = 0; i < 6; ++i) pair.b.receive();
  pair.a.write({source.sge(700)}, target.stag, target.to);
  pair.a.post({.opcode = WorkOpcode::WriteImmediate,
               .remote_stag = target.stag,
               .remote_to = target.to,
               .immediate = {1}},
              {source.sge(1000), source.sge(500, 1000)});
  pair.a.write({source.sge(300)}, target.stag, target.to);
  pair.a.write_immediate("", {}, 0, 2);  // as rsockets keeps a connection alive
  pair.a.write({source.sge(300)}, target.stag, target.to);
  pair.a.send(std::vector<SGE>{});
  pair.run();
  pair.b.deliver(fpdu(immediate(4, 3)));
  pair.b.deliver(fpdu(tagged(Opcode::Write, target.stag, target.to, Bytes(40), false)));
  pair.b.deliver(fpdu(tagged(Opcode::Write, target.stag, target.to + 40, Bytes(2))));
  pair.b.deliver(fpdu(immediate(5, 4, Opcode::ImmediateSolicited)));
  pair.b.deliver(fpdu(immediate(6, 5)));
  EXPECT_EQ(described(pair.b.queues.received),
            (Lines{"ok 1500 Immediate 00000000 00000001", "ok 0 Immediate 00000000 00000002",
                   "ok 0", "ok 0 Immediate 00000000 00000003",
                   "ok 42 Immediate 00000000 00000004 SE", "ok 0 Immediate 00000000 00000005"}));
  EXPECT_EQ(Bytes(target.data() + 42, target.data() + 1500),
            Bytes(source.data() + 42, source.data() + 1500));
}

TEST(QPImmediate, OfASendGoesBeforeItAndCarriesTheMark) {
  End a;
  a.bind();
  a.send_immediate("text", kVerbsValue | 0x77, true);
  const auto segments = ulpdus(a.transmit());
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(to_hex(segments[0]), to_hex(immediate(1, kMarked)));
  EXPECT_EQ(to_hex(segments[1]), to_hex(untagged(Opcode::SendSolicited, 0, 2, 0, bytes("text"))));
  EXPECT_EQ(a.queues.sent.size(), 1u);
  EXPECT_EQ(a.queues.sent[0].octets, 4u);
}

TEST(QPImmediate, OfASendSharesItsReceive) {
  Pair pair({}, End::stream(Role::Initiator), 256);
  const Region target = pair.b.region(1000);
  pair.b.receive({target.sge(900)});
  pair.b.receive({target.sge(100, 900)});
  pair.b.receive();
  pair.a.send_immediate(std::string(700, 'x'), kVerbsValue, true);
  pair.a.send("plain");
  pair.a.send_immediate("", 0);
  pair.run();
  EXPECT_EQ(described(pair.b.queues.received),
            (Lines{"ok 700 with a1b2c3d4 53656e64 SE", "ok 5", "ok 0 with 00000000 53656e64"}));
  EXPECT_EQ(target.text(700), std::string(700, 'x'));
  EXPECT_EQ(pair.a.qp->state(), QPState::RTS);
}

// Not our mark, or one of a peer that does not mean it: nothing is lost, the order stays.
//= EXT-10
TEST(QPImmediate, MarkedButWithoutASendIsDeliveredByItself) {
  End b;
  b.bind(Role::Responder);
  const Region victim = b.tied_region(8);
  for (int i = 0; i < 5; ++i) b.receive();
  b.deliver(fpdu(immediate(1, kMarked)));
  EXPECT_TRUE(b.queues.received.empty());
  b.deliver(fpdu(immediate(2, kMarked + (1ull << 32), Opcode::ImmediateSolicited)));
  b.deliver(fpdu(immediate(3, 7)));
  b.deliver(fpdu(immediate(4, kMarked)));
  b.deliver(fpdu(untagged(Opcode::SendInvalidate, 0, 5, 0, {}, true, victim.stag)));
  EXPECT_EQ(
      described(b.queues.received),
      (Lines{"ok 0 Immediate a1b2c3d4 53656e64", "ok 0 Immediate a1b2c3d5 53656e64 SE",
             "ok 0 Immediate 00000000 00000007", "ok 0 Immediate a1b2c3d4 53656e64", "ok 0"}));
  EXPECT_TRUE(b.queues.received[4].invalidated);
}

TEST(QPImmediate, WaitsForAReceiveLikeASend) {
  Pair pair;
  const Region target = pair.b.region(64);
  pair.a.write_immediate("w", target.stag, target.to, kVerbsValue);
  pair.a.send_immediate("s", kVerbsValue);
  const Bytes octets = pair.a.transmit_all();
  EXPECT_TRUE(pair.b.deliver(octets).held_back);
  EXPECT_EQ(target.text(1), "w") << "what was placed before it is there";
  EXPECT_TRUE(pair.b.deliver({}).held_back);
  pair.b.receive();
  EXPECT_TRUE(pair.b.deliver({}).held_back) << "now for the Send";
  EXPECT_EQ(described(pair.b.queues.received), (Lines{"ok 1 Immediate a1b2c3d4 00000000"}));
  pair.b.receive({target.sge()});
  EXPECT_FALSE(pair.b.deliver({}).held_back);
  EXPECT_EQ(described(pair.b.queues.received.back()), "ok 1 with a1b2c3d4 53656e64");
}

TEST(QPImmediate, KeptWaitsForTwoReceivesOneAfterTheOther) {
  End b;
  b.bind(Role::Responder);
  b.deliver(fpdu(immediate(1, kMarked)));
  EXPECT_TRUE(b.deliver(fpdu(immediate(2, 7))).held_back);
  b.receive();
  EXPECT_TRUE(b.deliver({}).held_back);
  EXPECT_EQ(described(b.queues.received), (Lines{"ok 0 Immediate a1b2c3d4 53656e64"}));
  b.receive();
  EXPECT_FALSE(b.deliver({}).held_back);
  EXPECT_EQ(described(b.queues.received.back()), "ok 0 Immediate 00000000 00000007");
}

TEST(QPImmediate, WithoutAReceiveEndsAStrictStream) {
  QPConfig config;
  config.strict_receive = true;
  End b(config);
  b.bind(Role::Responder);
  const Bytes segment = immediate(1, 7);
  b.deliver(fpdu(segment));
  EXPECT_EQ(ulpdus(b.transmit_all()), only(terminate(0x1202, segment)));
}

TEST(QPImmediate, IntoABadReceiveIsOurOwnFault) {
  End b;
  b.bind(Role::Responder);
  b.receive(std::vector<SGE>(5));
  const Bytes segment = immediate(1, 7);
  b.deliver(fpdu(segment));
  EXPECT_EQ(ulpdus(b.transmit_all()), only(terminate(0x1000, segment)));
  EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::LocalQPOperation});
}

TEST(QPImmediate, KeptIsForgottenWithItsStream) {
  End b;
  b.bind(Role::Responder);
  b.deliver(fpdu(immediate(1, kMarked)));
  ASSERT_TRUE(b.qp->fail(b.now).ok());
  ASSERT_TRUE(b.qp->reset(b.now).ok());
  b.bind(Role::Responder);
  b.receive();
  b.deliver(fpdu(send(1)));
  EXPECT_EQ(described(b.queues.received), (Lines{"ok 0"}));
}

struct Blame {
  const char* what;
  bool of_send;  ///< else of a Write
  Bytes about;   ///< quoted; empty: nothing
  WorkStatus status;
};

// A peer that knows no RFC 7306 says "unexpected opcode", with the header or without.
TEST(QPImmediate, IsBlamedWhenThePeerDoesNotKnowIt) {
  const Blame kCases[] = {
      {"Write's, quoted", false, immediate(2, kValue), WorkStatus::RemoteInvalidRequest},
      {"Write's, not quoted", false, {}, WorkStatus::RemoteInvalidRequest},
      {"Send's, quoted", true, immediate(2, kMarked), WorkStatus::RemoteInvalidRequest},
      {"Send's, not quoted", true, {}, WorkStatus::RemoteInvalidRequest},
      {"another message", false, immediate(9, kValue), WorkStatus::Flushed},
  };
  for (const Blame& c : kCases) {
    SCOPED_TRACE(c.what);
    End a;
    a.bind();
    a.send("before");
    const auto id =
        c.of_send ? a.send_immediate("s", kValue) : a.write_immediate("w", {0x00112233}, 0, kValue);
    a.send("behind");
    a.transmit(false);  // the transport still has all of it
    a.deliver(fpdu(terminate(0x0206, c.about)));
    a.qp->handle_llp_lost(a.now);
    ASSERT_EQ(a.queues.sent.size(), 3u);
    EXPECT_EQ(a.queues.sent[1].id, id);
    EXPECT_EQ(statuses(a.queues.sent),
              (std::vector{WorkStatus::Flushed, c.status, WorkStatus::Flushed}));
    EXPECT_EQ(a.qp->terminate_received(), wire::TermError::RDMAPUnexpectedOpcode);
  }
}

}  // namespace
}  // namespace weft::core::testing
