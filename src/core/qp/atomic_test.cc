// FetchAdd and CmpSwap from post to completion (RFC 7306 §5).
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

using test::hex;
using test::to_hex;
using wire::AtomicOpcode;
using wire::AtomicOperands;

constexpr std::uint64_t kAll64 = ~std::uint64_t{0};

/// The masked addition of RFC 7306 §5.1.1, bit by bit.
std::uint64_t added_bit_by_bit(std::uint64_t value, std::uint64_t add, std::uint64_t mask) {
  std::uint64_t result = 0;
  unsigned carry = 0;
  for (unsigned bit = 0; bit < 64; ++bit) {
    const unsigned sum = carry + (value >> bit & 1) + (add >> bit & 1);
    result |= std::uint64_t{sum & 1} << bit;
    carry = (mask >> bit & 1) != 0 ? 0 : sum >> 1;
  }
  return result;
}

//= EXT-02
TEST(AtomicChange, AddsAsTheRFCDoesBitByBit) {
  std::uint64_t drawn = 1;
  const auto draw = [&drawn] {
    return drawn = drawn * 6364136223846793005u + 1442695040888963407u;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t value = draw() ^ draw() >> 32, add = draw() ^ draw() >> 32;
    const std::uint64_t masks[] = {0,
                                   kAll64,
                                   1,
                                   std::uint64_t{1} << 63,
                                   0x8080808080808080,
                                   0x8000000080000000,
                                   draw() & draw(),
                                   draw() | draw()};
    for (const std::uint64_t mask : masks) {
      const AtomicChange change{AtomicOpcode::FetchAdd, {.data = add, .data_mask = mask}};
      ASSERT_EQ(change.applied_to(value), added_bit_by_bit(value, add, mask)) << std::hex << mask;
    }
  }
  constexpr AtomicChange plain{AtomicOpcode::FetchAdd, {.data = 5}};
  static_assert(plain.applied_to(kAll64) == 4);
}

struct Swap {
  const char* what;
  AtomicOperands operands;
  std::uint64_t before, after;
};

//= EXT-02
TEST(AtomicChange, SwapsWhatTheMasksSay) {
  const Swap kCases[] = {
      {"equal", {.data = 9, .data_mask = kAll64, .compare = 7}, 7, 9},
      {"not equal", {.data = 9, .data_mask = kAll64, .compare = 7}, 8, 8},
      {"some bits compared",
       {.data = 9, .data_mask = kAll64, .compare = 0xf7, .compare_mask = 0xf},
       0x17,
       9},
      {"none compared: a swap", {.data = 9, .data_mask = kAll64, .compare_mask = 0}, 0x17, 9},
      {"some bits swapped", {.data = 0xff, .data_mask = 0x0f0, .compare = 0x123}, 0x123, 0x1f3},
      {"none swapped", {.data = 0xff, .compare = 0x123}, 0x123, 0x123},
  };
  for (const Swap& c : kCases) {
    const AtomicChange change{AtomicOpcode::CmpSwap, c.operands};
    EXPECT_EQ(change.applied_to(c.before), c.after) << c.what;
  }
}

//= EXT-01 EXT-03 EXT-05
TEST(QPAtomic, LeavesAsInTheExample) {
  End a;
  a.bind();
  const Region sink = a.region(64);
  a.read({sink.sge(8)}, {0xbb02}, 0x7f0000001000);
  a.fetch_add(sink.sge(8, 8), {0xbb02}, 0x7f0000001008, 5);
  a.atomic(WorkOpcode::CompareSwap, sink.sge(8, 16), {0xbb02}, 0x7f0000001010,
           {.data = 1, .data_mask = 2, .compare = 3, .compare_mask = 4});
  const auto segments = ulpdus(a.transmit_all());
  ASSERT_EQ(segments.size(), 3u);
  // B6 but for the request identifier, which is ours to choose.
  EXPECT_EQ(to_hex(segments[1]),
            to_hex(hex("414a 00000000 00000001 00000002 00000000 00000000 00000002 0000bb02 "
                       "00007f00 00001008 00000000 00000005 00000000 00000000 00000000 00000000 "
                       "ffffffff ffffffff")));
  EXPECT_EQ(to_hex(segments[2]),
            to_hex(hex("414a 00000000 00000001 00000003 00000000 00000002 00000003 0000bb02 "
                       "00007f00 00001010 00000000 00000001 00000000 00000002 00000000 00000003 "
                       "00000000 00000004")));
  EXPECT_TRUE(a.queues.sent.empty());
  EXPECT_EQ(a.qp->reads_open(), 3u);
}

