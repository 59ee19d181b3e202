// The mutex: one at a time, and nobody sleeps for ever.
#include "front/sockets/mutex.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::sockets {
namespace {

TEST(MutexTest, OneThreadAtATimeHasIt) {
  Mutex mutex;
  std::uint64_t counted = 0;
  constexpr std::uint64_t kEach = 20'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t n = 0; n < kEach; ++n) {
        std::lock_guard lock(mutex);
        ++counted;
        if (n % 1000 == 0) ::usleep(10);  // the others sleep too
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counted, 4 * kEach);
}

TEST(MutexTest, WhoSleepsIsWoken) {
  // Two that hand a turn to and fro, each holding the mutex for longer than anybody spins.
  Mutex mutex;
  std::array<int, 2> turns{};
  std::vector<std::thread> threads;
  for (std::size_t own = 0; own < turns.size(); ++own) {
    threads.emplace_back([&, own] {
      for (int n = 0; n < 200; ++n) {
        std::lock_guard lock(mutex);
        ::usleep(50);
        ++turns[own];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(turns, (std::array<int, 2>{200, 200}));
}

TEST(MutexTest, AThreadKnowsHowManyItHas) {
  Mutex first, second;
  EXPECT_EQ(mutexes_held, 0u);
  {
    std::lock_guard one(first);
    EXPECT_EQ(mutexes_held, 1u);
    std::lock_guard two(second);
    EXPECT_EQ(mutexes_held, 2u);
    std::thread([] { EXPECT_EQ(mutexes_held, 0u); }).join();
  }
  EXPECT_EQ(mutexes_held, 0u);
}

}  // namespace
}  // namespace weft::sockets
