// QPs that find each other by name and address.
#include "engine/rendezvous.h"

#include <cstring>
#include <set>

#include "base/byte_order.h"
#include "engine/testing/raw_peer.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::CompletionStatus;
using device::QPState;
using testing::PairTest;
using testing::QPHandle;
using testing::RawPeer;
using testing::Side;

sockaddr_storage host(const char* address) {
  sockaddr_storage storage = {};
  const sockaddr_in in = testing::ipv4(address, 0);
  std::memcpy(&storage, &in, sizeof in);
  return storage;
}

class RendezvousTest : public PairTest {
 protected:
  void SetUp() override {
    start();
    a = client->make_qp(1);
    b = server->make_qp(2);
    a_name = name(*client, a);
    b_name = name(*server, b);
  }
  static std::uint32_t name(Side& side, const QPHandle& qp) {
    const auto given = side.rnic.name_qp(qp.face.number);
    EXPECT_TRUE(given.ok()) << given.error().text;
    return given.ok() ? *given : 0;
  }
  static Result<void> pair(Side& side, const QPHandle& qp, std::uint32_t peer) {
    return side.rnic.pair_qp({.qp = qp.face.number,
                              .peer = peer,
                              .local = host("127.0.0.1"),
                              .remote = host("127.0.0.1"),
                              .ird = 4,
                              .ord = 4});
  }
  bool reaches(Side& side, const QPHandle& qp, QPState state) {
    return side.wait_until([&] {
      side.progress();
      return side.rnic.query_qp(qp.face.number)->state == state;
    });
  }
  void send_across(Side& from, QPHandle& sender, Side& to, QPHandle& receiver) {
    to.post_receive(receiver, 70, nullptr, 0, 0);
    from.post_send(sender, {.opcode = device::SendOpcode::Send, .wr_id = 71});
    const auto arrived = to.wait_completion();
    ASSERT_TRUE(arrived.has_value());
    EXPECT_EQ(arrived->wr_id, 70u);
    EXPECT_EQ(arrived->status, CompletionStatus::Success);
    const auto sent = from.wait_completion();
    ASSERT_TRUE(sent.has_value());
    EXPECT_EQ(sent->status, CompletionStatus::Success);
  }
  void set_patience(const device::PairPatience& patience) {
    ASSERT_TRUE(client->rnic.modify_qp(a.face.number, {.patience = patience}).ok());
  }
  void meet() {
    ASSERT_TRUE(pair(*client, a, b_name).ok());
    ASSERT_TRUE(pair(*server, b, a_name).ok());
    ASSERT_TRUE(reaches(*client, a, QPState::RTS));
    ASSERT_TRUE(reaches(*server, b, QPState::RTS));
  }
  /// Up to where the client's QP has lost its stream.
  void server_leaves() {
    ASSERT_TRUE(server->rnic.destroy_qp(b.face.number).ok());
    ASSERT_TRUE(client->wait_until([&] {
      client->progress();
      return client->rnic.query_qp(a.face.number)->peer_gone;
    }));
    ASSERT_TRUE(reaches(*client, a, QPState::Error));
  }
  /// Asks at the server for the QP `target`, in the name of `source`.
  static void call(RawPeer& caller, std::uint32_t target, std::uint32_t source) {
    sockaddr_storage door = host("127.0.0.1");
    reinterpret_cast<sockaddr_in&>(door).sin_port = htons(static_cast<std::uint16_t>(target >> 8));
    std::array<std::uint8_t, 16> hello = {0x77, 0x65, 0x66, 0x74, 0, 1};
    store_be32(&hello[8], target);
    store_be32(&hello[12], source);
    ASSERT_TRUE(caller.connect(door));
    wire::StartupFrame request = testing::plain_request();
    request.private_data = hello;
    ASSERT_TRUE(caller.send(request));
  }
  void nothing_is_told_of_connections() {
    EXPECT_FALSE(client->take_event().has_value());
    EXPECT_FALSE(server->take_event().has_value());
  }

  QPHandle a, b;
  std::uint32_t a_name = 0, b_name = 0;
};

