// FPDUs follow the transport's effective MSS when it changes.
#include <atomic>

#include "engine/testing/side.h"

namespace weft::engine {
namespace {

std::atomic<std::size_t> pretended_emss{0};
std::atomic<std::size_t> questions{0};

/// Kernel TCP whose MSS is ours to say.
class Stream final : public transport::Stream {
 public:
  explicit Stream(std::unique_ptr<transport::Stream> inner) : inner_(std::move(inner)) {}
  Result<void> connected() override { return inner_->connected(); }
  transport::IOResult send(std::span<const iovec> pieces) override { return inner_->send(pieces); }
  transport::IOResult receive(std::span<const iovec> pieces) override {
    return inner_->receive(pieces);
  }
  void close_gracefully() override { inner_->close_gracefully(); }
  void reset() override { inner_->reset(); }
  std::size_t emss() override {
    ++questions;
    return pretended_emss;
  }
  int fd() const override { return inner_->fd(); }
  transport::Address local() const override { return inner_->local(); }
  transport::Address peer() const override { return inner_->peer(); }

 private:
  std::unique_ptr<transport::Stream> inner_;
};

class Transport final : public transport::Transport {
 public:
  Result<std::unique_ptr<transport::Stream>> connect(const transport::Address& local,
                                                     const transport::Address& remote) override {
    auto stream = tcp_.connect(local, remote);
    if (!stream) return stream.error();
    return std::unique_ptr<transport::Stream>(std::make_unique<Stream>(std::move(*stream)));
  }
  Result<std::unique_ptr<transport::Listener>> listen(
      const transport::Address& local, const transport::ListenOptions& options) override {
    return tcp_.listen(local, options);
  }

 private:
  transport::TCPTransport tcp_;
};

class EmssTest : public testing::PairTest {};

TEST_P(EmssTest, IsAskedAgainButNotEachTime) {
  pretended_emss = 1460;
  questions = 0;
  Transport transport;
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
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  for (std::uint64_t i = 0; i < 50; ++i) {
    client->post_send(client_qp, {.wr_id = i, .address = octets.data(), .octets = 8, .stag = stag});
    ASSERT_TRUE(client->wait_completion().has_value());
  }
  EXPECT_GE(questions, 2u);
  EXPECT_LT(questions, 20u);
  // Nor for each message of a connection that has one once in a while.
  const std::size_t before = questions;
  for (std::uint64_t i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    client->post_send(client_qp, {.wr_id = i, .address = octets.data(), .octets = 8, .stag = stag});
    ASSERT_TRUE(client->wait_completion().has_value());
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
