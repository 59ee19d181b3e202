// Writes that stay where they were received: read out of there, or placed when their room is
// needed, and never lost.
#include "engine/kept_writes.h"

#include <sys/mman.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine/guarded_mover.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::CompletionStatus;
using testing::PairTest;
using testing::QPHandle;

using Bytes = std::vector<std::uint8_t>;

Bytes octets_of(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes octets(count);
  for (std::uint8_t& octet : octets) octet = static_cast<std::uint8_t>(random());
  return octets;
}

class KeptWritesTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kPiece = KeptWrites::kOctetsMin;

  bool keep(std::size_t at, const Bytes& run) { return kept.keep(&ring[at], run, mover); }
  Bytes read(std::size_t at, std::size_t octets, bool peek = false) {
    Bytes to(octets);
    EXPECT_TRUE(kept.read(to.data(), Octets(ring).subspan(at, octets), peek, mover));
    return to;
  }
  Bytes in_ring(std::size_t at, std::size_t octets) {
    return {ring.begin() + static_cast<long>(at), ring.begin() + static_cast<long>(at + octets)};
  }

  GuardedMover mover;
  std::atomic<std::uint32_t> count{0};
  KeptWrites kept{7, count};
  Bytes ring = Bytes(64 * kPiece);
};

TEST_F(KeptWritesTest, IsReadFromWhereItLiesAndNotPlaced) {
  const Bytes run = octets_of(3 * kPiece, 1);
  ASSERT_TRUE(keep(100, run));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(read(100, run.size()), run);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(in_ring(100, run.size()), Bytes(run.size()));
}

TEST_F(KeptWritesTest, WhatNobodyReadIsPlaced) {
  const Bytes first = octets_of(kPiece, 1), second = octets_of(2 * kPiece, 2);
  ASSERT_TRUE(keep(0, first));
  ASSERT_TRUE(keep(kPiece, second));
  const Bytes some = read(0, 1000);
  EXPECT_EQ(some, Bytes(first.begin(), first.begin() + 1000));
  EXPECT_EQ(count, 2u);
  kept.place(mover);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(in_ring(1000, kPiece - 1000), Bytes(first.begin() + 1000, first.end()));
  EXPECT_EQ(in_ring(kPiece, second.size()), second);
  EXPECT_EQ(read(kPiece, second.size()), second) << "from its place";
}

TEST_F(KeptWritesTest, APeekLeavesAllAsItIs) {
  const Bytes run = octets_of(kPiece, 1);
  ASSERT_TRUE(keep(0, run));
  EXPECT_EQ(read(0, kPiece, true), run);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(read(0, kPiece), run);
  EXPECT_EQ(count, 0u);
}

TEST_F(KeptWritesTest, WhatIsShortOrTooManyIsToBePlaced) {
  EXPECT_FALSE(keep(0, octets_of(kPiece - 1, 1)));
  const Bytes run = octets_of(kPiece, 1);
  std::size_t at = 0;
  while (keep(at, run)) at += kPiece;
  EXPECT_EQ(count, at / kPiece);
  EXPECT_GE(count, 4u);
  EXPECT_LT(count, 64u);
}

TEST_F(KeptWritesTest, WhatIsWrittenOverIsPlacedBefore) {
  const Bytes first = octets_of(2 * kPiece, 1), second = octets_of(kPiece, 2);
  ASSERT_TRUE(keep(0, first));
  ASSERT_TRUE(keep(kPiece, second));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(in_ring(0, kPiece), Bytes(first.begin(), first.begin() + kPiece));
  EXPECT_EQ(read(kPiece, kPiece), second);
  // Also by something that is not kept itself.
  ASSERT_TRUE(keep(0, first));
  EXPECT_FALSE(keep(10, octets_of(8, 3)));
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(in_ring(0, first.size()), first);
}

