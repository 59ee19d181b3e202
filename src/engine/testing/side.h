// Test-only: one RNIC with a PD, a CQ and helpers to post and wait, driven as a program would.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "device/device.h"
#include "engine/rnic.h"
#include "transport/tcp/tcp_transport.h"

namespace weft::engine::testing {

sockaddr_in ipv4(const char* address, std::uint16_t port);

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

  explicit Side(const Settings& settings, transport::Transport* transport = nullptr);
  ~Side();

  void handle_completion_event(std::uint64_t) override;
  void handle_async_event(const device::AsyncEvent& event) override;
  void handle_connection_event(const device::ConnectionEvent& event) override;

  QPHandle make_qp(std::uint64_t cookie = 1, device::SRQNumber srq = 0, std::uint32_t depth = 64);
  /// `only`: the one QP that is let in; 0: all of the PD.
  std::uint32_t register_octets(void* address, std::size_t octets, std::uint32_t access,
                                device::QPNumber only = 0);

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
  void post_send(QPHandle& qp, const Send& s, const device::Posted& posted = {});
  void post_receive(QPHandle& qp, std::uint64_t wr_id, void* address, std::uint32_t octets,
                    std::uint32_t stag);

  /// The next completion, in whatever thread makes it happen.
  std::optional<device::CompletionEntry> wait_completion();
  std::optional<SeenEvent> take_event();
  std::optional<SeenEvent> wait_event();
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
  void progress();
  int count_cq_events();
  std::vector<device::AsyncEvent> seen_async();

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
  PairTest();
  ~PairTest() override;

  Settings settings_for(Placement placement);
  void start();
  virtual Settings make_settings();
  void listen();
  /// connect() up to Requested at the server.
  void begin(QPHandle& client_qp, std::vector<std::uint8_t> private_data = {});
  void establish(QPHandle& client_qp, QPHandle& server_qp);

  std::unique_ptr<Side> server, client;
  device::ListenerNumber listener_number = 0;
  sockaddr_storage server_address = {};
  device::ConnectionNumber client_connection = 0, server_connection = 0;
};

}  // namespace weft::engine::testing
