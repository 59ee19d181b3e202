// How connections end: whoever leaves, whenever, the other side is told once and nothing stays.
#include <fcntl.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <vector>

#include "engine/testing/raw_peer.h"
#include "engine/testing/resources.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::CompletionStatus;
using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;
using testing::RawPeer;
using testing::Side;
using testing::spins;

class ConnectionEndTest : public PairTest {
 protected:
  void SetUp() override {
    start();
    listen();
  }
  Settings make_settings() override {
    Settings settings = settings_for(GetParam());
    settings.close_timeout = std::chrono::milliseconds(500);
    settings.startup_timeout = std::chrono::seconds(2);
    return settings;
  }
  void connect_to(const sockaddr_storage& address, const QPHandle& qp) {
    const auto connection =
        client->rnic.connect(nullptr, reinterpret_cast<const sockaddr*>(&address),
                             {.qp = qp.face.number, .private_data = {}}, 11);
    ASSERT_TRUE(connection.ok()) << connection.error().text;
    client_connection = *connection;
  }
  void expect_event(Side& side, ConnectionEventKind kind, int error) {
    const auto event = side.wait_event();
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->event.kind, kind);
    EXPECT_EQ(event->event.error, error) << event->event.text;
  }
  /// A connection with one message at the server that no receive was posted for.
  void hold_back_message() {
    client_qp = client->make_qp(1);
    server_qp = server->make_qp(2);
    establish(client_qp, server_qp);
    stag = client->register_octets(octets.data(), octets.size(), 0);
    target_stag = server->register_octets(target.data(), target.size(), device::kLocalWrite);
    client->post_send(client_qp,
                      {.wr_id = 1, .address = octets.data(), .octets = 100, .stag = stag});
    const auto sent = client->wait_completion();
    ASSERT_TRUE(sent.has_value());
    ASSERT_EQ(sent->status, CompletionStatus::Success);
    let_settle();
  }
  void let_settle() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (std::chrono::steady_clock::now() < end) {
      server->progress();
      client->progress();
    }
  }

  QPHandle client_qp, server_qp;
  std::vector<std::uint8_t> octets = std::vector<std::uint8_t>(100, 7);
  std::vector<std::uint8_t> target = std::vector<std::uint8_t>(100);
  std::uint32_t stag = 0, target_stag = 0;
};

TEST_P(ConnectionEndTest, QPDestroyedDuringStartupGivesFailed) {
  RawPeer silent;
  client_qp = client->make_qp();
  connect_to(silent.listen(), client_qp);
  let_settle();
  ASSERT_TRUE(client->rnic.destroy_qp(client_qp.face.number).ok());
  expect_event(*client, ConnectionEventKind::Failed, ECONNABORTED);
}

