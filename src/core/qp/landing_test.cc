// Payload received straight into its place: where that is allowed, and that nothing else changes.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

constexpr std::size_t kPayload = 600;

/// An end with one receive of kPayload octets.
struct Receiver : End {
  explicit Receiver(Role role) {
    bind(role);
    receive({buffer.sge()});
  }
  Region buffer = region(kPayload);
};

/// Arrived: `cut` octets of this FPDU; the rest of its payload as it lands; and its trailer.
struct Arrival {
  Bytes head, payload, trailer;

  Arrival(const Bytes& fpdu, std::size_t cut, std::size_t trailer_octets)
      : head(fpdu.begin(), fpdu.begin() + at(cut)),
        payload(fpdu.begin() + at(cut), fpdu.end() - at(trailer_octets)),
        trailer(fpdu.end() - at(trailer_octets), fpdu.end()) {}
  static std::ptrdiff_t at(std::size_t n) { return static_cast<std::ptrdiff_t>(n); }
};

std::optional<Landing> find(End& end, const Bytes& head, std::size_t octets_min = 1) {
  return end.qp->find_landing(head, octets_min, end.now);
}

/// Gives the QP one FPDU of which all behind `cut` was received into its place.
Received land(End& end, const Bytes& fpdu, std::size_t cut) {
  const auto landing = find(end, Bytes(fpdu.begin(), fpdu.begin() + Arrival::at(cut)));
  EXPECT_TRUE(landing.has_value());
  if (!landing) return {};
  const Arrival arrival(fpdu, cut, landing->trailer);
  EXPECT_EQ(arrival.payload.size(), landing->octets);
  std::copy(arrival.payload.begin(), arrival.payload.end(), landing->place);
  if (!end.qp->handle_landed(arrival.head, *landing, landing->octets)) {
    end.qp->handle_landing_fault(arrival.head, end.now);
  }
  if (end.qp->finish_landed(arrival.head, *landing, arrival.trailer).consumed != 0) {
    return {fpdu.size()};
  }
  const Octets parts[] = {arrival.head, Octets(landing->place, landing->octets), arrival.trailer};
  const Received received = end.qp->handle_octets({parts}, end.now);
  end.drain();
  return received;
}

Bytes written(const Region& to, const Bytes& payload) {
  return tagged(wire::Opcode::Write, to.stag, to.to, payload);
}

TEST(QPLanding, SendGoesIntoTheNextReceiveWhereverItWasCut) {
  const Bytes message = pattern(kPayload);
  const Bytes octets = fpdu(send(1, message));
  for (const std::size_t cut : {20u, 21u, 100u, 619u}) {
    End b;
    b.bind(Role::Responder);
    const Region buffer = b.region(kPayload);
    b.receive({buffer.sge()});
    EXPECT_EQ(land(b, octets, cut).consumed, octets.size()) << cut;
    EXPECT_EQ(*buffer.memory, message) << cut;
    EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::Success});
    // What was staged behind the header was moved, and nothing else.
    EXPECT_EQ(b.mover.placements, cut > 20 ? 1u : 0u) << cut;
  }
}

TEST(QPLanding, LaterSegmentsFollowTheFirst) {
  End b;
  b.bind(Role::Responder);
  const Region buffer = b.region(2000);
  b.receive({buffer.sge(300), buffer.sge(1700, 300)});
  const Bytes message = pattern(1500);
  const auto part = [&](std::size_t from, std::size_t octets) {
    return Bytes(message.begin() + Arrival::at(from), message.begin() + Arrival::at(from + octets));
  };
  land(b, fpdu(send(1, part(0, 300), 0, false)), 20);
  land(b, fpdu(send(1, part(300, 700), 300, false)), 30);
  b.deliver(fpdu(send(1, part(1000, 100), 1000, false)));
  land(b, fpdu(send(1, part(1100, 400), 1100, true)), 25);
  EXPECT_TRUE(std::equal(message.begin(), message.end(), buffer.memory->begin()));
  ASSERT_EQ(b.queues.received.size(), 1u);
  EXPECT_EQ(b.queues.received[0].octets, 1500u);
}

TEST(QPLanding, ReadResponseGoesIntoItsSink) {
  Pair pair;
  const Region sink = pair.a.region(kPayload), source = pair.b.region(kPayload);
  source.fill(pattern(kPayload));
  pair.a.read({sink.sge()}, source.stag, source.to);
  pair.b.deliver(pair.a.transmit());
  land(pair.a, pair.b.transmit_all(), 50);
  EXPECT_EQ(*sink.memory, *source.memory);
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Success});
}

