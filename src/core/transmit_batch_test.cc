// TransmitBatch: merging, limits and rollback.
#include "core/transmit_batch.h"

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace weft::core {
namespace {

struct Fixture {
  explicit Fixture(std::size_t staging = 64, std::size_t count = 4, std::size_t octets_max = 1000)
      : octets(staging), pieces(count), batch(octets, pieces, octets_max) {}
  std::vector<std::uint8_t> octets;
  std::vector<Piece> pieces;
  TransmitBatch batch;
};

const std::uint8_t kRegistered[100] = {};

TEST(TransmitBatch, NeighboursInStagingShareOnePiece) {
  Fixture f;
  std::uint8_t* const first = f.batch.reserve(10);
  std::uint8_t* const second = f.batch.reserve(5);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(second, first + 10);
  ASSERT_EQ(f.batch.pieces().size(), 1u);
  EXPECT_EQ(f.batch.pieces()[0].octets, 15u);
  EXPECT_FALSE(f.batch.pieces()[0].registered);
  EXPECT_EQ(f.batch.octets(), 15u);
  EXPECT_EQ(f.batch.staging_room(), 49u);
}

TEST(TransmitBatch, AReferenceSplitsStagingIntoTwoPieces) {
  Fixture f;
  std::uint8_t* const first = f.batch.reserve(4);
  ASSERT_TRUE(f.batch.reference(kRegistered, 100));
  std::uint8_t* const second = f.batch.reserve(6);
  EXPECT_EQ(second, first + 4) << "staging itself has no hole";
  ASSERT_EQ(f.batch.pieces().size(), 3u);
  EXPECT_TRUE(f.batch.pieces()[1].registered);
  EXPECT_EQ(f.batch.pieces()[1].data, kRegistered);
  EXPECT_EQ(f.batch.pieces()[2].data, second);
  EXPECT_EQ(f.batch.octets(), 110u);
}

TEST(TransmitBatch, AFullStagingRefusesAndStaysAsItWas) {
  Fixture f(8);
  ASSERT_NE(f.batch.reserve(8), nullptr);
  EXPECT_EQ(f.batch.reserve(1), nullptr);
  EXPECT_EQ(f.batch.octets(), 8u);
  EXPECT_EQ(f.batch.pieces()[0].octets, 8u);
  EXPECT_TRUE(f.batch.reference(kRegistered, 1)) << "the list has room";
}

TEST(TransmitBatch, AFullListRefusesNewPiecesButLetsTheLastOneGrow) {
  Fixture f(64, 2);
  ASSERT_TRUE(f.batch.reference(kRegistered, 1));
  ASSERT_NE(f.batch.reserve(1), nullptr);
  EXPECT_EQ(f.batch.piece_room(), 0u);
  EXPECT_FALSE(f.batch.reference(kRegistered, 1));
  EXPECT_NE(f.batch.reserve(1), nullptr);

  Fixture g(64, 1);
  ASSERT_TRUE(g.batch.reference(kRegistered, 1));
  EXPECT_EQ(g.batch.reserve(1), nullptr);
  EXPECT_EQ(g.batch.staging_room(), 64u);
}

TEST(TransmitBatch, NothingMakesNoPiece) {
  Fixture f;
  EXPECT_NE(f.batch.reserve(0), nullptr);
  EXPECT_TRUE(f.batch.reference(kRegistered, 0));
  EXPECT_TRUE(f.batch.pieces().empty());
}

TEST(TransmitBatch, WhatIsLentTakesStagingForItsShelter) {
  Fixture f;
  std::uint8_t* const first = f.batch.reserve(4);
  ASSERT_TRUE(f.batch.lend(kRegistered, 30));
  EXPECT_EQ(f.batch.reserve(6), first + 34);
  ASSERT_EQ(f.batch.pieces().size(), 3u);
  EXPECT_TRUE(f.batch.pieces()[1].registered);
  EXPECT_EQ(f.batch.pieces()[1].data, kRegistered);
  EXPECT_EQ(f.batch.pieces()[1].shelter, first + 4);
  EXPECT_EQ(f.batch.octets(), 40u);
  EXPECT_FALSE(f.batch.lend(kRegistered, 25)) << "24 octets of staging are left";
  EXPECT_TRUE(f.batch.lend(kRegistered, 24));
  EXPECT_FALSE(f.batch.lend(kRegistered, 1)) << "the list is full";
}

TEST(TransmitBatch, FullFromTheOctetLimitOn) {
  Fixture f(64, 4, 10);
  ASSERT_NE(f.batch.reserve(9), nullptr);
  EXPECT_FALSE(f.batch.full());
  ASSERT_TRUE(f.batch.reference(kRegistered, 1));
  EXPECT_TRUE(f.batch.full());
}

TEST(TransmitBatch, NoneButTheFirstGoesBeyondTheBound) {
  std::array<std::uint8_t, 1000> octets;
  std::array<Piece, 4> pieces;
  TransmitBatch batch(octets, pieces, 500, 100);
  EXPECT_TRUE(batch.admits(300));
  EXPECT_EQ(batch.room_for(300), 1u);
  EXPECT_EQ(batch.room_for(30), 3u);
  ASSERT_NE(batch.reserve(40), nullptr);
  EXPECT_TRUE(batch.admits(60));
  EXPECT_FALSE(batch.admits(61));
  EXPECT_EQ(batch.room_for(61), 0u);
  EXPECT_EQ(batch.room_for(20), 3u);
  ASSERT_NE(batch.reserve(60), nullptr);
  EXPECT_FALSE(batch.admits(1)) << "full";
}

TEST(TransmitBatch, ClearStartsOver) {
  Fixture f(8, 1);
  std::uint8_t* const first = f.batch.reserve(8);
  f.batch.clear();
  EXPECT_EQ(f.batch.octets(), 0u);
  EXPECT_TRUE(f.batch.pieces().empty());
  EXPECT_EQ(f.batch.reserve(8), first);
}

// Any calls, with marks and rollbacks between, against a plain list of what ought to be there.
TEST(TransmitBatch, AgreesWithAModelOverRandomCalls) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    Fixture f(1 + random() % 200, 1 + random() % 8, 1 + random() % 300);
    std::vector<const std::uint8_t*> model;  // the address of every octet, in order
    for (int step = 0; step < 60; ++step) {
      const TransmitBatch::Mark mark = f.batch.mark();
      const std::vector<const std::uint8_t*> before = model;
      for (std::size_t calls = random() % 3; calls > 0; --calls) {
        const std::size_t n = random() % 20;
        if (random() % 2 == 0) {
          const std::uint8_t* const p = f.batch.reserve(n);
          for (std::size_t i = 0; p != nullptr && i < n; ++i) model.push_back(p + i);
        } else if (f.batch.reference(kRegistered + n, n)) {
          for (std::size_t i = 0; i < n; ++i) model.push_back(kRegistered + n + i);
        }
      }
      if (random() % 3 == 0) {
        f.batch.rollback(mark);
        model = before;
      }
      std::vector<const std::uint8_t*> is;
      for (const Piece& piece : f.batch.pieces()) {
        ASSERT_GT(piece.octets, 0u);
        ASSERT_EQ(piece.registered, piece.data >= kRegistered && piece.data < kRegistered + 100);
        for (std::size_t i = 0; i < piece.octets; ++i) is.push_back(piece.data + i);
      }
      ASSERT_EQ(is, model) << "round " << round;
      ASSERT_EQ(f.batch.octets(), model.size());
    }
  }
}

}  // namespace
}  // namespace weft::core
