// Without memory a call says ENOMEM and a connection ends; the process and everything else go on.
#include "engine/engine.h"
#include "engine/testing/failing_allocator.h"
#include "engine/testing/raw_peer.h"
#include "engine/testing/resources.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::FailAllocation;
using testing::QPHandle;
using testing::RawPeer;
using testing::Side;

/// Larger than anything the tests themselves allocate while it lasts (a std::deque's 512 octets).
constexpr std::size_t kEnginesOwn = 513;

Settings inline_settings() {
  Settings settings;
  settings.engine = Placement::Inline;
  settings.close_timeout = std::chrono::milliseconds(500);
  return settings;
}

/// Fails each allocation of the call in turn: ENOMEM each time, until all of them are past.
template <typename Call, typename Undo>
void expect_enomem_at_each(const char* name, Call call, Undo undo) {
  SCOPED_TRACE(name);
  for (int nth = 0;; ++nth) {
    ASSERT_LT(nth, 100);
    int code = 0;
    bool struck = false;
    {
      FailAllocation fail(nth, 0);
      const auto made = call();
      struck = fail.struck();
      code = made ? 0 : made.error().code;
      if (made) undo(*made);
    }
    ASSERT_EQ(code, struck ? ENOMEM : 0) << "allocation " << nth;
    if (!struck) {
      EXPECT_GT(nth, 0) << "nothing was allocated, so nothing was tested";
      return;
    }
  }
}

TEST(NoMemoryTest, EveryCallSaysSoAndLeavesNothingBehind) {
  Side side(inline_settings());
  Rnic& rnic = side.rnic;
  const device::SRQNumber srq = rnic.create_srq(side.pd, 8, 1, 0)->number;
  const int descriptors = testing::count_descriptors();
  expect_enomem_at_each(
      "create_cq", [&] { return rnic.create_cq(8, 0); },
      [&](const device::CQFace& cq) { EXPECT_TRUE(rnic.destroy_cq(cq.number)); });
  expect_enomem_at_each(
      "create_srq", [&] { return rnic.create_srq(side.pd, 8, 1, 0); },
      [&](const device::SRQFace& made) { EXPECT_TRUE(rnic.destroy_srq(made.number)); });
  std::vector<device::QPNumber> qps;
  qps.reserve(100);
  for (const device::SRQNumber shared : {device::SRQNumber{0}, srq}) {
    expect_enomem_at_each(
        "create_qp",
        [&] {
          return rnic.create_qp({.pd = side.pd,
                                 .send_cq = side.cq.number,
                                 .receive_cq = side.cq.number,
                                 .srq = shared});
        },
        [&](const device::QPFace& qp) { qps.push_back(qp.number); });
  }
  const sockaddr_in any = testing::ipv4("127.0.0.1", 0);
  expect_enomem_at_each(
      "listen", [&] { return rnic.listen(reinterpret_cast<const sockaddr*>(&any), 16, false, 1); },
      [&](device::ListenerNumber listener) { EXPECT_TRUE(rnic.close_listener(listener)); });
  RawPeer listener;
  const sockaddr_storage address = listener.listen();
  expect_enomem_at_each(
      "connect",
      [&] {
        return rnic.connect(nullptr, reinterpret_cast<const sockaddr*>(&address),
                            {.qp = qps[0], .private_data = {}}, 1);
      },
      [&](device::ConnectionNumber made) { EXPECT_TRUE(rnic.release(made)); });
  listener.close();
  EXPECT_EQ(testing::count_descriptors(), descriptors);
  // Who were counted as users were users.
  for (const device::QPNumber qp : qps) EXPECT_TRUE(rnic.destroy_qp(qp));
  EXPECT_TRUE(rnic.destroy_srq(srq));
  EXPECT_TRUE(rnic.destroy_cq(side.cq.number));
  EXPECT_TRUE(rnic.destroy_pd(side.pd));
}

/// In the middle of a connection's work nobody could be told that there was no memory.
TEST(NoMemoryTest, ACQRunsOverWithoutMemory) {
  constexpr std::uint32_t kReceives = 64;
  Side side(inline_settings());
  side.cq = *side.rnic.create_cq(1, 7);
  QPHandle qp = side.make_qp(1, 0, kReceives);
  for (std::uint32_t i = 0; i < kReceives; ++i) side.post_receive(qp, i, nullptr, 0, 0);
  {
    FailAllocation fail(0, 0);
    ASSERT_TRUE(side.rnic.command_qp(qp.face.number, device::QPCommand::Fail).ok());
    EXPECT_FALSE(fail.struck());
  }
  const auto events = side.seen_async();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.front().kind, device::AsyncEventKind::CQError);
}

class NoEvents final : public device::Events {
  void handle_completion_event(std::uint64_t) override {}
  void handle_async_event(const device::AsyncEvent&) override {}
  void handle_connection_event(const device::ConnectionEvent&) override {}
};

TEST(NoMemoryTest, NoDeviceWithoutMemory) {
  NoEvents events;
  const Settings settings = inline_settings();
  expect_enomem_at_each(
      "create_device", [&] { return create_device(settings, events); }, [](const auto&) {});
}