/// What follows the FPDU of which this is the header.
std::size_t followers(End& end, const Bytes& fpdu) {
  const auto landing = find(end, Bytes(fpdu.begin(), fpdu.begin() + 20));
  EXPECT_TRUE(landing.has_value());
  return landing ? landing->followers : 0;
}

TEST(QPLanding, OfAReadWhatWasAskedForFollows) {
  Pair pair;
  const Region sink = pair.a.region(kPayload), source = pair.b.region(kPayload);
  pair.a.read({sink.sge()}, source.stag, source.to);
  pair.a.transmit();
  const auto response = [&](std::size_t at, std::size_t octets, bool last = false) {
    return fpdu(tagged(wire::Opcode::ReadResponse, sink.stag, sink.to + at, pattern(octets), last));
  };
  EXPECT_EQ(followers(pair.a, response(0, 100)), 5u);
  EXPECT_EQ(followers(pair.a, response(0, 250)), 1u);
  EXPECT_EQ(followers(pair.a, response(0, kPayload, true)), 0u);
  land(pair.a, response(0, 100), 18);
  EXPECT_EQ(followers(pair.a, response(100, 100)), 4u);
}

// They may end sooner than one thinks.
TEST(QPLanding, OfAMessageOfThePeersNothingFollows) {
  End b;
  StreamParameters stream = End::stream(Role::Responder);
  stream.crc = false;
  b.bind(stream);
  const Region target = b.region(kPayload), buffer = b.region(kPayload);
  b.receive({buffer.sge()});
  const Bytes part = pattern(100);
  EXPECT_EQ(followers(b, fpdu(tagged(wire::Opcode::Write, target.stag, target.to, part, false))),
            0u);
  EXPECT_EQ(followers(b, fpdu(send(1, part, 0, false))), 0u);
}

TEST(QPLanding, WriteHasItsPlaceOnlyWithoutACRC) {
  for (const bool crc : {true, false}) {
    End b;
    StreamParameters stream = End::stream(Role::Responder);
    stream.crc = crc;
    b.bind(stream);
    const Region target = b.region(kPayload);
    const Bytes octets = fpdu(written(target, pattern(kPayload)));
    EXPECT_EQ(find(b, Bytes(octets.begin(), octets.begin() + 40)).has_value(), !crc);
    if (crc) continue;
    land(b, octets, 40);
    EXPECT_EQ(*target.memory, pattern(kPayload));
    b.qp->set_remote_access(kRemoteRead);
    EXPECT_FALSE(find(b, Bytes(octets.begin(), octets.begin() + 40)));
  }
}

/// One thing that is not as it has to be, and there is no landing.
struct Without {
  const char* name;
  Bytes (*head)(End&, const Region& local);
};

Bytes cut(const Bytes& ulpdu, std::size_t octets = 40) {
  const Bytes whole = fpdu(ulpdu);
  return {whole.begin(), whole.begin() + Arrival::at(std::min(octets, whole.size()))};
}

const Without kWithout[] = {
    {"nothing arrived", [](End&, const Region&) { return Bytes{}; }},
    {"half a length", [](End&, const Region&) { return cut(send(1, pattern(kPayload)), 1); }},
    {"half a header", [](End&, const Region&) { return cut(send(1, pattern(kPayload)), 19); }},
    {"all the payload is here",
     [](End&, const Region&) { return cut(send(1, pattern(kPayload)), 620); }},
    {"no payload", [](End&, const Region&) { return cut(send(1)); }},
    {"another MSN", [](End&, const Region&) { return cut(send(2, pattern(kPayload))); }},
    {"another MO", [](End&, const Region&) { return cut(send(1, pattern(kPayload), 4)); }},
    {"more than the receive holds",
     [](End&, const Region&) { return cut(send(1, pattern(kPayload + 1))); }},
    {"an answer nobody asked for",
     [](End&, const Region& local) {
       return cut(tagged(wire::Opcode::ReadResponse, local.stag, local.to, pattern(kPayload)));
     }},
    {"an answer to another place",
     [](End& end, const Region& local) {
       end.read({local.sge()}, {0x501}, 0);
       end.transmit();
       return cut(tagged(wire::Opcode::ReadResponse, local.stag, local.to + 4, pattern(100)));
     }},
    {"an answer too long",
     [](End& end, const Region& local) {
       end.read({local.sge(100)}, {0x501}, 0);
       end.transmit();
       return cut(tagged(wire::Opcode::ReadResponse, local.stag, local.to, pattern(101)));
     }},
    {"an answer where an atomic's is due",
     [](End& end, const Region& local) {
       end.fetch_add(local.sge(8), {0x501}, 0, 1);
       end.transmit();
       return cut(tagged(wire::Opcode::ReadResponse, local.stag, local.to, pattern(100)));
     }},
    {"a Terminate", [](End&, const Region&) { return cut(terminate(0x0100, send(1)), 24); }},
    {"an unknown opcode",
     [](End&, const Region&) {
       return cut(untagged(wire::Opcode(13), 0, 1, 0, pattern(kPayload)));
     }},
};

