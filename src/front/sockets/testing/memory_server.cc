// The serving process of the tests.
#include "front/sockets/testing/memory_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>
#include <vector>

extern char** environ;

namespace weft::sockets::testing {
namespace {

/// Where a server finds the pipe to tell its port by.
constexpr int kTellFd = 100;

void need(bool holds, const char* what) {
  if (holds) return;
  std::perror(what);
  std::_Exit(1);
}

int new_socket(int operations) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int mode = IWARP_MODE_REQUIRED;
  need(::setsockopt(fd, SOL_IWARP, IWARP_MODE, &mode, sizeof mode) == 0, "IWARP_MODE");
  if (operations != 0) {
    need(::setsockopt(fd, SOL_IWARP, IWARP_OPERATIONS, &operations, sizeof operations) == 0,
         "IWARP_OPERATIONS");
  }
  return fd;
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// One connection and its memory.
class Connection {
 public:
  explicit Connection(int fd)
      : fd_(fd), memory_(kServerOctets), readable_(4096, 'r'), scratch_(64 << 10) {
    region_ =
        iwarp_register(fd_, memory_.data(), memory_.size(), IWARP_REMOTE_READ | IWARP_REMOTE_WRITE);
    readable_region_ = iwarp_register(fd_, readable_.data(), readable_.size(), IWARP_REMOTE_READ);
    // A client may be gone before this end has looked at its connection.
    need(stands() || errno == ENOTCONN, "iwarp_register");
  }
  ~Connection() { ::close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void serve() {
    Command command;
    while (stands() && receive_all(fd_, &command, sizeof command) && answer(command)) {
    }
  }

 private:
  bool stands() const { return region_ >= 0 && readable_region_ >= 0; }
  bool answer(const Command& command) {
    switch (command.what) {
      case Command::GiveKey:
        return give_key(region_);
      case Command::GiveReadKey:
        return give_key(readable_region_);
      case Command::Fill:
        std::memset(&memory_[command.offset], static_cast<int>(command.value), command.octets);
        return acknowledge();
      case Command::Sum:
        return give_sum(std::accumulate(at(command.offset), at(command.offset + command.octets),
                                        std::uint64_t{0}));
      case Command::Revoke:
        need(iwarp_deregister(fd_, region_) == 0, "iwarp_deregister");
        return acknowledge();
      case Command::Echo: {
        std::vector<std::uint8_t> octets(command.octets);
        return receive_all(fd_, octets.data(), octets.size()) &&
               send_all(fd_, octets.data(), octets.size());
      }
      case Command::Swallow:
        return swallow(command.octets);
      case Command::WriteTo:
        return write_to(command);
      case Command::Stop:
        ::raise(SIGSTOP);
        return acknowledge();
      case Command::Kill:
        ::raise(SIGKILL);
        return false;
      case Command::ShutDown:
        return ::shutdown(fd_, SHUT_WR) == 0;
    }
    return false;
  }
  const std::uint8_t* at(std::uint64_t offset) const { return memory_.data() + offset; }
  bool acknowledge() { return send_all(fd_, "!", 1); }
  bool give_sum(std::uint64_t sum) { return send_all(fd_, &sum, sizeof sum); }
  bool give_key(int region) {
    iwarp_key key;
    need(iwarp_export(fd_, region, &key) == 0, "iwarp_export");
    return send_all(fd_, &key, sizeof key);
  }
  bool swallow(std::uint64_t octets) {
    std::uint64_t sum = 0;
    while (octets != 0) {
      const auto got = ::recv(fd_, scratch_.data(), std::min<std::uint64_t>(octets, 65536), 0);
      if (got <= 0) return false;
      sum = std::accumulate(scratch_.begin(), scratch_.begin() + got, sum);
      octets -= static_cast<std::uint64_t>(got);
    }
    return give_sum(sum);
  }
  bool write_to(const Command& command) {
    iwarp_key key;
    iwarp_remote remote;
    return receive_all(fd_, &key, sizeof key) && iwarp_import(&key, &remote) == 0 &&
           iwarp_write(fd_, memory_.data(), command.octets, &remote, command.offset) >= 0 &&
           acknowledge();
  }

  int fd_;
  int region_, readable_region_;
  std::vector<std::uint8_t> memory_, readable_, scratch_;
};

}  // namespace

bool send_all(int fd, const void* from, std::size_t octets) {
  const auto* at = static_cast<const std::uint8_t*>(from);
  while (octets != 0) {
    const auto sent = ::send(fd, at, octets, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    octets -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, void* to, std::size_t octets) {
  return ::recv(fd, to, octets, MSG_WAITALL) == static_cast<ssize_t>(octets);
}

/// Serves connections, one after the other, on 127.0.0.1, until it is killed; writes its port, an
/// int, to `tell` first.
[[noreturn]] static void serve(int tell) {
  const int listener = new_socket(0);
  const sockaddr_in any = loopback(0);
  need(::bind(listener, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0, "bind");
  need(::listen(listener, 8) == 0, "listen");
  sockaddr_in own{};
  socklen_t octets = sizeof own;
  need(::getsockname(listener, reinterpret_cast<sockaddr*>(&own), &octets) == 0, "getsockname");
  const int port = ntohs(own.sin_port);
  need(::write(tell, &port, sizeof port) == sizeof port, "write");
  for (;;) {
    const int fd = ::accept(listener, nullptr, nullptr);
    need(fd >= 0, "accept");
    Connection(fd).serve();
  }
}

int ServerProcess::try_to_connect() const {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int mode = IWARP_MODE_REQUIRED;
  const sockaddr_in address = loopback(port_);
  if (fd >= 0 && ::setsockopt(fd, SOL_IWARP, IWARP_MODE, &mode, sizeof mode) == 0 &&
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return fd;
  }
  const int code = errno;
  if (fd >= 0) ::close(fd);
  return errno = code, -1;
}

ServerProcess::ServerProcess() {
  int ends[2];
  need(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kTellFd);
  char program[] = "/proc/self/exe", serve[] = "--serve";
  char* words[] = {program, serve, nullptr};
  need(::posix_spawn(&pid_, program, &actions, nullptr, words, environ) == 0, "posix_spawn");
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  need(::read(ends[0], &port_, sizeof port_) == sizeof port_, "the server's port");
  ::close(ends[0]);
}

ServerProcess::~ServerProcess() {
  ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
}

int ServerProcess::connect(int operations) const {
  const int fd = new_socket(operations);
  const sockaddr_in address = loopback(port_);
  need(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "connect");
  return fd;
}

}  // namespace weft::sockets::testing

int main(int count, char** words) {
  if (count == 2 && std::string_view(words[1]) == "--serve") {
    weft::sockets::testing::serve(weft::sockets::testing::kTellFd);
  }
  ::testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
