// What each condition causes: a hostile peer's octets, our Terminate, our state.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

using test::to_hex;
using wire::Opcode;

enum class Quoted { Nothing, DDPHeader, ReadRequest };

/// What the peer may know of our memory.
struct Targets {
  Region open, foreign, local_only, write_only;  ///< all at TO 0x10000, 64 octets
  Region others;  ///< tied to another stream
};

struct Condition {
  const char* what;
  std::uint16_t error;  ///< 0xLTCC
  Quoted quoted;
  /// The segment in error.
  Bytes (*segment)(const Targets&);
  /// Good segments before it.
  std::vector<Bytes> (*before)(const Targets&) = nullptr;
  /// What the receives end with; two of 32 octets are posted.
  std::vector<WorkStatus> received = {WorkStatus::Flushed, WorkStatus::Flushed};
};

Bytes with_octet(Bytes octets, std::size_t at, std::uint8_t clear, std::uint8_t set) {
  octets[at] = static_cast<std::uint8_t>((octets[at] & ~clear) | set);
  return octets;
}
Bytes write_to(STag stag, std::uint64_t to, std::size_t octets = 8) {
  return tagged(Opcode::Write, stag, to, Bytes(octets, 0xee));
}
Bytes read_of(STag stag, std::uint64_t to, std::uint32_t octets, std::uint32_t msn = 1) {
  return read_request(msn, {{0xaa01}, 0x2000, octets, stag, to});
}
Bytes atomic_of(int opcode, STag stag, std::uint64_t to, std::uint32_t msn = 1,
                std::uint64_t data = 0x0101) {
  return atomic_request(msn, {static_cast<wire::AtomicOpcode>(opcode), 7, stag, to,
                              {.data = data, .data_mask = ~std::uint64_t{0}}});
}
Bytes add_to(STag stag, std::uint64_t to, std::uint32_t msn = 1, std::uint64_t add = 0x0101) {
  return atomic_of(0, stag, to, msn, add);
}
Bytes truncated(Bytes octets, std::size_t size) {
  octets.resize(size);
  return octets;
}

constexpr std::uint64_t kTO = 0x10000;
constexpr auto kNothing = Quoted::Nothing;
constexpr auto kDDP = Quoted::DDPHeader;
constexpr auto kRead = Quoted::ReadRequest;
constexpr auto kOK = WorkStatus::Success;
constexpr auto kFlushed = WorkStatus::Flushed;

#define SEGMENT [](const Targets& t) -> Bytes { static_cast<void>(t); return
#define END ; }
#define BEFORE [](const Targets& t) -> std::vector<Bytes> { static_cast<void>(t); return

