// Test-only: one RNIC with a PD, a CQ and helpers to post and wait, driven as a program would.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/device.h"
#include "engine/rnic.h"
#include "transport/tcp/tcp_transport.h"

namespace weft::engine::testing {

inline sockaddr_in ipv4(const char* address, std::uint16_t port) {
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  inet_pton(AF_INET, address, &in.sin_addr);
  return in;
}

/// A connection event with its private data copied.
struct SeenEvent {
  device::ConnectionEvent event;
  std::vector<std::uint8_t> private_data;
};

struct QPHandle {
  device::QPFace face;
  std::uint32_t sends = 0, receives = 0;
};

/// One end. Waits are bounded by kWait and fail the test by returning an empty result.
class Side final : public device::Events {
 public:
  static constexpr std::chrono::seconds kWait{20};

  explicit Side(const Settings& settings, transport::Transport* transport = nullptr)
      : rnic(settings, *this, transport != nullptr ? *transport : tcp_) {
    EXPECT_TRUE(rnic.start().ok());
    pd = *rnic.create_pd();
    cq = *rnic.create_cq(256, 7);
    async_events.reserve(64);  // for tests in which the engine has no memory
  }

  void handle_completion_event(std::uint64_t) override {
    const std::scoped_lock hold(mutex_);
    ++cq_events;
    if (on_completion_event) on_completion_event();
  }
  void handle_async_event(const device::AsyncEvent& event) override {
    const std::scoped_lock hold(mutex_);
    async_events.push_back(event);
  }
  void handle_connection_event(const device::ConnectionEvent& event) override {
    const std::scoped_lock hold(mutex_);
    connection_events.push_back({event, {event.private_data.begin(), event.private_data.end()}});
    if (on_connection_event) on_connection_event();
  }

  QPHandle make_qp(std::uint64_t cookie = 1, device::SRQNumber srq = 0, std::uint32_t depth = 64) {
    auto face = rnic.create_qp({.pd = pd,
                                .send_cq = cq.number,
                                .receive_cq = cq.number,
                                .srq = srq,
                                .send_depth = depth,
                                .receive_depth = depth,
                                .send_sges = 4,
                                .receive_sges = 4,
                                .inline_octets = 64,
                                .cookie = cookie});
    EXPECT_TRUE(face.ok());
    return {*face};
  }
  /// `only`: the one QP that is let in; 0: all of the PD.
  std::uint32_t register_octets(void* address, std::size_t octets, std::uint32_t access,
                                device::QPNumber only = 0) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return *rnic.register_region(
        {.pd = pd, .access = access, .address = at, .octets = octets, .base_to = at, .qp = only});
  }

  struct Send {
    device::SendOpcode opcode = device::SendOpcode::Send;
    std::uint64_t wr_id = 0;
    const void* address = nullptr;
    std::uint32_t octets = 0;
    std::uint32_t stag = 0;
    std::uint32_t remote_stag = 0;
    std::uint64_t remote_to = 0;
    std::uint8_t flags = device::kSignaled;
    std::uint32_t invalidate_stag = 0;
    std::uint64_t operand = 0, compare = 0;  ///< of atomics
    device::BindEntry binding = {};          ///< of BindWindow
  };
  /// `posted`: what the doorbell says.
  void post_send(QPHandle& qp, const Send& s, const device::Posted& posted = {}) {
    ASSERT_FALSE(qp.face.send.full());
    auto* entry = static_cast<device::SendEntry*>(qp.face.send.entry(qp.sends));
    *entry = {.wr_id = s.wr_id,
              .remote_to = s.remote_to,
              .remote_stag = s.remote_stag,
              .invalidate_stag = s.invalidate_stag,
              .opcode = s.opcode,
              .flags = s.flags,
              .sge_count = static_cast<std::uint16_t>(s.octets != 0 ? 1 : 0),
              .inline_octets = 0};
    entry->sges()[0] = {reinterpret_cast<std::uintptr_t>(s.address), s.octets, s.stag};
    if (s.opcode == device::SendOpcode::BindWindow) {
      *entry->binding() = s.binding;
    } else if (s.opcode >= device::SendOpcode::FetchAdd) {
      *entry->atomic() = {s.operand, s.compare};
    }
    qp.face.send.publish(++qp.sends);
    rnic.ring_send(qp.face.number, posted);
  }
  void post_receive(QPHandle& qp, std::uint64_t wr_id, void* address, std::uint32_t octets,
                    std::uint32_t stag) {
    ASSERT_FALSE(qp.face.receive.full());
    auto* entry = static_cast<device::ReceiveEntry*>(qp.face.receive.entry(qp.receives));
    *entry = {.wr_id = wr_id, .sge_count = octets != 0 ? 1u : 0u, .reserved = 0};
    entry->sges()[0] = {reinterpret_cast<std::uintptr_t>(address), octets, stag};
    qp.face.receive.publish(++qp.receives);
    rnic.ring_receive(qp.face.number);
  }

