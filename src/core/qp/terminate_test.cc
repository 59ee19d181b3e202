// Terminates out and in, and the work requests they are about.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

using test::hex;
using test::to_hex;
using Kind = QPNotice::Kind;

//= RDM-14 RDM-15 RDM-24 RDM-26
TEST(QPTerminate, IsTheLastMessage) {
  End a;
  a.bind();
  a.send("never");
  ASSERT_TRUE(a.qp->terminate(a.now).ok());
  EXPECT_EQ(a.action, LLPAction::None);
  EXPECT_EQ(ulpdus(a.transmit_all()), only(terminate(0x0000)));
  EXPECT_EQ(a.action, LLPAction::CloseGracefully);
  EXPECT_EQ(a.qp->terminate_sent(), wire::TermError::RDMAPLocalCatastrophic);
  ASSERT_EQ(a.notices.size(), 1u);
  EXPECT_EQ(a.notices[0].kind, Kind::TerminateSent);
  a.send("never either");
  a.qp->flush(a.now);
  EXPECT_FALSE(a.qp->wants_transmit());
  EXPECT_TRUE(a.transmit_all().empty());
  EXPECT_EQ(statuses(a.queues.sent), (std::vector{WorkStatus::Flushed, WorkStatus::Flushed}));
}

//= RDM-14
// Between two segments of a message, however long it is, and however full the batch was.
TEST(QPTerminate, CutsInAtASegmentBoundary) {
  End a;
  a.bind();
  const Region region = a.region(100000);
  a.send({region.sge()});
  Bytes octets = a.transmit(true, 3000);
  ASSERT_TRUE(a.qp->terminate(a.now).ok());
  const Bytes rest = a.transmit_all();
  octets.insert(octets.end(), rest.begin(), rest.end());
  const auto segments = ulpdus(octets);
  ASSERT_EQ(segments.size(), 4u);
  EXPECT_EQ(segments[2][0] & 0x40, 0);
  EXPECT_EQ(segments[3], terminate(0x0000));
}

//= RDM-25 RDM-27 RDM-30
TEST(QPTerminate, LeavesAsInExampleA10) {
  End b;
  b.bind(Role::Responder);
  const Region source = b.region(2048, kRemoteRead, kPD, 0x7f0000001000);
  b.deliver(fpdu(read_request(1, {{0xaa01}, 0x2000, 8, source.stag, source.to})));
  b.transmit();
  b.deliver(fpdu(read_request(2, {{0xaa01}, 0x2000, 0x1000, source.stag, source.to})));
  Bytes expected = hex(
      "4147 00000000 00000002 00000001 00000000 0101e000 002e4141 00000000 00000001 00000002"
      "00000000 0000aa01 00000000 00002000 00001000 0000bb02 00007f00 00001000");
  store_be32(expected.data() + 18 + 6 + 18 + 16, source.stag.value);  // 0xbb02 in the example
  EXPECT_EQ(to_hex(b.transmit()), to_hex(fpdu(expected)));
}

//= RDM-27 DDP-22
TEST(QPTerminate, LeavesAsInExampleB11) {
  End b;
  b.bind(Role::Responder);
  b.deliver(fpdu(tagged(wire::Opcode::Write, {0x00dead00}, 0x10, Bytes(20, 'x'))));
  EXPECT_EQ(to_hex(b.transmit()),
            "00264147 00000000 00000002 00000001 00000000 1100c000 0022c140 00dead00 00000000"
            " 00000010 f8ab3d2d");
}

//= RDM-28 DDP-21 DDP-18
TEST(QPTerminate, TheFirstErrorWinsAndTheRestIsDropped) {
  End b;
  b.bind(Role::Responder);
  const Region target = b.region(64);
  const Bytes first = tagged(wire::Opcode::Write, {0xdead00}, 0, bytes("x"));
  Bytes octets = fpdu(first);
  const Bytes good = tagged(wire::Opcode::Write, target.stag, target.to, bytes("x"));
  for (const Bytes& more : {send(7), good, terminate(0x0207)}) {
    const Bytes next = fpdu(more);
    octets.insert(octets.end(), next.begin(), next.end());
  }
  octets.push_back(0xff);
  b.deliver(octets);
  EXPECT_TRUE(b.arrived.empty());
  EXPECT_EQ(*target.memory, Bytes(64));
  EXPECT_EQ(ulpdus(b.transmit_all()), only(terminate(0x1100, first)));
  EXPECT_FALSE(b.qp->terminate_received());
}

