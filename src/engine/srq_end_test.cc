// QPs that share an SRQ end while it is in use.
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;

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

INSTANTIATE_TEST_SUITE_P(Placements, SRQEndTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