const Condition kConditions[] = {
    // DDP: too short for its headers (no assigned code).
    {"ULPDU of no octets", 0x1000, kNothing, SEGMENT Bytes{} END},
    {"ULPDU of one octet", 0x1000, kNothing, SEGMENT Bytes{0xc1} END},
    {"tagged header cut", 0x1000, kNothing, SEGMENT truncated(write_to(t.open.stag, kTO), 13) END},
    {"untagged header cut", 0x1000, kNothing, SEGMENT truncated(send(1), 17) END},
    {"Read Request header cut", 0x1000, kDDP,
     SEGMENT truncated(read_of(t.open.stag, kTO, 8), 45) END},
    // Versions.
    {"DV 0, tagged", 0x1104, kDDP, SEGMENT with_octet(write_to(t.open.stag, kTO), 0, 3, 0) END},
    {"DV 2, tagged", 0x1104, kDDP, SEGMENT with_octet(write_to(t.open.stag, kTO), 0, 3, 2) END},
    {"DV 0, untagged", 0x1206, kDDP, SEGMENT with_octet(send(1), 0, 3, 0) END},
    {"DV 3, untagged", 0x1206, kDDP, SEGMENT with_octet(send(1), 0, 3, 3) END},
    {"RV 0", 0x0205, kDDP, SEGMENT with_octet(send(1), 1, 0xc0, 0) END},
    {"RV 2, tagged", 0x0205, kDDP,
     SEGMENT with_octet(write_to(t.open.stag, kTO), 1, 0xc0, 0x80) END},
    // Opcodes.
    {"opcode c", 0x0206, kDDP, SEGMENT untagged(Opcode(0xc), 0, 1, 0) END},
    {"opcode f, tagged", 0x0206, kDDP, SEGMENT tagged(Opcode(0xf), t.open.stag, kTO) END},
    {"Write, untagged", 0x0206, kDDP, SEGMENT untagged(Opcode::Write, 0, 1, 0, Bytes(8)) END},
    {"Send, tagged", 0x0206, kDDP, SEGMENT tagged(Opcode::Send, t.open.stag, kTO) END},
    {"Read Request, tagged", 0x0206, kDDP,
     SEGMENT tagged(Opcode::ReadRequest, t.open.stag, kTO) END},
    {"Terminate, tagged", 0x0206, kDDP, SEGMENT tagged(Opcode::Terminate, t.open.stag, kTO) END},
    {"Read Response with no Read open", 0x0206, kDDP,
     SEGMENT tagged(Opcode::ReadResponse, t.open.stag, kTO, Bytes(8)) END},
    {"empty Read Response with no Read open", 0x0206, kDDP,
     SEGMENT tagged(Opcode::ReadResponse, {1}, 0) END},
    {"Send turns solicited within the message", 0x0206, kDDP,
     SEGMENT untagged(Opcode::SendSolicited, 0, 1, 4, Bytes(4)) END,
     BEFORE {send(1, Bytes(4), 0, false)} END},
    {"Invalidate STag changes within the message", 0x0206, kDDP,
     SEGMENT untagged(Opcode::SendInvalidate, 0, 1, 4, Bytes(4), true, {2}) END,
     BEFORE {untagged(Opcode::SendInvalidate, 0, 1, 0, Bytes(4), false, {1})} END},
    // Tagged buffers.
    {"Write: unknown STag", 0x1100, kDDP, SEGMENT write_to({0xdead00}, kTO) END},
    {"Write: STag 0", 0x1100, kDDP, SEGMENT write_to({0}, kTO) END},
    {"Write: other key", 0x1100, kDDP, SEGMENT write_to({t.open.stag.value ^ 1}, kTO) END},
    {"Write: after the end", 0x1101, kDDP, SEGMENT write_to(t.open.stag, kTO + 64) END},
    {"Write: over the end", 0x1101, kDDP, SEGMENT write_to(t.open.stag, kTO + 57) END},
    {"Write: before the start", 0x1101, kDDP, SEGMENT write_to(t.open.stag, kTO - 1) END},
    {"Write: other PD", 0x1102, kDDP, SEGMENT write_to(t.foreign.stag, kTO) END},
    {"Write: another stream's", 0x1102, kDDP, SEGMENT write_to(t.others.stag, t.others.to) END},
    {"Write: TO wraps", 0x1103, kDDP, SEGMENT write_to(t.open.stag, 0xfffffffffffffff9u) END},
    {"Write: no remote write right", 0x1100, kDDP, SEGMENT write_to(t.local_only.stag, kTO) END},
    // Queues.
    {"Send on queue 1", 0x1201, kDDP, SEGMENT untagged(Opcode::Send, 1, 1, 0) END},
    {"Send on queue 4", 0x1201, kDDP, SEGMENT untagged(Opcode::Send, 4, 1, 0) END},
    {"Read Request on queue 0", 0x1201, kDDP,
     SEGMENT untagged(Opcode::ReadRequest, 0, 1, 0, Bytes(28)) END},
    {"Terminate on queue 0", 0x1201, kDDP,
     SEGMENT untagged(Opcode::Terminate, 0, 1, 0, Bytes(4)) END},
    {"Send: MSN 0", 0x1203, kDDP, SEGMENT send(0) END},
    {"Send: MSN ahead", 0x1203, kDDP, SEGMENT send(2) END},
    {"Send: MSN again", 0x1203, kDDP, SEGMENT send(1) END, BEFORE {send(1)} END, {kOK, kFlushed}},
    {"Send: next message within a message", 0x1203, kDDP, SEGMENT send(2) END,
     BEFORE {send(1, Bytes(4), 0, false)} END},
    {"Read Request: MSN ahead", 0x1203, kDDP, SEGMENT read_of(t.open.stag, kTO, 8, 2) END},
    {"Send: MO of a first segment", 0x1204, kDDP, SEGMENT send(1, Bytes(4), 1) END},
    {"Send: MO gap", 0x1204, kDDP, SEGMENT send(1, Bytes(4), 5) END,
     BEFORE {send(1, Bytes(4), 0, false)} END},
    {"Send: MO overlap", 0x1204, kDDP, SEGMENT send(1, Bytes(4), 3) END,
     BEFORE {send(1, Bytes(4), 0, false)} END},
    {"Read Request: MO", 0x1204, kDDP,
     SEGMENT untagged(Opcode::ReadRequest, 1, 1, 4, Bytes(28)) END},
    {"Send longer than its buffer", 0x1205, kDDP, SEGMENT send(1, Bytes(33)) END, nullptr,
     {WorkStatus::LocalLength, kFlushed}},
    {"Send longer than its buffer, later segment", 0x1205, kDDP, SEGMENT send(1, Bytes(1), 32) END,
     BEFORE {send(1, Bytes(32), 0, false)} END, {WorkStatus::LocalLength, kFlushed}},
    {"Read Request longer than its header", 0x1205, kDDP,
     SEGMENT untagged(Opcode::ReadRequest, 1, 1, 0, Bytes(29)) END},
    {"Read Request without L", 0x0207, kDDP,
     SEGMENT untagged(Opcode::ReadRequest, 1, 1, 0, Bytes(28), false) END},
    // Read sources.
    {"Read: unknown STag", 0x0100, kRead, SEGMENT read_of({0xdead00}, kTO, 8) END},
    {"Read: over the end", 0x0101, kRead, SEGMENT read_of(t.open.stag, kTO + 57, 8) END},
    {"Read: before the start", 0x0101, kRead, SEGMENT read_of(t.open.stag, kTO - 1, 8) END},
    {"Read: 2^32 - 1 octets", 0x0101, kRead, SEGMENT read_of(t.open.stag, kTO, 0xffffffff) END},
    {"Read: no remote read right", 0x0102, kRead, SEGMENT read_of(t.write_only.stag, kTO, 8) END},
    {"Read: other PD", 0x0103, kRead, SEGMENT read_of(t.foreign.stag, kTO, 8) END},
    {"Read: another stream's", 0x0103, kRead,
     SEGMENT read_of(t.others.stag, t.others.to, 8) END},
    {"Read: TO wraps", 0x0104, kRead, SEGMENT read_of(t.open.stag, 0xfffffffffffffff9u, 8) END},
    {"Reads beyond the IRD", 0x1202, kDDP, SEGMENT read_of(t.open.stag, kTO, 8, 3) END,
     BEFORE {read_of(t.open.stag, kTO, 8, 1), read_of(t.open.stag, kTO, 8, 2)} END},
    // Immediate Data.
    {"Immediate of seven octets", 0x02ff, kDDP,
     SEGMENT untagged(Opcode::Immediate, 0, 1, 0, Bytes(7)) END},
    {"Immediate of nine octets", 0x02ff, kDDP,
     SEGMENT untagged(Opcode::ImmediateSolicited, 0, 1, 0, Bytes(9)) END},
    {"Immediate of no octets", 0x02ff, kDDP,
     SEGMENT untagged(Opcode::Immediate, 0, 1, 0) END},
    {"Immediate without L", 0x0207, kDDP,
     SEGMENT untagged(Opcode::Immediate, 0, 1, 0, Bytes(8), false) END},
    {"Immediate on queue 1", 0x1201, kDDP,
     SEGMENT untagged(Opcode::Immediate, 1, 1, 0, Bytes(8)) END},
    {"Immediate, tagged", 0x0206, kDDP,
     SEGMENT tagged(Opcode::Immediate, t.open.stag, kTO, Bytes(8)) END},
    {"Immediate: MSN ahead", 0x1203, kDDP, SEGMENT immediate(2, 1) END},
    {"Immediate: MO", 0x1204, kDDP,
     SEGMENT untagged(Opcode::Immediate, 0, 1, 8, Bytes(8)) END},
    {"Immediate: RV 0", 0x0205, kDDP, SEGMENT with_octet(immediate(1, 1), 1, 0xc0, 0) END},
    {"Immediate within a Send", 0x0206, kDDP,
     SEGMENT untagged(Opcode::Immediate, 0, 1, 4, Bytes(8)) END,
     BEFORE {send(1, Bytes(4), 0, false)} END},
    // Atomics.
    {"Atomic Request, tagged", 0x0206, kDDP,
     SEGMENT tagged(Opcode::AtomicRequest, t.open.stag, kTO, Bytes(52)) END},
    {"Atomic Request: RV 0", 0x0205, kDDP,
     SEGMENT with_octet(add_to(t.open.stag, kTO), 1, 0xc0, 0) END},
    {"Atomic Request: DV 0", 0x1206, kDDP,
     SEGMENT with_octet(add_to(t.open.stag, kTO), 0, 3, 0) END},
    {"Atomic Request on queue 3", 0x1201, kDDP,
     SEGMENT untagged(Opcode::AtomicRequest, 3, 1, 0, Bytes(52)) END},
    {"Atomic Request: MSN ahead", 0x1203, kDDP, SEGMENT add_to(t.open.stag, kTO, 2) END},
    {"Atomic Request: MO", 0x1204, kDDP,
     SEGMENT untagged(Opcode::AtomicRequest, 1, 1, 8, Bytes(52)) END},
    {"Atomic Request cut", 0x1000, kDDP,
     SEGMENT untagged(Opcode::AtomicRequest, 1, 1, 0, Bytes(51)) END},
    {"Atomic Request longer than its header", 0x1205, kDDP,
     SEGMENT untagged(Opcode::AtomicRequest, 1, 1, 0, Bytes(53)) END},
    {"Atomic Request without L", 0x0207, kDDP,
     SEGMENT untagged(Opcode::AtomicRequest, 1, 1, 0, Bytes(52), false) END},
    {"Atomic operation 1, which is reserved", 0x0206, kDDP,
     SEGMENT atomic_of(1, t.open.stag, kTO) END},
    {"Atomic operation 15", 0x0206, kDDP, SEGMENT atomic_of(15, t.open.stag, kTO) END},
    {"Atomic: target not aligned", 0x0207, kDDP, SEGMENT add_to(t.open.stag, kTO + 4) END},
    {"CmpSwap: target not aligned", 0x0207, kDDP,
     SEGMENT atomic_of(2, t.open.stag, kTO + 1) END},
    {"Atomic: unknown STag", 0x0100, kDDP, SEGMENT add_to({0xdead00}, kTO) END},
    {"Atomic: STag 0", 0x0100, kDDP, SEGMENT add_to({0}, kTO) END},
    {"Atomic: after the end", 0x0101, kDDP, SEGMENT add_to(t.open.stag, kTO + 64) END},
    {"Atomic: over the end", 0x0101, kDDP, SEGMENT add_to(t.open.stag, kTO + 60) END},
    {"Atomic: before the start", 0x0101, kDDP, SEGMENT add_to(t.open.stag, kTO - 8) END},
    {"Atomic: no remote atomic right", 0x0102, kDDP,
     SEGMENT add_to(t.write_only.stag, kTO) END},
    {"Atomic: other PD", 0x0103, kDDP, SEGMENT add_to(t.foreign.stag, kTO) END},
    {"Atomic: another stream's", 0x0103, kDDP, SEGMENT add_to(t.others.stag, t.others.to) END},
    {"Atomic: TO wraps", 0x0104, kDDP, SEGMENT add_to(t.open.stag, 0xfffffffffffffffcu) END},
    {"Atomic beyond the IRD, which Reads share", 0x1202, kDDP,
     SEGMENT add_to(t.open.stag, kTO, 3) END,
     BEFORE {read_of(t.open.stag, kTO, 8, 1), add_to(t.open.stag, kTO, 2, 0)} END},
    {"Atomic Response with no atomic open", 0x1202, kDDP,
     SEGMENT atomic_response(1, 1, 0) END},
    {"Atomic Response on queue 0", 0x1201, kDDP,
     SEGMENT untagged(Opcode::AtomicResponse, 0, 1, 0, Bytes(12)) END},
    {"Atomic Response: MSN ahead", 0x1203, kDDP, SEGMENT atomic_response(2, 1, 0) END},
    {"Atomic Response: MO", 0x1204, kDDP,
     SEGMENT untagged(Opcode::AtomicResponse, 3, 1, 4, Bytes(12)) END},
    // Invalidation.
    {"Invalidate: unknown STag", 0x0109, kDDP,
     SEGMENT untagged(Opcode::SendInvalidate, 0, 1, 0, Bytes(4), true, {0xdead00}) END, nullptr,
     {WorkStatus::LocalProtection, kFlushed}},
    {"Invalidate: other PD", 0x0109, kDDP,
     SEGMENT untagged(Opcode::SendSolicitedInvalidate, 0, 1, 0, {}, true, t.foreign.stag) END,
     nullptr, {WorkStatus::LocalProtection, kFlushed}},
    {"Invalidate: shared by the streams of the PD", 0x0109, kDDP,
     SEGMENT untagged(Opcode::SendInvalidate, 0, 1, 0, {}, true, t.open.stag) END, nullptr,
     {WorkStatus::LocalProtection, kFlushed}},
    {"Invalidate: another stream's", 0x0109, kDDP,
     SEGMENT untagged(Opcode::SendInvalidate, 0, 1, 0, {}, true, t.others.stag) END, nullptr,
     {WorkStatus::LocalProtection, kFlushed}},
    {"Invalidate: STag 0", 0x0109, kDDP,
     SEGMENT untagged(Opcode::SendInvalidate, 0, 1, 0, {}, true, {0}) END, nullptr,
     {WorkStatus::LocalProtection, kFlushed}},
};