//= RDM-14 RDM-24 RDM-25
TEST(QPTerminate, ArrivingIsToldAndNotAnswered) {
  Pair pair;
  pair.open();
  pair.a.send("more");
  pair.a.receive();
  pair.a.deliver(fpdu(terminate(0x2002)));
  EXPECT_EQ(pair.a.qp->state(), QPState::Terminate);
  ASSERT_EQ(pair.a.notices.size(), 1u);
  EXPECT_EQ(pair.a.notices[0].kind, Kind::TerminateArrived);
  EXPECT_EQ(pair.a.notices[0].error, wire::TermError::MPACRC);
  EXPECT_EQ(pair.a.qp->terminate_received(), wire::TermError::MPACRC);
  EXPECT_EQ(pair.a.action, LLPAction::CloseGracefully);
  EXPECT_TRUE(pair.a.transmit_all().empty());
  EXPECT_EQ(statuses(pair.a.queues.sent), std::vector{WorkStatus::Flushed});
  EXPECT_EQ(statuses(pair.a.queues.received), std::vector{WorkStatus::Flushed});
}

TEST(QPTerminate, ShortOrOddOnesAreStillTerminates) {
  for (const Bytes& payload : {Bytes{}, Bytes{0x11}, Bytes{0x11, 0x00},
                               Bytes{0x01, 0x01, 0xff, 0xff}, Bytes(500, 0xff)}) {
    End a;
    a.bind();
    a.deliver(fpdu(untagged(wire::Opcode::Terminate, 2, 9, 3, payload)));
    EXPECT_EQ(a.qp->state(), QPState::Terminate);
    EXPECT_TRUE(a.qp->terminate_received());
    EXPECT_TRUE(a.transmit_all().empty());
  }
}

/// A with two Reads, a Write and a Send open; `about` of the Terminate is made from what it sent.
struct Guilt {
  Guilt() {
    a.bind();
    sink = a.region(64);
    a.read({sink.sge(8)}, {0x111100}, 0x100);
    a.read({sink.sge(8, 8)}, {0x222200}, 0x200);
    a.write("write", {0x333300}, 0x300);
    a.post({.opcode = WorkOpcode::SendInvalidate, .invalidate_stag = {0x4400}}, {}, bytes("s"));
    sent = ulpdus(a.transmit_all());
  }
  std::vector<WorkStatus> after(const Bytes& message) {
    a.deliver(fpdu(message));
    return statuses(a.queues.sent);
  }
  End a;
  Region sink;
  std::vector<Bytes> sent;
};

TEST(QPTerminate, BlamesTheWorkItIsAbout) {
  const auto kF = WorkStatus::Flushed, kA = WorkStatus::RemoteAccess,
             kO = WorkStatus::RemoteOperation;
  using V = std::vector<WorkStatus>;
  EXPECT_EQ(Guilt().after(terminate(0x0101)), (V{kA, kF, kF, kF}));
  {
    Guilt g;
    EXPECT_EQ(g.after(terminate(0x0101, g.sent[1], true)), (V{kF, kA, kF, kF}));
  }
  {
    Guilt g;
    EXPECT_EQ(g.after(terminate(0x1202, g.sent[1])), (V{kF, kO, kF, kF}));
  }
  {
    Guilt g;
    EXPECT_EQ(g.after(terminate(0x1100, g.sent[2])), (V{kF, kF, kA, kF}));
  }
  {
    Guilt g;
    EXPECT_EQ(g.after(terminate(0x0109, g.sent[3])), (V{kF, kF, kF, kA}));
  }
  {
    // The peer's own trouble, with the message that met it: its receive could not be used.
    Guilt g;
    EXPECT_EQ(g.after(terminate(0x1000, g.sent[3])), (V{kF, kF, kF, kO}));
  }
  EXPECT_EQ(Guilt().after(terminate(0x0109)), (V{kF, kF, kF, kA}));
  EXPECT_EQ(Guilt().after(terminate(0x1101)), (V{kF, kF, kA, kF}));
  EXPECT_EQ(Guilt().after(terminate(0x1205)), (V{kF, kF, kF, kO}));
  // About none of ours: the peer's own trouble, the LLP's, or a message we have not sent.
  EXPECT_EQ(Guilt().after(terminate(0x0000)), (V{kF, kF, kF, kF}));
  EXPECT_EQ(Guilt().after(terminate(0x1000)), (V{kF, kF, kF, kF}));
  EXPECT_EQ(Guilt().after(terminate(0x1000, send(7))), (V{kF, kF, kF, kF}));
  EXPECT_EQ(Guilt().after(terminate(0x0207)), (V{kF, kF, kF, kF}));
  EXPECT_EQ(Guilt().after(terminate(0x2002)), (V{kF, kF, kF, kF}));
  EXPECT_EQ(Guilt().after(terminate(0x1100, tagged(wire::Opcode::Write, {0x999900}, 0))),
            (V{kF, kF, kF, kF}));
  EXPECT_EQ(Guilt().after(terminate(0x0101, read_request(3, {}), true)), (V{kF, kF, kF, kF}));
}