TEST_P(ConnectionEndTest, QPMovedToErrorDuringStartupGivesFailed) {
  RawPeer silent;
  client_qp = client->make_qp();
  connect_to(silent.listen(), client_qp);
  let_settle();
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(client->rnic.command_qp(client_qp.face.number, device::QPCommand::Fail).ok());
  expect_event(*client, ConnectionEventKind::Failed, ECONNABORTED);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

// Nobody listens: the connection rests between two attempts.
TEST_P(ConnectionEndTest, ADisconnectOrAMoveToErrorEndsTheAttemptsOfARefusedOne) {
  RawPeer nobody;
  const sockaddr_storage address = nobody.listen();
  nobody.close();
  for (const bool disconnects : {true, false}) {
    client_qp = client->make_qp();
    connect_to(address, client_qp);
    let_settle();
    if (disconnects) {
      ASSERT_TRUE(client->rnic.disconnect(client_connection).ok());
    } else {
      ASSERT_TRUE(client->rnic.command_qp(client_qp.face.number, device::QPCommand::Fail).ok());
    }
    expect_event(*client, ConnectionEventKind::Failed, ECONNABORTED);
  }
}

TEST_P(ConnectionEndTest, QPDestroyedBeforeTheFirstFPDUGivesFailed) {
  RawPeer peer;
  ASSERT_TRUE(peer.connect(server_address));
  wire::StartupFrame request = testing::plain_request();
  request.revision = 2;
  request.enhanced = wire::Enhanced{.peer_to_peer = true, .rtr_write = true};
  ASSERT_TRUE(peer.send(request));
  const auto requested = server->wait_event();
  ASSERT_TRUE(requested.has_value());
  server_qp = server->make_qp();
  ASSERT_TRUE(server->rnic
                  .accept(requested->event.connection,
                          {.qp = server_qp.face.number, .private_data = {}}, 22)
                  .ok());
  ASSERT_TRUE(server->rnic.destroy_qp(server_qp.face.number).ok());
  expect_event(*server, ConnectionEventKind::Failed, ECONNABORTED);
}

TEST_P(ConnectionEndTest, InitiatorThatNeverBeginsTimesOut) {
  RawPeer peer;
  ASSERT_TRUE(peer.connect(server_address));
  wire::StartupFrame request = testing::plain_request();
  request.revision = 2;
  request.enhanced = wire::Enhanced{.peer_to_peer = true, .rtr_write = true};
  ASSERT_TRUE(peer.send(request));
  const auto requested = server->wait_event();
  ASSERT_TRUE(requested.has_value());
  server_qp = server->make_qp();
  ASSERT_TRUE(server->rnic
                  .accept(requested->event.connection,
                          {.qp = server_qp.face.number, .private_data = {}}, 22)
                  .ok());
  expect_event(*server, ConnectionEventKind::Failed, ETIMEDOUT);
}

TEST_P(ConnectionEndTest, ResetWhileAMessageWaitsForAReceive) {
  hold_back_message();
  ASSERT_TRUE(client->rnic.command_qp(client_qp.face.number, device::QPCommand::Fail).ok());
  EXPECT_FALSE(spins(*server));
  expect_event(*server, ConnectionEventKind::Disconnected, ECONNRESET);
}

TEST_P(ConnectionEndTest, ResetDoesNotTakeTheMessageThatWaits) {
  hold_back_message();
  ASSERT_TRUE(client->rnic.command_qp(client_qp.face.number, device::QPCommand::Fail).ok());
  let_settle();
  server->post_receive(server_qp, 5, target.data(), 100, target_stag);
  const auto received = server->wait_completion();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->status, CompletionStatus::Success);
  EXPECT_EQ(target, octets);
  expect_event(*server, ConnectionEventKind::Disconnected, ECONNRESET);
}

TEST_P(ConnectionEndTest, FINBehindAMessageThatWaitsIsSeenInTime) {
  hold_back_message();
  ASSERT_TRUE(client->rnic.disconnect(client_connection).ok());
  EXPECT_FALSE(spins(*server));
  const auto event = server->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
}

TEST_P(ConnectionEndTest, FINDoesNotTakeTheMessageThatWaits) {
  hold_back_message();
  ASSERT_TRUE(client->rnic.disconnect(client_connection).ok());
  let_settle();
  server->post_receive(server_qp, 5, target.data(), 100, target_stag);
  const auto received = server->wait_completion();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->status, CompletionStatus::Success);
  expect_event(*server, ConnectionEventKind::Disconnected, 0);
  expect_event(*client, ConnectionEventKind::Disconnected, 0);
}

TEST_P(ConnectionEndTest, DisconnectDoesNotWaitForAReceive) {
  hold_back_message();
  ASSERT_TRUE(server->rnic.disconnect(server_connection).ok());
  const auto begin = std::chrono::steady_clock::now();
  const auto event = server->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(300));
}

// The answer to its Read lets the Send behind it begin, which fails; and with the answer came a
// message that has no receive.
TEST_P(ConnectionEndTest, AnErrorOfItsOwnDoesNotWaitForAReceive) {
  for (const bool polls : {false, true}) {
    client_qp = client->make_qp(1);
    server_qp = server->make_qp(2);
    ASSERT_NO_FATAL_FAILURE(establish(client_qp, server_qp));
    stag = client->register_octets(octets.data(), octets.size(), device::kRemoteRead);
    target_stag = server->register_octets(target.data(), target.size(), device::kLocalWrite);
    server->post_send(server_qp, {.opcode = device::SendOpcode::Read,
                                  .wr_id = 1,
                                  .address = target.data(),
                                  .octets = 100,
                                  .stag = target_stag,
                                  .remote_stag = stag,
                                  .remote_to = reinterpret_cast<std::uintptr_t>(octets.data())});
    server->post_send(server_qp, {.wr_id = 2,
                                  .address = target.data(),
                                  .octets = 100,
                                  .stag = target_stag ^ 0xff00,
                                  .flags = device::kSignaled | device::kReadFence});
    const auto answered = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (std::chrono::steady_clock::now() < answered) client->progress();
    client->post_send(client_qp, {.wr_id = 3});

    const auto begin = std::chrono::steady_clock::now();
    if (polls) server->rnic.poll(server->cq.number);
    for (Side* side : {server.get(), client.get()}) {
      const auto event = side->wait_event();
      ASSERT_TRUE(event.has_value());
      EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(300));
    for (Side* side : {server.get(), client.get()}) {
      while (!side->cq.completions.empty()) side->wait_completion();
    }
  }
}

