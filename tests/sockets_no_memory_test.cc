// Without memory a call says ENOMEM, and afterwards all is as before.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/sockets.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "engine/testing/failing_allocator.h"
#include "front/sockets/testing/memory_server.h"

namespace weft::sockets {
namespace {

using engine::testing::FailAllocation;
using testing::Command;
using testing::receive_all;
using testing::send_all;
using testing::ServerProcess;

/// Fails each allocation of the call in turn, until all of them are past. What it is to answer then
/// is 0 or more.
template <typename Call, typename Undo>
void expect_enomem_at_each(const char* name, Call call, Undo undo) {
  SCOPED_TRACE(name);
  for (int nth = 0;; ++nth) {
    ASSERT_LT(nth, 300);
    long result = 0;
    bool struck = false;
    int code = 0;
    {
      FailAllocation fail(nth, 0);
      errno = 0;
      result = call();
      code = errno;
      struck = fail.struck();
    }
    // Some shortages are survived.
    EXPECT_TRUE(result >= 0 || (struck && code == ENOMEM))
        << "allocation " << nth << ": " << std::strerror(code);
    if (result >= 0) undo(static_cast<int>(result));
    if (!struck) return;
  }
}
const auto nothing = [](int) {};
const auto close_it = [](int fd) { ::close(fd); };

TEST(NoMemoryTest, ConnectingSaysSo) {
  ServerProcess server;
  ::close(server.connect());
  expect_enomem_at_each(
      "connect", [&] { return server.try_to_connect(); }, close_it);
  const int fd = server.connect();
  const Command sum{Command::Sum, 0, 0, 10};
  std::uint64_t answer = 1;
  EXPECT_TRUE(send_all(fd, &sum, sizeof sum) && receive_all(fd, &answer, sizeof answer));
  EXPECT_EQ(answer, 0u);
  ::close(fd);
}

TEST(NoMemoryTest, CallsOnAConnectionSaySo) {
  ServerProcess server;
  const int fd = server.connect(1);
  std::vector<char> memory(4096);
  const auto echo = [&] {
    const Command told{Command::Echo, 0, 0, 8};
    std::array<char, 8> octets{};
    EXPECT_TRUE(send_all(fd, &told, sizeof told) && send_all(fd, octets.data(), octets.size()) &&
                receive_all(fd, octets.data(), octets.size()));
  };
  echo();
  expect_enomem_at_each(
      "dup", [&] { return ::dup(fd); }, close_it);
  pollfd one{fd, POLLIN, 0};
  expect_enomem_at_each(
      "poll", [&] { return ::poll(&one, 1, 1); }, nothing);
  const auto by_select = [&] {
    fd_set in;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    timeval moment{0, 1000};
    return ::select(fd + 1, &in, nullptr, nullptr, &moment);
  };
  expect_enomem_at_each("select", by_select, nothing);
  const int idle = 60;
  expect_enomem_at_each(
      "setsockopt", [&] { return ::setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &idle, 4); }, nothing);
  expect_enomem_at_each(
      "send and receive", [&] { return echo(), 0; }, nothing);
  expect_enomem_at_each(
      "iwarp_register",
      [&] { return iwarp_register(fd, memory.data(), memory.size(), IWARP_LOCAL_WRITE); },
      [&](int region) { EXPECT_EQ(iwarp_deregister(fd, region), 0); });
  ASSERT_GE(iwarp_register(fd, memory.data(), memory.size(), IWARP_LOCAL_WRITE), 0);
  const auto send = [&](auto post) {
    const Command told{Command::Swallow, 0, 0, 8};
    EXPECT_TRUE(send_all(fd, &told, sizeof told));
    while (post() != 0) EXPECT_EQ(errno, ENOMEM);
    iwarp_completion done{};
    EXPECT_EQ(iwarp_wait(fd, &done, 1, 60'000), 1);
    EXPECT_EQ(done.error, 0);
    std::uint64_t answer = 1;
    EXPECT_TRUE(receive_all(fd, &answer, sizeof answer));
    EXPECT_EQ(answer, 0u);
  };
  // A queue allocates now and then. With one operation at a time, one that failed and still counted
  // would leave no room for the next.
  for (int i = 0; i < 20; ++i) {
    bool first = true;
    send([&] {
      FailAllocation fail(0, first ? 0 : 1 << 30);
      first = false;
      return iwarp_post_send(fd, memory.data(), 8, 1);
    });
  }
  expect_enomem_at_each(
      "iwarp_post_recv", [&] { return iwarp_post_recv(fd, memory.data(), 0, 0, 1); },
      [&](int) {
        iwarp_completion done{};
        EXPECT_EQ(iwarp_wait(fd, &done, 1, 60'000), 1);
      });
  ::close(fd);
}

}  // namespace
}  // namespace weft::sockets
