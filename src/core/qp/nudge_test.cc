// An initiator whose peer stays silent: what it sends, how often, and when it stops.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

using std::chrono::milliseconds;

const Bytes kNudge = tagged(wire::Opcode::Write, {1}, 0);
constexpr int kNudges = 5;

StreamParameters initiator(RTR rtr) {
  StreamParameters parameters = End::stream(Role::Initiator);
  parameters.peer_to_peer = rtr != RTR::None;
  parameters.rtr = rtr;
  return parameters;
}

/// Lets the next deadline pass; what is sent then. Fails where there is none.
Bytes sent_when_due(End& end) {
  const std::optional<Instant> due = end.qp->poll_timeout();
  EXPECT_TRUE(due.has_value());
  if (!due) return {};
  end.now = *due;
  end.qp->handle_timeout(end.now);
  return end.transmit_all();
}

TEST(QPNudge, ASilentPeerIsNudgedAFewTimesFurtherAndFurtherApart) {
  for (const RTR rtr : {RTR::None, RTR::Send, RTR::Write, RTR::Read}) {
    End a;
    a.bind(initiator(rtr));
    if (rtr == RTR::None) a.send("first");
    const Instant start = a.now;
    EXPECT_EQ(ulpdus(a.transmit_all()).size(), 1u);
    Duration pause = milliseconds(0);
    int nudges = 0;
    while (a.qp->poll_timeout() && nudges < 100) {
      const Instant before = a.now;
      EXPECT_EQ(ulpdus(sent_when_due(a)), only(kNudge));
      EXPECT_GT(a.now - before, pause);
      pause = a.now - before;
      ++nudges;
      if (nudges == 1) {
        EXPECT_LE(a.now - start, milliseconds(10));
      }
    }
    EXPECT_EQ(nudges, kNudges);
    EXPECT_GE(a.now - start, milliseconds(1700));
    EXPECT_LE(a.now - start, milliseconds(1750));
    EXPECT_EQ(a.qp->state(), QPState::RTS);
  }
}

TEST(QPNudge, NothingIsSentBeforeItIsDue) {
  End a;
  a.bind(initiator(RTR::Write));
  a.transmit_all();
  ASSERT_TRUE(a.qp->poll_timeout());
  EXPECT_GE(*a.qp->poll_timeout() - a.now, milliseconds(5));
  a.qp->handle_timeout({a.qp->poll_timeout()->ns - 1});
  EXPECT_FALSE(a.qp->wants_transmit());
  EXPECT_TRUE(a.transmit_all().empty());
}

TEST(QPNudge, ManyStreamsAreDueTogether) {
  End a, b;
  b.now = b.now + milliseconds(2);
  a.bind(initiator(RTR::Write));
  b.bind(initiator(RTR::Write));
  a.now = b.now = *b.qp->poll_timeout();
  EXPECT_EQ(b.now.ns % Duration(milliseconds(5)).count(), 0);
}

TEST(QPNudge, TheFirstFPDUFromThePeerEndsItForGood) {
  for (const int nudges_before : {0, 1, kNudges - 1}) {
    End a;
    a.bind(initiator(RTR::Write));
    a.transmit_all();
    for (int i = 0; i < nudges_before; ++i) EXPECT_FALSE(sent_when_due(a).empty());
    a.receive();
    a.deliver(fpdu(send(1)));
    EXPECT_FALSE(a.qp->poll_timeout());
    a.now = a.now + std::chrono::seconds(5);
    a.qp->handle_timeout(a.now);
    EXPECT_TRUE(a.transmit_all().empty());
    a.send("on");
    EXPECT_EQ(ulpdus(a.transmit_all()).size(), 1u);
    EXPECT_FALSE(a.qp->poll_timeout());
  }
}

TEST(QPNudge, AResponderNeverNudges) {
  End b;
  b.bind(Role::Responder);
  EXPECT_FALSE(b.qp->poll_timeout());
  b.receive();
  b.deliver(fpdu(send(1)));
  EXPECT_FALSE(b.qp->poll_timeout());
}

// What was never sent cannot have been missed; and the first FPDU of a peer-to-peer stream has to
// be the RTR.
TEST(QPNudge, NothingIsSentBeforeTheFirstFPDU) {
  End a;
  a.bind(initiator(RTR::None));
  EXPECT_TRUE(sent_when_due(a).empty());
  a.send("late");
  EXPECT_EQ(ulpdus(a.transmit_all()), only(send(1, bytes("late"))));
  EXPECT_EQ(ulpdus(sent_when_due(a)), only(kNudge));

  End b;
  b.bind(initiator(RTR::Send));
  EXPECT_EQ(ulpdus(sent_when_due(b)), only(send(1)));
}

TEST(QPNudge, WorkThatGoesAnywayIsANudge) {
  End a;
  a.bind(initiator(RTR::Write));
  a.transmit_all();
  a.send("work");
  EXPECT_EQ(ulpdus(sent_when_due(a)), only(send(1, bytes("work"))));
  EXPECT_EQ(ulpdus(sent_when_due(a)), only(kNudge));
}

