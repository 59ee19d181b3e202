// The RNIC end to end over kernel TCP: two devices in one process, both placements.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "device/ring_shape.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::CompletionStatus;
using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;
using testing::Side;

constexpr std::uint32_t kAllRights =
    device::kLocalWrite | device::kRemoteWrite | device::kRemoteRead;

class RnicTest : public PairTest {
 protected:
  void SetUp() override {
    start();
    listen();
  }
  void connect_pair(std::uint32_t depth = 64) {
    client_qp = client->make_qp(1, 0, depth);
    server_qp = server->make_qp(2, 0, depth);
    establish(client_qp, server_qp);
  }
  void expect_success(Side& side, std::uint64_t wr_id) {
    const auto completion = side.wait_completion();
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->status, CompletionStatus::Success);
    EXPECT_EQ(completion->wr_id, wr_id);
  }
  static std::vector<std::uint8_t> pattern(std::size_t octets) {
    std::vector<std::uint8_t> v(octets);
    std::iota(v.begin(), v.end(), std::uint8_t{3});
    return v;
  }
  QPHandle client_qp, server_qp;
};

TEST_P(RnicTest, SendArrivesInThePostedReceive) {
  connect_pair();
  std::vector<std::uint8_t> source = pattern(5000), target(8000);
  const auto source_stag = client->register_octets(source.data(), source.size(), 0);
  const auto target_stag =
      server->register_octets(target.data(), target.size(), device::kLocalWrite);
  server->post_receive(server_qp, 70, target.data(), 8000, target_stag);
  client->post_send(client_qp,
                    {.wr_id = 71, .address = source.data(), .octets = 5000, .stag = source_stag});
  expect_success(*client, 71);
  const auto received = server->wait_completion();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->status, CompletionStatus::Success);
  EXPECT_EQ(received->wr_id, 70u);
  EXPECT_EQ(received->octets, 5000u);
  EXPECT_EQ(received->qp_cookie, 2u);
  EXPECT_TRUE(std::equal(source.begin(), source.end(), target.begin()));
}

TEST_P(RnicTest, SendWaitsForAReceiveInsteadOfEndingTheConnection) {
  connect_pair();
  std::vector<std::uint8_t> source = pattern(100), target(100);
  const auto source_stag = client->register_octets(source.data(), source.size(), 0);
  const auto target_stag = server->register_octets(target.data(), 100, device::kLocalWrite);
  for (std::uint64_t i = 0; i < 3; ++i) {
    client->post_send(client_qp,
                      {.wr_id = i, .address = source.data(), .octets = 100, .stag = source_stag});
  }
  for (std::uint64_t i = 0; i < 3; ++i) expect_success(*client, i);
  server->progress();
  for (std::uint64_t i = 0; i < 3; ++i) {
    server->post_receive(server_qp, 10 + i, target.data(), 100, target_stag);
    expect_success(*server, 10 + i);
  }
}

TEST_P(RnicTest, WriteAndReadMoveLargeBuffers) {
  connect_pair();
  constexpr std::size_t kOctets = 3'000'001;
  std::vector<std::uint8_t> source = pattern(kOctets), target(kOctets), back(kOctets);
  const auto source_stag = client->register_octets(source.data(), kOctets, 0);
  const auto target_stag = server->register_octets(target.data(), kOctets, kAllRights);
  const auto back_stag = client->register_octets(back.data(), kOctets, device::kLocalWrite);
  const auto to = reinterpret_cast<std::uintptr_t>(target.data());
  client->post_send(client_qp, {.opcode = device::SendOpcode::Write,
                                .wr_id = 1,
                                .address = source.data(),
                                .octets = kOctets,
                                .stag = source_stag,
                                .remote_stag = target_stag,
                                .remote_to = to});
  client->post_send(client_qp, {.opcode = device::SendOpcode::Read,
                                .wr_id = 2,
                                .address = back.data(),
                                .octets = kOctets,
                                .stag = back_stag,
                                .remote_stag = target_stag,
                                .remote_to = to});
  expect_success(*client, 1);
  expect_success(*client, 2);
  // The octets came by the server's thread; passing through its lock makes them ours to look at.
  ASSERT_TRUE(server->rnic.query_qp(server_qp.face.number).ok());
  EXPECT_EQ(source, target);
  EXPECT_EQ(source, back);
}