TEST_F(KeptWritesTest, AnyReadsGiveWhatAPlainRegionGives) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    Bytes plain = in_ring(0, ring.size());
    std::vector<Bytes> runs;  // where they were received
    for (unsigned i = 0; i < 1 + random() % 6; ++i) {
      runs.push_back(octets_of(1 + random() % (3 * kPiece), random()));
      const std::size_t at = random() % (ring.size() - runs.back().size());
      if (!keep(at, runs.back())) {
        std::copy(runs.back().begin(), runs.back().end(), ring.begin() + static_cast<long>(at));
      }
      std::copy(runs.back().begin(), runs.back().end(), plain.begin() + static_cast<long>(at));
    }
    // In order and once, as a stream reads; between two reads they may be placed.
    for (std::size_t at = random() % kPiece; at < plain.size();) {
      const std::size_t octets =
          std::min<std::size_t>(1 + random() % (4 * kPiece), plain.size() - at);
      const auto begin = plain.begin() + static_cast<long>(at);
      const Bytes expected(begin, begin + static_cast<long>(octets));
      if (random() % 4 == 0) {
        ASSERT_EQ(read(at, octets, true), expected) << round;
      }
      ASSERT_EQ(read(at, octets), expected) << "round " << round << ", at " << at;
      if (random() % 16 == 0) kept.place(mover);
      at += octets;
    }
    kept.place(mover);
    ASSERT_EQ(count, 0u);
  }
}

