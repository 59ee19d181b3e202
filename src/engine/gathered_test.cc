// As much as gathers leaves by one call, with all that short packets add to it.
#include "engine/testing/side.h"
#include "engine/testing/stream.h"

namespace weft::engine {
namespace {

/// Octets that each call of send was given, and the MSS.
struct Calls {
  std::size_t emss;
  std::vector<std::size_t> octets;
};

class Watched final : public testing::PassingStream {
 public:
  Watched(std::unique_ptr<transport::Stream> inner, Calls& calls)
      : PassingStream(std::move(inner)), calls_(calls) {}
  std::size_t emss() override { return calls_.emss; }
  transport::IOResult send(std::span<const iovec> pieces) override {
    calls_.octets.push_back(testing::octets_of(pieces));
    return PassingStream::send(pieces);
  }

 private:
  Calls& calls_;
};

class GatheredTest : public testing::PairTest {
 protected:
  void expect_one_call(std::size_t emss);
};

void GatheredTest::expect_one_call(std::size_t emss) {
  constexpr std::uint32_t kOctets = 64 * 1024, kPosts = 8;
  Calls calls{.emss = emss, .octets = {}};
  testing::WrappingTransport transport(
      [&](auto inner) { return std::make_unique<Watched>(std::move(inner), calls); });
  server = std::make_unique<testing::Side>(make_settings());
  client = std::make_unique<testing::Side>(make_settings(), &transport);
  server->peer_progress = [this] { client->progress(); };
  client->peer_progress = [this] { server->progress(); };
  listen();
  testing::QPHandle client_qp = client->make_qp(1), server_qp = server->make_qp(2);
  establish(client_qp, server_qp);
  std::vector<std::uint8_t> from(kOctets, 7), to(kOctets);
  const auto stag = client->register_octets(from.data(), kOctets, 0);
  const auto remote = server->register_octets(to.data(), kOctets,
                                              device::kLocalWrite | device::kRemoteWrite);
  calls.octets.clear();
  const device::SendEntry write = {.remote_to = reinterpret_cast<std::uintptr_t>(to.data()),
                                   .remote_stag = remote,
                                   .opcode = device::SendOpcode::Write,
                                   .flags = device::kSignaled,
                                   .sge_count = 1};
  for (std::uint32_t i = 0; i < kPosts; ++i) {
    auto* entry = static_cast<device::SendEntry*>(client_qp.face.send.entry(client_qp.sends + i));
    *entry = write;
    entry->sges()[0] = {reinterpret_cast<std::uintptr_t>(from.data()), kOctets, stag};
  }
  client_qp.face.send.publish(client_qp.sends += kPosts);
  client->rnic.ring_send(client_qp.face.number, {});
  for (std::uint32_t i = 0; i < kPosts; ++i) ASSERT_TRUE(client->wait_completion().has_value());
  const std::size_t payload = emss / 4 * 4 - 20;  // of an FPDU: less length, header and CRC
  const std::size_t fpdus = (kOctets + payload - 1) / payload;
  ASSERT_FALSE(calls.octets.empty());
  EXPECT_EQ(calls.octets.front(), kPosts * (kOctets + fpdus * 20));
  client.reset();  // before its transport
}

TEST_P(GatheredTest, LeavesByOneCallInPacketsOf1500) { expect_one_call(1448); }
TEST_P(GatheredTest, LeavesByOneCallInPacketsOf1280) { expect_one_call(1208); }

INSTANTIATE_TEST_SUITE_P(Placements, GatheredTest, ::testing::Values(Placement::Inline),
                         [](const auto&) { return "inline"; });

}  // namespace
}  // namespace weft::engine