TEST_P(RnicTest, DisconnectFlushesReceivesAndTellsBothSides) {
  connect_pair();
  std::vector<std::uint8_t> target(100);
  const auto stag = server->register_octets(target.data(), 100, device::kLocalWrite);
  server->post_receive(server_qp, 5, target.data(), 100, stag);
  ASSERT_TRUE(client->rnic.disconnect(client_connection).ok());
  for (Side* side : {client.get(), server.get()}) {
    const auto event = side->wait_event();
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
    EXPECT_EQ(event->event.error, 0) << event->event.text;
  }
  const auto flushed = server->wait_completion();
  ASSERT_TRUE(flushed.has_value());
  EXPECT_EQ(flushed->status, CompletionStatus::Flushed);
  EXPECT_EQ(flushed->wr_id, 5u);
  // Posted after the end: flushed as well.
  server->post_receive(server_qp, 6, target.data(), 100, stag);
  const auto later = server->wait_completion();
  ASSERT_TRUE(later.has_value());
  EXPECT_EQ(later->status, CompletionStatus::Flushed);
}

TEST_P(RnicTest, RejectCarriesPrivateData) {
  client_qp = client->make_qp();
  begin(client_qp, {1, 2, 3});
  ASSERT_TRUE(server->rnic.reject(server_connection, std::array<std::uint8_t, 2>{8, 9}).ok());
  const auto event = client->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Rejected);
  EXPECT_EQ(event->private_data, (std::vector<std::uint8_t>{8, 9}));
}

TEST_P(RnicTest, EstablishedTellsThePeersDepthsOnBothSides) {
  client_qp = client->make_qp(1);
  server_qp = server->make_qp(2);
  const auto* to = reinterpret_cast<const sockaddr*>(&server_address);
  ASSERT_TRUE(client->rnic
                  .connect(nullptr, to,
                           {.qp = client_qp.face.number, .ird = 3, .ord = 2, .private_data = {}},
                           11)
                  .ok());
  const auto requested = server->wait_event();
  ASSERT_TRUE(requested.has_value());
  ASSERT_TRUE(server->rnic
                  .accept(requested->event.connection,
                          {.qp = server_qp.face.number, .ird = 2, .ord = 3, .private_data = {}}, 22)
                  .ok());
  const auto there = client->wait_event();
  const auto here = server->wait_event();
  ASSERT_TRUE(there.has_value() && here.has_value());
  ASSERT_EQ(there->event.kind, ConnectionEventKind::Established);
  ASSERT_EQ(here->event.kind, ConnectionEventKind::Established);
  EXPECT_TRUE(there->event.has_depths);
  EXPECT_EQ(there->event.peer_ird, 2);
  EXPECT_EQ(there->event.peer_ord, 3);
  // Where it comes with the first FPDU, long after the Request, as well.
  EXPECT_TRUE(here->event.has_depths);
  EXPECT_EQ(here->event.peer_ird, 3);
  EXPECT_EQ(here->event.peer_ord, 2);
}

TEST_P(RnicTest, NobodyListens) {
  ASSERT_TRUE(server->rnic.close_listener(listener_number).ok());
  client_qp = client->make_qp();
  const auto connection =
      client->rnic.connect(nullptr, reinterpret_cast<const sockaddr*>(&server_address),
                           {.qp = client_qp.face.number, .private_data = {}}, 11);
  if (!connection) {
    EXPECT_EQ(connection.error().code, ECONNREFUSED);
    return;
  }
  const auto event = client->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Failed);
  EXPECT_EQ(event->event.error, ECONNREFUSED);
}

