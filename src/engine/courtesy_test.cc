// Who gives its processor up, and how often.
#include "engine/courtesy.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <thread>

#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using namespace std::chrono_literals;

constexpr Duration kShort = 300ns, kTurn = 30us, kLong = 3ms;

/// How many vain polls it takes until the processor is given up.
std::uint32_t borne(Courtesy& courtesy) {
  for (std::uint32_t polls = 1; polls <= Courtesy::kMost; ++polls) {
    if (courtesy.note(false)) return polls;
  }
  return 0;
}

TEST(Courtesy, IsTriedSoon) {
  Courtesy courtesy;
  EXPECT_EQ(borne(courtesy), Courtesy::kFirst);
}

TEST(Courtesy, IsRareWhereNobodyWantsTheProcessor) {
  Courtesy courtesy;
  borne(courtesy);
  for (const std::uint32_t expected : {256u, 1024u, 1024u, 1024u}) {
    courtesy.note_yielded(kShort);
    EXPECT_EQ(borne(courtesy), expected);
  }
}

TEST(Courtesy, IsShownToAPeerAtOnce) {
  Courtesy courtesy;
  borne(courtesy);
  for (const Duration took : {kTurn, kLong, kTurn}) {
    courtesy.note_yielded(took);
    EXPECT_FALSE(courtesy.note(true)) << "it has answered";
    EXPECT_EQ(borne(courtesy), 1u);
  }
}

// Both wait for a third, and none keeps the other from running.
TEST(Courtesy, IsKeptUpAmongThoseWhoWait) {
  Courtesy courtesy;
  borne(courtesy);
  courtesy.note_yielded(kTurn);
  courtesy.note(true);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(borne(courtesy), 1u);
    courtesy.note_yielded(kTurn);
  }
}

TEST(Courtesy, IsRareForWhoComputes) {
  Courtesy courtesy;
  std::uint32_t expected = borne(courtesy);
  while (expected < Courtesy::kMost) {
    courtesy.note_yielded(kLong);
    expected *= 2;
    EXPECT_EQ(borne(courtesy), expected);
  }
  courtesy.note_yielded(kLong);
  EXPECT_EQ(borne(courtesy), Courtesy::kMost);
  courtesy.note_yielded(kShort);
  EXPECT_EQ(borne(courtesy), Courtesy::kMost) << "one moment without it says little";
}

TEST(Courtesy, EndsWithThePeer) {
  Courtesy courtesy;
  borne(courtesy);
  courtesy.note_yielded(kTurn);
  courtesy.note(true);
  EXPECT_EQ(borne(courtesy), 1u);
  for (const std::uint32_t expected : {4u, 16u, 64u, 256u, 1024u, 1024u}) {
    courtesy.note_yielded(kShort);
    EXPECT_EQ(borne(courtesy), expected);
  }
}

TEST(Courtesy, IsForVainPollsInARow) {
  Courtesy courtesy;
  for (std::uint32_t i = 0; i < 10 * Courtesy::kFirst; ++i) {
    EXPECT_FALSE(courtesy.note(i % (Courtesy::kFirst - 1) == 0)) << i;
  }
}

/// This thread and those it starts, on the first processor that they may use, until the end.
class OneProcessor {
 public:
  OneProcessor() {
    pthread_getaffinity_np(pthread_self(), sizeof before_, &before_);
    int first = 0;
    while (!CPU_ISSET(first, &before_)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
  }
  ~OneProcessor() { pthread_setaffinity_np(pthread_self(), sizeof before_, &before_); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_;
};

/// Two programs that take turns and do nothing but poll.
class OneProcessorTest : public testing::PairTest {
 protected:
  static constexpr int kTrips = 300;
  static constexpr std::uint64_t kPollsMax = 100'000'000;

  Settings make_settings() override { return settings_for(Placement::Inline); }

  /// Polls until a receive completes. Returns how often; kPollsMax: it never did.
  static std::uint64_t poll_for_receive(testing::Side& side) {
    for (std::uint64_t polls = 1; polls < kPollsMax; ++polls) {
      side.rnic.poll(side.cq.number);
      while (!side.cq.completions.empty()) {
        const std::uint32_t index = side.cq.completions.consumed_own();
        const auto* entry =
            static_cast<device::CompletionEntry*>(side.cq.completions.entry(index));
        const bool received = entry->opcode == device::CompletionOpcode::Receive;
        side.cq.completions.release(index + 1);
        if (received) return polls;
      }
    }
    return kPollsMax;
  }
  static void take_turns(testing::Side& side, testing::QPHandle& qp, bool first,
                         std::uint64_t& polls) {
    for (int i = 0; i < kTrips && polls < kPollsMax; ++i) {
      side.post_receive(qp, 1, nullptr, 0, 0);
      if (first) side.post_send(qp, {.flags = 0});
      polls += poll_for_receive(side);
      if (!first) side.post_send(qp, {.flags = 0});
    }
  }
};

// Without giving way each keeps the other from answering until the kernel's slice is over: some
// thousands of polls for each message.
TEST_F(OneProcessorTest, WhoPollsInVainLetsThePeerAnswer) {
  const OneProcessor one;
  start();
  listen();
  testing::QPHandle here = server->make_qp(), there = client->make_qp();
  ASSERT_NO_FATAL_FAILURE(establish(there, here));
  std::uint64_t polls_here = 0, polls_there = 0;
  std::thread peer([&] { take_turns(*server, here, false, polls_here); });
  take_turns(*client, there, true, polls_there);
  peer.join();
  EXPECT_LT(polls_here, 100u * kTrips);
  EXPECT_LT(polls_there, 100u * kTrips);
}

}  // namespace
}  // namespace weft::engine