TEST_P(ConnectionEndTest, PeerLeavesBeforeItsRequestIsAnswered) {
  RawPeer peer;
  ASSERT_TRUE(peer.connect(server_address));
  ASSERT_TRUE(peer.send(testing::plain_request()));
  const auto requested = server->wait_event();
  ASSERT_TRUE(requested.has_value());
  peer.close();
  const auto failed = server->wait_event();
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->event.kind, ConnectionEventKind::Failed);
  EXPECT_EQ(failed->event.connection, requested->event.connection);
  EXPECT_EQ(failed->event.cookie, 99u);
  server_qp = server->make_qp();
  const auto accepted =
      server->rnic.accept(requested->event.connection,
                          {.qp = server_qp.face.number, .private_data = {}}, 22);
  ASSERT_FALSE(accepted.ok());
  EXPECT_EQ(accepted.error().code, ECONNRESET);
}

TEST_P(ConnectionEndTest, RejectedPeerThatNeverClosesIsDropped) {
  RawPeer peer;
  ASSERT_TRUE(peer.connect(server_address));
  ASSERT_TRUE(peer.send(testing::plain_request()));
  const auto requested = server->wait_event();
  ASSERT_TRUE(requested.has_value());
  const int before = testing::count_descriptors();
  ASSERT_TRUE(server->rnic.reject(requested->event.connection, {}).ok());
  EXPECT_TRUE(server->wait_until([&] {
    server->progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return testing::count_descriptors() == before - 1;
  }));
}

TEST_P(ConnectionEndTest, DestroyedQPLeavesNoDescriptorWhenThePeerStays) {
  Settings settings = make_settings();
  settings.mpa_revision = 1;
  Side initiator(settings);
  RawPeer listener;
  const sockaddr_storage address = listener.listen();
  QPHandle qp = initiator.make_qp();
  ASSERT_TRUE(initiator.rnic
                  .connect(nullptr, reinterpret_cast<const sockaddr*>(&address),
                           {.qp = qp.face.number, .private_data = {}}, 1)
                  .ok());
  RawPeer peer = listener.accept();
  ASSERT_TRUE(peer.send({.kind = wire::StartupKind::Reply, .crc = true, .private_data = {}}));
  expect_event(initiator, ConnectionEventKind::Established, 0);
  const int before = testing::count_descriptors();
  ASSERT_TRUE(initiator.rnic.destroy_qp(qp.face.number).ok());
  EXPECT_FALSE(spins(initiator));
  EXPECT_TRUE(initiator.wait_until([&] {
    initiator.progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return testing::count_descriptors() == before - 1;
  }));
}

/// One end with a Write under way that its peer does not read.
class UnreadWriteTest : public ConnectionEndTest {
 protected:
  void begin(bool leaves = true) {
    Settings settings = make_settings();
    settings.mpa_revision = 1;
    settings.close_timeout = std::chrono::seconds(15);
    initiator_ = std::make_unique<Side>(settings);
    RawPeer listener;
    const sockaddr_storage address = listener.listen();
    QPHandle qp = initiator_->make_qp();
    ASSERT_TRUE(initiator_->rnic
                    .connect(nullptr, reinterpret_cast<const sockaddr*>(&address),
                             {.qp = qp.face.number, .private_data = {}}, 1)
                    .ok());
    peer_.emplace(listener.accept());
    ASSERT_TRUE(peer_->send({.kind = wire::StartupKind::Reply, .crc = true, .private_data = {}}));
    expect_event(*initiator_, ConnectionEventKind::Established, 0);
    source_stag_ = initiator_->register_octets(source_.data(), source_.size(), 0);
    initiator_->post_send(qp, {.opcode = device::SendOpcode::Write,
                               .wr_id = 1,
                               .address = source_.data(),
                               .octets = static_cast<std::uint32_t>(source_.size()),
                               .stag = source_stag_,
                               .remote_stag = 1});
    for (int i = 0; i < 20; ++i) {
      initiator_->progress();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (leaves) peer_->finish_sending();
  }
  Result<void> reregister(std::vector<std::uint8_t>& memory, std::uint32_t access) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    return initiator_->rnic.reregister_region(source_stag_, {.pd = initiator_->pd,
                                                             .access = access,
                                                             .address = at,
                                                             .octets = memory.size(),
                                                             .base_to = at});
  }