TEST_P(RnicTest, AListenerThatIsAMomentLateIsFound) {
  // Not a port that the system hands out: while nobody listens there, it could become the source of
  // somebody's connection, or of the very one that looks for the listener.
  const auto first = static_cast<std::uint16_t>(20000 + getpid() % 9999);
  sockaddr_in late = testing::ipv4("127.0.0.1", first);
  const auto listen_late = [&] {
    return server->rnic.listen(reinterpret_cast<const sockaddr*>(&late), 16, false, 99);
  };
  auto listener = listen_late();
  for (int i = 0; i < 1000 && !listener; ++i) {
    late.sin_port = htons(static_cast<std::uint16_t>(ntohs(late.sin_port) + 1));
    listener = listen_late();
  }
  ASSERT_TRUE(listener.ok()) << listener.error().text;
  ASSERT_TRUE(server->rnic.close_listener(*listener).ok());

  client_qp = client->make_qp();
  ASSERT_TRUE(client->rnic
                  .connect(nullptr, reinterpret_cast<const sockaddr*>(&late),
                           {.qp = client_qp.face.number, .private_data = {}}, 11)
                  .ok());
  for (int i = 0; i < 5; ++i) {
    client->progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(listen_late().ok());
  const auto requested = server->wait_event();
  ASSERT_TRUE(requested.has_value());
  EXPECT_EQ(requested->event.kind, ConnectionEventKind::Requested);
}

TEST_P(RnicTest, DestroyedQPStillReportsDisconnected) {
  connect_pair();
  ASSERT_TRUE(client->rnic.destroy_qp(client_qp.face.number).ok());
  for (Side* side : {client.get(), server.get()}) {
    const auto event = side->wait_event();
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
  }
}

TEST_P(RnicTest, WriteToForeignSTagEndsTheConnectionWithAccessEvent) {
  connect_pair();
  std::vector<std::uint8_t> source(64), target(64);
  const auto source_stag = client->register_octets(source.data(), 64, 0);
  client->post_send(client_qp, {.opcode = device::SendOpcode::Write,
                                .wr_id = 1,
                                .address = source.data(),
                                .octets = 64,
                                .stag = source_stag,
                                .remote_stag = 0x12345678,
                                .remote_to = 0});
  for (Side* side : {client.get(), server.get()}) {
    const auto event = side->wait_event();
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
    EXPECT_NE(event->event.error, 0);
  }
  const auto status = server->rnic.query_qp(server_qp.face.number);
  ASSERT_TRUE(status.ok());
  EXPECT_TRUE(status->has_terminate_sent);
  EXPECT_EQ(status->terminate_sent, 0x1100);
  ASSERT_EQ(server->seen_async().size(), 1u);
  EXPECT_EQ(server->seen_async()[0].kind, device::AsyncEventKind::QPAccessError);
}

//= DDP-24 SEC-05
TEST_P(RnicTest, ARegionOfOneQPIsWrittenAndInvalidatedByItsPeerAlone) {
  connect_pair();
  QPHandle other_client = client->make_qp(3), other_server = server->make_qp(4);
  establish(other_client, other_server);
  std::vector<std::uint8_t> source = pattern(64), target(64);
  const auto source_stag = client->register_octets(source.data(), 64, 0);
  const auto target_stag =
      server->register_octets(target.data(), 64, device::kLocalWrite | device::kRemoteWrite,
                              server_qp.face.number);
  const Side::Send write{.opcode = device::SendOpcode::Write,
                         .wr_id = 1,
                         .address = source.data(),
                         .octets = 64,
                         .stag = source_stag,
                         .remote_stag = target_stag,
                         .remote_to = reinterpret_cast<std::uintptr_t>(target.data())};
  client->post_send(client_qp, write);
  expect_success(*client, 1);
  server->post_receive(server_qp, 2, nullptr, 0, 0);
  client->post_send(client_qp, {.opcode = device::SendOpcode::SendInvalidate,
                                .wr_id = 2,
                                .invalidate_stag = target_stag});
  expect_success(*client, 2);
  const auto received = server->wait_completion();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->status, CompletionStatus::Success);
  EXPECT_EQ(received->invalidated_stag, target_stag);
  EXPECT_EQ(target, source);

  // Valid again, and still not for the neighbour in the same PD.
  const auto tied = server->register_octets(
      target.data(), 64, device::kLocalWrite | device::kRemoteWrite, server_qp.face.number);
  Side::Send stray = write;
  stray.remote_stag = tied;
  client->post_send(other_client, stray);
  const auto event = server->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
  const auto status = server->rnic.query_qp(other_server.face.number);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->terminate_sent, 0x1102) << "STag not associated with the stream";
}

#ifndef __SANITIZE_THREAD__
// Not under ThreadSanitizer: its runtime does not survive a second jump out of a signal handler.
TEST_P(RnicTest, UnmappedTargetEndsTheConnectionNotTheProcess) {
  connect_pair();
  std::vector<std::uint8_t> source(8192);
  const auto source_stag = client->register_octets(source.data(), 8192, 0);
  void* gone = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  const auto stag = server->register_octets(gone, 8192, kAllRights);
  munmap(gone, 8192);
  client->post_send(client_qp, {.opcode = device::SendOpcode::Write,
                                .wr_id = 1,
                                .address = source.data(),
                                .octets = 8192,
                                .stag = source_stag,
                                .remote_stag = stag,
                                .remote_to = reinterpret_cast<std::uintptr_t>(gone)});
  const auto event = client->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
}