TEST_F(KeptWritesTest, MemoryThatIsGoneIsAnAnswer) {
  GuardedMover::install_handler();
  const Bytes run = octets_of(kPiece, 1);
  ASSERT_TRUE(keep(0, run));
  void* gone = ::mmap(nullptr, kPiece, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  EXPECT_FALSE(
      kept.read(static_cast<std::uint8_t*>(gone), Octets(ring).first(kPiece), false, mover));
  ::munmap(gone, kPiece);
  EXPECT_EQ(count, 1u) << "it is not lost";
  EXPECT_EQ(read(0, kPiece), run);
}

/// A peer that writes, and a server whose device keeps what it writes.
class KeepingTest : public PairTest {
 protected:
  static constexpr std::uint32_t kOctets = 64 * 1024, kRing = 16 * kOctets;

  void SetUp() override {
    start();
    listen();
    client_qp = client->make_qp(1);
    server_qp = server->make_qp(2);
    establish(client_qp, server_qp);
    source = octets_of(kOctets, 1);
    stag = client->register_octets(source.data(), kOctets, 0);
    ring_stag =
        server->register_octets(ring.data(), kRing, device::kLocalWrite | device::kRemoteWrite);
    ASSERT_TRUE(server->rnic.keep_writes(server_qp.face.number, ring_stag, count).ok());
  }

  /// A Write of all octets, and a Send that tells of it.
  void write(std::size_t at = 0) {
    server->post_receive(server_qp, 5, nullptr, 0, 0);
    client->post_send(client_qp, {.opcode = device::SendOpcode::Write,
                                  .address = source.data(),
                                  .octets = kOctets,
                                  .stag = stag,
                                  .remote_stag = ring_stag,
                                  .remote_to = reinterpret_cast<std::uintptr_t>(&ring[at]),
                                  .flags = 0});
    client->post_send(client_qp, {.wr_id = 6});
    for (testing::Side* side : {client.get(), server.get()}) {
      const auto done = side->wait_completion();
      ASSERT_TRUE(done.has_value());
      ASSERT_EQ(done->status, CompletionStatus::Success);
    }
  }
  bool read(Bytes& to, bool peek = false) {
    return server->rnic.read_written(server_qp.face.number, to.data(),
                                     Octets(ring).first(to.size()), peek);
  }

  bool placed() const { return std::equal(source.begin(), source.end(), ring.begin()); }

  QPHandle client_qp, server_qp;
  Bytes source, ring = Bytes(kRing);
  std::uint32_t stag = 0, ring_stag = 0;
  std::atomic<std::uint32_t> count{0};
};

TEST_P(KeepingTest, WhatTheProgramReadsNeedNotBePlaced) {
  for (int i = 0; i < 10; ++i) {
    write();
    EXPECT_GT(count, 0u);
    Bytes seen(kOctets);
    ASSERT_TRUE(read(seen, true));
    EXPECT_EQ(seen, source);
    std::fill(seen.begin(), seen.end(), 0);
    ASSERT_TRUE(read(seen));
    EXPECT_EQ(seen, source);
    EXPECT_EQ(count, 0u);
    // Later some are placed, for want of room in the staging.
    if (i == 0) {
      EXPECT_EQ(std::count(ring.begin(), ring.begin() + kOctets / 2, 0), kOctets / 2);
    }
  }
}

TEST_P(KeepingTest, WhatItDoesNotReadIsPlacedForWhatComesNext) {
  Bytes all;
  for (std::size_t at = 0; at < kRing; at += kOctets) {
    const Bytes octets = octets_of(kOctets, static_cast<unsigned>(at + 1));
    std::copy(octets.begin(), octets.end(), source.begin());
    all.insert(all.end(), octets.begin(), octets.end());
    write(at);
  }
  EXPECT_TRUE(std::equal(all.begin(), all.begin() + kRing / 2, ring.begin())) << "placed by now";
  Bytes seen(kRing);
  ASSERT_TRUE(read(seen));
  EXPECT_EQ(seen, all);
}

TEST_P(KeepingTest, ARegionThatGoesIsWhole) {
  write();
  ASSERT_GT(count, 0u);
  ASSERT_TRUE(server->rnic.deregister_region(ring_stag).ok());
  EXPECT_EQ(count, 0u);
  EXPECT_TRUE(placed());
  Bytes seen(kOctets);
  EXPECT_FALSE(read(seen)) << "nothing is kept any more";
}

TEST_P(KeepingTest, TheEndOfTheConnectionPlacesAll) {
  write();
  ASSERT_GT(count, 0u);
  ASSERT_TRUE(client->rnic.destroy_qp(client_qp.face.number).ok());
  ASSERT_TRUE(server->wait_until([&] {
    server->progress();
    const auto event = server->take_event();
    return event && event->event.kind == device::ConnectionEventKind::Disconnected;
  }));
  EXPECT_EQ(count, 0u);
  EXPECT_TRUE(placed());
}

TEST_P(KeepingTest, TheEndOfTheQueuePairPlacesAll) {
  write();
  ASSERT_GT(count, 0u);
  ASSERT_TRUE(server->rnic.destroy_qp(server_qp.face.number).ok());
  EXPECT_EQ(count, 0u);
  EXPECT_TRUE(placed());
}

TEST_P(KeepingTest, OneRegionForOneQueuePairAndNoneThatPeersRead) {
  const auto refused = [&](QPHandle& qp, std::uint32_t region) {
    const auto result = server->rnic.keep_writes(qp.face.number, region, count);
    return !result && result.error().code == EINVAL;
  };
  QPHandle other = server->make_qp(3);
  const std::uint32_t second =
      server->register_octets(ring.data(), kOctets, device::kLocalWrite | device::kRemoteWrite);
  const std::uint32_t read_by_peers = server->register_octets(
      ring.data(), kOctets, device::kLocalWrite | device::kRemoteWrite | device::kRemoteRead);
  EXPECT_TRUE(refused(server_qp, ring_stag));
  EXPECT_TRUE(refused(server_qp, second));
  EXPECT_TRUE(refused(other, ring_stag));
  EXPECT_TRUE(refused(other, read_by_peers));
  EXPECT_TRUE(refused(other, second + 1));
  EXPECT_TRUE(server->rnic.keep_writes(other.face.number, second, count).ok());
}

class KeepingAmongOthersTest : public KeepingTest {};

/// What comes behind kept Writes is left to polls of their own CQ, but for what the progress thread
/// finds in between: it would have to be received into their room.
TEST_P(KeepingAmongOthersTest, PollsOfOtherCQsPassItOver) {
  const device::CQFace own = server->cq, other = *server->rnic.create_cq(64, 0);
  QPHandle here[2], there[2];
  server->cq = other;
  for (int i = 0; i < 2; ++i) {
    here[i] = client->make_qp();
    there[i] = server->make_qp();
    establish(here[i], there[i]);
    ASSERT_FALSE(HasFatalFailure());
  }
  server->cq = own;
  constexpr int kRounds = 200;
  int left = 0;
  for (int i = 0; i < kRounds; ++i) {
    write();
    ASSERT_FALSE(HasFatalFailure());
    server->post_receive(server_qp, 5, nullptr, 0, 0);
    // So many, and the progress thread stands back.
    for (int j = 0; j < 16; ++j) server->rnic.poll(other.number);
    client->post_send(client_qp, {.wr_id = 6});
    server->rnic.poll(other.number);
    if (own.completions.empty()) ++left;
    EXPECT_TRUE(server->wait_until([&] {
      server->rnic.poll(other.number);
      return !own.completions.empty();
    })) << "they do not pass it over for ever";
    for (testing::Side* side : {client.get(), server.get()}) {
      ASSERT_TRUE(side->wait_completion().has_value());
    }
    Bytes seen(kOctets);
    ASSERT_TRUE(read(seen));
  }
  EXPECT_GT(left, kRounds / 8);
}

INSTANTIATE_TEST_SUITE_P(Placements, KeepingAmongOthersTest, ::testing::Values(Placement::Thread));

INSTANTIATE_TEST_SUITE_P(Placements, KeepingTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& parameter) {
                           return parameter.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
