// Many operations of <weft/sockets.h> at once: not each one's end is told of by the queue pair, and
// the program hears of each.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/sockets.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>
#include <vector>

#include "front/sockets/testing/api_fixture.h"

namespace weft::sockets {
namespace {

using testing::ApiTest;
using testing::Command;
using testing::kPatienceMs;

class ManyTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    remote = server_memory();
  }
  void write(std::size_t octets = 8) {
    ASSERT_EQ(iwarp_post_write(fd, memory.data(), octets, &remote, 0, posted), 0);
    ++posted;
  }
  /// Takes completions until `open` operations are open.
  void take_until(std::uint64_t open, bool waits = true) {
    while (posted - taken > open) {
      std::array<iwarp_completion, 16> all;
      const int wanted = static_cast<int>(std::min<std::uint64_t>(16, posted - taken - open));
      const int count = waits ? iwarp_wait(fd, all.data(), wanted, kPatienceMs)
                              : iwarp_poll(fd, all.data(), wanted);
      ASSERT_GE(count, waits ? 1 : 0);
      for (int i = 0; i < count; ++i) {
        const auto& one = all[static_cast<unsigned>(i)];
        ASSERT_EQ(one.context, taken++);
        ASSERT_EQ(one.error, 0);
      }
    }
  }
  /// Leaves `count` writes open behind many, so few that none of their ends is told.
  void leave(std::uint64_t count, bool waits = true) {
    while (posted - taken < IWARP_OPERATIONS_DEFAULT) write();
    take_until(64, waits);
    for (std::uint64_t i = 0; i < count; ++i) write();
    take_until(count, waits);
  }

  iwarp_remote remote{};
  std::uint64_t posted = 0, taken = 0;
};

TEST_F(ManyTest, TheLastOnesEndWithoutFurtherPosts) {
  for (const bool waits : {true, false}) {
    for (std::uint64_t count = 1; count <= 15; ++count) {
      leave(count, waits);
      take_until(0, waits);
      // What comes next is told one by one for a while; beyond that it is as it was.
      for (std::uint32_t i = 0; i < 1100; ++i) {
        write();
        if (posted - taken == IWARP_OPERATIONS_DEFAULT) take_until(100, waits);
      }
      take_until(0, waits);
    }
  }
}

TEST_F(ManyTest, OneAloneEndsWithoutFurtherPosts) {
  for (int i = 0; i < 100; ++i) {
    write();
    take_until(0, i % 2 == 0);
  }
}

TEST_F(ManyTest, MemoryIsFreeWhenTheLastOneIsDoneThoughNobodyTookIt) {
  leave(5);
  EXPECT_EQ(server_sum(0, 8), 0u);  // what was sent behind them came back
  EXPECT_EQ(iwarp_deregister(fd, region), 0);
  take_until(0);
}

TEST_F(ManyTest, ADescriptorForCompletionsTellsOfThemToo) {
  // The last ones, and again those before them.
  leave(5);
  take_until(0);
  for (int i = 0; i < 1024; ++i) {
    write();
    if (posted - taken == IWARP_OPERATIONS_DEFAULT) take_until(100);
  }
  take_until(0);
  while (posted - taken < 41) write();
  const int events = iwarp_completion_fd(fd);
  ASSERT_GE(events, 0);
  for (int round = 0; round < 3; ++round) {
    while (taken < posted) {
      pollfd one{events, POLLIN, 0};
      ASSERT_EQ(::poll(&one, 1, kPatienceMs), 1);
      std::array<iwarp_completion, 16> all;
      const int count = iwarp_poll(fd, all.data(), 16);
      ASSERT_GE(count, 0);
      taken += static_cast<std::uint64_t>(count);
    }
    while (posted - taken < IWARP_OPERATIONS_DEFAULT - 1) write();
  }
  take_until(0);
  ::close(events);
}

TEST_F(ManyTest, ThreadsThatWaitHearOfAllBetweenThem) {
  for (int round = 0; round < 20; ++round) {
    leave(9);
    std::atomic<std::uint64_t> heard{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        iwarp_completion one;
        while (iwarp_wait(fd, &one, 1, kPatienceMs) == 1) ++heard;  // 0: nothing is open
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(heard, 9u);
    taken += 9;
    for (int i = 0; i < 1100; ++i) {
      write();
      if (posted - taken == IWARP_OPERATIONS_DEFAULT) take_until(100);
    }
    take_until(0);
  }
}

TEST_F(ManyTest, ACallThatWaitsForRoomFindsIt) {
  // Each read in pieces takes the room of sixteen.
  leave(5);
  std::vector<iovec> pieces;
  for (std::size_t i = 0; i < IWARP_IOV_MAX; ++i) pieces.push_back({&memory[i * 100], 10});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(iwarp_readv(fd, pieces.data(), IWARP_IOV_MAX, &remote, 0), 160);
  }
  take_until(0);
}

TEST_F(ManyTest, ANonBlockingCloseBehindThemDoesNotHang) {
  leave(5);
  ASSERT_EQ(::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
  EXPECT_EQ(::close(fd), 0);
  fd = -1;
}

TEST_F(ManyTest, AConnectionThatBreaksInTheMidstOfThemFailsThoseThatDidNotEnd) {
  constexpr int kWindow = 4000;
  ::close(fd);
  fd = server.connect(kWindow);
  ASSERT_GE(iwarp_register(fd, memory.data(), memory.size(), 0), 0);
  remote = server_memory();
  ASSERT_TRUE(command(Command::Stop));
  int status = 0;
  ASSERT_EQ(::waitpid(server.pid(), &status, WUNTRACED), server.pid());
  while (posted < kWindow) write(4000);
  // Some have left by now, and not all can.
  iwarp_completion one;
  std::uint64_t good = 0, bad = 0;
  const auto take = [&](int wait_ms) {
    while (iwarp_wait(fd, &one, 1, wait_ms) == 1) {
      EXPECT_EQ(one.context, good + bad);
      ++(one.error == 0 ? good : bad);
      if (bad != 0) {
        EXPECT_EQ(one.error, ECONNRESET);
      }
      EXPECT_EQ(one.octets, one.error == 0 ? 4000u : 0u);
    }
  };
  take(20);
  EXPECT_EQ(bad, 0u);
  EXPECT_LT(good, posted);
  ASSERT_EQ(::kill(server.pid(), SIGKILL), 0);
  take(kPatienceMs);
  EXPECT_EQ(good + bad, posted);
  EXPECT_GT(bad, 0u);
}

}  // namespace
}  // namespace weft::sockets
