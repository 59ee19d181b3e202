// Startup of revision 1, and what both revisions share, as dialogues (RFC 5044 §7.1).
#include "core/mpa/startup_testing.h"

namespace weft::core {
namespace {

using namespace startup_testing;  // NOLINT: these tests are written in its words

// Revision 1 (RFC 5044 §7.1).

//= CON-01
//= CON-03
//= CON-09
//= CON-12
//= CON-20
//= MPA-05
TEST(Startup, ExampleAOfRevision1) {
  Initiator initiator(plain(), ascii("ping"));
  EXPECT_EQ(initiator.sent, kRequestKey + " 40010004 70696e67");
  EXPECT_EQ(initiator.startup.state(), State::AwaitReply);
  EXPECT_TRUE(initiator.quiet());

  Responder responder(plain(), hex(initiator.sent));
  EXPECT_EQ(text_of(responder.arrived.private_data), "ping");
  EXPECT_FALSE(responder.arrived.peer.has_value());
  EXPECT_EQ(responder.startup.state(), State::AwaitConsumer);
  EXPECT_TRUE(responder.quiet()) << "the consumer decides";

  const StreamParameters theirs = responder.accepts(3, 4, ascii("pong!"));
  EXPECT_EQ(responder.sent, kReplyKey + " 40010005 706f6e67 21");
  EXPECT_EQ(theirs.role, Role::Responder);
  EXPECT_EQ(theirs.revision, 1);
  EXPECT_EQ(theirs.ird, 3);
  EXPECT_EQ(theirs.ord, 4);

  const StreamParameters ours = initiator.stream(hex(responder.sent));
  EXPECT_EQ(initiator.startup.state(), State::Done);
  EXPECT_EQ(ours.role, Role::Initiator);
  EXPECT_EQ(ours.revision, 1);
  EXPECT_TRUE(ours.crc);
  EXPECT_FALSE(ours.peer_to_peer);
  EXPECT_EQ(ours.rtr, RTR::None);
  EXPECT_FALSE(ours.terminate_with.has_value());
  EXPECT_EQ(text_of(std::get_if<StartupAccepted>(&*initiator.last)->private_data), "pong!");
}

//= CON-01
TEST(Startup, FramesMayComeInAnyPiecesAndWhatFollowsAReplyIsNotTaken) {
  const Bytes frame = reply("40010005 706f6e67 21");
  for (std::size_t cut = 0; cut <= frame.size(); ++cut) {
    Initiator initiator(plain());
    const auto middle = frame.begin() + static_cast<std::ptrdiff_t>(cut);
    EXPECT_EQ(initiator.takes(Bytes(frame.begin(), middle)), cut);
    Bytes rest(middle, frame.end());
    rest.insert(rest.end(), {0x00, 0x23, 0x41});
    EXPECT_EQ(initiator.takes(rest), cut == frame.size() ? 0u : frame.size() - cut) << cut;
    EXPECT_EQ(text_of(initiator.event<StartupAccepted>().private_data), "pong!");
    EXPECT_EQ(initiator.takes(hex("00 00")), 0u) << "the rest belongs to full operation";
    EXPECT_TRUE(initiator.quiet());
  }
  End responder(Role::Responder, plain());
  for (const std::uint8_t octet : request("40010004 70696e67")) {
    EXPECT_EQ(responder.startup.poll_event(), std::nullopt);
    EXPECT_EQ(responder.takes({octet}), 1u);
  }
  EXPECT_EQ(text_of(responder.event<RequestArrived>().private_data), "ping");
}

//= CON-05
//= MPA-14
//= MPA-15
//= MPA-16
//= MPA-19
TEST(Startup, CRCIsOnUnlessBothSayOff) {
  EXPECT_TRUE(StartupConfig{}.crc) << "off only by an explicit request";
  for (const bool ours : {false, true}) {
    for (const bool theirs : {false, true}) {
      StartupConfig config = plain();
      config.crc = ours;
      Initiator initiator(config);
      EXPECT_EQ(initiator.sent, kRequestKey + (ours ? " 40010000" : " 00010000"));
      EXPECT_EQ(initiator.stream(reply(theirs ? "40010000" : "00010000")).crc, ours || theirs);

      Responder responder(config, request(theirs ? "40010000" : "00010000"));
      EXPECT_EQ(responder.accepts(0, 0).crc, ours || theirs);
      EXPECT_EQ(responder.sent, kReplyKey + (ours || theirs ? " 40010000" : " 00010000"));
    }
  }
}

//= CON-04
//= MPA-09
TEST(Startup, MarkersAreSettledForEachDirectionByTheOneWhoReceives) {
  for (const bool ours : {false, true}) {
    for (const bool theirs : {false, true}) {
      StartupConfig config = plain();
      config.markers = ours;
      Initiator initiator(config);
      EXPECT_EQ(initiator.sent, kRequestKey + (ours ? " c0010000" : " 40010000"));
      const StreamParameters a = initiator.stream(reply(theirs ? "c0010000" : "40010000"));
      EXPECT_EQ(a.transmit_markers, theirs);
      EXPECT_EQ(a.receive_markers, ours);

      Responder responder(config, request(theirs ? "c0010000" : "40010000"));
      const StreamParameters b = responder.accepts(0, 0);
      EXPECT_EQ(b.transmit_markers, theirs);
      EXPECT_EQ(b.receive_markers, ours);
      EXPECT_EQ(responder.sent, kReplyKey + (ours ? " c0010000" : " 40010000"));
    }
  }
}

//= CON-06
TEST(Startup, ReservedBitsAndRInARequestAreNotLookedAt) {
  Responder responder(plain(), request("6f010004 70696e67"));  // R and the four low bits
  EXPECT_EQ(text_of(responder.arrived.private_data), "ping");
  responder.accepts(0, 0);
  EXPECT_EQ(responder.sent, kReplyKey + " 40010000") << "and are sent as zero";
  Initiator initiator(plain());
  initiator.stream(reply("4f010000"));
}

// In a revision 1 frame the bit that became S is still reserved.
//= CON-06
//= ENH-01
//= ENH-02
TEST(Startup, SInARevision1FrameIsAReservedBit) {
  for (const std::string data : {"0002 7064", "0004 70696e67", "0000"}) {
    Responder responder(StartupConfig{}, request("5001" + data));
    EXPECT_FALSE(responder.arrived.peer.has_value());
    EXPECT_EQ(to_hex(responder.arrived.private_data), data.size() > 4 ? data.substr(5) : "");
    responder.accepts(0, 0);
    EXPECT_EQ(responder.sent, kReplyKey + " 40010000");
  }
}

//= CON-03
//= CON-10
//= MPA-30
TEST(Startup, AWrongKeyIsFoundAtItsFirstOctet) {
  for (const Role role : {Role::Initiator, Role::Responder}) {
    const Bytes right = role == Role::Initiator ? reply("") : request("");
    for (std::size_t i = 0; i < 16; ++i) {
      End end(role, plain());
      if (role == Role::Initiator) {
        ASSERT_TRUE(end.startup.connect({}, end.now).ok());
        (void)end.sends();
      }
      Bytes key(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(i));
      end.takes(key);
      EXPECT_TRUE(end.quiet());
      end.takes({static_cast<std::uint8_t>(right[i] ^ 0x20)});
      end.fails(StartupFailure::BadFrame);
    }
  }
  End server(Role::Responder, plain());
  EXPECT_EQ(server.takes(ascii("GET / HTTP/1.1\r\n\r\n")), 18u);
  server.fails(StartupFailure::BadFrame);
  EXPECT_EQ(server.takes(ascii("more")), 4u) << "a failed startup swallows what still comes";
  EXPECT_TRUE(server.quiet());
}

//= CON-17
TEST(Startup, TheSameRoleAtBothEndsIsFoundByTheKey) {
  Initiator initiator(plain());
  initiator.takes(request("40010000"));
  initiator.fails(StartupFailure::SameRole);
  End responder(Role::Responder, plain());
  responder.takes(reply("40010000"));
  responder.fails(StartupFailure::SameRole);
}

//= CON-17
//= CON-19
TEST(Startup, TwoRespondersTimeOut) {
  End responder(Role::Responder, plain());
  ASSERT_TRUE(responder.startup.poll_timeout().has_value());
  EXPECT_EQ(responder.startup.poll_timeout()->ns, responder.now.ns + 10'000'000'000);
  responder.waits(seconds(9));
  EXPECT_TRUE(responder.quiet());
  responder.waits(seconds(1));
  responder.fails(StartupFailure::TimedOut);
}

//= CON-19
TEST(Startup, OctetsThatTrickleInDoNotExtendTheTimeOut) {
  StartupConfig config = plain();
  config.timeout = seconds(5);
  Initiator initiator(config);
  const Bytes frame = reply("40010005 706f6e67 21");
  for (std::size_t i = 0; i < 4; ++i) {
    initiator.takes({frame[i]});
    initiator.waits(seconds(1));
    EXPECT_TRUE(initiator.quiet());
  }
  initiator.waits(seconds(1));
  initiator.fails(StartupFailure::TimedOut);
}

//= CON-19
TEST(Startup, NoDeadlineRunsWhileOurConsumerDecidesOrAfterwards) {
  Responder responder(plain(), request("40010000"));
  EXPECT_FALSE(responder.startup.poll_timeout().has_value());
  responder.waits(seconds(3600));
  responder.accepts(0, 0);
  responder.waits(seconds(3600));
  EXPECT_TRUE(responder.quiet());
  Initiator initiator(plain());
  initiator.stream(reply("40010000"));
  EXPECT_FALSE(initiator.startup.poll_timeout().has_value());
  initiator.waits(seconds(3600));
  EXPECT_TRUE(initiator.quiet());
}

//= CON-07
//= MPA-30
TEST(Startup, ARevisionThatCannotBeHandledClosesTheConnection) {
  for (const std::string revision : {"00", "03", "ff"}) {
    End responder(Role::Responder, StartupConfig{});
    responder.takes(request("40" + revision + "0000"));
    responder.fails(StartupFailure::Revision);
    Initiator initiator(enhanced(1, 1));
    initiator.takes(reply("50" + revision + "0004 00010001"));
    initiator.fails(StartupFailure::Revision);
  }
  Initiator initiator(plain());
  initiator.takes(reply("40020000"));
  initiator.fails(StartupFailure::Revision);
}

//= CON-08
//= CON-13
//= CON-18
//= MPA-26
//= MPA-30
TEST(Startup, PrivateDataLengthIsJudgedBeforeItsOctetsCome) {
  for (const std::string bad : {"40010201", "4001ffff", "50020003", "50020000"}) {
    End responder(Role::Responder, StartupConfig{});
    responder.takes(request(bad));
    responder.fails(StartupFailure::BadFrame);
    Initiator initiator(enhanced(1, 1));
    initiator.takes(reply(bad));
    initiator.fails(StartupFailure::BadFrame);
  }
  Bytes longest = request("40010200");
  longest.insert(longest.end(), 512, 0x77);
  EXPECT_EQ(Responder(plain(), longest).arrived.private_data.size(), 512u);
}

//= CON-18
TEST(Startup, WeNeverSendTooMuchPrivateData) {
  const Bytes b509(509), b512(512), b513(513);
  EXPECT_EQ(End(Role::Initiator, plain()).startup.connect(b513, {}).error().code, EINVAL);
  EXPECT_TRUE(End(Role::Initiator, plain()).startup.connect(b512, {}).ok());
  EXPECT_EQ(End(Role::Initiator, enhanced(1, 1)).startup.connect(b509, {}).error().code, EINVAL);
  EXPECT_TRUE(
      End(Role::Initiator, enhanced(1, 1)).startup.connect(Octets(b509).first(508), {}).ok());

  Responder old(plain(), request("40010000"));
  EXPECT_EQ(old.startup.accept(0, 0, b513, {}).error().code, EINVAL);
  EXPECT_EQ(old.startup.reject(b513, {}).error().code, EINVAL);
  EXPECT_TRUE(old.quiet());
  EXPECT_TRUE(old.startup.accept(0, 0, b512, {}).ok()) << "a refused call changes nothing";
  EXPECT_EQ(old.startup.poll_transmit().size(), 532u);
  Responder young(StartupConfig{}, request("50020004 00010001"));
  EXPECT_EQ(young.startup.accept(0, 0, b509, {}).error().code, EINVAL);
  EXPECT_TRUE(young.startup.accept(0, 0, Octets(b509).first(508), {}).ok());
  EXPECT_EQ(young.startup.poll_transmit().size(), 532u);
}

//= CON-11
//= CON-14
TEST(Startup, ARejectLeavesTCPOpenAtBothEnds) {
  Initiator initiator(plain(), ascii("hi"));
  Responder responder(plain(), hex(initiator.sent));
  ASSERT_TRUE(responder.startup.reject(ascii("no"), responder.now).ok());
  const std::string frame = responder.sends();
  EXPECT_EQ(frame, kReplyKey + " 60010002 6e6f");
  responder.event<StartupRejected>();
  EXPECT_EQ(responder.startup.state(), State::Done);
  EXPECT_EQ(responder.takes(ascii("plain TCP")), 0u);

  Bytes octets = hex(frame);
  octets.push_back('x');  // what the ULP goes on with
  EXPECT_EQ(initiator.takes(octets), octets.size() - 1);
  EXPECT_EQ(text_of(initiator.event<StartupRejected>().private_data), "no");
  EXPECT_EQ(initiator.startup.state(), State::Done);
  initiator.startup.handle_closed(initiator.now);
  EXPECT_TRUE(initiator.quiet()) << "a later close is not the startup's business";
}

//= CON-10
TEST(Startup, OctetsBehindARequestBeforeItsReplyAreAnError) {
  Bytes octets = request("40010004 70696e67");
  octets.push_back(0);
  End at_once(Role::Responder, plain());
  EXPECT_EQ(at_once.takes(octets), octets.size());
  at_once.fails(StartupFailure::TooManyOctets);

  Responder later(plain(), request("40010004 70696e67"));
  EXPECT_EQ(later.takes({}), 0u);
  EXPECT_TRUE(later.quiet());
  later.takes({0});
  later.fails(StartupFailure::TooManyOctets);
  EXPECT_EQ(later.startup.accept(0, 0, {}, {}).error().code, ECONNRESET);
  EXPECT_EQ(later.startup.reject({}, {}).error().code, ECONNRESET);
  EXPECT_TRUE(later.quiet());
}

TEST(Startup, AClosedConnectionEndsEveryWait) {
  End idle(Role::Initiator, plain());
  idle.startup.handle_closed(idle.now);
  idle.fails(StartupFailure::Closed);
  End waiting(Role::Responder, plain());
  waiting.takes(request("4001"));
  waiting.startup.handle_closed(waiting.now);
  waiting.fails(StartupFailure::Closed);
  Responder deciding(plain(), request("40010000"));
  deciding.startup.handle_closed(deciding.now);
  deciding.fails(StartupFailure::Closed);
  Initiator initiator(plain());
  initiator.startup.handle_closed(initiator.now);
  initiator.fails(StartupFailure::Closed, false);
}

TEST(Startup, CallsOutOfTurnAreRefused) {
  End responder(Role::Responder, plain());
  EXPECT_EQ(responder.startup.connect({}, {}).error().code, EINVAL);
  EXPECT_EQ(responder.startup.accept(0, 0, {}, {}).error().code, EINVAL);
  EXPECT_EQ(responder.startup.reject({}, {}).error().code, EINVAL);
  EXPECT_TRUE(responder.quiet());
  Initiator initiator(plain());
  EXPECT_EQ(initiator.startup.connect({}, {}).error().code, EINVAL);
  EXPECT_EQ(initiator.startup.accept(0, 0, {}, {}).error().code, EINVAL);
  Responder done(plain(), request("40010000"));
  done.accepts(0, 0);
  EXPECT_EQ(done.startup.accept(0, 0, {}, {}).error().code, EINVAL);
  EXPECT_EQ(done.startup.reject({}, {}).error().code, EINVAL);
  EXPECT_TRUE(done.quiet());
  End idle(Role::Initiator, plain());
  EXPECT_EQ(idle.takes(reply("40010000")), 0u) << "kept for after connect()";
}

TEST(Startup, EveryFailureHasASentence) {
  for (int i = 0; i <= static_cast<int>(StartupFailure::TooManyOctets); ++i) {
    EXPECT_STRNE(text(static_cast<StartupFailure>(i)), "unknown startup failure");
  }
  EXPECT_STREQ(text(static_cast<StartupFailure>(99)), "unknown startup failure");
}

}  // namespace
}  // namespace weft::core
