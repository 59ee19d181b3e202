// How much leaves by one call: an answer a little longer than a packet in equal shares.
#include <mutex>

#include "engine/testing/side.h"
#include "engine/testing/stream.h"

namespace weft::engine {
namespace {

/// How many octets each call of send was given, in order.
struct Calls {
  std::vector<std::size_t> take() {
    const std::scoped_lock hold(mutex);
    return std::exchange(octets, {});
  }
  std::mutex mutex;
  std::vector<std::size_t> octets;
};

class Watched final : public testing::PassingStream {
 public:
  Watched(std::unique_ptr<transport::Stream> inner, Calls& calls)
      : PassingStream(std::move(inner)), calls_(calls) {}
  transport::IOResult send(std::span<const iovec> pieces) override {
    std::size_t octets = 0;
    for (const iovec& piece : pieces) octets += piece.iov_len;
    {
      const std::scoped_lock hold(calls_.mutex);
      calls_.octets.push_back(octets);
    }
    return PassingStream::send(pieces);
  }

 private:
  Calls& calls_;
};

struct Transport {
  Calls calls;
  testing::WrappingTransport wrapping{
      [this](auto inner) { return std::make_unique<Watched>(std::move(inner), calls); }};
};

class SharesTest : public testing::PairTest {
 protected:
  static constexpr std::uint32_t kMost = 512 * 1024;

  void SetUp() override {
    server = std::make_unique<testing::Side>(make_settings(), &server_transport.wrapping);
    client = std::make_unique<testing::Side>(make_settings(), &client_transport.wrapping);
    server->peer_progress = [this] { client->progress(); };
    client->peer_progress = [this] { server->progress(); };
    listen();
    client_qp = client->make_qp(1);
    server_qp = server->make_qp(2);
    establish(client_qp, server_qp);
    client_stag = client->register_octets(client_memory.data(), kMost, kAll);
    server_stag = server->register_octets(server_memory.data(), kMost, kAll);
  }
  void TearDown() override {
    client.reset();  // before their transports
    server.reset();
  }
  void ask() {
    server->post_receive(server_qp, 1, server_memory.data(), kMost, server_stag);
    client->post_send(client_qp,
                      {.address = client_memory.data(), .octets = 8, .stag = client_stag});
    ASSERT_TRUE(client->wait_completion().has_value());
    ASSERT_TRUE(server->wait_completion().has_value());
  }
  void ask_and_answer() {
    ask();
    send(device::SendOpcode::Send, 8);
  }
  /// The calls by which the server's message of so many octets left.
  std::vector<std::size_t> send(device::SendOpcode opcode, std::uint32_t octets) {
    const bool sends = opcode == device::SendOpcode::Send;
    server_transport.calls.take();
    if (sends) client->post_receive(client_qp, 2, client_memory.data(), kMost, client_stag);
    server->post_send(server_qp,
                      {.opcode = opcode,
                       .address = server_memory.data(),
                       .octets = octets,
                       .stag = server_stag,
                       .remote_stag = client_stag,
                       .remote_to = reinterpret_cast<std::uintptr_t>(client_memory.data())});
    EXPECT_TRUE(server->wait_completion().has_value());
    if (sends) {
      EXPECT_TRUE(client->wait_completion().has_value());
    }
    return server_transport.calls.take();
  }

  static constexpr std::uint32_t kAll = device::kLocalWrite | device::kRemoteWrite;
  Transport server_transport, client_transport;
  testing::QPHandle client_qp, server_qp;
  std::vector<std::uint8_t> client_memory = std::vector<std::uint8_t>(kMost);
  std::vector<std::uint8_t> server_memory = std::vector<std::uint8_t>(kMost);
  std::uint32_t client_stag = 0, server_stag = 0;
};

// The second of two in a row. A call may take less than it was given: then there are more, and none
// is longer.
TEST_P(SharesTest, OfAnAnswerAreEqual) {
  for (const auto opcode : {device::SendOpcode::Send, device::SendOpcode::Write}) {
    for (const auto& [octets, shares] :
         {std::pair{64u * 1024, 2u}, {96u * 1024, 2u}, {128u * 1024, 3u}}) {
      ask_and_answer();
      ask();
      const auto calls = send(opcode, octets);
      ASSERT_GE(calls.size(), shares) << octets;
      for (const std::size_t call : calls) EXPECT_LE(call, octets / shares + 256) << octets;
    }
  }
}

TEST_P(SharesTest, AreNotMadeOfWhatIsShorterOrMuchLonger) {
  for (const auto opcode : {device::SendOpcode::Send, device::SendOpcode::Write}) {
    for (const std::uint32_t octets : {32u * 1024, 256u * 1024}) {
      ask_and_answer();
      ask();
      EXPECT_GE(send(opcode, octets).front(), octets);
    }
  }
}

// Who sends all the time hears something now and then.
TEST_P(SharesTest, AreNotMadeOfWhatNobodyAskedFor) {
  for (const auto opcode : {device::SendOpcode::Send, device::SendOpcode::Write}) {
    for (int i = 0; i < 2; ++i) {
      ask();
      EXPECT_GE(send(opcode, 64 * 1024).front(), 64u * 1024);
      EXPECT_GE(send(opcode, 64 * 1024).front(), 64u * 1024);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, SharesTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
