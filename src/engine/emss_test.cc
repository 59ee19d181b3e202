// FPDUs follow the transport's effective MSS when it changes.
#include <atomic>
#include <chrono>
#include <thread>

#include "engine/testing/side.h"
#include "engine/testing/stream.h"

namespace weft::engine {
namespace {

std::atomic<std::size_t> pretended_emss{0};
std::atomic<std::size_t> questions{0};

/// Kernel TCP whose MSS is ours to say.
class Stream final : public testing::PassingStream {
 public:
  using PassingStream::PassingStream;
  std::size_t emss() override {
    ++questions;
    return pretended_emss;
  }
};

class EmssTest : public testing::PairTest {};

TEST_P(EmssTest, IsAskedAgainButNotEachTime) {
  pretended_emss = 1460;
  questions = 0;
  testing::WrappingTransport transport(
      [](auto inner) { return std::make_unique<Stream>(std::move(inner)); });
  start();
  client = std::make_unique<testing::Side>(settings_for(GetParam()), &transport);
  server->peer_progress = [this] { client->progress(); };
  client->peer_progress = [this] { server->progress(); };
  listen();
  testing::QPHandle client_qp = client->make_qp(1), server_qp = server->make_qp(2);
  establish(client_qp, server_qp);
  EXPECT_EQ(questions, 1u);
  std::vector<std::uint8_t> octets(8);
  const auto stag = client->register_octets(octets.data(), octets.size(), 0);
  const auto post = [&](std::uint64_t id) {
    client->post_send(client_qp,
                      {.wr_id = id, .address = octets.data(), .octets = 8, .stag = stag});
    ASSERT_TRUE(client->wait_completion().has_value());
  };
  // Soon for the first time, since it grows with the peer's window, and then more and more rarely.
  // With what each message counts for, so many are more than 1 MiB.
  const auto began = std::chrono::steady_clock::now();
  std::size_t pause_ms = 2;
  for (std::size_t asked = 2; asked < 5; ++asked, pause_ms *= 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    for (std::uint64_t i = 0; i < 300; ++i) ASSERT_NO_FATAL_FAILURE(post(i));
    EXPECT_GE(questions, asked);
  }
  const std::chrono::milliseconds took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - began);
  EXPECT_LE(questions, 8u + static_cast<std::size_t>(took.count()) / 128);
  // Nor for each message of a connection that has one once in a while.
  const std::size_t before = questions;
  for (std::uint64_t i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    ASSERT_NO_FATAL_FAILURE(post(i));
  }
  EXPECT_LE(questions, before + 1);
  client.reset();  // before its transport
}

INSTANTIATE_TEST_SUITE_P(Placements, EmssTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
