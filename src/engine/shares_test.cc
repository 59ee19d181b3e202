// How much leaves by one call: an answer a little longer than a packet whole, or in shares that end
// in a short one.
#include <chrono>
#include <mutex>
#include <thread>

#include "engine/testing/side.h"
#include "engine/testing/stream.h"

namespace weft::engine {
namespace {

using Clock = std::chrono::steady_clock;

/// How many octets each call of send was given, in order, and when they began.
struct Calls {
  std::chrono::milliseconds each_takes{0};  ///< at least
  std::vector<std::size_t> take() {
    const std::scoped_lock hold(mutex);
    return std::exchange(octets, {});
  }
  std::mutex mutex;
  std::vector<std::size_t> octets;
  Clock::time_point first_began, last_began;
};

class Watched final : public testing::PassingStream {
 public:
  Watched(std::unique_ptr<transport::Stream> inner, Calls& calls)
      : PassingStream(std::move(inner)), calls_(calls) {}
  transport::IOResult send(std::span<const iovec> pieces) override {
    const std::size_t octets = testing::octets_of(pieces);
    {
      const std::scoped_lock hold(calls_.mutex);
      calls_.last_began = Clock::now();
      if (calls_.octets.empty()) calls_.first_began = calls_.last_began;
      calls_.octets.push_back(octets);
    }
    std::this_thread::sleep_for(calls_.each_takes);
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
  /// Likewise, where the server had waited for longer than it sends.
  std::vector<std::size_t> answer(device::SendOpcode opcode, std::uint32_t octets) {
    ask();
    std::this_thread::sleep_for(longest_);
    return send(opcode, octets);
  }
  /// The calls by which the server's message of so many octets left.
  std::vector<std::size_t> send(device::SendOpcode opcode, std::uint32_t octets) {
    const bool sends = opcode == device::SendOpcode::Send;
    server_transport.calls.take();
    const auto began = Clock::now();
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
    longest_ = std::max<Clock::duration>(longest_, Clock::now() - began);
    return server_transport.calls.take();
  }

  /// Octets of a message, and in how many shares it leaves.
  static constexpr std::pair<std::uint32_t, std::uint32_t> kSizes[] = {
      {64 * 1024, 2}, {96 * 1024, 2}, {128 * 1024, 3}};
  /// All but the last of them, with headers and CRCs, have so many at most.
  static std::size_t other_of(std::uint32_t octets, std::uint32_t shares) {
    return std::min(octets / 8 * 7 / (shares - 1), 65'000u) + 256;
  }
  static std::size_t first_of(const std::vector<std::size_t>& calls) {
    return calls.empty() ? 0 : calls.front();
  }

  static constexpr std::uint32_t kAll = device::kLocalWrite | device::kRemoteWrite;
  Clock::duration longest_{0};  ///< that a message of the server's took
  Transport server_transport, client_transport;
  testing::QPHandle client_qp, server_qp;
  std::vector<std::uint8_t> client_memory = std::vector<std::uint8_t>(kMost);
  std::vector<std::uint8_t> server_memory = std::vector<std::uint8_t>(kMost);
  std::uint32_t client_stag = 0, server_stag = 0;
};

// A call may take less than it was given: then there are more, and none is longer.
TEST_P(SharesTest, OfAnAnswerEndInAShortOne) {
  ask_and_answer();  // a small one before says nothing of how long a large one takes
  for (const auto opcode : {device::SendOpcode::Send, device::SendOpcode::Write}) {
    for (const auto& [octets, shares] : kSizes) {
      const auto calls = answer(opcode, octets);
      ASSERT_GE(calls.size(), shares) << octets;
      for (const std::size_t call : calls) EXPECT_LE(call, other_of(octets, shares)) << octets;
    }
  }
}

/// Both are tried; which is kept is for the machine to say.
TEST_P(SharesTest, LeaveInOneCallForAWhile) {
  ask_and_answer();
  for (const auto& [octets, shares] : kSizes) {
    int whole = 0, in_shares = 0;
    for (int i = 0; i < 400 && (whole < 4 || in_shares < 4); ++i) {
      const std::size_t first = first_of(answer(device::SendOpcode::Write, octets));
      ++(first >= octets ? whole : in_shares);
    }
    EXPECT_GE(whole, 4) << octets;
    EXPECT_GE(in_shares, 4) << octets;
  }
}

TEST_P(SharesTest, AreNotMadeOfWhatIsShorterOrMuchLonger) {
  for (const auto opcode : {device::SendOpcode::Send, device::SendOpcode::Write}) {
    for (const std::uint32_t octets : {32u * 1024, 256u * 1024}) {
      ask();
      EXPECT_GE(first_of(send(opcode, octets)), octets);
    }
  }
}

TEST_P(SharesTest, AreNotMadeOfWhatNobodyAskedFor) {
  // The client nudges until it hears from the server: what is under way of that is heard, too.
  ask_and_answer();
  ask_and_answer();
  send(device::SendOpcode::Send, 8);
  for (const auto opcode : {device::SendOpcode::Send, device::SendOpcode::Write}) {
    EXPECT_GE(first_of(send(opcode, 64 * 1024)), 64u * 1024);
  }
}

// A peer with more to ask does not wait for the one answer.
TEST_P(SharesTest, AreNotMadeWhereTheNextQuestionComesSoon) {
  server_transport.calls.each_takes = std::chrono::milliseconds(50);
  for (int i = 0; i < 100; ++i) {
    const auto began = Clock::now();
    ask();
    const auto calls = send(device::SendOpcode::Write, 64 * 1024);
    const auto ended = Clock::now();
    ask();
    const bool soon = Clock::now() - ended < server_transport.calls.each_takes / 4;
    const auto next = send(device::SendOpcode::Write, 64 * 1024);
    ASSERT_GE(ended - began, server_transport.calls.each_takes);
    if (!soon) continue;  // on a busy machine
    EXPECT_GE(first_of(next), 64u * 1024);
    return;
  }
  GTEST_SKIP() << "the machine is too busy";
}

// Which it does not if it waits for what we send.
TEST_P(SharesTest, AreMadeWhereWeWaitForALittleLessThanWeSend) {
  constexpr auto kTakes = std::chrono::milliseconds(6);
  Calls& calls = server_transport.calls;
  calls.each_takes = kTakes;
  std::size_t before = 0;  // calls of the last answer
  int soon = 0;
  for (int i = 0; i < 200; ++i) {
    ask();
    const Clock::time_point ended = calls.last_began + kTakes;  // or later
    std::this_thread::sleep_until(ended + kTakes * before * 3 / 4);
    const auto sent = send(device::SendOpcode::Write, 64 * 1024);
    if (calls.first_began - ended >= kTakes * std::exchange(before, sent.size())) continue;
    ++soon;
    if (sent.size() > 1) return;
  }
  // One call is tried for some turns of the habit; and shares between them.
  if (soon < 60) GTEST_SKIP() << "the machine is too busy";
  FAIL() << "never in " << soon << " answers";
}

INSTANTIATE_TEST_SUITE_P(Placements, SharesTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
