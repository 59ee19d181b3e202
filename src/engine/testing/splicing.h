// Test-only: a client, and a peer within its host that promises to copy what it reads.
#pragma once

#include <sys/ioctl.h>

#include <chrono>
#include <optional>
#include <vector>

#include "engine/testing/raw_peer.h"
#include "engine/testing/side.h"
#include "transport/tcp/peer_socket.h"

namespace weft::engine::testing {

using Bytes = std::vector<std::uint8_t>;

/// A client, and a responder that answers nothing, reads when the test says so, and has promised to
/// copy what it reads.
class SplicingTest : public PairTest {
 protected:
  void SetUp() override {
    start();
    memory.assign(kMemory, 7);
    stag = client->register_octets(memory.data(), memory.size(), 0);
    connect(true);
    send_bulk();
  }
  void TearDown() override { client.reset(); }
  Settings make_settings() override {
    Settings settings = settings_for(GetParam());
    settings.mpa_revision = 1;
    settings.close_timeout = std::chrono::seconds(1);
    return settings;
  }

  /// Another QP, with another peer; the ones before are left to the test.
  void connect(bool promises) {
    RawPeer listener;
    const sockaddr_storage address = listener.listen();
    qp = client->make_qp();
    const auto made =
        client->rnic.connect(nullptr, reinterpret_cast<const sockaddr*>(&address),
                             {.qp = qp.face.number, .ird = 4, .ord = 4, .private_data = {}}, 11);
    ASSERT_TRUE(made.ok());
    connection = *made;
    peer.emplace(listener.accept());
    ASSERT_TRUE(client->wait_until([&] {
      client->progress();
      std::uint8_t request[128];
      return peer->receive(request, sizeof request) > 0;
    }));
    if (promises) transport::promise_to_copy(peer->fd());
    ASSERT_TRUE(peer->send({.kind = wire::StartupKind::Reply, .private_data = {}}));
    const auto event = client->wait_event();
    ASSERT_TRUE(event.has_value());
    ASSERT_EQ(event->event.kind, device::ConnectionEventKind::Established) << event->event.text;
  }
  void post(std::uint64_t id, std::uint32_t octets, std::uint8_t flags = device::kSignaled) {
    client->post_send(qp, {.opcode = device::SendOpcode::Send,
                           .wr_id = id,
                           .address = memory.data(),
                           .octets = octets,
                           .stag = stag,
                           .flags = flags});
  }
  /// Enough for the stream to ask whether the peer has promised.
  void send_bulk() {
    for (std::uint64_t i = 0; i < 16; ++i) {
      post(i, 128 * 1024);
      ASSERT_TRUE(client->wait_until([&] {
        client->rnic.poll(client->cq.number);
        read_some();
        return !client->cq.completions.empty();
      }));
      ASSERT_EQ(client->wait_completion()->wr_id, i);
    }
    read_until_quiet();
  }
  std::size_t read_some() {
    static Bytes some(1 << 20);
    const ssize_t n = peer->receive(some.data(), some.size());
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  void read_until_quiet() {
    for (int i = 0; i < 20; ++i) {
      if (read_some() != 0) i = 0;
      client->rnic.poll(client->cq.number);
    }
  }
  int waiting_at_peer() {
    int octets = 0;
    EXPECT_EQ(::ioctl(peer->fd(), FIONREAD, &octets), 0);
    return octets;
  }
  /// Posts so much and waits until TCP has brought it to the peer, who does not read it.
  void post_unread(std::uint64_t id, std::uint32_t octets) {
    post(id, octets);
    ASSERT_TRUE(client->wait_until([&] {
      client->rnic.poll(client->cq.number);
      return waiting_at_peer() >= static_cast<int>(octets);
    }));
  }

  static constexpr std::size_t kMemory = 1 << 20;
  std::optional<RawPeer> peer;
  QPHandle qp;
  device::ConnectionNumber connection = 0;
  Bytes memory;
  std::uint32_t stag = 0;
};

}  // namespace weft::engine::testing
