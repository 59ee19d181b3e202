// Test-only: a TCP peer that follows a script instead of the protocol.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "wire/startup_frame.h"

namespace weft::engine::testing {

class RawPeer {
 public:
  RawPeer() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit RawPeer(int fd) : fd_(fd) {}
  RawPeer(RawPeer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawPeer& operator=(RawPeer&&) = delete;
  ~RawPeer() { close(); }

  bool connect(const sockaddr_storage& address) {
    return ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in)) == 0;
  }
  /// Listens on a port of 127.0.0.1 that is picked.
  sockaddr_storage listen() {
    sockaddr_storage address = {};
    auto& in = reinterpret_cast<sockaddr_in&>(address);
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof in;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    return address;
  }
  RawPeer accept() { return RawPeer(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC)); }

  bool send(const wire::StartupFrame& frame) {
    std::array<std::uint8_t, wire::kStartupFrameOctetsMax> octets;
    const std::size_t n = frame.encode(octets);
    return ::send(fd_, octets.data(), n, MSG_NOSIGNAL) == static_cast<ssize_t>(n);
  }
  /// What is there now: -1 with EAGAIN in errno when nothing is.
  ssize_t receive(void* out, std::size_t octets) { return ::recv(fd_, out, octets, MSG_DONTWAIT); }
  void finish_sending() { ::shutdown(fd_, SHUT_WR); }
  void reset() {
    const linger at_once = {1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

inline wire::StartupFrame plain_request() {
  return {.kind = wire::StartupKind::Request, .crc = true, .private_data = {}};
}

}  // namespace weft::engine::testing
