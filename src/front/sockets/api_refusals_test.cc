// What <weft/sockets.h> refuses, and how a connection of it ends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/sockets.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
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
using testing::send_all;
using testing::ServerProcess;

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