/// Two ends in this thread, a connection and one message.
class Exchange {
 public:
  Exchange() : server_(inline_settings()), client_(inline_settings()) {
    const sockaddr_in any = testing::ipv4("127.0.0.1", 0);
    listener_ = *server_.rnic.listen(reinterpret_cast<const sockaddr*>(&any), 16, false, 99);
    EXPECT_TRUE(server_.rnic.listener_address(listener_, &address_).ok());
    source_stag_ = client_.register_octets(octets_, sizeof octets_, 0);
    target_stag_ = server_.register_octets(octets_, sizeof octets_, device::kLocalWrite);
    for (int i = 0; i < 2; ++i) {
      client_qps_[i] = client_.make_qp(1);
      server_qps_[i] = server_.make_qp(2);
      server_.post_receive(server_qps_[i], 7, octets_, 8, target_stag_);
    }
    descriptors_ = testing::count_descriptors();
    client_.on_connection_event = [this] { calls_at_report_ = testing::memory_calls(); };
  }

  struct Outcome {
    bool delivered = false;
    int error = 0;  ///< what the client or the server was told
  };
  /// Tries once, until the message has arrived or the client's connection is over.
  Outcome run(int which) {
    Outcome outcome;
    QPHandle& client_qp = client_qps_[which];
    const auto connection = client_.rnic.connect(
        nullptr, reinterpret_cast<const sockaddr*>(&address_),
        {.qp = client_qp.face.number, .ird = 1, .ord = 1, .private_data = {}}, 11);
    if (!connection) return {false, connection.error().code};
    bool over = false;
    EXPECT_TRUE(client_.wait_until([&] {
      server_.progress();
      calls_at_report_.reset();
      client_.progress();
      if (calls_at_report_) calls_behind_report = testing::memory_calls() - *calls_at_report_;
      while (auto event = take(server_)) handle_server(*event, which, outcome);
      while (auto event = take(client_)) over |= handle_client(*event, client_qp, outcome);
      outcome.delivered |= take_success(server_);
      return outcome.delivered || over;
    }));
    return outcome;
  }
  void expect_nothing_left() {
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(client_.rnic.destroy_qp(client_qps_[i].face.number));
      EXPECT_TRUE(server_.rnic.destroy_qp(server_qps_[i].face.number));
    }
    EXPECT_TRUE(server_.wait_until([&] {
      server_.progress();
      client_.progress();
      return testing::count_descriptors() == descriptors_;
    }));
  }
  /// Of memory, by the client, from its last report of a connection to the end of that turn.
  std::optional<std::size_t> calls_behind_report;

 private:
  static std::optional<testing::SeenEvent> take(Side& side) { return side.take_event(); }
  void handle_server(const testing::SeenEvent& event, int which, Outcome& outcome) {
    if (event.event.kind == ConnectionEventKind::Requested) {
      const auto accepted = server_.rnic.accept(
          event.event.connection,
          {.qp = server_qps_[which].face.number, .ird = 1, .ord = 1, .private_data = {}}, 22);
      if (!accepted) outcome.error = accepted.error().code;
    } else if (event.event.error == ENOMEM) {
      outcome.error = ENOMEM;
    }
  }
  /// True: it is over.
  bool handle_client(const testing::SeenEvent& event, QPHandle& qp, Outcome& outcome) {
    if (event.event.kind == ConnectionEventKind::Established) {
      client_.post_send(qp, {.address = octets_, .octets = 8, .stag = source_stag_});
      return false;
    }
    if (outcome.error == 0) outcome.error = event.event.error;
    return true;
  }
  static bool take_success(Side& side) {
    const device::Ring& ring = side.cq.completions;
    if (ring.empty()) return false;
    const std::uint32_t index = ring.consumed_own();
    const auto status = static_cast<device::CompletionEntry*>(ring.entry(index))->status;
    side.cq.completions.release(index + 1);
    return status == device::CompletionStatus::Success;
  }

  std::uint8_t octets_[16] = {};
  Side server_, client_;
  device::ListenerNumber listener_ = 0;
  sockaddr_storage address_ = {};
  std::uint32_t source_stag_ = 0, target_stag_ = 0;
  QPHandle client_qps_[2], server_qps_[2];
  int descriptors_ = 0;
  std::optional<std::size_t> calls_at_report_;
};

/// Who hears that the connection stands may stop for good in the midst of malloc, when a signal's
/// handler ends the program, and wait for the device to send what is left.
TEST(NoMemoryTest, AnInitiatorThatHasReportedItsConnectionWantsNoMemory) {
  Exchange exchange;
  ASSERT_TRUE(exchange.run(0).delivered);
  EXPECT_EQ(exchange.calls_behind_report, 0u);
}

TEST(NoMemoryTest, AConnectionThatRunsShortEndsAndTheNextOneWorks) {
  bool struck = true;
  int told = 0;
  for (int nth = 0; struck; ++nth) {
    SCOPED_TRACE(nth);
    ASSERT_LT(nth, 50);
    Exchange exchange;
    Exchange::Outcome outcome;
    {
      FailAllocation fail(nth, kEnginesOwn);
      outcome = exchange.run(0);
      struck = fail.struck();
    }
    // Some shortages are survived: the client connects again where the server had no memory.
    EXPECT_TRUE(outcome.delivered || outcome.error != 0);
    EXPECT_TRUE(struck || outcome.delivered);
    if (outcome.error == ENOMEM) ++told;
    const Exchange::Outcome next = exchange.run(1);
    EXPECT_TRUE(next.delivered) << next.error;
    exchange.expect_nothing_left();
  }
  EXPECT_GE(told, 3) << "connecting, receiving and sending each have something to run short of";
}

}  // namespace
}  // namespace weft::engine
