// Large payload goes from the transport straight into its place, before its FPDU is whole.
#include "engine/testing/landing.h"

#include "engine/landing_habit.h"

namespace weft::engine {
namespace {

using device::CompletionStatus;
using testing::Bytes;
using testing::fpdu;
using testing::kPayload;
using testing::LandingTest;
using testing::look_at;
using testing::payload_of;
using testing::send_of;

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

/// Staging is tried in between, and landing again, each for a turn at least: beside other work, a
/// trial may end there. What is staged is not in its place before its FPDU is whole.
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
  constexpr std::size_t kTurn = LandingHabit::kTurn / kPayload;
  EXPECT_GT(early, kTurn / 2);
  EXPECT_GT(late, kTurn / 2);
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
