// QPs that share an SRQ end while it is in use, and its owner is told when one takes no more of it.
#include <algorithm>
#include <cstring>

#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;
using testing::Side;

class SRQEndTest : public PairTest {
 protected:
  static constexpr std::uint64_t kCookie = 5;

  void SetUp() override {
    start();
    listen();
    srq = *server->rnic.create_srq(server->pd, 8, 1, 0);
  }
  /// Of a receive for nothing.
  void post_shared() {
    auto* entry = static_cast<device::ReceiveEntry*>(srq.receive.entry(posted));
    *entry = {.wr_id = posted, .sge_count = 0, .reserved = 0};
    srq.receive.publish(++posted);
    server->rnic.ring_shared_receive(srq.number);
  }

  std::ptrdiff_t count_last_receives() {
    const auto seen = server->seen_async();
    return std::count_if(seen.begin(), seen.end(), [](const device::AsyncEvent& event) {
      return event.kind == device::AsyncEventKind::LastReceive && event.cookie == kCookie;
    });
  }
  void fail(const QPHandle& qp) {
    ASSERT_TRUE(server->rnic.command_qp(qp.face.number, device::QPCommand::Fail).ok());
  }

  device::SRQFace srq;
  std::uint32_t posted = 0;
};

TEST_P(SRQEndTest, APostFindsAQPThatWaitedAndIsJustGone) {
  QPHandle client_qp = client->make_qp(1), server_qp = server->make_qp(kCookie, srq.number);
  ASSERT_NO_FATAL_FAILURE(establish(client_qp, server_qp));
  client->post_send(client_qp, {.wr_id = 1});
  ASSERT_TRUE(client->wait_completion().has_value());
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (std::chrono::steady_clock::now() < end) server->progress();  // it is held back

  // As from another thread in the middle of the call: the connection is over, and not removed yet.
  bool told = false;
  server->on_connection_event = [&] {
    told = true;
    post_shared();
  };
  ASSERT_TRUE(server->rnic.destroy_qp(server_qp.face.number).ok());
  server->on_connection_event = nullptr;
  EXPECT_TRUE(told);

  // The SRQ serves who comes next: the receive is there still.
  QPHandle other_client = client->make_qp(1), other_server = server->make_qp(kCookie, srq.number);
  ASSERT_EQ(server->wait_event()->event.kind, ConnectionEventKind::Disconnected);
  ASSERT_EQ(client->wait_event()->event.kind, ConnectionEventKind::Disconnected);
  ASSERT_NO_FATAL_FAILURE(establish(other_client, other_server));
  client->post_send(other_client, {.wr_id = 2});
  const auto received = server->wait_completion();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->status, device::CompletionStatus::Success);
  EXPECT_EQ(received->wr_id, 0u);
}

TEST_P(SRQEndTest, TheLastReceiveIsToldOfOnceOfAStreamThatEnds) {
  QPHandle client_qp = client->make_qp(1), server_qp = server->make_qp(kCookie, srq.number);
  ASSERT_NO_FATAL_FAILURE(establish(client_qp, server_qp));
  fail(server_qp);
  ASSERT_EQ(server->wait_event()->event.kind, ConnectionEventKind::Disconnected);
  fail(server_qp);
  EXPECT_EQ(count_last_receives(), 1);
}

TEST_P(SRQEndTest, TheLastReceiveIsToldOfWithoutAStreamToo) {
  QPHandle qp = server->make_qp(kCookie, srq.number);
  fail(qp);
  EXPECT_EQ(count_last_receives(), 1);
  fail(qp);
  EXPECT_EQ(count_last_receives(), 1);
  ASSERT_TRUE(server->rnic.command_qp(qp.face.number, device::QPCommand::Reset).ok());
  fail(qp);
  EXPECT_EQ(count_last_receives(), 2) << "it had begun anew";
}

TEST_P(SRQEndTest, TheLastReceiveIsToldOfWhenTheCQRunsOver) {
  const device::CQFace cq = *server->rnic.create_cq(2, 3);
  const auto make = [&](std::uint64_t cookie, device::SRQNumber shared) {
    return QPHandle{*server->rnic.create_qp({.pd = server->pd,
                                             .send_cq = cq.number,
                                             .receive_cq = cq.number,
                                             .srq = shared,
                                             .receive_depth = 8,
                                             .cookie = cookie})};
  };
  make(kCookie, srq.number);
  QPHandle other = make(kCookie + 1, 0);
  for (std::uint32_t i = 0; i <= cq.completions.capacity(); ++i) {
    server->post_receive(other, i, nullptr, 0, 0);
  }
  fail(other);  // more is flushed than the CQ holds
  EXPECT_EQ(count_last_receives(), 1);
}

// As an InfiniBand QP it does not notice that its peer left: the program ends it.
TEST_P(SRQEndTest, TheLastReceiveIsToldOfWhenThePeerOfAPairHasLeft) {
  QPHandle a = client->make_qp(1), b = server->make_qp(kCookie, srq.number);
  const std::uint32_t a_name = *client->rnic.name_qp(a.face.number);
  const std::uint32_t b_name = *server->rnic.name_qp(b.face.number);
  sockaddr_storage host = {};
  const sockaddr_in in = testing::ipv4("127.0.0.1", 0);
  std::memcpy(&host, &in, sizeof in);
  const auto pair = [&](Side& side, const QPHandle& qp, std::uint32_t peer) {
    ASSERT_TRUE(side.rnic
                    .pair_qp({.qp = qp.face.number,
                              .peer = peer,
                              .local = host,
                              .remote = host,
                              .ird = 4,
                              .ord = 4})
                    .ok());
  };
  const auto reaches = [&](device::QPState state) {
    return server->wait_until([&] {
      server->progress();
      return server->rnic.query_qp(b.face.number)->state == state;
    });
  };
  pair(*client, a, b_name);
  pair(*server, b, a_name);
  ASSERT_TRUE(reaches(device::QPState::RTS));
  ASSERT_TRUE(client->rnic.destroy_qp(a.face.number).ok());
  ASSERT_TRUE(reaches(device::QPState::Error));
  EXPECT_EQ(count_last_receives(), 0);
  ASSERT_FALSE(server->rnic.command_qp(b.face.number, device::QPCommand::Close).ok());
  EXPECT_EQ(count_last_receives(), 0);
  fail(b);
  EXPECT_EQ(count_last_receives(), 1);
}

INSTANTIATE_TEST_SUITE_P(Placements, SRQEndTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