//= EXT-03 EXT-04 EXT-05
TEST(QPAtomic, IsAnsweredAsInTheExample) {
  End b;
  b.bind(Role::Responder);
  const Region target = b.region(64, End::kAll, kPD, 0x7f0000001000);
  target.set_number(0x25, 8);
  Bytes request = atomic_request(
      1, {AtomicOpcode::FetchAdd, 0xc0ffee01, target.stag, 0x7f0000001008, {.data = 5}});
  request[18] = 0xff;  // reserved
  b.deliver(fpdu(request));
  EXPECT_EQ(target.number(8), 0x2au) << "added in the order of this machine";
  EXPECT_EQ(to_hex(b.transmit()),  // B7
            to_hex(hex("001e414b 00000000 00000003 00000001 00000000 c0ffee01 00000000 00000025 "
                       "7efc26a0")));
  EXPECT_EQ(b.qp->inbound_reads_open(), 0u);
  EXPECT_TRUE(b.queues.received.empty()) << "the program sees nothing of it";
}

//= EXT-09
TEST(QPAtomic, CompletesWithTheOriginalValue) {
  Pair pair;
  const Region target = pair.b.region(64), sink = pair.a.region(64);
  target.set_number(40);
  const auto add = pair.a.fetch_add(sink.sge(8), target.stag, target.to, 2);
  const auto hit = pair.a.compare_swap(sink.sge(8, 8), target.stag, target.to, 42, 100);
  const auto miss = pair.a.compare_swap(sink.sge(16, 16), target.stag, target.to, 42, 200);
  const Bytes requests = pair.a.transmit_all();
  EXPECT_TRUE(pair.a.queues.sent.empty()) << "not before the response";
  pair.b.deliver(requests);
  EXPECT_EQ(target.number(), 100u);
  pair.run();
  EXPECT_EQ(ids(pair.a.queues.sent), (std::vector{add, hit, miss}));
  for (const Completion& completion : pair.a.queues.sent) {
    EXPECT_EQ(completion.status, WorkStatus::Success);
    EXPECT_EQ(completion.octets, 8u);
  }
  EXPECT_EQ(sink.number(0), 40u);
  EXPECT_EQ(sink.number(8), 42u);
  EXPECT_EQ(sink.number(16), 100u);
  EXPECT_EQ(sink.number(24), 0u);
}

// Reads and atomics share queue 1, and are answered in the order they were asked.
//= EXT-05 EXT-06 EXT-08
TEST(QPAtomic, KeepsItsOrderAmongReads) {
  Pair pair({}, End::stream(Role::Initiator), 256);
  const Region target = pair.b.region(2000), sink = pair.a.region(4000);
  target.fill(pattern(2000));
  target.set_number(1);
  pair.a.write("12345678", target.stag, target.to + 8);
  std::vector<std::uint64_t> posted{1};
  posted.push_back(pair.a.read({sink.sge(1900, 16)}, target.stag, target.to + 16));
  posted.push_back(pair.a.fetch_add(sink.sge(8), target.stag, target.to, 1));
  posted.push_back(pair.a.fetch_add(sink.sge(8, 8), target.stag, target.to + 8, 0));
  posted.push_back(pair.a.read({sink.sge(8, 2000)}, target.stag, target.to));
  posted.push_back(pair.a.fetch_add(sink.sge(8, 2008), target.stag, target.to, 1));
  pair.run();
  EXPECT_EQ(ids(pair.a.queues.sent), posted);
  EXPECT_EQ(sink.number(), 1u);
  EXPECT_EQ(sink.text(8, 8), "12345678") << "after the Write before it";
  EXPECT_EQ(Bytes(sink.data() + 16, sink.data() + 1916),
            Bytes(target.data() + 16, target.data() + 1916));
  EXPECT_EQ(sink.number(2008), 2u);
  EXPECT_EQ(target.number(), 3u);
}