TEST(QPLanding, ThereIsNone) {
  for (const Without& without : kWithout) {
    End a;
    a.bind();
    const Region local = a.region(kPayload);
    a.receive({local.sge()});
    EXPECT_FALSE(find(a, without.head(a, local))) << without.name;
    EXPECT_EQ(a.qp->state(), QPState::RTS) << without.name;
  }
}

TEST(QPLanding, ThereIsNoneAcrossTwoPiecesOfAReceive) {
  End b;
  b.bind(Role::Responder);
  const Region buffer = b.region(kPayload);
  b.receive({buffer.sge(599), buffer.sge(1, 599)});
  const Bytes octets = fpdu(send(1, pattern(kPayload)));
  EXPECT_FALSE(find(b, Bytes(octets.begin(), octets.begin() + 40)));
  b.deliver(octets);
  EXPECT_EQ(*buffer.memory, pattern(kPayload));
}

TEST(QPLanding, ThereIsNoneOfLessThanAskedFor) {
  Receiver b(Role::Responder);
  const Bytes head = cut(send(1, pattern(kPayload)), 30);
  EXPECT_FALSE(find(b, head, 591));
  EXPECT_TRUE(b.queues.received.empty());
  EXPECT_TRUE(find(b, head, 590));
}

TEST(QPLanding, ThereIsNoneWithMarkers) {
  StreamParameters stream = End::stream(Role::Responder);
  stream.receive_markers = true;
  End b;
  b.bind(stream);
  const Region buffer = b.region(kPayload);
  b.receive({buffer.sge()});
  EXPECT_FALSE(find(b, cut(send(1, pattern(kPayload)))));
}

TEST(QPLanding, WithoutAReceiveTheSendWaitsAsEver) {
  End b;
  b.bind(Role::Responder);
  const Bytes octets = fpdu(send(1, pattern(kPayload)));
  EXPECT_FALSE(find(b, Bytes(octets.begin(), octets.begin() + 40)));
  EXPECT_TRUE(b.deliver(octets).held_back);

  QPConfig strict;
  strict.strict_receive = true;
  End c(strict);
  c.bind(Role::Responder);
  EXPECT_FALSE(find(c, Bytes(octets.begin(), octets.begin() + 40)));
  EXPECT_EQ(c.qp->state(), QPState::RTS) << "the header is not to be believed yet";
}

TEST(QPLanding, ThereIsNoneForASendThatAnImmediateAnnounced) {
  End b;
  b.bind(Role::Responder);
  const Region buffer = b.region(kPayload);
  b.deliver(fpdu(immediate(1, 5)));
  const Bytes octets = fpdu(send(2, pattern(kPayload)));
  const auto landing = find(b, Bytes(octets.begin(), octets.begin() + 40));
  b.receive({buffer.sge()});
  b.deliver(octets);
  EXPECT_FALSE(landing);
}

//= MPA-18
TEST(QPLanding, DamagedOctetsCompleteNothing) {
  Receiver b(Role::Initiator);
  Bytes octets = fpdu(send(1, pattern(kPayload)));
  octets[300] ^= 1;
  EXPECT_EQ(land(b, octets, 40).consumed, octets.size());
  EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::Flushed});
  b.transmit();
  EXPECT_EQ(b.qp->terminate_sent(), wire::TermError::MPACRC);
}

TEST(QPLanding, MemoryTakenBackOnTheWayIsOurError) {
  Receiver b(Role::Initiator);
  const Bytes segment = send(1, pattern(kPayload));
  const Bytes head = cut(segment);
  ASSERT_TRUE(find(b, head));
  ASSERT_TRUE(b.table.deregister(b.buffer.stag).ok());
  EXPECT_FALSE(find(b, head));
  b.qp->handle_landing_fault(head, b.now);
  EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::LocalProtection});
  EXPECT_EQ(ulpdus(b.transmit()), only(terminate(0x1000, segment)));
  // What is left of the FPDU is dropped, whatever it looks like.
  b.deliver(head);
  EXPECT_TRUE(b.arrived.empty());
}