#undef SEGMENT
#undef END
#undef BEFORE

struct Victim {
  Victim() {
    auto parameters = End::stream(Role::Responder);
    parameters.ird = 2;
    end.bind(parameters);
    targets.open = end.region(64, End::kAll, kPD, kTO);
    targets.foreign = end.region(64, End::kAll, kOtherPD, kTO);
    targets.local_only = end.region(64, kLocalWrite | kRemoteRead, kPD, kTO);
    targets.write_only = end.region(64, kLocalWrite | kRemoteWrite, kPD, kTO);
    targets.others = end.tied_region(64, kOtherStream);
    buffer = end.region(64);
    end.receive({buffer.sge(32)});
    end.receive({buffer.sge(32, 32)});
  }
  End end;
  Targets targets;
  Region buffer;
};

//= DDP-03 DDP-19 DDP-20 DDP-21 DDP-22 DDP-23 DDP-24
//= RDM-09 RDM-13 RDM-22 RDM-25 RDM-27 RDM-28 RDM-29 RDM-30 SEC-01 SEC-02 SEC-05
//= EXT-04 EXT-05 EXT-06 EXT-10 EXT-11
TEST(QPConditions, EachCausesItsTerminate) {
  for (const Condition& c : kConditions) {
    SCOPED_TRACE(c.what);
    Victim victim;
    End& end = victim.end;
    if (c.before) {
      for (const Bytes& segment : c.before(victim.targets)) end.deliver(fpdu(segment));
    }
    ASSERT_EQ(end.qp->state(), QPState::RTS);
    const Bytes segment = c.segment(victim.targets);
    end.deliver(fpdu(segment));
    EXPECT_EQ(end.qp->state(), QPState::Terminate);
    const Bytes expected = c.quoted == kNothing
                               ? terminate(c.error)
                               : terminate(c.error, segment, c.quoted == kRead);
    EXPECT_EQ(to_hex(end.transmit_all()), to_hex(fpdu(expected)));
    EXPECT_EQ(end.qp->terminate_sent(), static_cast<wire::TermError>(c.error));
    EXPECT_EQ(statuses(end.queues.received), c.received);
    EXPECT_EQ(end.action, LLPAction::CloseGracefully);
    for (const Region* region : {&victim.targets.open, &victim.targets.foreign,
                                 &victim.targets.local_only, &victim.targets.write_only,
                                 &victim.targets.others}) {
      EXPECT_EQ(*region->memory, Bytes(64)) << "placed where nothing may be placed";
    }
    end.qp->handle_peer_closed(end.now);
    end.qp->handle_llp_lost(end.now);
    end.drain();
    EXPECT_EQ(end.qp->state(), QPState::Error);
    EXPECT_EQ(end.notices.back().kind, QPNotice::Kind::Closed);
  }
}