//= EXT-06 RDM-23
TEST(QPAtomic, CountsAgainstTheORD) {
  auto parameters = End::stream(Role::Initiator);
  parameters.ord = 2;
  Pair pair({}, parameters);
  const Region target = pair.b.region(64), sink = pair.a.region(64);
  pair.a.fetch_add(sink.sge(8), target.stag, target.to, 1);
  pair.a.read({sink.sge(8, 8)}, target.stag, target.to);
  pair.a.fetch_add(sink.sge(8, 16), target.stag, target.to, 1);
  pair.a.send(std::vector<SGE>{});
  pair.b.receive();
  const Bytes octets = pair.a.transmit_all();
  EXPECT_EQ(ulpdus(octets).size(), 2u);
  EXPECT_EQ(pair.a.qp->reads_open(), 2u);
  EXPECT_FALSE(pair.a.qp->wants_transmit());
  pair.b.deliver(octets);
  EXPECT_EQ(pair.b.qp->inbound_reads_open(), 2u);
  pair.run();
  EXPECT_EQ(pair.a.queues.sent.size(), 4u);
  EXPECT_EQ(target.number(), 2u);
}

TEST(QPAtomic, AFencedRequestWaitsForIt) {
  Pair pair;
  const Region target = pair.b.region(64), sink = pair.a.region(64);
  pair.a.fetch_add(sink.sge(8), target.stag, target.to, 7);
  pair.a.post({.opcode = WorkOpcode::Write,
               .read_fence = true,
               .remote_stag = target.stag,
               .remote_to = target.to + 8},
              {sink.sge(8)});
  pair.a.atomic(WorkOpcode::FetchAdd, sink.sge(8, 8), target.stag, target.to + 8, {.data = 1},
                true);
  const auto first = ulpdus(pair.a.transmit_all());
  EXPECT_EQ(first.size(), 1u);
  target.set_number(30);
  for (const Bytes& segment : first) pair.b.deliver(fpdu(segment));
  pair.run();
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector(3, WorkStatus::Success));
  EXPECT_EQ(target.number(), 37u);
  EXPECT_EQ(target.number(8), 31u) << "what was fetched, and one more";
}

// Between messages the responses take turns with the send queue, like those of Reads.
TEST(QPAtomic, IsAnsweredByABusySender) {
  Pair pair({}, End::stream(Role::Initiator), 256);
  const Region target = pair.b.region(64), sink = pair.a.region(64), data = pair.b.region(2000);
  const Region far = pair.a.region(2000);
  pair.open();
  pair.a.fetch_add(sink.sge(8), target.stag, target.to, 1);
  pair.a.fetch_add(sink.sge(8, 8), target.stag, target.to, 1);
  for (int i = 0; i < 3; ++i) pair.b.write({data.sge(1000)}, far.stag, far.to);
  pair.b.deliver(pair.a.transmit_all());
  std::vector<std::uint8_t> opcodes;
  for (const Bytes& segment : ulpdus(pair.b.transmit_all())) {
    const auto header = *wire::DDPHeader::parse(segment);
    if (header.last) opcodes.push_back(header.rdmap_control);
  }
  EXPECT_EQ(opcodes, (std::vector<std::uint8_t>{0x4b, 0x40, 0x4b, 0x40, 0x40}));
}

struct BadWork {
  const char* what;
  WorkStatus status;
  std::vector<SGE> (*sges)(const Region& sink, const Region& read_only);
  bool operands = true;
  std::uint16_t ord = 8;
  Bytes inline_data = {};
};

