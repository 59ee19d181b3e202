// <weft/sockets.h> as a program has it, with another process at the other end.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/sockets.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "front/sockets/testing/memory_server.h"

namespace weft::sockets {
namespace {

using testing::Command;
using testing::kServerOctets;
using testing::receive_all;
using testing::send_all;
using testing::ServerProcess;

constexpr int kPatienceMs = 60'000;
constexpr std::size_t kOctets = 1 << 20;

#define EXPECT_FAILS(code, call)                                     \
  do {                                                               \
    errno = 0;                                                       \
    EXPECT_EQ(call, -1);                                             \
    EXPECT_EQ(errno, code) << #call << ": " << std::strerror(errno); \
  } while (false)

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fd = server.connect();
    region = iwarp_register(fd, memory.data(), memory.size(), IWARP_LOCAL_WRITE);
    ASSERT_GE(region, 0) << std::strerror(errno);
  }
  void TearDown() override {
    if (fd >= 0) ::close(fd);
  }

  bool command(Command::What what, std::uint64_t offset = 0, std::uint64_t octets = 0,
               std::uint32_t value = 0) {
    const Command told{what, value, offset, octets};
    return send_all(fd, &told, sizeof told);
  }
  bool acknowledged() {
    char octet = 0;
    return receive_all(fd, &octet, 1) && octet == '!';
  }
  std::uint64_t sum() {
    std::uint64_t answer = 0;
    EXPECT_TRUE(receive_all(fd, &answer, sizeof answer));
    return answer;
  }
  /// Of octets in the server's memory, after all that was written before.
  std::uint64_t server_sum(std::uint64_t offset, std::uint64_t octets) {
    EXPECT_TRUE(command(Command::Sum, offset, octets));
    return sum();
  }
  iwarp_key server_key(Command::What what = Command::GiveKey) {
    iwarp_key key{};
    EXPECT_TRUE(command(what));
    EXPECT_TRUE(receive_all(fd, &key, sizeof key));
    return key;
  }
  iwarp_remote server_memory(Command::What what = Command::GiveKey) {
    iwarp_remote remote{};
    const iwarp_key key = server_key(what);
    EXPECT_EQ(iwarp_import(&key, &remote), 0) << std::strerror(errno);
    return remote;
  }
  iwarp_completion next() {
    iwarp_completion completion{};
    EXPECT_EQ(iwarp_wait(fd, &completion, 1, kPatienceMs), 1) << std::strerror(errno);
    return completion;
  }
  void fill(std::size_t octets, std::uint8_t first) {
    std::iota(memory.begin(), memory.begin() + static_cast<long>(octets), first);
  }
  std::uint64_t own_sum(std::size_t offset, std::size_t octets) const {
    const auto first = memory.begin() + static_cast<long>(offset);
    return std::accumulate(first, first + static_cast<long>(octets), std::uint64_t{0});
  }

  ServerProcess server;
  int fd = -1;
  int region = -1;
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(kOctets);
};

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

// Refusals.

