// <weft/sockets.h> as a program has it, with another process at the other end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/sockets.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "front/sockets/testing/api_fixture.h"

namespace weft::sockets {
namespace {

using testing::ApiTest;
using testing::Command;
using testing::kOctets;
using testing::kPatienceMs;
using testing::kServerOctets;
using testing::receive_all;
using testing::send_all;

// Reads and writes.

TEST_F(ApiTest, WhatIsWrittenIsThereWhenTheNextOctetOfTheStreamIs) {
  const auto remote = server_memory();
  EXPECT_EQ(remote.octets, kServerOctets);
  EXPECT_EQ(remote.rights, std::uint32_t{IWARP_REMOTE_READ | IWARP_REMOTE_WRITE});
  for (const std::size_t octets : {1u, 7u, 4096u, 65536u, 1000000u}) {
    fill(octets, 3);
    EXPECT_EQ(iwarp_write(fd, memory.data(), octets, &remote, 11), static_cast<ssize_t>(octets));
    EXPECT_EQ(server_sum(11, octets), own_sum(0, octets)) << octets;
  }
}

TEST_F(ApiTest, WhatIsReadIsThereWhenTheCallReturns) {
  const auto remote = server_memory();
  for (const std::size_t octets : {1u, 7u, 4096u, 65536u, 1000000u}) {
    ASSERT_TRUE(command(Command::Fill, 5, octets, 9) && acknowledged());
    std::fill(memory.begin(), memory.end(), std::uint8_t{0});
    EXPECT_EQ(iwarp_read(fd, memory.data(), octets, &remote, 5), static_cast<ssize_t>(octets));
    EXPECT_EQ(own_sum(0, octets), 9 * octets) << octets;
    EXPECT_EQ(own_sum(octets, kOctets - octets), 0u);
  }
}

TEST_F(ApiTest, PiecesAreGatheredAndScattered) {
  const auto remote = server_memory();
  std::vector<iovec> pieces;
  std::size_t octets = 0;
  for (std::size_t i = 0; i < IWARP_IOV_MAX; ++i) {
    pieces.push_back({&memory[i * 1000], i});  // the first has nothing
    std::fill_n(&memory[i * 1000], i, static_cast<std::uint8_t>(i));
    octets += i;
  }
  const auto all = static_cast<ssize_t>(octets);
  EXPECT_EQ(iwarp_writev(fd, pieces.data(), IWARP_IOV_MAX, &remote, 100), all);
  EXPECT_EQ(server_sum(100, octets), own_sum(0, kOctets));
  std::fill(memory.begin(), memory.end(), std::uint8_t{0});
  EXPECT_EQ(iwarp_readv(fd, pieces.data(), IWARP_IOV_MAX, &remote, 100), all);
  for (std::size_t i = 0; i < IWARP_IOV_MAX; ++i) EXPECT_EQ(own_sum(i * 1000, 1000), i * i) << i;
}

TEST_F(ApiTest, NothingCanBeMovedToo) {
  const auto remote = server_memory();
  EXPECT_EQ(iwarp_write(fd, memory.data(), 0, &remote, kServerOctets), 0);
  EXPECT_EQ(iwarp_read(fd, memory.data(), 0, &remote, 0), 0);
  EXPECT_EQ(iwarp_post_writev(fd, nullptr, 0, &remote, 0, 4), 0);
  EXPECT_EQ(next().context, 4u);
}

TEST_F(ApiTest, ThePeerWritesToo) {
  const int open = iwarp_register(fd, memory.data(), 1000, IWARP_REMOTE_WRITE);
  iwarp_key key;
  ASSERT_EQ(iwarp_export(fd, open, &key), 0);
  ASSERT_TRUE(command(Command::Fill, 0, 500, 2) && acknowledged());
  ASSERT_TRUE(command(Command::WriteTo, 100, 500) && send_all(fd, &key, sizeof key));
  ASSERT_TRUE(acknowledged());
  EXPECT_EQ(own_sum(0, 1000), 1000u);
}

TEST_F(ApiTest, PostedTransfersEndInTheirOrderAndNoMoreAreOpenThanAllowed) {
  const auto remote = server_memory();
  std::uint64_t posted = 0, ended = 0;
  bool was_full = false;
  while (ended < 2000) {
    while (posted < 2000) {
      const bool reads = posted % 3 == 2;
      const int result = reads ? iwarp_post_read(fd, &memory[0], 4000, &remote, 0, posted)
                               : iwarp_post_write(fd, &memory[8192], 4000, &remote, 0, posted);
      if (result != 0) {
        ASSERT_EQ(errno, EAGAIN);
        was_full = true;
        break;
      }
      ++posted;
    }
    std::array<iwarp_completion, 16> completions;
    const int count = iwarp_wait(fd, completions.data(), 16, kPatienceMs);
    ASSERT_GT(count, 0);
    for (int i = 0; i < count; ++i) {
      const auto& one = completions[static_cast<unsigned>(i)];
      ASSERT_EQ(one.context, ended);
      ASSERT_EQ(one.error, 0);
      ASSERT_EQ(one.octets, 4000u);
      ASSERT_EQ(one.operation, std::uint32_t{ended % 3 == 2 ? IWARP_READ : IWARP_WRITE});
      ++ended;
    }
  }
  EXPECT_TRUE(was_full);
  iwarp_completion none;
  EXPECT_EQ(iwarp_poll(fd, &none, 1), 0);
  EXPECT_EQ(iwarp_wait(fd, &none, 1, -1), 0) << "nothing is open, so there is nothing to wait for";
}

TEST_F(ApiTest, HowManyAreOpenIsTheProgramsChoice) {
  int operations = 0;
  socklen_t octets = sizeof operations;
  EXPECT_EQ(::getsockopt(fd, SOL_IWARP, IWARP_OPERATIONS, &operations, &octets), 0);
  EXPECT_EQ(operations, IWARP_OPERATIONS_DEFAULT);
  for (const int wanted : {1, 20, IWARP_OPERATIONS_MAX}) {
    ::close(fd);
    fd = server.connect(wanted);
    ASSERT_GE(iwarp_register(fd, memory.data(), memory.size(), IWARP_LOCAL_WRITE), 0);
    EXPECT_EQ(::getsockopt(fd, SOL_IWARP, IWARP_OPERATIONS, &operations, &octets), 0);
    EXPECT_EQ(operations, wanted);
    const auto remote = server_memory();
    for (int i = 0; i < wanted; ++i) {
      ASSERT_EQ(iwarp_post_write(fd, memory.data(), 8, &remote, 0, 0), 0) << i;
    }
    EXPECT_FAILS(EAGAIN, iwarp_post_write(fd, memory.data(), 8, &remote, 0, 0));
    EXPECT_EQ(iwarp_write(fd, memory.data(), 8, &remote, 0), 8) << "who waits finds room";
    for (int i = 0; i < wanted; ++i) EXPECT_EQ(next().error, 0);
  }
  EXPECT_FAILS(EISCONN, ::setsockopt(fd, SOL_IWARP, IWARP_OPERATIONS, &operations, octets));
}

TEST_F(ApiTest, ThreadsShareASocket) {
  const auto remote = server_memory();
  std::vector<std::thread> threads;
  constexpr std::size_t kShare = kOctets / 4;
  std::array<bool, 4> good{};
  for (std::size_t i = 0; i < good.size(); ++i) {
    threads.emplace_back([&, i] {
      bool all = true;
      std::uint8_t* share = &memory[i * kShare];
      for (std::size_t round = 0; round < 50; ++round) {
        const std::size_t octets = 1 + round * 1000;
        std::memset(share, static_cast<int>(i + round), octets);
        all = all &&
              iwarp_write(fd, share, octets, &remote, i * kShare) == static_cast<ssize_t>(octets);
        std::memset(share, 0, octets);
        all = all &&
              iwarp_read(fd, share, octets, &remote, i * kShare) == static_cast<ssize_t>(octets);
        all = all && std::all_of(share, share + octets,
                                 [&](std::uint8_t octet) { return octet == i + round; });
      }
      good[i] = all;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, (std::array<bool, 4>{true, true, true, true}));
}

// The stream.

TEST_F(ApiTest, PostedSendsAndReceivesKeepTheOrderOfTheStream) {
  fill(300'000, 1);
  ASSERT_TRUE(command(Command::Swallow, 0, 300'010));
  ASSERT_EQ(iwarp_post_send(fd, &memory[0], 100'000, 1), 0);
  const iovec pieces[] = {{&memory[100'000], 150'000}, {&memory[250'000], 50'000}};
  ASSERT_EQ(iwarp_post_sendv(fd, pieces, 2, 2), 0);
  // Behind them, though it is copied: the ten last.
  ASSERT_TRUE(send_all(fd, "0123456789", 10));
  std::uint64_t answer = 0;
  ASSERT_EQ(iwarp_post_recv(fd, &answer, sizeof answer, MSG_WAITALL, 3), 0);
  for (const std::uint64_t expected : {1, 2, 3}) {
    const auto done = next();
    EXPECT_EQ(done.context, expected);
    EXPECT_EQ(done.error, 0);
  }
  EXPECT_EQ(answer, own_sum(0, 300'000) + 525);
}

TEST_F(ApiTest, APostedReceiveTakesItsOctetsBeforeACallDoes) {
  ASSERT_TRUE(command(Command::Echo, 0, 10));
  std::array<char, 4> first{};
  ASSERT_EQ(iwarp_post_recv(fd, first.data(), first.size(), MSG_WAITALL, 1), 0);
  ASSERT_TRUE(send_all(fd, "abcdefghij", 10));
  std::array<char, 6> rest{};
  ASSERT_TRUE(receive_all(fd, rest.data(), rest.size()));
  EXPECT_EQ(std::string_view(rest.data(), 6), "efghij");
  EXPECT_EQ(next().octets, 4u);
  EXPECT_EQ(std::string_view(first.data(), 4), "abcd");
}

TEST_F(ApiTest, ThePeersEndEndsPostedReceives) {
  std::array<char, 8> octets{};
  ASSERT_EQ(iwarp_post_recv(fd, octets.data(), octets.size(), 0, 1), 0);
  ASSERT_TRUE(command(Command::ShutDown));
  const auto done = next();
  EXPECT_EQ(done.error, 0);
  EXPECT_EQ(done.octets, 0u);
  EXPECT_EQ(done.operation, std::uint32_t{IWARP_RECEIVE});
}

TEST_F(ApiTest, AShutSocketSendsNoMore) {
  ASSERT_EQ(::shutdown(fd, SHUT_WR), 0);
  EXPECT_FAILS(EPIPE, iwarp_post_send(fd, memory.data(), 1, 0));
  char octet = 0;
  ASSERT_EQ(::recv(fd, &octet, 1, 0), 0);  // it is over
  EXPECT_FAILS(EPIPE, iwarp_post_send(fd, memory.data(), 1, 0));
}

// Waiting.

TEST_F(ApiTest, TheDescriptorOfCompletionsIsReadableWhileThereAreSome) {
  const auto remote = server_memory();
  const int events = iwarp_completion_fd(fd);
  ASSERT_GE(events, 0);
  EXPECT_NE(::fcntl(events, F_GETFD) & FD_CLOEXEC, 0);
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, events, &event), 0);
  EXPECT_EQ(::epoll_wait(epoll, &event, 1, 0), 0);
  for (std::uint64_t round = 0; round < 20; ++round) {
    ASSERT_EQ(iwarp_post_read(fd, memory.data(), 1000, &remote, 0, round), 0);
    ASSERT_EQ(iwarp_post_write(fd, memory.data(), 1000, &remote, 0, round), 0);
    for (int taken = 0; taken < 2;) {
      ASSERT_EQ(::epoll_wait(epoll, &event, 1, kPatienceMs), 1);
      iwarp_completion completion;
      const int count = iwarp_poll(fd, &completion, 1);
      ASSERT_GE(count, 0);
      taken += count;
      if (count == 0) continue;
      EXPECT_EQ(completion.context, round);
    }
    EXPECT_EQ(::epoll_wait(epoll, &event, 1, 0), 0) << "all were taken";
  }
  // Posted work goes on by itself: octets that the peer sends much later.
  ASSERT_EQ(iwarp_post_recv(fd, memory.data(), 100'000, MSG_WAITALL, 7), 0);
  ASSERT_TRUE(command(Command::Echo, 0, 100'000));
  ASSERT_EQ(iwarp_post_send(fd, &memory[200'000], 100'000, 8), 0);
  for (std::uint64_t seen = 0; seen != (1 << 7 | 1 << 8);) {
    ASSERT_EQ(::epoll_wait(epoll, &event, 1, kPatienceMs), 1);
    iwarp_completion completion;
    while (iwarp_poll(fd, &completion, 1) == 1) seen |= std::uint64_t{1} << completion.context;
  }
  ::close(fd);
  fd = -1;
  EXPECT_EQ(::epoll_wait(epoll, &event, 1, 0), 1) << "closed";
  ::close(epoll);
  ::close(events);
}

TEST_F(ApiTest, AWaitEndsInTime) {
  std::uint8_t octet = 0;
  ASSERT_EQ(iwarp_post_recv(fd, &octet, 1, 0, 0), 0);
  iwarp_completion completion;
  EXPECT_EQ(iwarp_poll(fd, &completion, 1), 0);
  EXPECT_EQ(iwarp_wait(fd, &completion, 1, 20), 0);
  EXPECT_FAILS(EINVAL, iwarp_poll(fd, &completion, 0));
  EXPECT_FAILS(EFAULT, iwarp_poll(fd, nullptr, 1));
}

}  // namespace
}  // namespace weft::sockets
