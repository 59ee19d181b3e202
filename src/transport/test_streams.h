// For the tests of transports: addresses, pairs of streams, and calls that wait.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace weft::transport::testing {

inline Address v4(const char* host, std::uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET, host, &address.sin_addr), 1);
  return Address(reinterpret_cast<const sockaddr*>(&address));
}

inline Address v6(const char* host, std::uint16_t port, std::uint32_t scope = 0) {
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_scope_id = scope;
  EXPECT_EQ(inet_pton(AF_INET6, host, &address.sin6_addr), 1);
  return Address(reinterpret_cast<const sockaddr*>(&address));
}

/// Repeats `done` until it is true; false after ten seconds.
template <typename Done>
bool eventually(Done done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    sched_yield();
  }
  return true;
}

using Bytes = std::vector<std::uint8_t>;

/// `octets` that differ from their neighbours and from those of other seeds.
inline Bytes pattern(std::size_t octets, std::uint8_t seed = 1) {
  Bytes bytes(octets);
  for (std::size_t i = 0; i < octets; ++i) {
    bytes[i] = static_cast<std::uint8_t>(seed * 31 + i * 7 + (i >> 8));
  }
  return bytes;
}

inline iovec piece(void* data, std::size_t octets) {
  return {data, octets};
}
inline iovec piece(Bytes& bytes) {
  return {bytes.data(), bytes.size()};
}

inline IOResult send_some(Stream& stream, Bytes bytes) {
  const iovec whole = piece(bytes);
  return stream.send({&whole, 1});
}

/// The first answer that is not WouldBlock.
inline IOResult receive_some(Stream& stream, Bytes& into) {
  const iovec whole = piece(into);
  IOResult result;
  eventually([&] {
    return (result = stream.receive({&whole, 1})).kind != IOResult::Kind::WouldBlock;
  });
  return result;
}

inline IOResult send_until_refused(Stream& stream) {
  IOResult result;
  eventually([&] { return (result = send_some(stream, Bytes(1))).kind == IOResult::Kind::Lost; });
  return result;
}

inline ::testing::AssertionResult send_all(Stream& stream, Bytes bytes) {
  std::size_t done = 0;
  IOResult result;
  const bool finished = eventually([&] {
    const iovec rest = piece(bytes.data() + done, bytes.size() - done);
    result = stream.send({&rest, 1});
    done += result.octets;
    return done == bytes.size() ||
           (result.kind != IOResult::Kind::Moved && result.kind != IOResult::Kind::WouldBlock);
  });
  if (finished && done == bytes.size()) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "sent " << done << " errno " << result.error;
}

/// `octets` octets, or fewer when the stream ends before.
inline Bytes receive_all(Stream& stream, std::size_t octets) {
  Bytes bytes(octets);
  std::size_t done = 0;
  eventually([&] {
    const iovec rest = piece(bytes.data() + done, octets - done);
    const IOResult result = stream.receive({&rest, 1});
    done += result.octets;
    return done == octets ||
           (result.kind != IOResult::Kind::Moved && result.kind != IOResult::Kind::WouldBlock);
  });
  bytes.resize(done);
  return bytes;
}

/// 0 when it connected, else the errno; of connect() or connected(), whichever knows.
inline int connect_errno(Transport& transport, const Address& local, const Address& remote) {
  auto stream = transport.connect(local, remote);
  if (!stream) {
    return stream.error().code;
  }
  int error = EINPROGRESS;
  eventually([&] {
    const auto result = (*stream)->connected();
    error = result.ok() ? 0 : result.error().code;
    return error != EINPROGRESS;
  });
  return error;
}

struct Pair {
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Stream> active, passive;
};

inline std::unique_ptr<Stream> accept_one(Listener& listener) {
  std::unique_ptr<Stream> stream;
  eventually([&] {
    auto accepted = listener.accept();
    if (accepted) {
      stream = std::move(*accepted);
    }
    return accepted.ok() || accepted.error().code != EAGAIN;
  });
  return stream;
}

inline Pair make_pair_at(Transport& transport, const Address& at) {
  Pair pair;
  auto listener = transport.listen(at, {});
  EXPECT_TRUE(listener.ok());
  pair.listener = std::move(*listener);
  Address target = pair.listener->local();
  auto active = transport.connect({}, target);
  EXPECT_TRUE(active.ok());
  pair.active = std::move(*active);
  EXPECT_TRUE(eventually([&] { return pair.active->connected().ok(); }));
  pair.passive = accept_one(*pair.listener);
  EXPECT_NE(pair.passive, nullptr);
  return pair;
}

}  // namespace weft::transport::testing