// DV and RV, reserved bits: what is not to be looked at.
//= DDP-02 RDM-03
TEST(QPConditions, ReservedBitsAreNotExamined) {
  Victim victim;
  Bytes write = tagged(Opcode::Write, victim.targets.open.stag, kTO, bytes("w"));
  write[0] |= 0x3c;
  write[1] |= 0x30;
  victim.end.deliver(fpdu(write));
  Bytes message = untagged(Opcode::Send, 0, 1, 0, bytes("s"), true, {0x12345678});
  message[0] |= 0x3c;
  message[1] |= 0x30;
  victim.end.deliver(fpdu(message));
  EXPECT_EQ(victim.end.qp->state(), QPState::RTS);
  EXPECT_EQ(victim.targets.open.text(1), "w");
  ASSERT_EQ(victim.end.queues.received.size(), 1u);
  EXPECT_FALSE(victim.end.queues.received[0].invalidated);
}

//= DDP-18 RDM-24
TEST(QPConditions, MPAErrorsStopInboundOnly) {
  const auto spoiled = [] {
    Bytes octets = fpdu(send(2));
    octets.back() ^= 0x01;
    return octets;
  };
  Victim crc;
  crc.end.deliver(fpdu(send(1)));
  crc.end.deliver(spoiled());
  crc.end.deliver(fpdu(send(2)));
  EXPECT_EQ(to_hex(crc.end.transmit_all()),
            "00164147 00000000 00000002 00000001 00000000 20020000 7fe42585");  // C8
  EXPECT_EQ(statuses(crc.end.queues.received), (std::vector{kOK, kFlushed}));
  EXPECT_TRUE(crc.end.arrived.empty());

  // The very first FPDU was no valid one: a responder has not been spoken to.
  Victim first;
  first.end.deliver(spoiled());
  EXPECT_EQ(first.end.qp->state(), QPState::Terminate);
  EXPECT_TRUE(first.end.transmit_all().empty());
  EXPECT_EQ(first.end.action, LLPAction::CloseGracefully);
}