//= DDP-10
TEST(QPNudge, AMessageIsNotCutInTwo) {
  End a;
  a.bind(initiator(RTR::None));
  const Region source = a.region(4000);
  a.send({source.sge()});
  Bytes octets = a.transmit(true, 1000);
  const Bytes rest = sent_when_due(a);
  octets.insert(octets.end(), rest.begin(), rest.end());
  const std::vector<Bytes> segments = ulpdus(octets);
  EXPECT_EQ(segments.size(), 3u);
  for (const Bytes& segment : segments) EXPECT_NE(segment, kNudge);
}

TEST(QPNudge, NumbersAndReadsAreNotTouched) {
  End a;
  a.bind(initiator(RTR::Read));
  a.transmit_all();
  EXPECT_EQ(a.qp->reads_open(), 1u);
  EXPECT_EQ(ulpdus(sent_when_due(a)), only(kNudge));
  EXPECT_EQ(a.qp->reads_open(), 1u);
  a.send("one");
  EXPECT_EQ(ulpdus(a.transmit_all()), only(send(1, bytes("one"))));
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::Success});
}

TEST(QPNudge, APeerTakesItWithMarkersAndWithoutAndNotices) {
  for (const bool markers : {false, true}) {
    StreamParameters parameters = initiator(RTR::None);
    parameters.transmit_markers = parameters.receive_markers = markers;
    Pair pair({}, parameters);
    const Region target = pair.b.region(600);
    pair.a.write(std::string(600, 'x'), target.stag, target.to);
    pair.b.deliver(pair.a.transmit_all());
    const std::size_t placements = pair.b.mover.placements;
    for (int i = 0; i < kNudges; ++i) {
      const Bytes nudge = sent_when_due(pair.a);
      EXPECT_FALSE(nudge.empty());
      pair.b.deliver(nudge);
    }
    EXPECT_TRUE(pair.b.arrived.empty());
    EXPECT_EQ(pair.b.mover.placements, placements);
    EXPECT_EQ(pair.b.queues.received.size(), 0u);
    EXPECT_EQ(pair.b.qp->state(), QPState::RTS);
  }
}

TEST(QPNudge, AStreamThatEndsIsNotNudged) {
  End a;
  a.bind(initiator(RTR::Write));
  a.transmit_all();
  ASSERT_TRUE(a.qp->close(a.now).ok());
  EXPECT_EQ(a.qp->poll_timeout()->ns, a.now.ns + 5'000'000'000);
  a.qp->handle_timeout(a.now + milliseconds(100));
  EXPECT_TRUE(a.transmit_all().empty());

  End b;
  b.bind(initiator(RTR::Write));
  b.transmit_all();
  b.qp->handle_peer_closed(b.now);
  EXPECT_EQ(b.qp->poll_timeout()->ns, b.now.ns + 5'000'000'000);

  End c;
  c.bind(initiator(RTR::Write));
  c.transmit_all();
  ASSERT_TRUE(c.qp->fail(c.now).ok());
  EXPECT_FALSE(c.qp->poll_timeout());
}

TEST(QPNudge, TheNextStreamStartsAfresh) {
  End a;
  a.bind(initiator(RTR::None));
  a.send("x");
  a.transmit_all();
  for (int i = 0; i < kNudges; ++i) EXPECT_FALSE(sent_when_due(a).empty());
  ASSERT_TRUE(a.qp->fail(a.now).ok());
  ASSERT_TRUE(a.qp->reset(a.now).ok());
  EXPECT_FALSE(a.qp->poll_timeout());
  a.bind(initiator(RTR::Write));
  EXPECT_EQ(ulpdus(a.transmit_all()), only(kNudge));  // the RTR, which looks the same
  for (int i = 0; i < kNudges; ++i) EXPECT_EQ(ulpdus(sent_when_due(a)), only(kNudge));
  EXPECT_FALSE(a.qp->poll_timeout());
}

// The consumer may close while a nudge is under way. Nothing is lost by it, so it is no bad close;
// octets behind the peer's FIN are.
//= DDP-16
TEST(QPNudge, ANudgeThatCrossesOurFINIsNoBadClose) {
  End b;
  b.bind(Role::Responder);
  b.deliver(fpdu(kNudge));
  ASSERT_TRUE(b.qp->close(b.now).ok());
  b.deliver(fpdu(kNudge));
  b.drain();
  EXPECT_EQ(b.qp->state(), QPState::Closing);
  EXPECT_EQ(b.action, LLPAction::CloseGracefully);

  End c;
  c.bind(Role::Responder);
  c.deliver(fpdu(kNudge));
  c.qp->handle_peer_closed(c.now);
  c.deliver(fpdu(kNudge));
  c.drain();
  EXPECT_EQ(c.qp->state(), QPState::Error);
  EXPECT_EQ(c.action, LLPAction::Reset);
}

}  // namespace
}  // namespace weft::core::testing
