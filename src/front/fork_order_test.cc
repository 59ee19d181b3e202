// The locks that a fork takes, and in which order.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/wait.h>
#include <unistd.h>

#include "front/testing/program.h"

namespace weft::front::testing {
namespace {

ibv_context* extra = nullptr;

// Whoever opens a device through librdmacm takes its lock of the devices first and then libibverbs'
// lock of the open contexts. A fork has to take them in that order, so libibverbs has to register
// its handlers first: those before a fork run from the last to the first. What is registered
// between the connection manager's beginning and the first device to be opened tells: here,
// libibverbs' lock would be taken already if its handler came after.
TEST(ForkOrder, LibibverbsRegistersBeforeTheConnectionManager) {
  ::alarm(60);  // a fork that waits for itself ends the test
  rdma_event_channel* channel = rdma_create_event_channel();
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(pthread_atfork([] { EXPECT_EQ(ibv_close_device(extra), 0); }, nullptr, nullptr), 0);

  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_storage peer = loopback_of(AF_INET, 7174);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&peer), 2000), 0);
  ASSERT_NE(id->verbs, nullptr);
  extra = ibv_open_device(id->verbs->device);
  ASSERT_NE(extra, nullptr);

  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
  rdma_destroy_event_channel(channel);
}

}  // namespace
}  // namespace weft::front::testing
