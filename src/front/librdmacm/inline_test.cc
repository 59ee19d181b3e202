// The engine runs only inside the program's calls: waiting for an event makes the progress.
#include <fcntl.h>
#include <poll.h>

#include "front/librdmacm/testing/cm_test.h"

namespace weft::front::cm::testing {
namespace {

class Inline : public CMTest {
 protected:
  Inline() : CMTest(true) {}
};

TEST_F(Inline, BlockingWaitRunsTheDevice) {
  rdma_cm_id* listener = listen();
  Pair pair = connected(listener);
  ASSERT_EQ(rdma_disconnect(pair.active), 0);
  EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED), pair.active);
  EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_DISCONNECTED), pair.passive);
  destroy(pair.active);
  destroy(pair.passive);
  rdma_destroy_id(listener);
}

TEST_F(Inline, TheDescriptorSpeaksForTheDeviceToo) {
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  rdma_cm_id* listener = listen();
  rdma_cm_id* client = resolve(port(listener));
  create_qp(client);
  pollfd watched{channel->fd, POLLIN, 0};
  EXPECT_EQ(poll(&watched, 1, 0), 0);
  ASSERT_EQ(rdma_connect(client, nullptr), 0);
  EXPECT_EQ(poll(&watched, 1, 0), 1) << "the device has work";
  rdma_cm_id* server = expect_and_ack(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(poll(&watched, 1, 0), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  rdma_destroy_id(server);
  EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED), client);
  destroy(client);
  rdma_destroy_id(listener);
}

TEST_F(Inline, SynchronousCallsRunTheDevice) {
  rdma_cm_id* client = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &client, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in target = loopback(9);
  ASSERT_EQ(rdma_resolve_addr(client, nullptr, plain(target), 1), 0);
  ASSERT_EQ(rdma_resolve_route(client, 1), 0);
  create_qp(client);
  EXPECT_EQ(rdma_connect(client, nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  rdma_destroy_ep(client);
}

}  // namespace
}  // namespace weft::front::cm::testing
