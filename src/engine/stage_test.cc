// Bulk is copied to staging and leaves as the pages of that: WRs are complete at once, and no octet
// changes before the peer has read it.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/byte_order.h"
#include "engine/testing/splicing.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"

namespace weft::engine {
namespace {

using testing::Bytes;
using testing::RawPeer;
using testing::SplicingTest;

constexpr std::uint32_t kOctets = 65'536;
/// As many as fit the peer's socket.
constexpr std::uint8_t kFew = 10;

class StageTest : public SplicingTest {
 protected:
  Settings make_settings() override {
    Settings settings = SplicingTest::make_settings();
    settings.stage_always = true;
    return settings;
  }

  /// A message that is all `value`, complete, and its memory in use for something else.
  void send(std::uint8_t value, std::uint32_t octets = kOctets) {
    std::fill_n(memory.begin(), octets, value);
    post(value, octets);
    const auto done = client->wait_completion();
    ASSERT_TRUE(done.has_value()) << "nobody has to read for that";
    ASSERT_EQ(done->wr_id, value);
    ASSERT_EQ(done->status, device::CompletionStatus::Success);
    std::fill_n(memory.begin(), octets, std::uint8_t{0xEE});
  }
  /// The next message, as the peer reads it.
  Bytes receive() {
    Bytes message;
    for (bool last = false; !last;) {
      std::uint8_t length[wire::kUlpduLengthOctets];
      read(length, sizeof length);
      Bytes rest(wire::fpdu_octets(load_be16(length)) - sizeof length);
      read(rest.data(), rest.size());
      const std::size_t ulpdu = load_be16(length);
      const auto header = wire::DDPHeader::parse(Octets(rest).first(ulpdu));
      if (!header.has_value()) {
        ADD_FAILURE() << "no segment";
        return message;
      }
      if (header->tagged) continue;  // an empty Write: we are silent (adr/0005)
      last = header->last;
      message.insert(message.end(), rest.data() + wire::kUntaggedHeaderOctets, rest.data() + ulpdu);
    }
    return message;
  }
  void expect_received(std::uint8_t value, std::uint32_t octets = kOctets) {
    const Bytes message = receive();
    ASSERT_EQ(message.size(), octets) << int{value};
    EXPECT_EQ(std::count(message.begin(), message.end(), value), octets)
        << int{value} << ", not " << int{message.front()};
  }
  void wait_until_peer_has_all() {
    ASSERT_TRUE(client->wait_until([&] {
      client->rnic.poll(client->cq.number);
      return waiting_at_peer() >= int{kFew} * static_cast<int>(kOctets);
    }));
  }

 private:
  void read(std::uint8_t* out, std::size_t octets) {
    const auto some = [&] {
      if (client != nullptr) client->rnic.poll(client->cq.number);
      const ssize_t n = peer->receive(out, octets);
      if (n > 0) out += n, octets -= static_cast<std::size_t>(n);
      return octets == 0;
    };
    if (client == nullptr) {  // all that there will be is there
      ASSERT_TRUE(some());
    } else {
      ASSERT_TRUE(client->wait_until(some));
    }
  }
};

// More than the staging that is kept: what finds none is copied by the kernel.
TEST_P(StageTest, WhatIsUnreadStaysAsItWasSent) {
  constexpr std::uint8_t kCount = 40;
  for (std::uint8_t i = 0; i < kCount; ++i) send(i);
  for (std::uint8_t i = 0; i < kCount; ++i) expect_received(i);
}

// Staging is used again, and again, behind a peer that is a few messages late.
TEST_P(StageTest, APeerMayBeLate) {
  constexpr std::uint8_t kCount = 200, kLate = 5;
  for (std::uint8_t i = 0; i < kCount; ++i) {
    send(i);
    if (i >= kLate) expect_received(i - kLate);
  }
}

TEST_P(StageTest, MessagesMayBeOfAnyLength) {
  const std::vector<std::uint32_t> lengths = {65'536, 20'000,  1,       65'536,  16'000, 15'900,
                                              99'000, 300'000, 65'536,  100'001, 8,      30'000,
                                              1 << 20, 65'536, 250'000, 40'000,  64,     65'536};
  for (int round = 0; round < 4; ++round) {
    std::uint8_t value = 0;
    for (const std::uint32_t octets : lengths) {
      std::fill_n(memory.begin(), octets, ++value);
      post(value, octets);
      expect_received(value, octets);
      const auto done = client->wait_completion();
      ASSERT_TRUE(done.has_value());
      EXPECT_EQ(done->wr_id, value);
    }
  }
}

// Its buffers serve others then, with other pages.
TEST_P(StageTest, WhatIsUnreadStaysBehindTheEndOfTheQueuePair) {
  for (std::uint8_t i = 0; i < kFew; ++i) send(i);
  wait_until_peer_has_all();
  ASSERT_TRUE(client->rnic.destroy_qp(qp.face.number).ok());
  ASSERT_TRUE(client->wait_event().has_value());
  RawPeer first = std::move(*peer);
  connect(true);
  send_bulk();
  for (std::uint8_t i = 0; i < kFew; ++i) send(100 + i);
  RawPeer second = std::move(*peer);
  peer.emplace(std::move(first));
  for (std::uint8_t i = 0; i < kFew; ++i) expect_received(i);
  peer.emplace(std::move(second));
  for (std::uint8_t i = 0; i < kFew; ++i) expect_received(100 + i);
}

TEST_P(StageTest, WhatIsUnreadStaysBehindTheEndOfTheDevice) {
  for (std::uint8_t i = 0; i < kFew; ++i) send(i);
  wait_until_peer_has_all();
  client.reset();
  const std::vector<Bytes> others(128, Bytes(kOctets, 0x77));  // where the staging was, perhaps
  for (std::uint8_t i = 0; i < kFew; ++i) expect_received(i);
}

INSTANTIATE_TEST_SUITE_P(Placements, StageTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