TEST(QPConditions, MarkerAgainstLength) {
  auto parameters = End::stream(Role::Initiator);
  parameters.receive_markers = true;
  End a;
  a.bind(parameters);
  Bytes octets(4);  // the marker before the first FPDU
  const Bytes message = fpdu(tagged(Opcode::Write, {1}, 0));
  octets.insert(octets.end(), message.begin(), message.end());
  octets[3] = 8;  // points eight octets back, to nowhere
  a.deliver(octets);
  EXPECT_EQ(ulpdus(a.transmit_all()), only(terminate(0x2003)));
}

//= DDP-17 RDM-25 MPA-26
TEST(QPConditions, LosingTheLLPIsReportedAndNotAnswered) {
  Victim victim;
  victim.end.deliver(fpdu(send(1)));
  victim.end.send("never");
  victim.end.qp->handle_llp_lost(victim.end.now);
  victim.end.drain();
  EXPECT_TRUE(victim.end.noticed(QPNotice::Kind::LLPLost));
  EXPECT_TRUE(victim.end.transmit_all().empty());
  EXPECT_EQ(statuses(victim.end.queues.sent), std::vector{kFlushed});
}

struct ResponseCondition {
  const char* what;
  std::uint16_t error;
  Bytes (*segment)(STag sink);
};