  /// The next completion, in whatever thread makes it happen.
  std::optional<device::CompletionEntry> wait_completion() {
    std::optional<device::CompletionEntry> found;
    wait_until([&] {
      if (cq.completions.empty()) rnic.poll(cq.number);
      if (cq.completions.empty()) return false;
      const std::uint32_t index = cq.completions.consumed_own();
      found = *static_cast<device::CompletionEntry*>(cq.completions.entry(index));
      cq.completions.release(index + 1);
      return true;
    });
    return found;
  }
  std::optional<SeenEvent> take_event() {
    const std::scoped_lock hold(mutex_);
    if (connection_events.empty()) return std::nullopt;
    SeenEvent event = connection_events.front();
    connection_events.pop_front();
    return event;
  }
  std::optional<SeenEvent> wait_event() {
    std::optional<SeenEvent> found;
    wait_until([&] {
      if (rnic.progress_fd() >= 0) rnic.progress();
      found = take_event();
      return found.has_value();
    });
    return found;
  }
  template <typename Done>
  bool wait_until(Done done) {
    const auto deadline = std::chrono::steady_clock::now() + kWait;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      if (peer_progress) peer_progress();
      std::this_thread::yield();
    }
    return true;
  }
  /// Runs what is due; needed where nobody else does (engine inline).
  void progress() {
    if (rnic.progress_fd() >= 0) rnic.progress();
  }
  int count_cq_events() {
    const std::scoped_lock hold(mutex_);
    return cq_events;
  }
  std::vector<device::AsyncEvent> seen_async() {
    const std::scoped_lock hold(mutex_);
    return async_events;
  }

  std::function<void()> peer_progress;  ///< the other side's, when both run in this thread
  /// Run in whatever thread reports, and set while nothing is to be reported.
  std::function<void()> on_completion_event, on_connection_event;

 private:
  transport::TCPTransport tcp_;
  std::mutex mutex_;
  int cq_events = 0;
  std::vector<device::AsyncEvent> async_events;
  std::deque<SeenEvent> connection_events;

 public:
  Rnic rnic;  // last: its thread reports into the members above
  device::PDNumber pd = 0;
  device::CQFace cq;
};

/// Two connected ends.
class PairTest : public ::testing::TestWithParam<Placement> {
 protected:
  Settings settings_for(Placement placement) {
    Settings settings;
    settings.engine = placement;
    return settings;
  }
  void start() {
    const Settings settings = make_settings();
    server = std::make_unique<Side>(settings);
    client = std::make_unique<Side>(settings);
    server->peer_progress = [this] { client->progress(); };
    client->peer_progress = [this] { server->progress(); };
  }
  virtual Settings make_settings() { return settings_for(GetParam()); }
  void listen() {
    const sockaddr_in any = ipv4("127.0.0.1", 0);
    auto listener =
        server->rnic.listen(reinterpret_cast<const sockaddr*>(&any), 16, false, /*cookie=*/99);
    ASSERT_TRUE(listener.ok()) << listener.error().text;
    listener_number = *listener;
    ASSERT_TRUE(server->rnic.listener_address(*listener, &server_address).ok());
  }
  /// connect() up to Requested at the server.
  void begin(QPHandle& client_qp, std::vector<std::uint8_t> private_data = {}) {
    auto connection = client->rnic.connect(
        nullptr, reinterpret_cast<const sockaddr*>(&server_address),
        {.qp = client_qp.face.number, .ird = 4, .ord = 4, .private_data = private_data},
        /*cookie=*/11);
    ASSERT_TRUE(connection.ok()) << connection.error().text;
    client_connection = *connection;
    const auto requested = server->wait_event();
    ASSERT_TRUE(requested.has_value());
    ASSERT_EQ(requested->event.kind, device::ConnectionEventKind::Requested);
    EXPECT_EQ(requested->event.cookie, 99u);
    EXPECT_EQ(requested->private_data, private_data);
    server_connection = requested->event.connection;
  }
  void establish(QPHandle& client_qp, QPHandle& server_qp) {
    begin(client_qp);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(server->rnic
                    .accept(server_connection,
                            {.qp = server_qp.face.number, .ird = 4, .ord = 4, .private_data = {}},
                            /*cookie=*/22)
                    .ok());
    for (Side* side : {client.get(), server.get()}) {
      const auto event = side->wait_event();
      ASSERT_TRUE(event.has_value());
      ASSERT_EQ(event->event.kind, device::ConnectionEventKind::Established) << event->event.text;
      EXPECT_EQ(event->event.cookie, side == client.get() ? 11u : 22u);
    }
  }

  std::unique_ptr<Side> server, client;
  device::ListenerNumber listener_number = 0;
  sockaddr_storage server_address = {};
  device::ConnectionNumber client_connection = 0, server_connection = 0;
};

}  // namespace weft::engine::testing
