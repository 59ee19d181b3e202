// What the progress thread takes for a part of an exchange with a peer.
#include <array>
#include <cstdint>

#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using testing::PairTest;
using testing::QPHandle;
using testing::Side;

class ExchangeTest : public PairTest {
 protected:
  static constexpr std::uint32_t kLittle = 64, kMuch = 64 * 1024;

  void SetUp() override {
    start();
    listen();
    client_qp_ = client->make_qp();
    server_qp_ = server->make_qp();
    establish(client_qp_, server_qp_);
    ASSERT_FALSE(HasFatalFailure());
    local_stag_ = client->register_octets(local_.data(), local_.size(), device::kLocalWrite);
    remote_stag_ = server->register_octets(
        remote_.data(), remote_.size(),
        device::kLocalWrite | device::kRemoteRead | device::kRemoteWrite);
    perform(device::SendOpcode::Read, kLittle);  // now both stream
  }
  Settings make_settings() override { return settings_for(Placement::Thread); }

  void perform(device::SendOpcode opcode, std::uint32_t octets) {
    client->post_send(client_qp_, {.opcode = opcode,
                                   .wr_id = 1,
                                   .address = local_.data(),
                                   .octets = octets,
                                   .stag = local_stag_,
                                   .remote_stag = remote_stag_,
                                   .remote_to = reinterpret_cast<std::uintptr_t>(remote_.data())});
    const auto completion = client->wait_completion();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, device::CompletionStatus::Success);
  }
  /// Behind the turn in which the server's thread did that.
  std::uint32_t answered() {
    static_cast<void>(server->rnic.receive_buffers_lent());  // waits for it
    return server->rnic.answered();
  }

  std::array<std::uint8_t, kMuch> local_{}, remote_{};
  std::uint32_t local_stag_ = 0, remote_stag_ = 0;
  QPHandle client_qp_, server_qp_;
};

TEST_F(ExchangeTest, AReadIsOne) {
  const std::uint32_t before = answered();
  perform(device::SendOpcode::Read, kLittle);
  EXPECT_EQ(answered(), before + 1);
}

TEST_F(ExchangeTest, NobodyWaitsForTheEndOfAWrite) {
  const std::uint32_t before = answered();
  perform(device::SendOpcode::Write, kLittle);
  perform(device::SendOpcode::Read, kLittle);  // behind which the Write is over
  EXPECT_EQ(answered(), before + 1);
}

TEST_F(ExchangeTest, TheThreadSleepsInTheEnd) {
  for (int i = 0; i < 10; ++i) perform(device::SendOpcode::Read, kLittle);
  EXPECT_TRUE(server->wait_until([&] { return server->rnic.place().taken(); }));
}

TEST_F(ExchangeTest, ItMayEndWhileTheThreadLooks) {
  for (int i = 0; i < 10; ++i) perform(device::SendOpcode::Read, kLittle);
  server.reset();  // joins it
  EXPECT_FALSE(server);
}

TEST_F(ExchangeTest, ALongReadIsOfAStream) {
  const std::uint32_t before = answered();
  perform(device::SendOpcode::Read, kMuch);
  EXPECT_EQ(answered(), before);
}

}  // namespace
}  // namespace weft::engine