/// Two Reads of 8 octets to TO 0x2000 and 0x2008 are open; 4 octets of the first have come.
const ResponseCondition kResponseConditions[] = {
    {"other STag", 0x1100,
     [](STag s) { return tagged(Opcode::ReadResponse, {s.value ^ 1}, 0x2004, Bytes(4)); }},
    {"gap", 0x1101, [](STag s) { return tagged(Opcode::ReadResponse, s, 0x2005, Bytes(3)); }},
    {"again from the start", 0x1101,
     [](STag s) { return tagged(Opcode::ReadResponse, s, 0x2000, Bytes(8)); }},
    {"the second one first", 0x1101,
     [](STag s) { return tagged(Opcode::ReadResponse, s, 0x2008, Bytes(8)); }},
    {"too long", 0x1101, [](STag s) { return tagged(Opcode::ReadResponse, s, 0x2004, Bytes(5)); }},
    {"L too early", 0x0207,
     [](STag s) { return tagged(Opcode::ReadResponse, s, 0x2004, Bytes(3)); }},
    {"L missing", 0x0207,
     [](STag s) { return tagged(Opcode::ReadResponse, s, 0x2004, Bytes(4), false); }},
    {"empty with L", 0x0207, [](STag) { return tagged(Opcode::ReadResponse, {1}, 0); }},
};