  // They outlive whom they are registered with.
  std::vector<std::uint8_t> source_ = std::vector<std::uint8_t>(32 << 20);
  std::vector<std::uint8_t> other_ = std::vector<std::uint8_t>(1 << 20);
  std::uint32_t source_stag_ = 0;
  std::unique_ptr<Side> initiator_;
  std::optional<RawPeer> peer_;
};

TEST_P(UnreadWriteTest, ResetBehindAFINDoesNotSpin) {
  begin();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_FALSE(spins(*initiator_));
  peer_->reset();
  const auto start = std::chrono::steady_clock::now();
  const auto event = initiator_->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

/// The bound of Closing is the QP's, not that of what was sent before it.
TEST_P(ConnectionEndTest, WhatWasSentBeforeAnOrderlyEndReachesAPeerThatStoodStill) {
  Settings settings = make_settings();
  settings.mpa_revision = 1;
  constexpr std::uint32_t kOctets = 256 * 1024;
  std::vector<std::uint8_t> source(kOctets, 5);
  Side initiator(settings);
  RawPeer listener;
  const sockaddr_storage address = listener.listen();
  QPHandle qp = initiator.make_qp();
  const auto connection = initiator.rnic.connect(
      nullptr, reinterpret_cast<const sockaddr*>(&address),
      {.qp = qp.face.number, .private_data = {}}, 1);
  ASSERT_TRUE(connection.ok());
  RawPeer peer(listener.accept());
  ASSERT_TRUE(peer.send({.kind = wire::StartupKind::Reply, .crc = true, .private_data = {}}));
  expect_event(initiator, ConnectionEventKind::Established, 0);
  initiator.post_send(qp, {.opcode = device::SendOpcode::Write,
                           .wr_id = 1,
                           .address = source.data(),
                           .octets = kOctets,
                           .stag = initiator.register_octets(source.data(), kOctets, 0),
                           .remote_stag = 1});
  ASSERT_TRUE(initiator.wait_completion().has_value());
  ASSERT_TRUE(initiator.rnic.disconnect(*connection).ok());
  expect_event(initiator, ConnectionEventKind::Disconnected, ECONNRESET);

  ASSERT_EQ(::fcntl(peer.fd(), F_SETFL, 0), 0);
  std::vector<std::uint8_t> scrap(kOctets);
  std::size_t got = 0;
  ssize_t part = 0;
  while ((part = ::recv(peer.fd(), scrap.data(), scrap.size(), 0)) > 0) {
    got += static_cast<std::size_t>(part);
  }
  EXPECT_EQ(part, 0) << "an end and no reset";
  EXPECT_GT(got, kOctets);
}

TEST_P(UnreadWriteTest, WhoLeavesBreaksNoRuleOfTheProtocol) {
  begin();
  ASSERT_FALSE(HasFatalFailure());
  std::vector<std::uint8_t> unread(1 << 20);
  initiator_->peer_progress = [&] {
    while (peer_->receive(unread.data(), unread.size()) > 0) {
    }
  };
  expect_event(*initiator_, ConnectionEventKind::Disconnected, ECONNRESET);
}

TEST_P(UnreadWriteTest, WhatARegionIsNoMoreIsNotSentAnyMore) {
  begin(false);
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(reregister(source_, device::kRemoteRead).ok());
  initiator_->progress();
  EXPECT_TRUE(initiator_->cq.completions.empty()) << "the memory is the same";
  ASSERT_TRUE(reregister(other_, 0).ok());
  const auto sent = initiator_->wait_completion();
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(sent->status, CompletionStatus::LocalProtection);
  expect_event(*initiator_, ConnectionEventKind::Disconnected, EFAULT);
}

INSTANTIATE_TEST_SUITE_P(Placements, UnreadWriteTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

INSTANTIATE_TEST_SUITE_P(Placements, ConnectionEndTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
