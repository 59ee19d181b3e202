// Programs that post as long as they are let and poll when they feel like it.
#include <fcntl.h>

#include <atomic>

#include "front/testing/program.h"

namespace weft::front::testing {
namespace {

/// Each end's CQ is exactly as deep as its two work queues together.
class Full : public Program {
 protected:
  static constexpr std::uint32_t kDepth = 16;

  void SetUp() override {
    Program::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    EndOptions options;
    options.depth = kDepth;
    ASSERT_NO_FATAL_FAILURE(connect(options, options));
    for (const End* end : {&client, &server}) {
      ibv_qp_attr attr;
      ibv_qp_init_attr init;
      ASSERT_EQ(ibv_query_qp(end->qp(), &attr, IBV_QP_CAP, &init), 0);
      ASSERT_EQ(attr.cap.max_send_wr, kDepth);
      ASSERT_EQ(attr.cap.max_recv_wr, kDepth);
      ASSERT_EQ(end->cq->cqe, int{2 * kDepth});
    }
  }

  int write(std::uint32_t number, unsigned flags = IBV_SEND_SIGNALED) {
    return client.rdma(number, IBV_WR_RDMA_WRITE, {client.sge(0, 8)}, server.address(),
                       server.mr->rkey, flags);
  }
  /// More than fit in any queue here: who gets that far is not stopped at all.
  static constexpr std::uint32_t kTooMany = 8 * kDepth;

  /// Posts until there is no place. Returns how many went.
  std::uint32_t write_until_full(unsigned flags = IBV_SEND_SIGNALED) {
    std::uint32_t count = 0;
    int code = 0;
    while (count < kTooMany && (code = write(count, flags)) == 0) ++count;
    EXPECT_EQ(code, ENOMEM);
    return count;
  }
  std::uint32_t receive_until_full() {
    std::uint32_t count = 0;
    int code = 0;
    while (count < kTooMany && (code = server.receive(count, {server.sge(1024, 8)})) == 0) ++count;
    EXPECT_EQ(code, ENOMEM);
    return count;
  }
  /// Neither end was told of anything bad.
  void expect_no_events() {
    for (const End* end : {&client, &server}) {
      // By asking: with the engine in our own calls the descriptor tells of more than events.
      const int fd = end->id->verbs->async_fd;
      ASSERT_EQ(::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
      ibv_async_event event = {};
      EXPECT_EQ(ibv_get_async_event(end->id->verbs, &event), -1)
          << ibv_event_type_str(event.event_type);
      EXPECT_EQ(errno, EAGAIN);
    }
  }
  /// Lets the protocol run without taking a completion of the client's.
  void run_without_polling(int rounds = 2000) {
    ibv_wc wc;
    for (int i = 0; i < rounds; ++i) EXPECT_EQ(ibv_poll_cq(server.cq, 0, &wc), 0);
    for (int i = 0; i < rounds; ++i) EXPECT_EQ(ibv_poll_cq(server.cq, 1, &wc), 0);
  }
};

TEST_P(Full, SendsArePostedUntilThereIsNoPlaceAndTheCQHoldsTheirCompletions) {
  EXPECT_EQ(write_until_full(), kDepth);
  run_without_polling();
  EXPECT_EQ(write_until_full(), 0u) << "they completed, but nobody polled";
  client.complete(1);
  EXPECT_EQ(write_until_full(), 1u);
  for (const ibv_wc& wc : client.complete(kDepth)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(write_until_full(), kDepth);
  client.complete(kDepth);
  expect_no_events();
}

TEST_P(Full, UnsignalledRequestsBetweenThemTakeNoPlaceOnceDone) {
  // Every fourth tells. The places fill up with completions that wait.
  std::uint32_t posted = 0;
  EXPECT_TRUE(eventually([&] {
    run_without_polling(1);
    const unsigned flags = posted % 4 == 3 ? unsigned{IBV_SEND_SIGNALED} : 0u;
    const int code = write(posted, flags);
    EXPECT_TRUE(code == 0 || code == ENOMEM) << code;
    if (code == 0) ++posted;
    return posted == 4 * kDepth || HasFailure();
  })) << posted;
  run_without_polling();
  EXPECT_EQ(write_until_full(0), 0u);
  std::uint32_t expected = 3;
  for (const ibv_wc& wc : client.complete(kDepth)) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, expected);
    expected += 4;
  }
  EXPECT_EQ(write_until_full(), kDepth);
  client.complete(kDepth);
  expect_no_events();
}

TEST_P(Full, ReceivesArePostedUntilThereIsNoPlaceAndTheCQHoldsTheirCompletions) {
  EXPECT_EQ(receive_until_full(), kDepth);
  for (std::uint32_t i = 0; i < kDepth; ++i) {
    client.memory[0] = static_cast<std::uint8_t>(i + 1);
    ASSERT_EQ(client.send(i, {client.sge(0, 8)}), 0);
    client.complete(i, IBV_WC_SEND);
  }
  // Seen without polling the server's CQ: a Write behind the Sends.
  client.memory[0] = 0x77;
  ASSERT_EQ(
      client.rdma(99, IBV_WR_RDMA_WRITE, {client.sge(0, 1)}, server.address(5000), server.mr->rkey),
      0);
  client.complete(99, IBV_WC_RDMA_WRITE);
  const std::atomic_ref<std::uint8_t> flag(server.memory[5000]);
  EXPECT_TRUE(eventually([&] {
    ibv_wc wc;
    EXPECT_EQ(ibv_poll_cq(client.cq, 1, &wc), 0);
    return flag.load() == 0x77;
  }));
  EXPECT_EQ(receive_until_full(), 0u) << "they were used, but nobody polled";
  server.complete(1);
  EXPECT_EQ(receive_until_full(), 1u);
  server.complete(kDepth - 1);
  EXPECT_EQ(receive_until_full(), kDepth - 1);
  expect_no_events();
}

/// Each post is flushed as it comes, and its completion needs room like any other.
TEST_P(Full, PostingToAQPInErrorEndsAtTheSameMark) {
  ASSERT_EQ(client.move_to(IBV_QPS_ERR), 0);
  expect_on_both(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(write_until_full(0), kDepth);
  for (const ibv_wc& wc : client.complete(kDepth)) EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(write_until_full(), kDepth);
  client.complete(kDepth);
  EXPECT_EQ(receive_until_full(), kDepth);
  server.complete(kDepth);
  expect_no_events();
}

INSTANTIATE_TEST_SUITE_P(Families, Full, kFamilies, family_name);

}  // namespace
}  // namespace weft::front::testing