TEST(QPLanding, MemoryUnmappedBeforeItWasJudgedIsOurError) {
  Receiver b(Role::Initiator);
  b.mover.unmap(b.buffer.data(), kPayload);
  const Bytes segment = send(1, pattern(kPayload));
  const Bytes octets = fpdu(segment);
  EXPECT_EQ(land(b, octets, 20).consumed, octets.size());
  EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::LocalProtection});
  EXPECT_EQ(ulpdus(b.transmit()), only(terminate(0x1000, segment)));
}

// Found before the CRC was seen, from the header alone.
TEST(QPLanding, AReceiveThatIsNoGoodIsOurErrorAboutThatMessage) {
  End b;
  b.bind(Role::Initiator);
  b.receive(std::vector<SGE>(5));
  const Bytes segment = send(1, pattern(kPayload));
  EXPECT_FALSE(find(b, cut(segment)));
  EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::LocalQPOperation});
  EXPECT_EQ(ulpdus(b.transmit()), only(terminate(0x1000, segment)));
}

TEST(QPLanding, WhoeverUsesTheMemoryInBetweenDoesNotSpoilTheCRC) {
  Receiver b(Role::Responder);
  const Bytes octets = fpdu(send(1, pattern(kPayload)));
  const Bytes head(octets.begin(), octets.begin() + 20);
  for (std::size_t landed = 0; landed < kPayload; landed += 200) {
    const auto landing = find(b, head);
    ASSERT_TRUE(landing);
    EXPECT_EQ(landing->landed, landed);
    std::copy_n(octets.begin() + Arrival::at(20 + landed), 200, landing->place + landed);
    EXPECT_TRUE(b.qp->handle_landed(head, *landing, 200));
    std::fill_n(b.buffer.data(), kPayload, 0xee);  // another stream's message, say
  }
  const auto landing = find(b, head);
  ASSERT_TRUE(landing);
  const Bytes trailer(octets.end() - Arrival::at(landing->trailer), octets.end());
  const Octets parts[] = {head, Octets(landing->place, landing->octets), trailer};
  EXPECT_EQ(b.qp->handle_octets({parts}, b.now).consumed, octets.size());
  EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::Success});
}

TEST(QPLanding, ASinkTakenBackOnTheWayFailsItsRead) {
  Pair pair;
  End& a = pair.a;
  const Region sink = a.region(kPayload), source = pair.b.region(kPayload);
  a.read({sink.sge()}, source.stag, source.to);
  pair.b.deliver(a.transmit());
  const Bytes response = pair.b.transmit_all();
  const Bytes head(response.begin(), response.begin() + 40);
  ASSERT_TRUE(find(a, head));
  ASSERT_TRUE(a.table.deregister(sink.stag).ok());
  EXPECT_FALSE(find(a, head));
  a.qp->handle_landing_fault(head, a.now);
  a.transmit();
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::LocalProtection});
  EXPECT_EQ(a.qp->state(), QPState::Terminate);
}

TEST(QPLanding, AFaultOfAStreamThatIsOverChangesNothing) {
  Receiver b(Role::Initiator);
  const Bytes head = cut(send(1, pattern(kPayload)));
  ASSERT_TRUE(find(b, head));
  ASSERT_TRUE(b.qp->fail(b.now).ok());
  EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::Flushed});
  EXPECT_FALSE(find(b, head));
  b.qp->handle_landing_fault(head, b.now);
  EXPECT_EQ(b.queues.received.size(), 1u);
  EXPECT_EQ(b.qp->state(), QPState::Error);
}

TEST(QPLanding, AProgramThatClosesOnTheWayMakesABadClose) {
  Receiver b(Role::Initiator);
  const Bytes octets = fpdu(send(1, pattern(kPayload)));
  ASSERT_TRUE(find(b, Bytes(octets.begin(), octets.begin() + 40)));
  ASSERT_TRUE(b.qp->close(b.now).ok());
  land(b, octets, 40);
  EXPECT_EQ(b.qp->state(), QPState::Error);
  EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::Flushed});
}

/// Long enough to be summed while it is copied.
constexpr std::size_t kLong = 4000;

/// An end with one receive of kLong octets.
struct LongReceiver : End {
  explicit LongReceiver(bool crc = true, Role role = Role::Initiator) {
    StreamParameters parameters = stream(role);
    parameters.crc = crc;
    bind(parameters);
    receive({buffer.sge()});
  }
  Region buffer = region(kLong);
};