TEST_P(RnicTest, UnmappedSourceFailsTheWorkRequest) {
  connect_pair();
  for (const std::size_t octets : {std::size_t{4096}, std::size_t{256 * 1024}}) {
    SCOPED_TRACE(octets);
    void* gone = mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto stag = client->register_octets(gone, octets, 0);
    munmap(gone, octets);
    client->post_send(
        client_qp,
        {.wr_id = 1, .address = gone, .octets = static_cast<std::uint32_t>(octets), .stag = stag});
    const auto completion = client->wait_completion();
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->status,
              octets == 4096 ? CompletionStatus::LocalProtection : CompletionStatus::Flushed);
  }
}

#endif

TEST_P(RnicTest, FullCQIsReportedAndEndsOnlyItsUsers) {
  connect_pair(1024);
  std::vector<std::uint8_t> source(8);
  const auto stag = client->register_octets(source.data(), 8, 0);
  std::vector<std::uint8_t> target(8);
  const auto target_stag = server->register_octets(target.data(), 8, kAllRights);
  const std::uint32_t room = client->cq.completions.capacity();
  for (std::uint32_t i = 0; i <= room; ++i) {
    client->post_send(client_qp, {.opcode = device::SendOpcode::Write,
                                  .wr_id = i,
                                  .address = source.data(),
                                  .octets = 8,
                                  .stag = stag,
                                  .remote_stag = target_stag,
                                  .remote_to = reinterpret_cast<std::uintptr_t>(target.data())});
  }
  ASSERT_TRUE(client->wait_until([&] {
    client->progress();
    return !client->seen_async().empty();
  }));
  EXPECT_EQ(client->seen_async()[0].kind, device::AsyncEventKind::CQError);
  EXPECT_EQ(client->seen_async()[0].cookie, 7u);
  const auto event = server->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
}

TEST_P(RnicTest, ArmedCQFiresOnce) {
  connect_pair();
  std::vector<std::uint8_t> target(100), source(8);
  const auto stag = server->register_octets(target.data(), 100, device::kLocalWrite);
  const auto source_stag = client->register_octets(source.data(), 8, 0);
  for (std::uint64_t i = 0; i < 3; ++i) server->post_receive(server_qp, i, target.data(), 8, stag);
  ASSERT_TRUE(server->rnic.arm_cq(server->cq.number, false).ok());
  for (std::uint64_t i = 0; i < 3; ++i) {
    client->post_send(client_qp,
                      {.wr_id = i, .address = source.data(), .octets = 8, .stag = source_stag});
  }
  for (std::uint64_t i = 0; i < 3; ++i) expect_success(*server, i);
  EXPECT_EQ(server->count_cq_events(), 1);
  for (std::uint64_t i = 0; i < 3; ++i) expect_success(*client, i);  // `source` is ours again
}

TEST_P(RnicTest, ArmingWithUnreadCompletionsFiresAtOnce) {
  connect_pair();
  std::vector<std::uint8_t> source(8);
  const auto stag = client->register_octets(source.data(), 8, 0);
  std::vector<std::uint8_t> target(8);
  const auto target_stag = server->register_octets(target.data(), 8, kAllRights);
  for (std::uint64_t i = 0; i < 2; ++i) {
    client->post_send(client_qp, {.opcode = device::SendOpcode::Write,
                                  .wr_id = i,
                                  .address = source.data(),
                                  .octets = 8,
                                  .stag = stag,
                                  .remote_stag = target_stag,
                                  .remote_to = reinterpret_cast<std::uintptr_t>(target.data())});
  }
  expect_success(*client, 0);
  ASSERT_TRUE(client->wait_until([&] { return !client->cq.completions.empty(); }));
  ASSERT_TRUE(client->rnic.arm_cq(client->cq.number, true).ok());
  EXPECT_EQ(client->count_cq_events(), 0);  // unread, but not solicited
  ASSERT_TRUE(client->rnic.arm_cq(client->cq.number, false).ok());
  EXPECT_EQ(client->count_cq_events(), 1);
  expect_success(*client, 1);
  ASSERT_TRUE(client->rnic.arm_cq(client->cq.number, false).ok());
  EXPECT_EQ(client->count_cq_events(), 1);  // nothing is unread now
  // The Writes are placed by the server's thread: not any more when its region is gone.
  ASSERT_TRUE(server->rnic.deregister_region(target_stag).ok());
}

