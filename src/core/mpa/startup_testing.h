// Test-only: one end of a startup, for dialogues: given octets, expect octets, expect an event.
#pragma once

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "core/mpa/startup.h"
#include "gtest/gtest.h"
#include "tests/support/hex.h"

namespace weft::core::startup_testing {

using weft::test::ascii;
using weft::test::hex;
using weft::test::to_hex;
using wire::TermError;
using State = Startup::State;
using Bytes = std::vector<std::uint8_t>;
using std::chrono::seconds;

inline const std::string kRequestKey = "4d504120 49442052 65712046 72616d65";
inline const std::string kReplyKey = "4d504120 49442052 65702046 72616d65";

inline Bytes request(const std::string& rest) { return hex(kRequestKey + rest); }
inline Bytes reply(const std::string& rest) { return hex(kReplyKey + rest); }

inline StartupConfig plain() {
  StartupConfig config;
  config.revision = 1;
  return config;
}
inline StartupConfig enhanced(std::uint16_t ird, std::uint16_t ord) {
  StartupConfig config;
  config.ird = ird;
  config.ord = ord;
  return config;
}
inline StartupConfig peer_to_peer(bool send, bool write, bool read) {
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

inline std::string text_of(Octets octets) { return {octets.begin(), octets.end()}; }

}  // namespace weft::core::startup_testing
