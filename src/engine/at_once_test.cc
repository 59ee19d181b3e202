// What is done at once: the Request in the call that connects, and reading it as it is accepted.
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <array>
#include <new>
#include <string>

#include "engine/testing/raw_peer.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using testing::PairTest;
using testing::RawPeer;
using testing::Side;

class AtOnceTest : public PairTest {
 protected:
  Settings make_settings() override { return settings_for(Placement::Inline); }
};

TEST_F(AtOnceTest, WithinAHostTheRequestLeavesWithTheCall) {
  Side side(make_settings());
  RawPeer listener;
  const sockaddr_storage address = listener.listen();
  const testing::QPHandle qp = side.make_qp();
  ASSERT_TRUE(side.rnic
                  .connect(nullptr, reinterpret_cast<const sockaddr*>(&address),
                           {.qp = qp.face.number, .private_data = {}}, 1)
                  .ok());
  // Nobody runs the protocol but that call.
  RawPeer peer = listener.accept();
  pollfd arrived = {peer.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&arrived, 1, 10'000), 1);
  std::array<std::uint8_t, wire::kStartupFrameOctetsMax> octets{};
  const ssize_t n = peer.receive(octets.data(), octets.size());
  ASSERT_GE(n, static_cast<ssize_t>(wire::kStartupHeaderOctets));
  EXPECT_EQ(std::string(octets.begin(), octets.begin() + 16), "MPA ID Req Frame");
}

TEST_F(AtOnceTest, ALoneRequestIsReadAsItIsAccepted) {
  server = std::make_unique<Side>(make_settings());
  listen();
  RawPeer peer;
  ASSERT_TRUE(peer.connect(server_address));
  ASSERT_TRUE(peer.send(testing::plain_request()));
  // Until the kernel has acknowledged it: it lies at the other end, accepted or not.
  ASSERT_TRUE(server->wait_until([&] {
    int unsent = -1;
    return ::ioctl(peer.fd(), SIOCOUTQ, &unsent) == 0 && unsent == 0;
  }));
  server->progress();
  const auto event = server->take_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, device::ConnectionEventKind::Requested);
}

TEST_F(AtOnceTest, WhatCannotBeReportedForLackOfMemoryIsClosed) {
  server = std::make_unique<Side>(make_settings());
  listen();
  RawPeer peer, next;
  ASSERT_TRUE(peer.connect(server_address));
  ASSERT_TRUE(peer.send(testing::plain_request()));
  server->on_connection_event = [] { throw std::bad_alloc(); };
  pollfd end = {peer.fd(), POLLIN, 0};
  EXPECT_TRUE(server->wait_until([&] {
    server->progress();
    return ::poll(&end, 1, 0) == 1;
  }));
  std::uint8_t octet;
  EXPECT_LE(peer.receive(&octet, 1), 0);
  server->on_connection_event = nullptr;
  while (server->take_event()) {
  }
  ASSERT_TRUE(next.connect(server_address));
  ASSERT_TRUE(next.send(testing::plain_request()));
  const auto event = server->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, device::ConnectionEventKind::Requested);
}

}  // namespace
}  // namespace weft::engine