//= RDM-10 DDP-20
TEST(QPConditions, AReadResponseMustFitTheOldestRead) {
  for (const ResponseCondition& c : kResponseConditions) {
    SCOPED_TRACE(c.what);
    End a;
    a.bind();
    const Region sink = a.region(64, End::kAll, kPD, 0x2000);
    a.read({sink.sge(8)}, {5}, 0);
    a.read({sink.sge(8, 8)}, {5}, 0);
    a.transmit_all();
    a.deliver(fpdu(tagged(Opcode::ReadResponse, sink.stag, 0x2000, Bytes(4, 1), false)));
    ASSERT_EQ(a.qp->state(), QPState::RTS);
    const Bytes segment = c.segment(sink.stag);
    a.deliver(fpdu(segment));
    EXPECT_EQ(ulpdus(a.transmit_all()), only(terminate(c.error, segment)));
    EXPECT_EQ(statuses(a.queues.sent), (std::vector{WorkStatus::BadResponse, kFlushed}));
    EXPECT_EQ(Bytes(sink.data() + 4, sink.data() + 64), Bytes(60));
  }
}

struct ReceiveCondition {
  const char* what;
  WorkStatus status;
  std::vector<SGE> (*sges)(const Targets&, const Region& buffer);
};

const ReceiveCondition kReceiveConditions[] = {
    {"unknown STag", WorkStatus::LocalProtection,
     [](const Targets&, const Region&) { return std::vector<SGE>{{0, 64, {0x5500}}}; }},
    {"other PD", WorkStatus::LocalProtection,
     [](const Targets& t, const Region&) { return std::vector<SGE>{t.foreign.sge()}; }},
    {"out of bounds", WorkStatus::LocalProtection,
     [](const Targets&, const Region& b) { return std::vector<SGE>{b.sge(8, 60)}; }},
    {"second SGE bad", WorkStatus::LocalProtection,
     [](const Targets&, const Region& b) { return std::vector<SGE>{b.sge(2), {0, 64, {0x5500}}}; }},
    {"too many SGEs", WorkStatus::LocalQPOperation,
     [](const Targets&, const Region& b) { return std::vector<SGE>(5, b.sge(8)); }},
};

