// What the consumer may change while a QP lives: the peer's rights, the ORD, and a pause of the
// send queue.
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

enum class Request : std::uint8_t { Write, Read, Atomic };

struct RightsCase {
  const char* what;
  Request request;
  std::uint32_t rights;
  bool allowed;
  wire::TermError error;
};

class QPRights : public ::testing::TestWithParam<RightsCase> {};

//= SEC-01
TEST_P(QPRights, HoldWhateverTheRegionAllows) {
  const RightsCase& row = GetParam();
  Pair pair;
  pair.open();
  pair.b.qp->set_remote_access(row.rights);
  const Region local = pair.a.region(8), target = pair.b.region(64);
  switch (row.request) {
    case Request::Write: pair.a.write({local.sge()}, target.stag, target.to); break;
    case Request::Read: pair.a.read({local.sge()}, target.stag, target.to); break;
    case Request::Atomic: pair.a.fetch_add(local.sge(), target.stag, target.to, 1); break;
  }
  pair.run();
  EXPECT_EQ(pair.b.qp->terminate_sent().has_value(), !row.allowed);
  if (!row.allowed) {
    EXPECT_EQ(*pair.b.qp->terminate_sent(), row.error);
  }
  if (!row.allowed) {
    EXPECT_EQ(target.text(64), std::string(64, '\0')) << "and nothing was changed";
  }
}

constexpr auto kAccess = wire::TermError::RDMAPAccess;
constexpr auto kTagged = wire::TermError::DDPTaggedInvalidSTag;
INSTANTIATE_TEST_SUITE_P(
    Rights, QPRights,
    ::testing::Values(
        RightsCase{"a_write_with_its_right", Request::Write, kRemoteWrite, true, kTagged},
        RightsCase{"a_write_with_others", Request::Write, kRemoteRead | kRemoteAtomic, false,
                   kTagged},
        RightsCase{"a_read_with_its_right", Request::Read, kRemoteRead, true, kAccess},
        RightsCase{"a_read_with_others", Request::Read, kRemoteWrite | kRemoteAtomic, false,
                   kAccess},
        RightsCase{"an_atomic_with_its_right", Request::Atomic, kRemoteAtomic, true, kAccess},
        RightsCase{"an_atomic_with_others", Request::Atomic, kRemoteWrite | kRemoteRead, false,
                   kAccess}),
    [](const auto& given) { return std::string(given.param.what); });

TEST(QPAttributes, WithoutRightsAnEmptyWriteIsFineAndAnUnknownSTagIsCalledThat) {
  Pair pair;
  pair.open();
  pair.b.qp->set_remote_access(0);
  pair.a.write(std::vector<SGE>{}, {0}, 0);
  pair.run();
  EXPECT_EQ(pair.b.qp->state(), QPState::RTS);
  const Region local = pair.a.region(8);
  pair.a.read({local.sge()}, {0xabcd00}, 0);
  pair.run();
  ASSERT_TRUE(pair.b.qp->terminate_sent().has_value());
  EXPECT_EQ(*pair.b.qp->terminate_sent(), wire::TermError::RDMAPInvalidSTag);
}

// The request was good when it came.
TEST(QPAttributes, ARightThatIsTakenBackStopsTheResponse) {
  Pair pair;
  pair.open();
  const Region local = pair.a.region(8), source = pair.b.region(8);
  pair.a.read({local.sge()}, source.stag, source.to);
  pair.b.deliver(pair.a.transmit());
  ASSERT_EQ(pair.b.qp->inbound_reads_open(), 1u);
  pair.b.qp->set_remote_access(kRemoteWrite);
  pair.run();
  ASSERT_TRUE(pair.b.qp->terminate_sent().has_value());
  EXPECT_EQ(*pair.b.qp->terminate_sent(), wire::TermError::RDMAPAccess);
}

//= RDM-23
TEST(QPAttributes, TheORDBoundsReadsAndAtomicsBeforeAndDuringAStream) {
  for (const bool before : {true, false}) {
    End a;
    if (before) a.qp->set_ord(2);
    a.bind();
    if (!before) a.qp->set_ord(2);
    const Region sink = a.region(8);
    for (int i = 0; i < 3; ++i) a.read({sink.sge()}, STag{7}, 0);
    a.fetch_add(sink.sge(), STag{7}, 0, 1);
    a.transmit_all();
    EXPECT_EQ(a.qp->reads_open(), 2u);
    a.qp->set_ord(100);
    a.transmit_all();
    EXPECT_EQ(a.qp->reads_open(), 4u) << "8, the stream's, is the bound now";
  }
}

