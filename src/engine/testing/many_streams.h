// Test-only: more streams between two sides than polls ask directly.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "engine/testing/side.h"

namespace weft::engine::testing {

/// As a program looks that waits at memory for a peer's Write.
[[gnu::noinline, gnu::no_sanitize("thread")]] inline std::uint64_t look_at(
    const std::uint64_t* word) {
  return *word;
}

class ManyStreamsTest : public PairTest {
 protected:
  /// So many streams, and `octets` of memory for each end's messages, which all of them share.
  ManyStreamsTest(std::size_t count, std::uint32_t octets)
      : streams(count), source(octets, 7), target(octets) {}
  void SetUp() override {
    start();
    listen();
    for (std::size_t i = 0; i < streams; ++i) {
      here.push_back(client->make_qp());
      there.push_back(server->make_qp());
      establish(here[i], there[i]);
      ASSERT_FALSE(HasFatalFailure());
      ends.push_back(client_connection);
    }
    stag = client->register_octets(source.data(), source.size(), device::kLocalWrite);
    server_stag = server->register_octets(target.data(), target.size(), kAll);
    words = server->register_octets(written.data(), written.size() * sizeof written[0], kAll);
  }
  /// The threads end before the memory that they write to.
  void TearDown() override {
    client.reset();
    server.reset();
  }
  /// No timeout makes up for what nobody was told of.
  Settings make_settings() override {
    Settings settings = PairTest::make_settings();
    settings.close_timeout = std::chrono::hours(1);
    return settings;
  }

  void send(std::size_t stream, std::uint32_t octets) {
    client->post_send(here[stream],
                      {.wr_id = stream, .address = source.data(), .octets = octets, .stag = stag});
  }
  void receive(std::size_t stream, std::uint32_t octets) {
    server->post_receive(there[stream], stream, target.data(), octets, server_stag);
  }
  static void expect_from(Side& side, std::size_t stream) {
    const auto done = side.wait_completion();
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->wr_id, stream);
    EXPECT_EQ(done->status, device::CompletionStatus::Success);
  }
  /// A word for each stream of the server's, of which its program is not told.
  void write_words(std::uint64_t value) {
    *reinterpret_cast<std::uint64_t*>(source.data()) = value;
    for (std::size_t i = 0; i < streams; ++i) {
      client->post_send(here[i], {.opcode = device::SendOpcode::Write,
                                  .address = source.data(),
                                  .octets = 8,
                                  .stag = stag,
                                  .remote_stag = words,
                                  .remote_to = reinterpret_cast<std::uintptr_t>(&written[i])});
    }
    for (std::size_t i = 0; i < streams; ++i) ASSERT_TRUE(client->wait_completion().has_value());
  }
  bool is_written(std::uint64_t value) const {
    return std::all_of(written.begin(), written.end(),
                       [&](const std::uint64_t& word) { return look_at(&word) == value; });
  }

  static constexpr std::uint32_t kAll =
      device::kLocalWrite | device::kRemoteWrite | device::kRemoteRead;
  const std::size_t streams;
  std::vector<QPHandle> here, there;
  std::vector<device::ConnectionNumber> ends;  ///< the client's
  std::vector<std::uint8_t> source, target;
  std::vector<std::uint64_t> written = std::vector<std::uint64_t>(streams);
  std::uint32_t stag = 0, server_stag = 0, words = 0;
};

}  // namespace weft::engine::testing