// The peer is told of which message it is: it may want to know that it did not arrive.
//= RDM-26 RDM-27 DDP-22
TEST(QPConditions, ABadReceiveIsOurOwnFault) {
  for (const ReceiveCondition& c : kReceiveConditions) {
    SCOPED_TRACE(c.what);
    Victim victim;
    victim.end.queues.receives.clear();
    victim.end.receive(c.sges(victim.targets, victim.buffer));
    victim.end.receive({victim.buffer.sge()});
    const Bytes segment = send(1, bytes("payload"));
    victim.end.deliver(fpdu(segment));
    EXPECT_EQ(ulpdus(victim.end.transmit_all()), only(terminate(0x1000, segment)));
    EXPECT_EQ(statuses(victim.end.queues.received), (std::vector{c.status, kFlushed}));
  }
}

TEST(QPConditions, PagesThatVanished) {
  {
    Victim victim;
    victim.end.mover.unmap(victim.targets.open.data(), 64);
    const Bytes segment = add_to(victim.targets.open.stag, kTO);
    victim.end.deliver(fpdu(segment));
    EXPECT_EQ(ulpdus(victim.end.transmit_all()), only(terminate(0x0100, segment)));
  }
  {
    Victim victim;
    victim.end.mover.unmap(victim.targets.open.data(), 64);
    const Bytes segment = write_to(victim.targets.open.stag, kTO);
    victim.end.deliver(fpdu(segment));
    EXPECT_EQ(ulpdus(victim.end.transmit_all()), only(terminate(0x1100, segment)));
  }
  {
    Victim victim;
    victim.end.mover.unmap(victim.buffer.data(), 64);
    const Bytes segment = send(1, bytes("payload"));
    victim.end.deliver(fpdu(segment));
    EXPECT_EQ(ulpdus(victim.end.transmit_all()), only(terminate(0x1000, segment)));
    EXPECT_EQ(statuses(victim.end.queues.received),
              (std::vector{WorkStatus::LocalProtection, kFlushed}));
  }
  {
    Victim victim;
    victim.end.deliver(fpdu(send(1)));
    victim.end.mover.unmap(victim.targets.open.data(), 64);
    const auto to = victim.targets.open.sge();
    victim.end.send({to});
    EXPECT_EQ(ulpdus(victim.end.transmit_all()), only(terminate(0x0000)));
    EXPECT_EQ(statuses(victim.end.queues.sent), std::vector{WorkStatus::LocalProtection});
  }
}

TEST(QPConditions, ALocalErrorOfTheEngineIsTold) {
  Victim victim;
  victim.end.deliver(fpdu(send(1)));
  victim.end.qp->handle_local_error(wire::TermError::RDMAPStreamCatastrophic, victim.end.now);
  EXPECT_EQ(ulpdus(victim.end.transmit_all()), only(terminate(0x0207)));
}

// A receive checks against the shared queue's PD, not the QP's.
TEST(QPConditions, SharedReceivesBelongToTheirOwnPD) {
  QPConfig config;
  config.pd = kPD;
  config.receive_pd = kOtherPD;
  End b(config);
  b.bind(Role::Responder);
  const Region shared = b.region(64, End::kAll, kOtherPD);
  b.receive({shared.sge()});
  b.deliver(fpdu(send(1, bytes("ok"))));
  EXPECT_EQ(statuses(b.queues.received), std::vector{kOK});
}

}  // namespace
}  // namespace weft::core::testing
