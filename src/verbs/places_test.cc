// Which places are free, seen while the device is at work.
#include "verbs/places.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

namespace weft::verbs {
namespace {

constexpr std::uint32_t kDepth = 16;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

/// A queue with the program at one side and the device at the other. Each may have a thread.
class PlacesTest : public ::testing::Test {
 protected:
  PlacesTest()
      : memory_(std::aligned_alloc(64, device::Ring::storage_octets(kDepth, 64))),
        ring((device::Ring::format(memory_.get(), kDepth, 64), memory_.get())) {}

  // The program.
  template <typename Ring>
  bool post_seeing(const Ring& seen) {
    if (!places.free(seen, ring.produced_own())) return false;
    ring.publish(ring.produced_own() + 1);
    return true;
  }
  bool post() { return post_seeing(ring); }
  void post_all() {
    for (std::uint32_t i = 0; i < kDepth; ++i) ASSERT_TRUE(post());
    ASSERT_FALSE(post());
  }
  void poll() {
    ++polled;
    places.handle_polled();
  }

  // The device.
  void complete() {
    take();
    completed.store(completed.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  void end_silently() {
    take();
    ring.count_silent();
  }
  void take() { ring.release(ring.consumed_own() + 1); }

 private:
  std::unique_ptr<void, Free> memory_;

 protected:
  device::Ring ring;
  Places places;
  std::atomic<std::uint32_t> completed{0};  ///< stands for the CQ
  std::uint32_t polled = 0;
};

TEST_F(PlacesTest, APlaceComesBackWithThePollOfItsCompletion) {
  post_all();
  complete();
  EXPECT_FALSE(post()) << "nobody polled";
  poll();
  EXPECT_TRUE(post());
  EXPECT_FALSE(post());
}

TEST_F(PlacesTest, APlaceWithoutACompletionComesBackByItself) {
  post_all();
  end_silently();
  end_silently();
  EXPECT_TRUE(post());
  complete();
  EXPECT_TRUE(post());
  EXPECT_FALSE(post());
  poll();
  EXPECT_TRUE(post());
  EXPECT_FALSE(post());
}

/// The ring as the program sees it while the device completes one more entry at every look.
template <typename Complete>
struct BusyRing {
  const device::Ring& ring;
  Complete complete;

  std::uint32_t consumed_seen() const { return after(ring.consumed_seen()); }
  std::uint32_t silent_seen() const { return after(ring.silent_seen()); }
  std::uint32_t capacity() const { return ring.capacity(); }

 private:
  std::uint32_t after(std::uint32_t seen) const { return complete(), seen; }
};

// An entry that completes between two looks must not be counted as open by both.
TEST_F(PlacesTest, WhatWasPolledCanBePostedWhateverTheDeviceDoesMeanwhile) {
  const auto one_more = [this] {
    if (!ring.empty()) complete();
  };
  const BusyRing<decltype(one_more)> busy{ring, one_more};
  post_all();
  for (int i = 0; i < 8; ++i) {
    complete();
    poll();
    ASSERT_TRUE(post_seeing(busy)) << i;
  }
  EXPECT_FALSE(post());
}

// The same with threads. The program keeps its queue full; how often the two meet is the machine's
// affair, so a time ends it.
TEST_F(PlacesTest, AProgramThatKeepsItsQueueFullIsNeverRefused) {
  post_all();
  std::atomic<bool> stop{false};
  std::thread device([this, &stop] {
    while (!stop.load(std::memory_order_relaxed)) {
      if (ring.empty()) {
        std::this_thread::yield();
      } else {
        complete();
      }
    }
  });
  std::uint32_t refused = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < end) {
    const std::uint32_t unread = completed.load(std::memory_order_acquire) - polled;
    if (unread == 0) std::this_thread::yield();
    for (std::uint32_t i = 0; i < unread; ++i) poll();
    for (std::uint32_t i = 0; i < unread; ++i) {
      while (!post()) ++refused;
    }
  }
  stop.store(true, std::memory_order_relaxed);
  device.join();
  EXPECT_EQ(refused, 0u) << "of " << polled;
}

}  // namespace
}  // namespace weft::verbs
