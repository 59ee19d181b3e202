// Startup of revision 2 as dialogues: read depths and ready-to-receive messages (RFC 6581).
#include "core/mpa/startup_testing.h"

namespace weft::core {
namespace {

using namespace startup_testing;  // NOLINT: these tests are written in its words

// Revision 2 (RFC 6581).

//= ENH-03
//= ENH-04
//= ENH-05
//= ENH-10
//= ENH-12
//= ENH-13
//= ENH-14
//= CON-09
TEST(Startup, ExampleBOfRevision2WithReadAsRTR) {
  Initiator initiator(peer_to_peer(false, true, true), ascii("pd"));
  EXPECT_EQ(initiator.sent, kRequestKey + " 50020006 8004c008 7064");

  StartupConfig config;
  config.rtr_write = false;  // as the example's responder
  Responder responder(config, hex(initiator.sent));
  ASSERT_TRUE(responder.arrived.peer.has_value());
  EXPECT_EQ(responder.arrived.peer->ird, 4);
  EXPECT_EQ(responder.arrived.peer->ord, 8);
  EXPECT_TRUE(responder.arrived.peer->peer_to_peer);
  EXPECT_EQ(text_of(responder.arrived.private_data), "pd");
  const StreamParameters theirs = responder.accepts(8, 16);
  EXPECT_EQ(theirs.revision, 2);
  EXPECT_EQ(theirs.ird, 8);
  EXPECT_EQ(theirs.ord, 4) << "no more than the initiator can serve";
  EXPECT_TRUE(theirs.peer_to_peer);
  EXPECT_EQ(theirs.rtr, RTR::None) << "the responder sends none";
  // B2.
  EXPECT_EQ(responder.sent, kReplyKey + " 50020004 80084004");

  const StreamParameters ours = initiator.stream(hex(responder.sent));
  EXPECT_EQ(ours.revision, 2);
  EXPECT_EQ(ours.ird, 4);
  EXPECT_EQ(ours.ord, 8);
  EXPECT_TRUE(ours.peer_to_peer);
  EXPECT_EQ(ours.rtr, RTR::Read);
  EXPECT_FALSE(ours.terminate_with.has_value());
  const auto peer = std::get_if<StartupAccepted>(&*initiator.last)->peer;
  ASSERT_TRUE(peer.has_value());
  EXPECT_EQ(peer->ird, 8);
  EXPECT_EQ(peer->ord, 4);
}

//= ENH-02
//= ENH-18
TEST(Startup, TheReplyHasTheFormatOfTheRequest) {
  Responder old_peer(StartupConfig{}, request("40010000"));
  EXPECT_EQ(old_peer.accepts(5, 6).revision, 1);
  EXPECT_EQ(old_peer.sent, kReplyKey + " 40010000");
  Responder young_peer(enhanced(0, 0), request("50020004 00010001"));
  EXPECT_EQ(young_peer.accepts(5, 6).revision, 2);
  EXPECT_EQ(young_peer.sent, kReplyKey + " 50020004 00050001");
  // Revision 2 without S is unenhanced, with the revision repeated.
  Responder odd_peer(StartupConfig{}, request("40020002 7064"));
  EXPECT_FALSE(odd_peer.arrived.peer.has_value());
  EXPECT_EQ(odd_peer.accepts(5, 6).revision, 2);
  EXPECT_EQ(odd_peer.sent, kReplyKey + " 40020000");
}

//= ENH-18
TEST(Startup, AResponderOfRevision1ClosesOnRevision2AndTheInitiatorIsToldToRetry) {
  Initiator initiator(enhanced(1, 1));
  End responder(Role::Responder, plain());
  responder.takes(hex(initiator.sent));
  responder.fails(StartupFailure::Revision);
  initiator.startup.handle_closed(initiator.now);
  initiator.fails(StartupFailure::Closed, true);

  // On a new connection.
  Initiator again(plain());
  Responder old(plain(), hex(again.sent));
  old.accepts(0, 0);
  EXPECT_EQ(again.stream(hex(old.sent)).revision, 1);
}

//= ENH-18
TEST(Startup, APeerThatClosesInsideItsReplyIsNotAnOldOne) {
  Initiator initiator(enhanced(1, 1));
  initiator.takes(reply("50"));
  initiator.startup.handle_closed(initiator.now);
  initiator.fails(StartupFailure::Closed, false);
  Initiator slow(enhanced(1, 1));
  slow.waits(seconds(10));
  slow.fails(StartupFailure::TimedOut, false);
}

//= ENH-18
TEST(Startup, AnEnhancedRequestNeedsAnEnhancedReply) {
  for (const std::string unenhanced : {"40010000", "40020000", "50010004 00010001"}) {
    Initiator initiator(enhanced(1, 1));
    initiator.takes(reply(unenhanced));
    initiator.fails(StartupFailure::NotEnhanced);
  }
  Initiator rejected(enhanced(1, 1));
  rejected.takes(reply("60010000"));
  EXPECT_FALSE(rejected.event<StartupRejected>().peer.has_value()) << "a no is a no";
}

//= ENH-01
TEST(Startup, NothingEnhancedGoesIntoARevision1Request) {
  StartupConfig config = peer_to_peer(true, true, true);
  config.revision = 1;
  Initiator initiator(config);
  EXPECT_EQ(initiator.sent, kRequestKey + " 40010000");
  const StreamParameters stream = initiator.stream(reply("40010000"));
  EXPECT_FALSE(stream.peer_to_peer);
  EXPECT_EQ(stream.rtr, RTR::None);
  EXPECT_EQ(stream.ird, 4);
  EXPECT_EQ(stream.ord, 8);
}

//= ENH-06
//= ENH-07
TEST(Startup, DepthsAreSettledByTheSmallerOfTheTwo) {
  // The responder: ORD no more than the peer's IRD; its own IRD is the consumer's to choose.
  Responder responder(StartupConfig{}, request("50020004 00040008"));
  const StreamParameters theirs = responder.accepts(6, 9);
  EXPECT_EQ(theirs.ird, 6);
  EXPECT_EQ(theirs.ord, 4);
  EXPECT_EQ(responder.sent, kReplyKey + " 50020004 00060004");
  Responder modest(StartupConfig{}, request("50020004 00040008"));
  EXPECT_EQ(modest.accepts(8, 2).ord, 2);
  // The initiator: ORD no more than the peer's IRD, IRD at least its ORD.
  Initiator initiator(enhanced(4, 8));
  EXPECT_EQ(initiator.sent, kRequestKey + " 50020004 00040008");
  const StreamParameters ours = initiator.stream(reply("50020004 00060004"));
  EXPECT_EQ(ours.ord, 6);
  EXPECT_EQ(ours.ird, 4);
  EXPECT_FALSE(ours.terminate_with.has_value());
}

//= ENH-08
//= ENH-19
TEST(Startup, AResponderThatWantsMoreThanOurIRDIsTerminated) {
  Initiator initiator(enhanced(4, 8));
  const StreamParameters stream = initiator.stream(reply("50020004 00080005"));
  EXPECT_EQ(stream.terminate_with, TermError::MPAInsufficientIRD);
  EXPECT_EQ(stream.rtr, RTR::None);
}

//= ENH-09
TEST(Startup, ADepthLeftToTheULPIsMirroredAndChangesNothing) {
  // The initiator leaves its ORD to the ULP: the responder's IRD field mirrors it.
  Responder ird(StartupConfig{}, request("50020004 00043fff"));
  const StreamParameters a = ird.accepts(7, 9);
  EXPECT_EQ(a.ird, 7);
  EXPECT_EQ(a.ord, 4);
  EXPECT_EQ(ird.sent, kReplyKey + " 50020004 3fff0004");
  // Its IRD: the responder's ORD field does.
  Responder ord(StartupConfig{}, request("50020004 3fff0008"));
  const StreamParameters b = ord.accepts(7, 9);
  EXPECT_EQ(b.ird, 7);
  EXPECT_EQ(b.ord, 9);
  EXPECT_EQ(ord.sent, kReplyKey + " 50020004 00073fff");
  // And the initiator changes nothing on a mirrored field.
  Initiator both(enhanced(wire::kDepthByULP, wire::kDepthByULP));
  EXPECT_EQ(both.sent, kRequestKey + " 50020004 3fff3fff");
  const StreamParameters c = both.stream(reply("50020004 3fff3fff"));
  EXPECT_EQ(c.ird, wire::kDepthByULP);
  EXPECT_EQ(c.ord, wire::kDepthByULP);
  EXPECT_FALSE(c.terminate_with.has_value());
  Initiator plain_depths(enhanced(4, 8));
  const StreamParameters d = plain_depths.stream(reply("50020004 3fff3fff"));
  EXPECT_EQ(d.ird, 4);
  EXPECT_EQ(d.ord, 8);
  EXPECT_FALSE(d.terminate_with.has_value());
}

TEST(Startup, DepthsBeyond14BitsAreTheMostThatFits) {
  Initiator initiator(enhanced(0xffff, 0x4000));
  EXPECT_EQ(initiator.sent, kRequestKey + " 50020004 3ffe3ffe");
  Responder responder(StartupConfig{}, request("50020004 3ffe3ffe"));
  responder.accepts(0xffff, 0x7fff);
  EXPECT_EQ(responder.sent, kReplyKey + " 50020004 3ffe3ffe");
}

//= ENH-11
TEST(Startup, WithoutPeerToPeerTheRTRBitsAreZeroAndIgnored) {
  StartupConfig config = peer_to_peer(true, true, true);
  config.peer_to_peer = false;
  Initiator initiator(config);
  EXPECT_EQ(initiator.sent, kRequestKey + " 50020004 00040008");
  // B, C and D without A.
  Responder responder(config, request("50020004 4004c008"));
  EXPECT_FALSE(responder.accepts(8, 4).peer_to_peer);
  EXPECT_EQ(responder.sent, kReplyKey + " 50020004 00080004");
  const StreamParameters stream = initiator.stream(reply("50020004 4008c004"));
  EXPECT_FALSE(stream.peer_to_peer);
  EXPECT_EQ(stream.rtr, RTR::None);
  EXPECT_FALSE(stream.terminate_with.has_value());
}

//= ENH-12
TEST(Startup, TheRequestNamesEachRTRTypeWeCanSend) {
  EXPECT_EQ(Initiator(peer_to_peer(true, false, false)).sent.substr(36), "50020004 c0040008");
  EXPECT_EQ(Initiator(peer_to_peer(false, true, false)).sent.substr(36), "50020004 80048008");
  EXPECT_EQ(Initiator(peer_to_peer(false, false, true)).sent.substr(36), "50020004 80044008");
  EXPECT_EQ(Initiator(peer_to_peer(true, true, true)).sent.substr(36), "50020004 c004c008");
  End none(Role::Initiator, peer_to_peer(false, false, false));
  EXPECT_EQ(none.startup.connect({}, none.now).error().code, EINVAL);
}

/// Words with A and the given RTR types, IRD 4, ORD 4.
std::string rtr_words(int types) {
  wire::Enhanced words;
  words.ird = words.ord = 4;
  words.peer_to_peer = true;
  words.rtr_send = (types & 1) != 0;
  words.rtr_write = (types & 2) != 0;
  words.rtr_read = (types & 4) != 0;
  std::uint8_t out[wire::kStartupFrameOctetsMax];
  wire::StartupFrame frame;
  frame.revision = 2;
  frame.enhanced = words;
  const std::size_t n = frame.encode(out);
  return "50020004" + to_hex(Octets(out, n).subspan(20));
}

//= ENH-10
//= ENH-13
//= ENH-14
//= ENH-16
TEST(Startup, EveryPairOfRTRSetsEndsInACommonTypeOrATerminate) {
  for (int theirs = 0; theirs < 8; ++theirs) {      // the initiator's
    for (int ours = 0; ours < 8; ++ours) {          // the responder's
      SCOPED_TRACE(std::to_string(theirs) + " meets " + std::to_string(ours));
      Responder responder(peer_to_peer((ours & 1) != 0, (ours & 2) != 0, (ours & 4) != 0),
                          request(rtr_words(theirs)));
      EXPECT_TRUE(responder.accepts(4, 4).peer_to_peer);
      const int able = ours == 0 ? 2 : ours;
      const int named = (able & theirs) != 0 ? able & theirs : able;
      EXPECT_EQ(responder.sent, to_hex(reply(rtr_words(named))));
      if (theirs == 0) continue;  // such a Request we do not send

      StartupConfig config = peer_to_peer((theirs & 1) != 0, (theirs & 2) != 0, (theirs & 4) != 0);
      Initiator initiator(config);
      const StreamParameters stream = initiator.stream(hex(responder.sent));
      const int common = named & theirs;
      const RTR expected = (common & 2) != 0   ? RTR::Write
                           : (common & 4) != 0 ? RTR::Read
                           : common != 0       ? RTR::Send
                                               : RTR::None;
      EXPECT_EQ(stream.rtr, expected);
      EXPECT_TRUE(stream.peer_to_peer);
      EXPECT_EQ(stream.terminate_with.has_value(), common == 0);
      if (common == 0) {
        EXPECT_EQ(stream.terminate_with, TermError::MPANoMatchingRTR);
      }
    }
  }
}

// The other end says A=0 to our A=1 (siw once did), or A=1 to our A=0.
//= ENH-16
//= ENH-19
TEST(Startup, EndsThatDisagreeOnPeerToPeerDoNotWaitForEachOther) {
  Initiator asked(peer_to_peer(false, true, true));
  EXPECT_EQ(asked.stream(reply("50020004 0008c004")).terminate_with, TermError::MPANoMatchingRTR);
  Initiator unasked(enhanced(4, 8));
  EXPECT_EQ(unasked.stream(reply("50020004 8008c004")).terminate_with,
            TermError::MPANoMatchingRTR);
}

//= ENH-06
//= ENH-13
TEST(Startup, AReadAsRTRGetsASlotEvenIfNobodyWillRead) {
  StartupConfig read_only = peer_to_peer(false, false, true);
  Responder responder(read_only, request("50020004 80044000"));  // ORD 0
  EXPECT_EQ(responder.accepts(0, 0).ird, 1);
  EXPECT_EQ(responder.sent, kReplyKey + " 50020004 80014000");
  // A Write takes none.
  Responder write_only(peer_to_peer(false, true, false), request("50020004 80048000"));
  EXPECT_EQ(write_only.accepts(0, 0).ird, 0);
  // Depths left to the ULP stay untouched as long as there is another type.
  Responder by_ulp(peer_to_peer(false, true, true), request("50020004 8004ffff"));
  EXPECT_EQ(by_ulp.accepts(0, 0).ird, 0);
  EXPECT_EQ(by_ulp.sent, kReplyKey + " 50020004 bfff8000");
}

//= ENH-05
//= ENH-10
//= CON-11
//= CON-14
TEST(Startup, AnEnhancedRejectTellsTheDepthsThatWereNeeded) {
  StartupConfig config = enhanced(16, 32);
  Responder responder(config, request("50020004 8004c008"));
  ASSERT_TRUE(responder.startup.reject(ascii("no"), responder.now).ok());
  const std::string frame = responder.sends();
  EXPECT_EQ(frame.substr(0, 53), kReplyKey + " 70020006 8010c004");
  const auto rejected = responder.event<StartupRejected>();
  ASSERT_TRUE(rejected.peer.has_value());

  Initiator initiator(peer_to_peer(false, true, true));
  initiator.takes(hex(frame));
  const auto event = initiator.event<StartupRejected>();
  EXPECT_EQ(text_of(event.private_data), "no");
  ASSERT_TRUE(event.peer.has_value());
  EXPECT_EQ(event.peer->ird, 16);
}

}  // namespace
}  // namespace weft::core