TEST_F(ApiTest, DescriptorsThatAreNoneOfOursAreToldApart) {
  const int tcp = ::socket(AF_INET, SOCK_STREAM, 0), switched = ::socket(AF_INET, SOCK_STREAM, 0);
  const int mode = IWARP_MODE_ON;
  ASSERT_EQ(::setsockopt(switched, SOL_IWARP, IWARP_MODE, &mode, sizeof mode), 0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const struct {
    int fd, error;
  } rows[] = {
      {-1, EBADF}, {1 << 20, EBADF}, {ends[0], ENOTSOCK}, {tcp, EOPNOTSUPP}, {switched, ENOTCONN}};
  const iwarp_remote remote{0, 100, 0, IWARP_REMOTE_READ | IWARP_REMOTE_WRITE};
  iwarp_key key;
  iwarp_completion completion;
  for (const auto& row : rows) {
    EXPECT_FAILS(row.error, iwarp_register(row.fd, memory.data(), 1, 0));
    EXPECT_FAILS(row.error, iwarp_deregister(row.fd, 0));
    EXPECT_FAILS(row.error, iwarp_export(row.fd, 0, &key));
    EXPECT_FAILS(row.error, iwarp_write(row.fd, memory.data(), 1, &remote, 0));
    EXPECT_FAILS(row.error, iwarp_post_read(row.fd, memory.data(), 1, &remote, 0, 0));
    EXPECT_FAILS(row.error, iwarp_post_send(row.fd, memory.data(), 1, 0));
    EXPECT_FAILS(row.error, iwarp_post_recv(row.fd, memory.data(), 1, 0, 0));
    EXPECT_FAILS(row.error, iwarp_poll(row.fd, &completion, 1));
    EXPECT_FAILS(row.error, iwarp_wait(row.fd, &completion, 1, 0));
    EXPECT_FAILS(row.error, iwarp_completion_fd(row.fd));
  }
  for (const int one : {tcp, switched, ends[0], ends[1]}) ::close(one);
}

TEST_F(ApiTest, ArgumentsAreJudgedBeforeAnythingIsSent) {
  const auto remote = server_memory(), only_read = server_memory(Command::GiveReadKey);
  EXPECT_EQ(only_read.rights, std::uint32_t{IWARP_REMOTE_READ});
  std::array<std::uint8_t, 8> stranger{};
  EXPECT_FAILS(EFAULT, iwarp_write(fd, stranger.data(), 1, &remote, 0));
  EXPECT_FAILS(EFAULT, iwarp_write(fd, &memory[kOctets - 1], 2, &remote, 0));
  EXPECT_FAILS(EFAULT, iwarp_post_send(fd, stranger.data(), 1, 0));
  EXPECT_FAILS(EFAULT, iwarp_writev(fd, nullptr, 1, &remote, 0));
  EXPECT_FAILS(EACCES, iwarp_write(fd, memory.data(), 1, &only_read, 0));
  EXPECT_FAILS(ERANGE, iwarp_write(fd, memory.data(), 2, &remote, kServerOctets - 1));
  EXPECT_FAILS(ERANGE, iwarp_read(fd, memory.data(), 1, &remote, ~std::uint64_t{0}));
  EXPECT_FAILS(EINVAL, iwarp_write(fd, memory.data(), 1, nullptr, 0));
  EXPECT_FAILS(EINVAL, iwarp_post_recv(fd, stranger.data(), 1, MSG_PEEK, 0));
  const std::vector<iovec> many(IWARP_IOV_MAX + 1, {memory.data(), 1});
  EXPECT_FAILS(EMSGSIZE, iwarp_writev(fd, many.data(), IWARP_IOV_MAX + 1, &remote, 0));
  EXPECT_FAILS(EINVAL, iwarp_writev(fd, many.data(), -1, &remote, 0));
  const int source = iwarp_register(fd, stranger.data(), stranger.size(), 0);
  EXPECT_FAILS(EACCES, iwarp_read(fd, stranger.data(), 1, &remote, 0));
  EXPECT_EQ(iwarp_write(fd, stranger.data(), 8, &remote, 0), 8);
  iwarp_key key;
  EXPECT_FAILS(EACCES, iwarp_export(fd, source, &key));
  EXPECT_EQ(iwarp_read(fd, memory.data(), 1, &only_read, 0), 1) << "all is well still";
}

TEST_F(ApiTest, RegistrationsAreJudgedAndCounted) {
  EXPECT_FAILS(EINVAL, iwarp_register(fd, nullptr, 1, 0));
  EXPECT_FAILS(EINVAL, iwarp_register(fd, memory.data(), 0, 0));
  EXPECT_FAILS(EINVAL, iwarp_register(fd, memory.data(), 1, 8));
  EXPECT_FAILS(EINVAL, iwarp_deregister(fd, -1));
  EXPECT_FAILS(EINVAL, iwarp_deregister(fd, region + 1));
  std::vector<int> regions;
  while (regions.size() < IWARP_REGIONS_MAX - 1) {
    const int one = iwarp_register(fd, memory.data(), 100, 0);
    ASSERT_GE(one, 0) << regions.size();
    regions.push_back(one);
  }
  EXPECT_FAILS(ENOBUFS, iwarp_register(fd, memory.data(), 100, 0));
  EXPECT_EQ(iwarp_deregister(fd, regions[5]), 0);
  EXPECT_FAILS(EINVAL, iwarp_deregister(fd, regions[5]));
  EXPECT_GE(iwarp_register(fd, memory.data(), 100, 0), 0);
}

TEST_F(ApiTest, KeysAreJudged) {
  iwarp_key key = server_key();
  char text[IWARP_KEY_TEXT_OCTETS];
  iwarp_key_to_text(&key, text);
  iwarp_key again;
  EXPECT_EQ(iwarp_key_from_text(text, &again), 0);
  EXPECT_EQ(std::memcmp(&key, &again, sizeof key), 0);
  text[20] = static_cast<char>(text[20] == '0' ? '1' : '0');
  EXPECT_FAILS(EBADMSG, iwarp_key_from_text(text, &again));
  iwarp_remote remote;
  key.octets[9] ^= 1;
  EXPECT_FAILS(EBADMSG, iwarp_import(&key, &remote));
}

// Ends.

TEST_F(ApiTest, AKeyThatThePeerNeverGaveEndsTheConnection) {
  auto remote = server_memory();
  remote.key ^= 0x5a5a00;
  EXPECT_FAILS(EACCES, iwarp_read(fd, memory.data(), 8, &remote, 0));
  EXPECT_FAILS(ECONNRESET, iwarp_read(fd, memory.data(), 8, &remote, 0));
  char octet;
  EXPECT_LE(::recv(fd, &octet, 1, 0), 0);
}

TEST_F(ApiTest, AKeyOfAnotherConnectionIsWorthNothing) {
  ServerProcess second;
  const int other = second.connect();
  const int open = iwarp_register(other, memory.data(), 100, IWARP_REMOTE_WRITE);
  iwarp_key key;
  ASSERT_EQ(iwarp_export(other, open, &key), 0);
  // Told to the first server, which has no part in it.
  ASSERT_TRUE(command(Command::Fill, 0, 8, 7) && acknowledged());
  ASSERT_TRUE(command(Command::WriteTo, 0, 8) && send_all(fd, &key, sizeof key));
  // Its refusal comes from here.
  char octet = 0;
  while (::recv(fd, &octet, 1, 0) > 0) {
  }
  EXPECT_EQ(own_sum(0, 100), 0u);
  ::close(other);
}

TEST_F(ApiTest, MemoryThatThePeerGaveLargerThanItIsEndsTheConnection) {
  auto remote = server_memory();
  remote.octets += 4096;
  EXPECT_FAILS(EACCES, iwarp_read(fd, memory.data(), 4097, &remote, kServerOctets - 1));
}

TEST_F(ApiTest, AWriteToARevokedKeyEndsTheConnection) {
  const auto remote = server_memory();
  ASSERT_TRUE(command(Command::Revoke) && acknowledged());
  // The write itself may be done before the refusal is back: iWARP does not answer writes.
  while (iwarp_write(fd, memory.data(), 8, &remote, 0) == 8) {
    ::poll(nullptr, 0, 1);
  }
  EXPECT_TRUE(errno == ECONNRESET || errno == EACCES) << std::strerror(errno);
  iwarp_completion none;
  EXPECT_EQ(iwarp_wait(fd, &none, 1, -1), 0);
  EXPECT_EQ(iwarp_deregister(fd, region), 0);
}

TEST_F(ApiTest, APeerThatIsKilledFailsAllThatIsOpen) {
  const auto remote = server_memory();
  std::uint8_t never = 0;
  ASSERT_EQ(iwarp_post_recv(fd, &never, 1, 0, 1'000'000), 0);
  ASSERT_TRUE(command(Command::Kill));
  std::uint64_t posted = 0, ended = 0;
  bool received = false;
  const auto collect = [&](int wait_ms) {
    iwarp_completion completion;
    while (iwarp_wait(fd, &completion, 1, wait_ms) == 1) {
      if (completion.operation == IWARP_RECEIVE) {
        received = true;
        continue;
      }
      ASSERT_EQ(completion.context, ended++);
    }
  };
  int error = 0;
  while (error == 0 || error == EAGAIN) {
    error = 0;
    if (iwarp_post_write(fd, memory.data(), 100'000, &remote, 0, posted) == 0) {
      ++posted;
    } else {
      error = errno;
    }
    collect(0);
  }
  EXPECT_TRUE(error == ECONNRESET || error == ENOTCONN) << std::strerror(error);
  collect(kPatienceMs);
  EXPECT_EQ(ended, posted);
  EXPECT_TRUE(received);
  EXPECT_FAILS(error, iwarp_register(fd, memory.data(), 1, 0));
}

/// Stops the server, so that nothing posted ends before it goes on.
class StoppedServerTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    remote = server_memory();
    ASSERT_TRUE(command(Command::Stop));
    int status = 0;
    ASSERT_EQ(::waitpid(server.pid(), &status, WUNTRACED), server.pid());
  }
  iwarp_remote remote{};
};

