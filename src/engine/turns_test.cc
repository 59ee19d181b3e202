// Small parts of who gets how long a turn: brisk connections, and the progress thread's nap.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/brisk.h"
#include "engine/thread/nap.h"

namespace weft::engine {
namespace {

constexpr Instant kStart{1'000'000'000};
const char connections[3] = {};

TEST(BriskTest, NobodyIsInTheBeginning) {
  EXPECT_FALSE(Brisk().other_than(&connections[0], kStart));
}

TEST(BriskTest, OneMindsOthersAndNotItself) {
  Brisk brisk;
  brisk.note(&connections[0], kStart);
  EXPECT_FALSE(brisk.other_than(&connections[0], kStart));
  EXPECT_TRUE(brisk.other_than(&connections[1], kStart));
}

TEST(BriskTest, TwoMindEachOtherHoweverOftenEachIsNoted) {
  Brisk brisk;
  brisk.note(&connections[0], kStart);
  for (int i = 0; i < 3; ++i) brisk.note(&connections[1], kStart);
  EXPECT_TRUE(brisk.other_than(&connections[1], kStart));
  EXPECT_TRUE(brisk.other_than(&connections[0], kStart));
}

TEST(BriskTest, ItPassesSoon) {
  Brisk brisk;
  brisk.note(&connections[0], kStart);
  EXPECT_TRUE(brisk.other_than(&connections[1], kStart + std::chrono::microseconds(100)));
  EXPECT_FALSE(brisk.other_than(&connections[1], kStart + std::chrono::milliseconds(1)));
}

TEST(NapTest, EndsByItself) {
  Nap nap;
  nap.wait(100);
  EXPECT_FALSE(nap.take_interruption());
}

TEST(NapTest, WhatNobodyTakesIsNotInterruptedLater) {
  Nap nap;
  nap.interrupt();
  EXPECT_FALSE(nap.take_interruption());
  nap.wait(100);
  EXPECT_FALSE(nap.take_interruption());
}

TEST(NapTest, AnInterruptionIsToldOnce) {
  Nap nap;
  std::atomic<bool> ended{false};
  std::thread sleeper([&] {
    while (!nap.take_interruption()) nap.wait(500'000);
    EXPECT_FALSE(nap.take_interruption());
    ended = true;
  });
  while (!ended) nap.interrupt();
  sleeper.join();
}

}  // namespace
}  // namespace weft::engine