// Who reads completions in their order learns first why the stream ended.
TEST(QPTerminate, TheWorkThatIsToBlameCompletesBeforeAnythingIsFlushed) {
  End a;
  a.bind();
  a.receive();
  const Region sink = a.region(64);
  a.read({sink.sge(8)}, {0x111100}, 0x100);
  const auto sent = ulpdus(a.transmit_all());
  a.deliver(fpdu(terminate(0x0101, sent[0], true)));
  ASSERT_EQ(a.queues.all.size(), 2u);
  EXPECT_EQ(a.queues.all[0].status, WorkStatus::RemoteAccess);
  EXPECT_EQ(a.queues.all[1].opcode, WorkOpcode::Receive);
  EXPECT_EQ(a.queues.all[1].status, WorkStatus::Flushed);
}

// Not even while the transport still sends from its memory.
TEST(QPTerminate, NothingIsFlushedBeforeTheWorkThatIsToBlame) {
  End a;
  a.bind();
  a.receive();
  const Region sink = a.region(64);
  a.read({sink.sge(8)}, {0x111100}, 0x100);
  const Bytes octets = a.transmit(false);
  a.deliver(fpdu(terminate(0x0101, ulpdus(octets)[0], true)));
  EXPECT_TRUE(a.queues.all.empty());
  a.qp->handle_sent(octets.size(), a.now);
  a.drain();
  ASSERT_EQ(a.queues.all.size(), 2u);
  EXPECT_EQ(a.queues.all[0].status, WorkStatus::RemoteAccess);
}

// Writes that lie next to each other and over each other in one region: the quoted segment is the
// one that does not fit, and a neighbour that ends where it begins is not to blame.
TEST(QPTerminate, BlamesTheRightOneOfSeveralWrites) {
  const auto kF = WorkStatus::Flushed, kA = WorkStatus::RemoteAccess;
  End a;
  a.bind();
  const Region sink = a.region(64);
  a.read({sink.sge()}, {0x111100}, 0x100);  // keeps what is behind it open
  a.write("", {0x333300}, 0x308);
  a.write("neighbour", {0x333300}, 0x2ff);
  a.write("covers it", {0x333300}, 0x304);
  a.write("guilty: beyond the end", {0x333300}, 0x308);
  const auto sent = ulpdus(a.transmit_all());
  ASSERT_EQ(sent.size(), 5u);
  a.deliver(fpdu(terminate(0x1101, sent[4])));
  EXPECT_EQ(statuses(a.queues.sent), (std::vector{kF, kF, kF, kF, kA}));
}

// ENH-08, ENH-16: what startup could not settle is said in the only message of the stream.
TEST(QPTerminate, MayBeTheOnlyMessageOfAStream) {
  auto parameters = End::stream(Role::Initiator);
  parameters.rtr = RTR::Read;
  parameters.terminate_with = wire::TermError::MPAInsufficientIRD;
  End a;
  a.send("never");
  a.bind(parameters);
  EXPECT_EQ(ulpdus(a.transmit_all()), only(terminate(0x2006)));
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::Flushed});
}

// CON-15 even now: a responder that has heard nothing closes without a word.
TEST(QPTerminate, OfASilentResponderIsNotSent) {
  End b;
  b.bind(Role::Responder);
  ASSERT_TRUE(b.qp->terminate(b.now).ok());
  b.drain();
  EXPECT_EQ(b.qp->state(), QPState::Terminate);
  EXPECT_TRUE(b.transmit_all().empty());
  EXPECT_EQ(b.action, LLPAction::CloseGracefully);
  EXPECT_FALSE(b.qp->terminate_sent());
}