//= RDM-26
TEST(QPAtomic, ABadRequestIsOurOwnFault) {
  const BadWork kCases[] = {
      {"no sink", WorkStatus::LocalQPOperation,
       [](const Region&, const Region&) { return std::vector<SGE>{}; }},
      {"two sinks", WorkStatus::LocalQPOperation,
       [](const Region& s, const Region&) { return std::vector<SGE>(2, s.sge(8)); }},
      {"seven octets", WorkStatus::LocalLength,
       [](const Region& s, const Region&) { return std::vector<SGE>{s.sge(7)}; }},
      {"unknown STag", WorkStatus::LocalProtection,
       [](const Region&, const Region&) {
         return std::vector<SGE>{{0, 8, {0x5500}}};
       }},
      {"beyond the end", WorkStatus::LocalProtection,
       [](const Region& s, const Region&) { return std::vector<SGE>{s.sge(8, 60)}; }},
      {"read-only", WorkStatus::LocalProtection,
       [](const Region&, const Region& r) { return std::vector<SGE>{r.sge(8)}; }},
      {"no operands", WorkStatus::LocalQPOperation,
       [](const Region& s, const Region&) { return std::vector<SGE>{s.sge(8)}; }, false},
      {"ORD 0", WorkStatus::LocalQPOperation,
       [](const Region& s, const Region&) { return std::vector<SGE>{s.sge(8)}; }, true, 0},
      {"inline", WorkStatus::LocalQPOperation,
       [](const Region&, const Region&) { return std::vector<SGE>{}; }, true, 8, Bytes(8)},
  };
  for (const BadWork& c : kCases) {
    SCOPED_TRACE(c.what);
    auto parameters = End::stream(Role::Initiator);
    parameters.ord = c.ord;
    End a;
    a.bind(parameters);
    const Region sink = a.region(64), read_only = a.region(64, kRemoteRead);
    a.post({.opcode = WorkOpcode::FetchAdd, .remote_stag = {5}}, c.sges(sink, read_only),
           c.inline_data);
    if (c.operands) a.queues.sends.back().operands = AtomicOperands{};
    a.send("behind");
    EXPECT_EQ(ulpdus(a.transmit_all()), only(terminate(0x0000)));
    EXPECT_EQ(statuses(a.queues.sent), (std::vector{c.status, WorkStatus::Flushed}));
  }
}

struct BadResponse {
  const char* what;
  std::uint16_t error;
  Bytes segment;
};

// A FetchAdd (request 1) and a Read are open, in this order.
//= EXT-06 EXT-09 EXT-11
TEST(QPAtomic, AResponseMustFitTheOldestRequest) {
  const BadResponse kCases[] = {
      {"other request", 0x02ff, atomic_response(1, 2, 0)},
      {"cut", 0x1000, untagged(wire::Opcode::AtomicResponse, 3, 1, 0, Bytes(11))},
      {"too long", 0x1205, untagged(wire::Opcode::AtomicResponse, 3, 1, 0, Bytes(13))},
      {"without L", 0x0207, untagged(wire::Opcode::AtomicResponse, 3, 1, 0, Bytes(12), false)},
      {"the Read's first", 0x0206, tagged(wire::Opcode::ReadResponse, {1}, 0x2008, Bytes(8))},
  };
  for (const BadResponse& c : kCases) {
    SCOPED_TRACE(c.what);
    End a;
    a.bind();
    const Region sink = a.region(64, End::kAll, kPD, 0x2000);
    a.fetch_add(sink.sge(8), {5}, 0, 1);
    a.read({sink.sge(8, 8)}, {5}, 0);
    a.transmit_all();
    a.deliver(fpdu(c.segment));
    EXPECT_EQ(ulpdus(a.transmit_all()), only(terminate(c.error, c.segment)));
    EXPECT_EQ(statuses(a.queues.sent), (std::vector{WorkStatus::BadResponse, WorkStatus::Flushed}));
    EXPECT_EQ(*sink.memory, Bytes(64));
  }
}

