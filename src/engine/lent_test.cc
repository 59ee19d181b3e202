// Without a CRC a Read is answered from where the octets lie, but only as long as nobody can take
// the memory back: what waits for the peer was copied before, and what is spliced always is.
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "base/byte_order.h"
#include "engine/testing/raw_peer.h"
#include "engine/testing/side.h"
#include "transport/tcp/peer_socket.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/rdmap.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;
using testing::RawPeer;
using testing::Side;

using Bytes = std::vector<std::uint8_t>;

std::uint8_t value_at(std::size_t place) {
  return static_cast<std::uint8_t>(1 + place % 251);
}

/// A responder with more memory than sockets hold, and an initiator that reads all of it at once
/// and takes its time.
class LentTest : public PairTest {
 protected:
  void SetUp() override {
    server = std::make_unique<Side>(make_settings());
    listen();
    memory = static_cast<std::uint8_t*>(
        ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    for (std::size_t i = 0; i < kMapped; ++i) memory[i] = value_at(i);
    stag = server->register_octets(memory, kMapped, device::kRemoteRead);
    qp = server->make_qp();
    ASSERT_TRUE(peer.connect(server_address));
    prepare_peer();
    ASSERT_TRUE(peer.send({.kind = wire::StartupKind::Request, .crc = false, .private_data = {}}));
    const auto requested = server->wait_event();
    ASSERT_TRUE(requested.has_value());
    ASSERT_TRUE(server->rnic
                    .accept(requested->event.connection,
                            {.qp = qp.face.number, .ird = 4, .ord = 4, .private_data = {}}, 22)
                    .ok());
    const auto established = server->wait_event();
    ASSERT_TRUE(established.has_value());
    ASSERT_EQ(established->event.kind, ConnectionEventKind::Established);
    Bytes reply(wire::kStartupFrameOctetsMax);
    std::size_t got = 0;
    ASSERT_TRUE(server->wait_until([&] {
      const ssize_t n = peer.receive(reply.data() + got, kReplyOctets - got);
      if (n > 0) got += static_cast<std::size_t>(n);
      return got == kReplyOctets;
    }));
    read_all();
  }
  void TearDown() override {
    server.reset();
    if (!unmapped) ::munmap(memory, kMapped);
  }

  Settings make_settings() override {
    Settings settings = PairTest::make_settings();
    settings.crc = false;
    return settings;
  }

  virtual void prepare_peer() {}

  /// Asks for everything, and waits until the first of it is here and no more fits.
  void read_all() {
    wire::DDPHeader header;
    header.last = true;
    header.rdmap_control = wire::rdmap_control(wire::Opcode::ReadRequest);
    header.qn = wire::kReadRequestQueue;
    header.msn = {1};
    const std::size_t ulpdu = wire::kUntaggedHeaderOctets + wire::ReadRequest::kOctets;
    Bytes octets(wire::fpdu_octets(ulpdu));
    store_be16(octets.data(), static_cast<std::uint16_t>(ulpdu));
    const MutableOctets behind = MutableOctets(octets).subspan(wire::kUlpduLengthOctets);
    header.encode(behind);
    wire::ReadRequest request;
    request.sink_stag = {1};
    request.octets = kMapped;
    request.source_stag = {stag};
    request.source_to = reinterpret_cast<std::uintptr_t>(memory);
    request.encode(behind.subspan(wire::kUntaggedHeaderOctets));
    ASSERT_EQ(::send(peer.fd(), octets.data(), octets.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(octets.size()));
    for (int i = 0; i < 50; ++i) {
      server->progress();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  /// All that the peer is sent, until the stream ends.
  Bytes receive_all() {
    Bytes all, some(1 << 20);
    EXPECT_TRUE(server->wait_until([&] {
      server->progress();
      const ssize_t n = peer.receive(some.data(), some.size());
      if (n > 0) all.insert(all.end(), some.begin(), some.begin() + n);
      return n == 0 || (n < 0 && errno != EAGAIN);
    }));
    return all;
  }

  /// Of what was asked for. It waits for the peer, who has read none yet.
  void expect_sent_as_it_was() {
    const Bytes all = receive_all();
    std::size_t at = 0, place = 0, wrong = 0;
    bool terminated = false;
    while (at + wire::kUlpduLengthOctets < all.size()) {
      const std::size_t ulpdu = load_be16(all.data() + at);
      ASSERT_LE(at + wire::fpdu_octets(ulpdu), all.size()) << "an FPDU that breaks off";
      const auto ddp =
          wire::DDPHeader::parse(Octets(all).subspan(at + wire::kUlpduLengthOctets, ulpdu));
      ASSERT_TRUE(ddp.has_value());
      terminated = wire::rdmap_opcode(ddp->rdmap_control) == wire::Opcode::Terminate;
      const std::size_t first = at + wire::kUlpduLengthOctets + ddp->octets();
      const std::size_t payload = terminated ? 0 : ulpdu - ddp->octets();
      for (std::size_t i = 0; i < payload; ++i) wrong += all[first + i] != value_at(place++);
      at += wire::fpdu_octets(ulpdu);
    }
    EXPECT_TRUE(terminated) << "the peer is not told why";
    EXPECT_GT(place, 0u);
    EXPECT_LT(place, kMapped) << "nothing waited";
    EXPECT_EQ(wrong, 0u);
  }

  static constexpr std::size_t kMapped = 32 << 20;
  static constexpr std::size_t kReplyOctets = 20;
  std::uint8_t* memory = nullptr;
  bool unmapped = false;
  std::uint32_t stag = 0;
  QPHandle qp;
  RawPeer peer;
};

TEST_P(LentTest, WhatWasPreparedBeforeTheRegionWentIsSentAsItWas) {
  ASSERT_TRUE(server->rnic.deregister_region(stag).ok());
  std::fill_n(memory, kMapped, 0);
  expect_sent_as_it_was();
}

/// What is sent is read by the peer where it lies.
class LentAndSplicedTest : public LentTest {
 protected:
  Settings make_settings() override {
    Settings settings = LentTest::make_settings();
    settings.splice_always = true;
    return settings;
  }
  void prepare_peer() override { transport::promise_to_copy(peer.fd()); }
};

TEST_P(LentAndSplicedTest, WhatThePeerHasNotReadIsAsItWas) {
  ASSERT_TRUE(server->rnic.deregister_region(stag).ok());
  std::fill_n(memory, kMapped, 0);
  expect_sent_as_it_was();
}

TEST_P(LentTest, MemoryThatIsUnmappedEndsTheStream) {
  ::munmap(memory, kMapped);
  unmapped = true;
  EXPECT_LT(receive_all().size(), kMapped);
  const auto event = server->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
}

INSTANTIATE_TEST_SUITE_P(Placements, LentTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });
INSTANTIATE_TEST_SUITE_P(Placements, LentAndSplicedTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