//= RDM-26
TEST(QPTerminate, LocalErrorsOfTheSendQueue) {
  struct Case {
    const char* what;
    SendWR wr;
    std::vector<SGE> sges;
    WorkStatus status;
  };
  End probe;
  const Region region = probe.region(64), foreign = probe.region(64, End::kAll, kOtherPD),
               read_only = probe.region(64, kRemoteRead);
  const SGE five{region.to, 1, region.stag};
  const std::uint64_t wrap = 0xffffffffffffff00u;
  const Case cases[] = {
      {"unknown STag", {}, {{0, 1, {0x123400}}}, WorkStatus::LocalProtection},
      {"STag 0", {}, {{0, 1, {0}}}, WorkStatus::LocalProtection},
      {"out of bounds", {}, {region.sge(65)}, WorkStatus::LocalProtection},
      {"second SGE bad", {}, {region.sge(), region.sge(2, 63)}, WorkStatus::LocalProtection},
      {"wrap", {}, {{wrap, 0x200, region.stag}}, WorkStatus::LocalProtection},
      {"other PD", {}, {foreign.sge()}, WorkStatus::LocalProtection},
      {"too many SGEs", {}, {five, five, five, five, five}, WorkStatus::LocalQPOperation},
      {"two sinks", {.opcode = WorkOpcode::Read}, {five, five}, WorkStatus::LocalQPOperation},
      {"sink not writable", {.opcode = WorkOpcode::Read}, {read_only.sge()},
       WorkStatus::LocalProtection},
      {"no such opcode", {.opcode = WorkOpcode::Receive}, {}, WorkStatus::LocalQPOperation},
      {"longer than 2^32 - 1", {}, {{0, 0xffffffff, {1}}, {0, 1, {1}}}, WorkStatus::LocalLength},
  };
  for (const Case& c : cases) {
    End a;
    a.bind();
    const Region same = a.region(64), same_foreign = a.region(64, End::kAll, kOtherPD),
                 same_read_only = a.region(64, kRemoteRead);
    std::vector<SGE> sges = c.sges;
    for (SGE& sge : sges) {  // the probe's regions in this end's table: same STags, other places
      if (sge.stag == region.stag && sge.to != wrap) sge.to += same.to - region.to;
      if (sge.stag == foreign.stag) sge.to += same_foreign.to - foreign.to;
      if (sge.stag == read_only.stag) sge.to += same_read_only.to - read_only.to;
    }
    ASSERT_EQ(same.stag, region.stag);
    a.send("before");
    a.post(c.wr, sges);
    a.send("after");
    const auto sent = ulpdus(a.transmit_all());
    ASSERT_EQ(sent.size(), 2u) << c.what;
    EXPECT_EQ(sent[1], terminate(0x0000)) << c.what;
    a.queues.sent.resize(3);
    EXPECT_EQ(statuses(a.queues.sent),
              (std::vector{WorkStatus::Success, c.status, WorkStatus::Flushed}))
        << c.what;
  }
}

// What one short segment takes goes by a way of its own.
TEST(QPTerminate, LocalMemoryOfOneSegmentGone) {
  for (const bool write : {true, false}) {
    for (const std::size_t octets : {1, 1023, 1024, 5000}) {
      for (const bool unmapped : {true, false}) {
        SCOPED_TRACE(std::to_string(octets) + (write ? " written" : " sent") +
                     (unmapped ? ", unmapped" : ""));
        End a;
        a.bind();
        const Region region = a.region(octets), good = a.region(8);
        if (unmapped) {
          a.mover.unmap(region.data(), octets);
        } else {
          ASSERT_TRUE(a.table.deregister(region.stag).ok());
        }
        const SendWR before{.opcode = WorkOpcode::Send};
        a.post(before, {good.sge()}, {});
        SendWR wr{.opcode = write ? WorkOpcode::Write : WorkOpcode::Send};
        wr.remote_stag = {7};
        a.post(wr, {region.sge()}, {});
        const auto left = ulpdus(a.transmit_all());
        ASSERT_EQ(left.size(), 2u);
        EXPECT_EQ(left[0].size(), 18u + 8);
        EXPECT_EQ(left[1], terminate(0x0000));
        EXPECT_EQ(statuses(a.queues.sent),
                  (std::vector{WorkStatus::Success, WorkStatus::LocalProtection}));
      }
    }
  }
}

// Memory that was good when the WR started and is gone when a later segment is built.
TEST(QPTerminate, LocalMemoryGoneInTheMiddle) {
  for (const bool unmapped : {true, false}) {
    End a;
    a.bind();
    const Region region = a.region(10000);
    a.send({region.sge()});
    Bytes octets = a.transmit(true, 3000);
    if (unmapped) {
      a.mover.unmap(region.data(), 10000);
    } else {
      ASSERT_TRUE(a.table.deregister(region.stag).ok());
    }
    const Bytes rest = a.transmit_all();
    EXPECT_EQ(ulpdus(rest), only(terminate(0x0000)));
    EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::LocalProtection});
  }
}

}  // namespace
}  // namespace weft::core::testing
