// Large payload goes from the transport straight into its place, before its FPDU is whole.
#include <sys/mman.h>

#include <cstdlib>
#include <vector>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "engine/landing_habit.h"
#include "engine/testing/raw_peer.h"
#include "engine/testing/side.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/rdmap.h"

namespace weft::engine {
namespace {

using device::CompletionStatus;
using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;
using testing::RawPeer;
using testing::Side;

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t kPayload = 60'000;
constexpr std::size_t kSendHeader = wire::kUlpduLengthOctets + wire::kUntaggedHeaderOctets;

Bytes fpdu(const wire::DDPHeader& header, const Bytes& payload) {
  const std::size_t ulpdu = header.octets() + payload.size();
  Bytes octets(wire::kUlpduLengthOctets + header.octets());
  store_be16(octets.data(), static_cast<std::uint16_t>(ulpdu));
  header.encode(MutableOctets(octets).subspan(wire::kUlpduLengthOctets));
  octets.insert(octets.end(), payload.begin(), payload.end());
  octets.resize(octets.size() + wire::pad_octets(ulpdu));
  const std::uint32_t crc = crc32c_finish(crc32c_extend(kCRC32CStart, octets));
  octets.resize(octets.size() + wire::kCRCOctets);
  store_crc(octets.data() + octets.size() - wire::kCRCOctets, crc);
  return octets;
}

Bytes payload_of(std::size_t octets) {
  Bytes payload(octets);
  for (std::size_t i = 0; i < octets; ++i) payload[i] = static_cast<std::uint8_t>(1 + i % 251);
  return payload;
}

Bytes send_of(const Bytes& payload, std::uint32_t msn = 1, std::uint32_t mo = 0, bool last = true) {
  wire::DDPHeader header;
  header.last = last;
  header.rdmap_control = wire::rdmap_control(wire::Opcode::Send);
  header.msn = {msn};
  header.mo = mo;
  return fpdu(header, payload);
}

/// What a peer placed, seen as a program sees a Write: without anything that orders the two.
[[gnu::noinline, gnu::no_sanitize("thread")]] std::uint8_t look_at(const std::uint8_t* octet) {
  return *octet;
}

/// A responder with one receive of mapped memory, and an initiator that sends what it is told.
class LandingTest : public PairTest {
 protected:
  void SetUp() override {
    server = std::make_unique<Side>(make_settings());
    listen();
    memory = static_cast<std::uint8_t*>(
        ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    stag = server->register_octets(memory, kMapped, device::kLocalWrite | device::kRemoteWrite);
    qp = server->make_qp();
    ASSERT_TRUE(peer.connect(server_address));
    ASSERT_TRUE(peer.send(testing::plain_request()));
    const auto requested = server->wait_event();
    ASSERT_TRUE(requested.has_value());
    ASSERT_TRUE(
        server->rnic
            .accept(requested->event.connection, {.qp = qp.face.number, .private_data = {}}, 22)
            .ok());
    const auto established = server->wait_event();
    ASSERT_TRUE(established.has_value());
    ASSERT_EQ(established->event.kind, ConnectionEventKind::Established);
  }
  void TearDown() override {
    server.reset();
    if (!unmapped) ::munmap(memory, kMapped);
  }

  void give(const Bytes& octets, std::size_t from, std::size_t to) {
    while (from < to) {
      const ssize_t n = ::send(peer.fd(), octets.data() + from, to - from, MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      from += static_cast<std::size_t>(n);
      server->progress();
    }
  }
  void give(const Bytes& octets) { give(octets, 0, octets.size()); }
  /// Half of a Send of kPayload octets. Its beginning is staged, so that there is a rest to land.
  void give_half(const Bytes& octets) {
    give(octets, 0, 100);
    settle();
    give(octets, 100, kMiddle);
    EXPECT_TRUE(wait_octet(kPayload / 2 - 1, payload_of(kPayload)[kPayload / 2 - 1]));
  }
  /// Waits until this octet of the memory is what it is to be.
  bool wait_octet(std::size_t at, std::uint8_t value) {
    return server->wait_until([&] {
      server->progress();
      return look_at(memory + at) == value;
    });
  }
  /// Lets the server take what was given so far, without a sign that it did.
  void settle() {
    for (int i = 0; i < 20; ++i) {
      server->progress();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void expect_completion(CompletionStatus status, std::size_t octets = 0) {
    const auto completion = server->wait_completion();
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->status, status);
    if (status == CompletionStatus::Success) {
      EXPECT_EQ(completion->octets, octets);
    }
  }

  static constexpr std::size_t kMapped = 256 * 1024;
  static constexpr std::size_t kMiddle = kSendHeader + kPayload / 2;
  std::uint8_t* memory = nullptr;
  bool unmapped = false;
  std::uint32_t stag = 0;
  QPHandle qp;
  RawPeer peer;
};

TEST_P(LandingTest, PayloadIsInItsPlaceBeforeItsFPDUIsWhole) {
  server->post_receive(qp, 5, memory, kMapped, stag);
  const Bytes payload = payload_of(kPayload);
  const Bytes octets = send_of(payload);
  give_half(octets);
  EXPECT_TRUE(server->cq.completions.empty());
  give(octets, kMiddle, octets.size());
  expect_completion(CompletionStatus::Success, kPayload);
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), memory));
}

TEST_P(LandingTest, MessagesOfManySegmentsInAnyPiecesArriveWhole) {
  const Bytes payload = payload_of(3 * kPayload);
  std::uint32_t msn = 0;
  for (const std::size_t piece : {1'001u, 20'011u, 65'537u, 200'000u}) {
    std::fill_n(memory, kMapped, 0);
    server->post_receive(qp, piece, memory + 3, static_cast<std::uint32_t>(payload.size()), stag);
    Bytes octets;
    ++msn;
    for (std::size_t mo = 0; mo < payload.size(); mo += kPayload) {
      const auto first = payload.begin() + static_cast<std::ptrdiff_t>(mo);
      const Bytes part = send_of({first, first + kPayload}, msn, static_cast<std::uint32_t>(mo),
                                 mo + kPayload == payload.size());
      octets.insert(octets.end(), part.begin(), part.end());
    }
    for (std::size_t at = 0; at < octets.size(); at += piece) {
      give(octets, at, std::min(at + piece, octets.size()));
    }
    expect_completion(CompletionStatus::Success, payload.size());
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), memory + 3)) << piece;
    EXPECT_EQ(memory[2], 0);
    EXPECT_EQ(memory[3 + payload.size()], 0);
  }
}