TEST_P(RnicTest, DeregisteringOneOfTwoRegionsOfTheSameMemoryEndsNoStream) {
  connect_pair();
  constexpr std::uint32_t kOctets = 32u << 20;  // more than the sockets take
  std::vector<std::uint8_t> source = pattern(kOctets), target(kOctets);
  const auto stag = client->register_octets(source.data(), kOctets, 0);
  const auto target_stag = server->register_octets(target.data(), kOctets, kAllRights);
  const auto all = client->rnic.register_region({.pd = client->pd,
                                                 .access = device::kLocalWrite,
                                                 .address = 1,
                                                 .octets = ~std::uint64_t{0} - 1,
                                                 .base_to = 1});
  ASSERT_TRUE(all.ok());
  client->post_send(client_qp, {.opcode = device::SendOpcode::Write,
                                .wr_id = 1,
                                .address = source.data(),
                                .octets = kOctets,
                                .stag = stag,
                                .remote_stag = target_stag,
                                .remote_to = reinterpret_cast<std::uintptr_t>(target.data())});
  ASSERT_TRUE(client->rnic.deregister_region(*all).ok());
  expect_success(*client, 1);
  // The Write is placed by the server's thread: not any more when its region is gone.
  ASSERT_TRUE(server->rnic.deregister_region(target_stag).ok());
}

TEST_P(RnicTest, ARingMayLieInTheHostsMemory) {
  alignas(64) static std::uint8_t memory[4096];
  Rnic& rnic = client->rnic;
  const device::RingShape shape = device::completion_ring(8);
  ASSERT_LT(shape.octets(), sizeof memory);
  std::fill(std::begin(memory), std::end(memory), std::uint8_t{0xa5});
  const auto cq = rnic.create_cq(8, 1, memory);
  ASSERT_TRUE(cq.ok());
  const auto* last = static_cast<std::uint8_t*>(cq->completions.entry(7)) + 64;
  EXPECT_EQ(last, memory + shape.octets());
  EXPECT_EQ(*last, 0xa5) << "nothing behind it is touched";
  EXPECT_TRUE(cq->completions.empty());
  ASSERT_TRUE(rnic.destroy_cq(cq->number).ok());
  std::fill(std::begin(memory), std::end(memory), std::uint8_t{0});  // it is ours again

  EXPECT_EQ(rnic.create_cq(8, 1, memory + 8).error().code, EINVAL) << "not aligned";
  EXPECT_EQ(rnic.resize_cq(client->cq.number, 8, memory + 8).error().code, EINVAL);
  EXPECT_EQ(rnic.create_srq(client->pd, 1, 1, 1, memory + 8).error().code, EINVAL);
  for (const bool send : {true, false}) {
    device::QPRequest request{
        .pd = client->pd, .send_cq = client->cq.number, .receive_cq = client->cq.number};
    (send ? request.send_place : request.receive_place) = memory + 8;
    EXPECT_EQ(rnic.create_qp(request).error().code, EINVAL);
  }
}

TEST_P(RnicTest, PeerThatIsNotMPA) {
  // A plain TCP client that speaks HTTP at our listener is dropped, and nobody hears of it.
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&server_address), sizeof(sockaddr_in)),
            0);
  const char request[] = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_EQ(write(fd, request, sizeof request - 1), ssize_t{sizeof request - 1});
  timeval patience = {5, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char answer[8];
  ssize_t n = -2;
  ASSERT_TRUE(server->wait_until([&] {
    server->progress();
    n = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
    return n >= 0 || errno != EAGAIN;
  }));
  EXPECT_LE(n, 0);
  close(fd);
  connect_pair();  // and the listener still works
}

INSTANTIATE_TEST_SUITE_P(Placements, RnicTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

class StartupLimitTest : public PairTest {
 protected:
  Settings make_settings() override {
    Settings settings = settings_for(GetParam());
    settings.startup_timeout = std::chrono::milliseconds(200);
    return settings;
  }
};

TEST_P(StartupLimitTest, SilentServerTimesOut) {
  start();
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any = testing::ipv4("127.0.0.1", 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
  ASSERT_EQ(::listen(fd, 4), 0);
  socklen_t length = sizeof any;
  getsockname(fd, reinterpret_cast<sockaddr*>(&any), &length);
  QPHandle qp = client->make_qp();
  ASSERT_TRUE(client->rnic
                  .connect(nullptr, reinterpret_cast<const sockaddr*>(&any),
                           {.qp = qp.face.number, .private_data = {}}, 1)
                  .ok());
  const auto event = client->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Failed);
  EXPECT_EQ(event->event.error, ETIMEDOUT);
  close(fd);
}

INSTANTIATE_TEST_SUITE_P(Placements, StartupLimitTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