TEST(QPAttributes, AnORDOfZeroRefusesReads) {
  End a;
  a.bind();
  a.qp->set_ord(0);
  const Region sink = a.region(8);
  a.read({sink.sge()}, STag{7}, 0);
  a.transmit_all();
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::LocalQPOperation});
}

TEST(QPPause, BeginsNothingAndFinishesWhatWasBegun) {
  Pair pair({}, End::stream(Role::Initiator), 134);
  pair.open();
  const Region source = pair.a.region(300), target = pair.b.region(300);
  source.fill(pattern(300));
  pair.a.write({source.sge()}, target.stag, target.to);
  pair.a.send("waits");
  EXPECT_TRUE(pair.a.qp->sends_drained());
  const Bytes begun = pair.a.transmit(true, 140);  // one segment of three
  ASSERT_FALSE(begun.empty());
  pair.a.qp->pause_sends(true);
  EXPECT_FALSE(pair.a.qp->sends_drained());
  pair.b.deliver(begun);
  pair.run();
  EXPECT_TRUE(pair.a.qp->sends_drained());
  EXPECT_FALSE(pair.a.qp->wants_transmit());
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Success});
  EXPECT_EQ(*target.memory, *source.memory);

  pair.b.receive();
  pair.a.qp->pause_sends(false);
  EXPECT_TRUE(pair.a.qp->wants_transmit());
  pair.run();
  EXPECT_EQ(pair.a.queues.sent.size(), 2u);
}

TEST(QPPause, IsNotOverBeforeAReadIsAnswered) {
  Pair pair;
  pair.open();
  const Region sink = pair.a.region(8), source = pair.b.region(8);
  pair.a.read({sink.sge()}, source.stag, source.to);
  const Bytes request = pair.a.transmit();
  pair.a.qp->pause_sends(true);
  EXPECT_FALSE(pair.a.qp->sends_drained());
  pair.b.deliver(request);
  pair.run();
  EXPECT_TRUE(pair.a.qp->sends_drained());
}

TEST(QPPause, LeavesThePeerWithItsAnswers) {
  Pair pair;
  pair.open();
  const Region sink = pair.b.region(8), source = pair.a.region(8);
  source.fill(pattern(8));
  pair.a.qp->pause_sends(true);
  pair.b.read({sink.sge()}, source.stag, source.to);
  pair.run();
  EXPECT_EQ(*sink.memory, *source.memory);
}

// What waits for a fence was taken out of the queue already, but is not begun.
TEST(QPPause, HoldsWhatWaitsForAFence) {
  Pair pair;
  pair.open();
  const Region sink = pair.a.region(8), source = pair.b.region(8);
  pair.a.read({sink.sge()}, source.stag, source.to);
  pair.a.post({.opcode = WorkOpcode::Send, .read_fence = true}, {});
  const Bytes request = pair.a.transmit();
  pair.a.qp->pause_sends(true);
  pair.b.deliver(request);
  pair.run();
  EXPECT_TRUE(pair.a.qp->sends_drained());
  EXPECT_EQ(pair.a.queues.sent.size(), 1u);
}

TEST(QPPause, DoesNotMissAPeerForWorkThatWasNotBegun) {
  End a;
  a.qp->set_paired();
  a.bind();
  a.qp->pause_sends(true);
  a.send("later");
  a.qp->handle_llp_lost(a.now);
  a.drain();
  EXPECT_FALSE(a.qp->misses_peer());
  a.qp->pause_sends(false);
  EXPECT_TRUE(a.qp->misses_peer());
}

TEST(QPAttributes, ResetBringsTheDefaultsBack) {
  Pair pair;
  pair.b.qp->set_remote_access(0);
  pair.b.qp->set_ord(0);
  pair.b.qp->pause_sends(true);
  ASSERT_TRUE(pair.b.qp->fail(pair.b.now).ok());
  ASSERT_TRUE(pair.b.qp->reset(pair.b.now).ok());
  pair.b.drain();
  pair.b.bind(Role::Initiator);
  const Region sink = pair.b.region(8);
  pair.b.read({sink.sge()}, STag{7}, 0);
  pair.b.transmit_all();
  EXPECT_EQ(pair.b.qp->reads_open(), 1u);
}

}  // namespace
}  // namespace weft::core::testing