/// Staging is tried in between, and landing again. What is staged is not in its place before its
/// FPDU is whole.
TEST_P(LandingTest, MessagesArriveWholeWhicheverWayIsTried) {
  const Bytes payload = payload_of(kPayload);
  constexpr std::size_t kMessages = (LandingHabit::kTried + (24 << 20)) / kPayload;
  std::size_t early = 0, late = 0;
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    std::fill_n(memory, kPayload, 0);
    server->post_receive(qp, i, memory, kMapped, stag);
    const Bytes octets = send_of(payload, 1 + i);
    give(octets, 0, 100);
    give(octets, 100, octets.size() - 1);
    ++(look_at(memory + kPayload / 2) != 0 ? early : late);
    give(octets, octets.size() - 1, octets.size());
    expect_completion(CompletionStatus::Success, kPayload);
    ASSERT_TRUE(std::equal(payload.begin(), payload.end(), memory)) << i;
  }
  if (GetParam() != Placement::Inline) return;  // a thread may look at it later
  EXPECT_GT(early, kMessages / 4);
  EXPECT_GT(late, kMessages / 4);
}

TEST_P(LandingTest, AWriteWaitsForItsCRC) {
  wire::DDPHeader header;
  header.tagged = header.last = true;
  header.rdmap_control = wire::rdmap_control(wire::Opcode::Write);
  header.stag = {stag};
  header.to = reinterpret_cast<std::uintptr_t>(memory);
  const Bytes octets = fpdu(header, payload_of(kPayload));
  give(octets, 0, 100);
  settle();
  give(octets, 100, octets.size() - 1);
  settle();
  EXPECT_EQ(look_at(memory), 0);
  EXPECT_EQ(look_at(memory + kPayload / 2), 0);
  give(octets, octets.size() - 1, octets.size());
  EXPECT_TRUE(wait_octet(kPayload - 1, payload_of(kPayload).back()));
}

TEST_P(LandingTest, ARegionTakenBackOnTheWayFailsTheReceive) {
  server->post_receive(qp, 5, memory, kMapped, stag);
  const Bytes octets = send_of(payload_of(kPayload));
  give_half(octets);
  ASSERT_TRUE(server->rnic.deregister_region(stag).ok());
  std::fill_n(memory, kMapped, 0);
  give(octets, kMiddle, octets.size());
  expect_completion(CompletionStatus::LocalProtection);
  EXPECT_TRUE(std::all_of(memory, memory + kMapped, [](std::uint8_t octet) { return octet == 0; }))
      << "touched after deregistration";
}

TEST_P(LandingTest, MemoryUnmappedOnTheWayFailsTheReceive) {
  server->post_receive(qp, 5, memory, kMapped, stag);
  const Bytes octets = send_of(payload_of(kPayload));
  give_half(octets);
  ::munmap(memory, kMapped);
  unmapped = true;
  give(octets, kMiddle, octets.size());
  expect_completion(CompletionStatus::LocalProtection);
}

TEST_P(LandingTest, APeerThatLeavesOnTheWayFlushesTheReceive) {
  server->post_receive(qp, 5, memory, kMapped, stag);
  const Bytes octets = send_of(payload_of(kPayload));
  give_half(octets);
  peer.reset();
  expect_completion(CompletionStatus::Flushed);
}

INSTANTIATE_TEST_SUITE_P(Placements, LandingTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
