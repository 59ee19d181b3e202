// What a forked child may do with the ids and channels that came along: destroy them, and nothing
// that the parent would notice.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "front/librdmacm/testing/cm_test.h"

namespace weft::front::cm::testing {
namespace {

class ForkTest : public CMTest {
 protected:
  /// Runs `body` in a child; fails with the line it gives, 0 for none.
  template <typename Body>
  static void expect_in_child(Body body) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a child that hangs is a failure
      _exit(body());
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0) << "line in the child, modulo 256";
  }
  bool readable() const {
    pollfd fd = {channel->fd, POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
  }
};

// Ends the child's body with this line, unless the condition holds.
#define CHILD_EXPECT(condition) \
  if (!(condition)) return __LINE__ & 0xff

TEST_F(ForkTest, DestroyingInheritedIdsLeavesTheParentAlone) {
  rdma_cm_id* listener = listen();
  Pair pair = connected(listener);
  rdma_cm_id* asking = resolve(port(listener));
  create_qp(asking);
  rdma_conn_param param = parameters("kept");
  ASSERT_EQ(rdma_connect(asking, &param), 0);  // its request is queued, and not taken yet
  rnic().commands.clear();
  const int rejects = rnic().rejects;

  expect_in_child([&] {
    for (rdma_cm_id* id : {pair.active, pair.passive, asking}) rdma_destroy_qp(id);
    // The fake verbs tell the device of a destroyed QP, as the real ones do not after a fork. What
    // counts is the connection manager's part.
    const auto commands = rnic().commands.size();
    const auto connections = rnic().connections.size();
    CHILD_EXPECT(rdma_destroy_id(pair.active) == 0);
    CHILD_EXPECT(rdma_destroy_id(pair.passive) == 0);
    CHILD_EXPECT(rdma_destroy_id(asking) == 0);
    CHILD_EXPECT(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(channel);
    CHILD_EXPECT(rnic().commands.size() == commands);
    CHILD_EXPECT(rnic().connections.size() == connections);
    CHILD_EXPECT(rnic().listeners() == 1);
    CHILD_EXPECT(rnic().rejects == rejects);
    return 0;
  });

  EXPECT_TRUE(readable()) << "the child took nothing out of the shared descriptor";
  rdma_cm_event* event = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(data_of(event), "kept");
  rdma_cm_id* request = event->id;
  rdma_ack_cm_event(event);
  EXPECT_FALSE(readable()) << "nor put anything in";
  destroy(request);
  expect_and_ack(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
  destroy(asking);
  EXPECT_EQ(rdma_disconnect(pair.active), 0);
  expect_and_ack(RDMA_CM_EVENT_DISCONNECTED);
  expect_and_ack(RDMA_CM_EVENT_DISCONNECTED);
  destroy(pair.active);
  destroy(pair.passive);
  destroy(listener);
}

TEST_F(ForkTest, InheritedIdsAnswerEIO) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* bound = make_id();
  sockaddr_in any_port = loopback(0);
  ASSERT_EQ(rdma_bind_addr(bound, plain(any_port)), 0);
  rdma_cm_id* ready = resolve(port(listener));
  create_qp(ready);
  Pair pair = connected(listener);
  rdma_cm_id* asking = resolve(port(listener));
  create_qp(asking);
  ASSERT_EQ(rdma_connect(asking, nullptr), 0);
  rdma_cm_id* request = expect_and_ack(RDMA_CM_EVENT_CONNECT_REQUEST);
  create_qp(request);
  const auto commands = rnic().commands.size();

  expect_in_child([&] {
    const auto is_gone = [](int result) {
      const bool right = result == -1 && errno == EIO;
      errno = 0;
      return right;
    };
    rdma_cm_event* event = nullptr;
    rdma_cm_id* made = nullptr;
    CHILD_EXPECT(is_gone(rdma_get_cm_event(channel, &event)));
    CHILD_EXPECT(is_gone(rdma_create_id(channel, &made, nullptr, RDMA_PS_TCP)));
    CHILD_EXPECT(is_gone(rdma_listen(bound, 1)));
    CHILD_EXPECT(is_gone(rdma_connect(ready, nullptr)));
    CHILD_EXPECT(is_gone(rdma_accept(request, nullptr)));
    CHILD_EXPECT(is_gone(rdma_reject(request, nullptr, 0)));
    CHILD_EXPECT(is_gone(rdma_disconnect(pair.active)));
    CHILD_EXPECT(is_gone(rdma_migrate_id(ready, nullptr)));
    CHILD_EXPECT(rnic().commands.size() == commands);

    // The child's own world works beside what it inherited.
    rdma_event_channel* own = rdma_create_event_channel();
    CHILD_EXPECT(own != nullptr);
    CHILD_EXPECT(rdma_create_id(own, &made, nullptr, RDMA_PS_TCP) == 0);
    CHILD_EXPECT(is_gone(rdma_migrate_id(made, channel)));
    sockaddr_in any = loopback(0);
    CHILD_EXPECT(rdma_bind_addr(made, plain(any)) == 0);
    CHILD_EXPECT(rdma_listen(made, 1) == 0);
    CHILD_EXPECT(rdma_destroy_id(made) == 0);
    rdma_destroy_event_channel(own);
    return 0;
  });

  EXPECT_FALSE(readable());
  destroy(request);
  expect_and_ack(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
  for (rdma_cm_id* id : {asking, ready, bound, pair.active}) destroy(id);
  expect_and_ack(RDMA_CM_EVENT_DISCONNECTED);
  destroy(pair.passive);
  destroy(listener);
}

TEST_F(ForkTest, AnEventThatTheParentHoldsDoesNotStopTheChild) {
  rdma_cm_id* id = make_id();
  sockaddr_in target = loopback(9);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, plain(target), 1000), 0);
  rdma_cm_event* event = expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  expect_in_child([&] { return rdma_destroy_id(id) == 0 ? 0 : 1; });
  expect_in_child([&] {
    return rdma_ack_cm_event(event) == 0 && rdma_destroy_id(id) == 0 ? 0 : 1;
  });
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  destroy(id);
}

}  // namespace
}  // namespace weft::front::cm::testing