TEST(QPLanding, WhatIsStagedWholeIsSummedAsItIsPlaced) {
  for (const bool crc : {true, false}) {
    LongReceiver b(crc);
    const Bytes octets = fpdu(send(1, pattern(kLong)));
    b.deliver(octets);
    EXPECT_EQ(*b.buffer.memory, pattern(kLong));
    EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::Success});
    EXPECT_EQ(b.mover.placements, 1u);
    EXPECT_EQ(b.mover.summed_placements, crc ? 1u : 0u);
  }
}

TEST(QPLanding, SegmentsStagedTogetherAreEachSummedAsTheyArePlaced) {
  LongReceiver b;
  const Bytes message = pattern(kLong);
  const auto middle = message.begin() + Arrival::at(2048);
  Bytes both = fpdu(send(1, Bytes(message.begin(), middle), 0, false));
  const Bytes second = fpdu(send(1, Bytes(middle, message.end()), 2048, true));
  both.insert(both.end(), second.begin(), second.end());
  b.deliver(both);
  EXPECT_EQ(*b.buffer.memory, message);
  EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::Success});
  // The second is shorter than what is worth it.
  EXPECT_EQ(b.mover.placements, 2u);
  EXPECT_EQ(b.mover.summed_placements, 1u);
}

TEST(QPLanding, AnswersInARunAreSummedAsTheyArePlaced) {
  Pair pair;
  const Region sink = pair.a.region(3 * kLong), source = pair.b.region(3 * kLong);
  source.fill(pattern(3 * kLong));
  pair.a.read({sink.sge()}, source.stag, source.to);
  pair.b.deliver(pair.a.transmit());
  pair.a.deliver(pair.b.transmit_all());
  EXPECT_EQ(*sink.memory, *source.memory);
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Success});
  // The first and the last are not in the run, and short.
  EXPECT_GT(pair.a.mover.placements, 3u);
  EXPECT_EQ(pair.a.mover.summed_placements, pair.a.mover.placements - 2);
}

//= MPA-18
TEST(QPLanding, DamageFoundAsItIsPlacedCompletesNothing) {
  for (const std::size_t at : {5u, 16u, 300u, 4018u, 4021u}) {
    LongReceiver b;
    Bytes octets = fpdu(send(1, pattern(kLong)));
    octets[at] ^= 1;
    b.deliver(octets);
    EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::Flushed}) << at;
    b.transmit();
    EXPECT_EQ(b.qp->terminate_sent(), wire::TermError::MPACRC) << at;
  }
}

//= MPA-18
TEST(QPLanding, ADamagedWriteThatIsStagedWholeIsNotPlaced) {
  End b;
  b.bind(Role::Initiator);
  const Region target = b.region(kLong);
  const Bytes before = *target.memory;
  Bytes octets = fpdu(written(target, pattern(kLong)));
  octets[300] ^= 1;
  b.deliver(octets);
  EXPECT_EQ(*target.memory, before);
  EXPECT_EQ(b.mover.placements, 0u);
}

/// Of a shared queue the next one is another stream's.
TEST(QPLanding, AReceiveThatIsNoGoodIsTakenOnceForWhatIsStagedWhole) {
  End b;
  b.bind(Role::Initiator);
  b.queues.shared = true;
  const Region buffer = b.region(kLong);
  b.receive(std::vector<SGE>(5));
  b.receive({buffer.sge()});
  const Bytes segment = send(1, pattern(kLong));
  const Bytes octets = fpdu(segment);
  EXPECT_EQ(b.deliver(octets).consumed, octets.size());
  EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::LocalQPOperation});
  EXPECT_EQ(ulpdus(b.transmit()), only(terminate(0x1000, segment)));
  EXPECT_EQ(b.mover.placements, 0u);
  ReceiveWR left;
  EXPECT_TRUE(b.queues.take_receive(left));
}

TEST(QPLanding, WhatCannotBePlacedAsItIsSummedIsOurError) {
  LongReceiver b;
  b.mover.unmap(b.buffer.data() + 2000, 1);
  const Bytes segment = send(1, pattern(kLong));
  b.deliver(fpdu(segment));
  EXPECT_EQ(statuses(b.queues.received), std::vector{WorkStatus::LocalProtection});
  EXPECT_EQ(ulpdus(b.transmit()), only(terminate(0x1000, segment)));
}

}  // namespace
}  // namespace weft::core::testing