TEST(QPAtomic, AResponseIsNoReadResponse) {
  End a;
  a.bind();
  const Region sink = a.region(64, End::kAll, kPD, 0x2000);
  a.read({sink.sge(8)}, {5}, 0);
  a.fetch_add(sink.sge(8, 8), {5}, 0, 1);
  a.transmit_all();
  const Bytes segment = atomic_response(1, 2, 0);
  a.deliver(fpdu(segment));
  EXPECT_EQ(ulpdus(a.transmit_all()), only(terminate(0x0206, segment)));
  EXPECT_EQ(statuses(a.queues.sent), (std::vector{WorkStatus::BadResponse, WorkStatus::Flushed}));
}

//= SEC-04
TEST(QPAtomic, ASinkTakenBackStaysAsItIs) {
  for (const bool unmapped : {false, true}) {
    End a;
    a.bind();
    const Region sink = a.region(64);
    a.fetch_add(sink.sge(8), {5}, 0, 1);
    a.transmit_all();
    if (unmapped) {
      a.mover.unmap(sink.data(), 8);
    } else {
      ASSERT_TRUE(a.table.deregister(sink.stag).ok());
    }
    const Bytes segment = atomic_response(1, 1, 0x77);
    a.deliver(fpdu(segment));
    EXPECT_EQ(ulpdus(a.transmit_all()), only(terminate(0x1100, segment)));
    EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::LocalProtection});
    EXPECT_EQ(*sink.memory, Bytes(64));
  }
}

struct Blame {
  const char* what;
  std::uint16_t error;
  bool quoted;
  WorkStatus status;
};

//= rfc7306#1.1
TEST(QPAtomic, IsBlamedForWhatThePeerSays) {
  const Blame kCases[] = {
      {"the peer knows no atomics", 0x0206, true, WorkStatus::RemoteInvalidRequest},
      {"it does not quote", 0x0206, false, WorkStatus::RemoteInvalidRequest},
      {"not aligned", 0x0207, true, WorkStatus::RemoteInvalidRequest},
      {"no right", 0x0102, true, WorkStatus::RemoteAccess},
      {"no right, not quoted", 0x0102, false, WorkStatus::RemoteAccess},
      {"another operation error", 0x02ff, true, WorkStatus::RemoteOperation},
      {"some catastrophe", 0x0207, false, WorkStatus::Flushed},
  };
  for (const Blame& c : kCases) {
    SCOPED_TRACE(c.what);
    End a;
    a.bind();
    const Region sink = a.region(64);
    a.send("before");
    a.fetch_add(sink.sge(8), {5}, 3, 1);
    a.fetch_add(sink.sge(8), {5}, 3, 2);
    const auto segments = ulpdus(a.transmit_all());
    a.deliver(fpdu(c.quoted ? terminate(c.error, segments[1]) : terminate(c.error)));
    EXPECT_EQ(statuses(a.queues.sent),
              (std::vector{WorkStatus::Success, c.status, WorkStatus::Flushed}));
  }
}

TEST(QPAtomic, OpenOnesAreFlushedAndTheirResponsesForgotten) {
  Pair pair;
  const Region target = pair.b.region(64), sink = pair.a.region(64);
  pair.a.fetch_add(sink.sge(8), target.stag, target.to, 1);
  pair.b.deliver(pair.a.transmit_all());
  EXPECT_EQ(target.number(), 1u);
  pair.a.qp->handle_llp_lost(pair.a.now);
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Flushed});
  ASSERT_TRUE(pair.b.qp->fail(pair.b.now).ok());
  ASSERT_TRUE(pair.a.qp->reset(pair.a.now).ok());
  ASSERT_TRUE(pair.b.qp->reset(pair.b.now).ok());
  EXPECT_EQ(pair.b.qp->inbound_reads_open(), 0u);
  // Another stream counts from the start.
  pair.a.bind(Role::Initiator);
  pair.b.bind(Role::Responder);
  pair.a.fetch_add(sink.sge(8), target.stag, target.to, 1);
  pair.run();
  EXPECT_EQ(sink.number(), 1u);
  EXPECT_EQ(pair.a.queues.sent.back().status, WorkStatus::Success);
}

}  // namespace
}  // namespace weft::core::testing