TEST_F(StoppedServerTest, MemoryThatAnOperationUsesStaysRegistered) {
  ASSERT_EQ(iwarp_post_read(fd, memory.data(), kOctets, &remote, 0, 1), 0);
  EXPECT_FAILS(EBUSY, iwarp_deregister(fd, region));
  iwarp_completion completion;
  EXPECT_EQ(iwarp_wait(fd, &completion, 1, 20), 0);
  ASSERT_EQ(::kill(server.pid(), SIGCONT), 0);
  EXPECT_EQ(next().error, 0);
  EXPECT_EQ(iwarp_deregister(fd, region), 0);
  EXPECT_FAILS(EFAULT, iwarp_read(fd, memory.data(), 1, &remote, 0));
}

TEST_F(StoppedServerTest, ACloseWithOperationsInFlightGivesTheMemoryBack) {
  void* mapped =
      ::mmap(nullptr, kOctets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_GE(iwarp_register(fd, mapped, kOctets, IWARP_LOCAL_WRITE), 0);
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(iwarp_post_write(fd, mapped, kOctets, &remote, 0, i), 0);
  }
  ASSERT_EQ(iwarp_post_read(fd, mapped, kOctets, &remote, 0, 100), 0);
  const int flags = ::fcntl(fd, F_GETFL);
  ASSERT_EQ(::fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
  ASSERT_EQ(::close(fd), 0);
  ASSERT_EQ(::munmap(mapped, kOctets), 0);
  EXPECT_FAILS(EBADF, iwarp_deregister(fd, region));
  fd = -1;
  ASSERT_EQ(::kill(server.pid(), SIGCONT), 0);
}

TEST_F(StoppedServerTest, ACloseEndsACallThatWaits) {
  std::optional<int> error;
  std::thread reader([&] {
    while (iwarp_read(fd, memory.data(), kOctets, &remote, 0) < 0 && errno == EFAULT) {
    }
    error = errno;
  });
  // It waits as soon as it uses the region.
  while (iwarp_deregister(fd, region) == 0) {
    region = iwarp_register(fd, memory.data(), kOctets, IWARP_LOCAL_WRITE);
  }
  EXPECT_EQ(errno, EBUSY);
  ::close(fd);
  fd = -1;
  reader.join();
  EXPECT_EQ(error, EBADF);
}

TEST_F(ApiTest, AChildHasNoneOfIt) {
  const auto remote = server_memory();
  const pid_t child = ::fork();
  if (child == 0) {
    iwarp_completion completion;
    const bool refused = iwarp_write(fd, memory.data(), 1, &remote, 0) == -1 &&
                         errno == EOPNOTSUPP && iwarp_poll(fd, &completion, 1) == -1 &&
                         errno == EOPNOTSUPP;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  fill(1000, 5);
  EXPECT_EQ(iwarp_write(fd, memory.data(), 1000, &remote, 0), 1000) << "the parent goes on";
  EXPECT_EQ(server_sum(0, 1000), own_sum(0, 1000));
}

TEST_F(ApiTest, ACopyOfTheDescriptorIsTheSameSocket) {
  const auto remote = server_memory();
  const int copy = ::dup(fd);
  EXPECT_EQ(iwarp_post_write(copy, memory.data(), 10, &remote, 0, 3), 0);
  EXPECT_EQ(next().context, 3u);
  ASSERT_EQ(::close(fd), 0);
  EXPECT_FAILS(EBADF, iwarp_write(fd, memory.data(), 10, &remote, 0));
  fd = copy;
  EXPECT_EQ(iwarp_write(fd, memory.data(), 10, &remote, 0), 10);
}

}  // namespace
}  // namespace weft::sockets

int main(int count, char** words) {
  if (count == 2 && std::string_view(words[1]) == "--serve") weft::sockets::testing::serve(100);
  ::testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
