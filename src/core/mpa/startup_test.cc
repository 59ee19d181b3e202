// Dialogues: given octets, expect octets, expect state.
#include "core/mpa/startup.h"

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/hex.h"

namespace weft::core {
namespace {

using weft::test::ascii;
using weft::test::hex;
using weft::test::to_hex;
using wire::TermError;
using State = Startup::State;
using Bytes = std::vector<std::uint8_t>;
using std::chrono::seconds;

const std::string kRequestKey = "4d504120 49442052 65712046 72616d65";
const std::string kReplyKey = "4d504120 49442052 65702046 72616d65";

Bytes request(const std::string& rest) { return hex(kRequestKey + rest); }
Bytes reply(const std::string& rest) { return hex(kReplyKey + rest); }

StartupConfig plain() {
  StartupConfig config;
  config.revision = 1;
  return config;
}
StartupConfig enhanced(std::uint16_t ird, std::uint16_t ord) {
  StartupConfig config;
  config.ird = ird;
  config.ord = ord;
  return config;
}
StartupConfig peer_to_peer(bool send, bool write, bool read) {
  StartupConfig config = enhanced(4, 8);
  config.peer_to_peer = true;
  config.rtr_send = send;
  config.rtr_write = write;
  config.rtr_read = read;
  return config;
}

/// One end and what it said last.
class End {
 public:
  End(Role role, const StartupConfig& config) : startup(role, config, now) {}

  std::string sends() { return to_hex(startup.poll_transmit()); }
  std::size_t takes(const Bytes& octets) { return startup.handle_octets(octets, now); }
  void waits(Duration duration) {
    now = now + duration;
    startup.handle_timeout(now);
  }
  /// The event there must be now, of this type.
  template <typename Event>
  Event event() {
    last = startup.poll_event();
    EXPECT_TRUE(last.has_value()) << "no event";
    if (!last) return Event{};
    const Event* event = std::get_if<Event>(&*last);
    EXPECT_NE(event, nullptr) << "another event, number " << last->index();
    EXPECT_FALSE(startup.poll_event().has_value()) << "an event came twice";
    return event != nullptr ? *event : Event{};
  }
  bool quiet() { return !startup.poll_event() && startup.poll_transmit().empty(); }
  /// Expects that the startup is over and TCP has to be closed.
  void fails(StartupFailure why, bool retry_revision_1 = false) {
    const auto failed = event<StartupFailed>();
    EXPECT_EQ(failed.why, why) << text(failed.why);
    EXPECT_EQ(failed.retry_revision_1, retry_revision_1);
    EXPECT_EQ(startup.state(), State::Failed);
    EXPECT_TRUE(startup.poll_transmit().empty()) << "nothing is sent after a failure";
    EXPECT_FALSE(startup.poll_timeout().has_value());
  }

  Instant now{1000};
  Startup startup;
  std::optional<StartupEvent> last;
};

/// An initiator whose Request is out.
struct Initiator : End {
  explicit Initiator(const StartupConfig& config, const Bytes& private_data = {})
      : End(Role::Initiator, config) {
    EXPECT_TRUE(startup.connect(private_data, now).ok());
    sent = sends();
  }
  StreamParameters stream(const Bytes& reply_frame) {
    EXPECT_EQ(takes(reply_frame), reply_frame.size());
    return event<StartupAccepted>().stream;
  }
  std::string sent;
};

/// A responder that got a Request.
struct Responder : End {
  Responder(const StartupConfig& config, const Bytes& frame) : End(Role::Responder, config) {
    EXPECT_EQ(takes(frame), frame.size());
    arrived = event<RequestArrived>();
  }
  StreamParameters accepts(std::uint16_t ird, std::uint16_t ord, const Bytes& private_data = {}) {
    EXPECT_TRUE(startup.accept(ird, ord, private_data, now).ok());
    sent = sends();
    EXPECT_EQ(startup.state(), State::Done);
    return event<StartupAccepted>().stream;
  }
  RequestArrived arrived;
  std::string sent;
};

std::string text_of(Octets octets) { return {octets.begin(), octets.end()}; }

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