TEST_P(RendezvousTest, TwoQPsMeetWhoeverComesFirst) {
  for (const bool a_first : {true, false}) {
    Side& first = a_first ? *client : *server;
    Side& second = a_first ? *server : *client;
    QPHandle& early = a_first ? a : b;
    QPHandle& late = a_first ? b : a;
    ASSERT_TRUE(pair(first, early, a_first ? b_name : a_name).ok());
    for (int i = 0; i < 20; ++i) {  // it is looked for and not found
      first.progress();
      second.progress();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(first.rnic.query_qp(early.face.number)->state, QPState::Idle);
    ASSERT_TRUE(pair(second, late, a_first ? a_name : b_name).ok());
    ASSERT_TRUE(reaches(first, early, QPState::RTS));
    ASSERT_TRUE(reaches(second, late, QPState::RTS));
    send_across(first, early, second, late);
    send_across(second, late, first, early);
    for (auto [side, qp] : {std::pair{client.get(), &a}, std::pair{server.get(), &b}}) {
      ASSERT_TRUE(side->rnic.command_qp(qp->face.number, device::QPCommand::Fail).ok());
      ASSERT_TRUE(side->rnic.command_qp(qp->face.number, device::QPCommand::Reset).ok());
    }
  }
  nothing_is_told_of_connections();
}

TEST_P(RendezvousTest, CompletionsCarryTheName) {
  ASSERT_TRUE(pair(*client, a, b_name).ok());
  ASSERT_TRUE(pair(*server, b, a_name).ok());
  server->post_receive(b, 1, nullptr, 0, 0);
  client->post_send(a, {.opcode = device::SendOpcode::Send, .wr_id = 2});
  EXPECT_EQ(server->wait_completion()->qp_number, b_name);
  EXPECT_EQ(client->wait_completion()->qp_number, a_name);
}

TEST_P(RendezvousTest, WhatWasPostedBeforeThePeerWasFoundArrives) {
  ASSERT_TRUE(pair(*client, a, b_name).ok());
  client->post_send(a, {.opcode = device::SendOpcode::Send, .wr_id = 5});
  server->post_receive(b, 6, nullptr, 0, 0);
  ASSERT_TRUE(pair(*server, b, a_name).ok());
  const auto arrived = server->wait_completion();
  ASSERT_TRUE(arrived.has_value());
  EXPECT_EQ(arrived->wr_id, 6u);
}

TEST_P(RendezvousTest, WithoutAPeerSendsFailWhenThePatienceIsOver) {
  const std::uint32_t gone = b_name;
  ASSERT_TRUE(server->rnic.destroy_qp(b.face.number).ok());
  client->post_receive(a, 8, nullptr, 0, 0);
  ASSERT_TRUE(pair(*client, a, gone).ok());
  set_patience({.to_find = std::chrono::milliseconds(50)});
  // Nothing to send, nothing to lose.
  for (int i = 0; i < 100; ++i) {
    client->progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(client->rnic.query_qp(a.face.number)->state, QPState::Idle);
  client->post_send(a, {.opcode = device::SendOpcode::Send, .wr_id = 9});
  ASSERT_TRUE(reaches(*client, a, QPState::Error));
  const auto sent = client->wait_completion();
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(sent->wr_id, 9u);
  EXPECT_EQ(sent->status, CompletionStatus::RetryExceeded);
  const auto received = client->wait_completion();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->status, CompletionStatus::Flushed);
}

TEST_P(RendezvousTest, APeerThatLeavesIsNoticedWhenSomethingIsSent) {
  meet();
  client->post_receive(a, 3, nullptr, 0, 0);
  set_patience({.to_miss = std::chrono::milliseconds(20)});
  server_leaves();
  // Nothing to send, nothing to miss.
  for (int i = 0; i < 50; ++i) {
    client->progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(client->cq.completions.empty());
  client->post_send(a, {.opcode = device::SendOpcode::Send, .wr_id = 4});
  const auto sent = client->wait_completion();
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(sent->status, CompletionStatus::RetryExceeded);
  EXPECT_EQ(client->wait_completion()->status, CompletionStatus::Flushed);
  EXPECT_TRUE(client->seen_async().empty());
  nothing_is_told_of_connections();
}

TEST_P(RendezvousTest, OpenWorkFailsOnlyWhenThePatienceIsOver) {
  constexpr auto kPatience = std::chrono::milliseconds(300);
  meet();
  set_patience({.to_miss = kPatience});
  server_leaves();
  const auto begun = std::chrono::steady_clock::now();
  client->post_send(a, {.opcode = device::SendOpcode::Send, .wr_id = 4});
  client->post_send(a, {.opcode = device::SendOpcode::Send, .wr_id = 5});
  const auto first = client->wait_completion();
  EXPECT_GE(std::chrono::steady_clock::now() - begun, kPatience);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->wr_id, 4u);
  EXPECT_EQ(first->status, CompletionStatus::RetryExceeded);
  EXPECT_EQ(client->wait_completion()->status, CompletionStatus::Flushed);
  EXPECT_FALSE(client->rnic.query_qp(a.face.number)->peer_gone);
}

TEST_P(RendezvousTest, WithoutABoundItWaitsAndTheQPCanBeginAnewOrGo) {
  meet();
  server_leaves();
  client->post_send(a, {.opcode = device::SendOpcode::Send, .wr_id = 4});
  for (int i = 0; i < 50; ++i) {
    client->progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(client->cq.completions.empty());
  ASSERT_TRUE(client->rnic.command_qp(a.face.number, device::QPCommand::Fail).ok());
  EXPECT_EQ(client->wait_completion()->status, CompletionStatus::Flushed);
  ASSERT_TRUE(client->rnic.command_qp(a.face.number, device::QPCommand::Reset).ok());
  b = server->make_qp(2);
  b_name = name(*server, b);
  meet();
  send_across(*client, a, *server, b);
  set_patience({.to_miss = std::chrono::milliseconds(20)});
  server_leaves();
  client->post_send(a, {.opcode = device::SendOpcode::Send, .wr_id = 6});
  ASSERT_TRUE(client->rnic.destroy_qp(a.face.number).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  client->progress();  // its patience ends with nobody there
}

class EarlyCallerTest : public RendezvousTest {
 protected:
  Settings make_settings() override {
    Settings settings = RendezvousTest::make_settings();
    settings.startup_timeout = std::chrono::milliseconds(200);
    return settings;
  }
};

TEST_P(EarlyCallerTest, IsKeptOnlyForAWhile) {
  sockaddr_storage door = host("127.0.0.1");
  reinterpret_cast<sockaddr_in&>(door).sin_port = htons(static_cast<std::uint16_t>(b_name >> 8));
  std::array<std::uint8_t, 16> hello = {0x77, 0x65, 0x66, 0x74, 0, 1, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9};
  for (std::size_t i = 0; i < 4; ++i) {
    hello[8 + i] = static_cast<std::uint8_t>(b_name >> (24 - 8 * i));
  }
  RawPeer caller;
  ASSERT_TRUE(caller.connect(door));
  wire::StartupFrame request = testing::plain_request();
  request.private_data = hello;
  ASSERT_TRUE(caller.send(request));
  const auto begun = std::chrono::steady_clock::now();
  std::array<std::uint8_t, 64> reply;
  ssize_t got = -1;
  ASSERT_TRUE(server->wait_until([&] {
    server->progress();
    got = caller.receive(reply.data(), reply.size());
    return got >= 0;
  }));
  // Well after a refusal would have come that was no question of time.
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(100));
  ASSERT_GT(got, 16);
  EXPECT_NE(reply[16] & 0x20, 0) << "the Reply does not reject";
}

TEST_P(RendezvousTest, OnlyTheNamedPeerGetsIn) {
  QPHandle other = client->make_qp(3);
  const std::uint32_t other_name = name(*client, other);
  ASSERT_TRUE(pair(*server, b, a_name).ok());
  ASSERT_TRUE(pair(*client, other, b_name).ok());  // b looks for a, not for this one
  for (int i = 0; i < 50; ++i) {
    client->progress();
    server->progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(client->rnic.query_qp(other.face.number)->state, QPState::Idle);
  EXPECT_EQ(server->rnic.query_qp(b.face.number)->state, QPState::Idle);
  EXPECT_NE(other_name, a_name);
  ASSERT_TRUE(pair(*client, a, b_name).ok());
  EXPECT_TRUE(reaches(*client, a, QPState::RTS));
  EXPECT_TRUE(reaches(*server, b, QPState::RTS));
}

TEST_P(RendezvousTest, StrangersAtTheDoorAreTurnedAway) {
  sockaddr_storage door = host("127.0.0.1");
  reinterpret_cast<sockaddr_in&>(door).sin_port = htons(static_cast<std::uint16_t>(b_name >> 8));
  const std::array<std::uint8_t, 16> nobody = {0x77, 0x65, 0x66, 0x74, 0, 1, 0, 0, 9, 9, 9, 9};
  const std::array<std::uint8_t, 3> noise = {1, 2, 3};
  for (const Octets hello : {Octets(nobody), Octets(noise), Octets()}) {
    RawPeer stranger;
    ASSERT_TRUE(stranger.connect(door));
    wire::StartupFrame request = testing::plain_request();
    request.private_data = hello;
    ASSERT_TRUE(stranger.send(request));
    std::array<std::uint8_t, 64> reply;
    ssize_t got = -1;
    ASSERT_TRUE(server->wait_until([&] {
      server->progress();
      got = stranger.receive(reply.data(), reply.size());
      return got >= 0;
    }));
    ASSERT_GT(got, 16);
    EXPECT_NE(reply[16] & 0x20, 0) << "the Reply does not reject";
  }
  EXPECT_EQ(server->rnic.query_qp(b.face.number)->state, QPState::Idle);
  nothing_is_told_of_connections();
}

TEST_P(RendezvousTest, AQPWhoseCQRunsOverLooksForNobody) {
  const device::CQFace cq = *server->rnic.create_cq(2, 3);
  const auto make = [&] {
    return QPHandle{*server->rnic.create_qp(
        {.pd = server->pd, .send_cq = cq.number, .receive_cq = cq.number, .receive_depth = 8})};
  };
  QPHandle searches = make(), flushes = make();
  const std::uint32_t target = name(*server, searches);
  constexpr std::uint32_t kCaller = 0x0101;  // the lowest name: it is the one that connects
  ASSERT_TRUE(pair(*server, searches, kCaller).ok());
  for (std::uint32_t i = 0; i <= cq.completions.capacity(); ++i) {
    server->post_receive(flushes, i, nullptr, 0, 0);
  }
  ASSERT_TRUE(server->rnic.command_qp(flushes.face.number, device::QPCommand::Fail).ok());
  ASSERT_TRUE(reaches(*server, searches, QPState::Error));
  RawPeer caller;
  ASSERT_NO_FATAL_FAILURE(call(caller, target, kCaller));
  std::array<std::uint8_t, 64> reply;
  ssize_t got = -1;
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_TRUE(server->wait_until([&] {
    server->progress();
    got = caller.receive(reply.data(), reply.size());
    return got >= 0;
  }));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(2));
  ASSERT_GT(got, 16);
  EXPECT_NE(reply[16] & 0x20, 0) << "the Reply does not reject";
}

TEST_P(RendezvousTest, ImpossiblePairsAreRefused) {
  EXPECT_EQ(pair(*client, a, a_name).error().code, EINVAL) << "its own peer";
  EXPECT_EQ(pair(*client, a, 5).error().code, EINVAL) << "port 0";
  QPHandle nameless = client->make_qp(4);
  EXPECT_EQ(pair(*client, nameless, b_name).error().code, EINVAL);
  EXPECT_EQ(client->rnic.name_qp(0xffffff).error().code, EINVAL);
  EXPECT_EQ(client->rnic.pair_qp({.qp = a.face.number, .peer = b_name}).error().code, EINVAL)
      << "no address";
  EXPECT_EQ(name(*client, a), a_name) << "asked again, another name";
}

/// The connection manager's half of a program that makes its QPs itself: it knows names only.
TEST_P(RendezvousTest, AQPIsConnectedAndAcceptedByItsName) {
  listen();
  const auto connect = [&](std::uint32_t qp, bool by_name) {
    return client->rnic.connect(
        nullptr, reinterpret_cast<const sockaddr*>(&server_address),
        {.qp = qp, .by_name = by_name, .ird = 4, .ord = 4, .private_data = {}}, /*cookie=*/11);
  };
  EXPECT_FALSE(connect(a_name, false).ok()) << "a name is not a number";
  EXPECT_FALSE(connect(b_name, true).ok()) << "of another process's QP";
  ASSERT_TRUE(connect(a_name, true).ok());
  const auto requested = server->wait_event();
  ASSERT_TRUE(requested.has_value());
  ASSERT_TRUE(server->rnic
                  .accept(requested->event.connection,
                          {.qp = b_name, .by_name = true, .ird = 4, .ord = 4, .private_data = {}},
                          /*cookie=*/22)
                  .ok());
  ASSERT_TRUE(reaches(*client, a, QPState::RTS));
  ASSERT_TRUE(reaches(*server, b, QPState::RTS));
  send_across(*client, a, *server, b);
}

TEST_P(RendezvousTest, MoreThanOnePortOfNames) {
  constexpr int kQPs = 300;
  std::set<std::uint32_t> names{a_name};
  for (int i = 0; i < kQPs; ++i) {
    QPHandle qp = client->make_qp(10);
    names.insert(name(*client, qp));
  }
  EXPECT_EQ(names.size(), kQPs + 1u);
  std::set<std::uint32_t> ports;
  for (const std::uint32_t n : names) ports.insert(n >> 8);
  EXPECT_EQ(ports.size(), 2u);
}

const auto kBothPlacements = ::testing::Values(Placement::Inline, Placement::Thread);
std::string placement_name(const ::testing::TestParamInfo<Placement>& info) {
  return info.param == Placement::Inline ? "inline" : "thread";
}
INSTANTIATE_TEST_SUITE_P(Placements, RendezvousTest, kBothPlacements, placement_name);
INSTANTIATE_TEST_SUITE_P(Placements, EarlyCallerTest, kBothPlacements, placement_name);

}  // namespace
}  // namespace weft::engine
