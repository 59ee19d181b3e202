// The startup state machine of both roles under any order of octets, time-outs, closes and
// commands. The input is a script: a few octets of configuration, then one step after the other.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/mpa/startup.h"

namespace {

using namespace weft;
using namespace weft::core;
using State = Startup::State;

void require(bool held) {
  if (!held) std::abort();
}

/// Takes values off the front of the script; an exhausted script gives zeros.
class Script {
 public:
  explicit Script(Octets octets) : octets_(octets) {}
  bool empty() const { return octets_.empty(); }
  std::uint8_t octet() {
    const Octets one = take(1);
    return one.empty() ? std::uint8_t{0} : one[0];
  }
  std::uint16_t word() {
    const std::uint8_t high = octet();
    return static_cast<std::uint16_t>(high << 8 | octet());
  }
  Octets take(std::size_t n) {
    const Octets front = octets_.first(std::min(n, octets_.size()));
    octets_ = octets_.subspan(front.size());
    return front;
  }

 private:
  Octets octets_;
};

struct Ends {
  int events_final = 0;  // Accepted, Rejected, Failed: at most one of them, once
  bool failed = false;
};

void check_depths(const StreamParameters& stream, const std::optional<wire::Enhanced>& peer) {
  require(stream.ird <= wire::kDepthByULP && stream.ord <= wire::kDepthByULP);
  if (peer && peer->ird != wire::kDepthByULP) require(stream.ord <= peer->ird);
  if (stream.terminate_with) require(stream.rtr == RTR::None && stream.role == Role::Initiator);
  if (stream.rtr != RTR::None) require(stream.peer_to_peer && peer && peer->peer_to_peer);
  if (stream.revision == 1) require(!peer && !stream.peer_to_peer);
}

void drain(Startup& startup, Ends& ends) {
  const Octets out = startup.poll_transmit();
  require(out.size() <= wire::kStartupFrameOctetsMax);
  if (!out.empty()) {
    // Whatever we say is a well-formed frame, whole.
    const auto parsed = wire::parse_startup_frame(out);
    const auto* frame = std::get_if<wire::StartupFrame>(&parsed);
    require(frame != nullptr && frame->octets() == out.size());
    require(startup.state() != State::Failed);
  }
  while (const auto event = startup.poll_event()) {
    unsigned sum = 0;  // private data is readable
    if (const auto* arrived = std::get_if<RequestArrived>(&*event)) {
      require(startup.state() == State::AwaitConsumer);
      for (const std::uint8_t octet : arrived->private_data) sum += octet;
    } else {
      require(++ends.events_final == 1);
    }
    if (const auto* accepted = std::get_if<StartupAccepted>(&*event)) {
      require(startup.state() == State::Done);
      for (const std::uint8_t octet : accepted->private_data) sum += octet;
      check_depths(accepted->stream, accepted->peer);
    }
    if (std::get_if<StartupFailed>(&*event) != nullptr) {
      ends.failed = true;
      require(startup.state() == State::Failed);
    }
    require(sum <= 255 * wire::kPrivateDataOctetsMax);
  }
  require((startup.state() == State::Failed) == ends.failed);
  const bool waiting =
      startup.state() == State::AwaitReply || startup.state() == State::AwaitRequest;
  require(startup.poll_timeout().has_value() == waiting);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script script{Octets(data, size)};
  const std::uint8_t flags = script.octet();
  const std::uint8_t types = script.octet();
  StartupConfig config;
  const Role role = (flags & 1) != 0 ? Role::Responder : Role::Initiator;
  config.crc = (flags & 2) != 0;
  config.markers = (flags & 4) != 0;
  config.peer_to_peer = (flags & 8) != 0;
  config.revision = static_cast<std::uint8_t>(1 + (flags >> 4 & 1));
  config.rtr_send = (types & 1) != 0;
  config.rtr_write = (types & 2) != 0;
  config.rtr_read = (types & 4) != 0;
  config.ird = script.word();
  config.ord = script.word();

  Instant now{1};
  Startup startup(role, config, now);
  Ends ends;
  drain(startup, ends);
  while (!script.empty()) {
    const std::uint8_t step = script.octet();
    const std::size_t n = script.octet();
    switch (step % 8) {
      case 0: {
        const Octets private_data = script.take(n * 3);
        (void)startup.connect(private_data, now);
        break;
      }
      case 1: {
        const std::uint16_t ird = script.word(), ord = script.word();
        (void)startup.accept(ird, ord, script.take(n * 3), now);
        break;
      }
      case 2:
        (void)startup.reject(script.take(n * 3), now);
        break;
      case 3:
        startup.handle_closed(now);
        break;
      case 4:
        now = now + std::chrono::milliseconds(n * 100);
        startup.handle_timeout(now);
        break;
      default: {
        // In memory of its own, gone after the call: nothing may point into it.
        const Octets taken = script.take(n);
        const std::vector<std::uint8_t> arrived(taken.begin(), taken.end());
        require(startup.handle_octets(arrived, now) <= arrived.size());
        break;
      }
    }
    drain(startup, ends);
  }
  // Whatever was going on, a wait on the peer ends.
  now = now + std::chrono::hours(1);
  startup.handle_timeout(now);
  drain(startup, ends);
  require(startup.state() != State::AwaitReply && startup.state() != State::AwaitRequest);
  return 0;
}
