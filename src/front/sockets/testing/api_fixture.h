// A program of <weft/sockets.h> with another process at the other end.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <weft/sockets.h>

#include <cerrno>
#include <cstring>
#include <numeric>
#include <vector>

#include "front/sockets/testing/memory_server.h"

namespace weft::sockets::testing {

inline constexpr int kPatienceMs = 60'000;
inline constexpr std::size_t kOctets = 1 << 20;

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

}  // namespace weft::sockets::testing
