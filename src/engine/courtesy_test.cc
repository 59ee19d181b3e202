// Who gives its processor up, and how often.
#include "engine/courtesy.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "engine/crowding.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using namespace std::chrono_literals;

constexpr Duration kShort = 300ns, kTurn = 30us, kLong = 3ms;

/// Polls of one device.
class Polls {
 public:
  bool find() { return courtesy.note(++arrivals_, false); }
  bool send() { return courtesy.note(arrivals_, true); }
  bool find_nothing() { return courtesy.note(arrivals_, false); }
  /// How many vain ones it takes until the processor is given up.
  std::uint32_t borne() {
    for (std::uint32_t polls = 1; polls <= Courtesy::kMost; ++polls) {
      if (find_nothing()) return polls;
    }
    return 0;
  }
  /// It was given up, and something has come behind that.
  void meet_peer() {
    courtesy.note_yielded(kTurn);
    EXPECT_FALSE(find());
  }

  Courtesy courtesy;

 private:
  std::uint32_t arrivals_ = 0;
};

TEST(Courtesy, IsTriedSoon) {
  EXPECT_EQ(Polls().borne(), Courtesy::kFirst);
}

TEST(Courtesy, IsRareWhereNobodyWantsTheProcessor) {
  Polls polls;
  polls.borne();
  for (const std::uint32_t expected : {256u, 1024u, 1024u, 1024u}) {
    polls.courtesy.note_yielded(kShort);
    EXPECT_EQ(polls.borne(), expected);
  }
}

TEST(Courtesy, IsShownToAPeerAtOnce) {
  Polls polls;
  polls.borne();
  for (int i = 0; i < 3; ++i) {
    polls.meet_peer();
    EXPECT_EQ(polls.borne(), 1u);
  }
  polls.courtesy.note_yielded(kTurn);
  EXPECT_FALSE(polls.send()) << "it has made room for what waited";
  EXPECT_EQ(polls.borne(), 1u);
}

// Both wait for a third, and none keeps the other from running.
TEST(Courtesy, IsKeptUpAmongThoseWhoWait) {
  Polls polls;
  polls.borne();
  polls.meet_peer();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(polls.borne(), 1u);
    polls.courtesy.note_yielded(kTurn);
  }
}

TEST(Courtesy, IsRareForWhoComputes) {
  Polls polls;
  std::uint32_t expected = polls.borne();
  while (expected < Courtesy::kMost) {
    polls.courtesy.note_yielded(kLong);
    expected *= 2;
    EXPECT_EQ(polls.borne(), expected);
  }
  polls.courtesy.note_yielded(kLong);
  EXPECT_EQ(polls.borne(), Courtesy::kMost);
  polls.courtesy.note_yielded(kShort);
  EXPECT_EQ(polls.borne(), Courtesy::kMost) << "one moment without it says little";
}

// The peer has a processor of its own, and has answered long since.
TEST(Courtesy, IsRareForWhoComputesWhileAPeerAnswers) {
  Polls polls;
  polls.borne();
  polls.meet_peer();
  EXPECT_EQ(polls.borne(), 1u);
  for (const std::uint32_t expected : {64u, 128u, 256u, 256u}) {
    polls.courtesy.note_yielded(kLong);
    EXPECT_FALSE(polls.find());
    EXPECT_EQ(polls.borne(), expected);
  }
}

TEST(Courtesy, EndsWithThePeer) {
  Polls polls;
  polls.borne();
  polls.meet_peer();
  EXPECT_EQ(polls.borne(), 1u);
  for (const std::uint32_t expected : {4u, 16u, 64u, 256u, 1024u, 1024u}) {
    polls.courtesy.note_yielded(kShort);
    EXPECT_EQ(polls.borne(), expected);
  }
}

TEST(Courtesy, IsForVainPollsInARow) {
  Polls polls;
  for (std::uint32_t i = 0; i < 10 * Courtesy::kFirst; ++i) {
    EXPECT_FALSE(i % (Courtesy::kFirst - 1) == 0 ? polls.find() : polls.find_nothing()) << i;
  }
}

TEST(Courtesy, OfOneThreadIsJudgedByThat) {
  Polls polls;
  polls.borne();
  const auto elsewhere = [&](auto act) { std::thread(act).join(); };
  // While it is away another one polls, finds what has come, and polls in vain.
  elsewhere([&] {
    EXPECT_FALSE(polls.find());
    for (std::uint32_t i = 0; i < 2 * Courtesy::kFirst; ++i) EXPECT_FALSE(polls.find_nothing());
  });
  polls.courtesy.note_yielded(kTurn);
  EXPECT_FALSE(polls.find()) << "what came while it was away counts";
  EXPECT_EQ(polls.borne(), 1u);
  polls.meet_peer();
  elsewhere([&] { EXPECT_EQ(polls.borne(), Courtesy::kFirst) << "whose peer that is not"; });
}

TEST(Courtesy, OfAThreadThatEndedIsAnothersInTheEnd) {
  Polls polls;
  std::thread([&] { polls.borne(); }).join();
  EXPECT_EQ(polls.borne(), Courtesy::kMost);
  polls.meet_peer();
  EXPECT_EQ(polls.borne(), 1u);
}

TEST(Courtesy, AfterOthersTurnTheRestIsLookedAt) {
  Polls polls;
  EXPECT_FALSE(polls.courtesy.was_away());
  polls.borne();
  polls.courtesy.note_yielded(kShort);
  EXPECT_FALSE(polls.courtesy.was_away());
  polls.borne();
  polls.courtesy.note_yielded(kTurn);
  EXPECT_TRUE(polls.courtesy.was_away());
  std::thread([&] { EXPECT_FALSE(polls.courtesy.was_away()); }).join();
  polls.find();
  EXPECT_FALSE(polls.courtesy.was_away());
}

/// This thread and those it starts, on the last processor that they may use, until the end.
class OneProcessor {
 public:
  OneProcessor() {
    pthread_getaffinity_np(pthread_self(), sizeof before_, &before_);
    int last = CPU_SETSIZE - 1;
    while (last > 0 && !CPU_ISSET(last, &before_)) --last;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
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
  /// Appends how often it polled in each turn.
  static void take_turns(testing::Side& side, testing::QPHandle& qp, bool first,
                         std::vector<std::uint64_t>& polls) {
    for (int i = 0; i < kTrips && (i == 0 || polls.back() < kPollsMax); ++i) {
      side.post_receive(qp, 1, nullptr, 0, 0);
      if (first) side.post_send(qp, {.flags = 0});
      polls.push_back(poll_for_receive(side));
      if (!first) side.post_send(qp, {.flags = 0});
    }
  }
  static std::uint64_t median(std::vector<std::uint64_t> polls) {
    std::nth_element(polls.begin(), polls.begin() + kTrips / 2, polls.end());
    return polls[kTrips / 2];
  }
};

/// This thread so far.
std::int64_t times_slept() {
  rusage counted{};
  getrusage(RUSAGE_THREAD, &counted);
  return counted.ru_nvcsw;
}

/// As a thread that has long been kept from its processor.
void make_crowded(Crowding& crowding) {
  std::int64_t taken = 0;
  Duration waited{};
  Instant now = Instant{} + 1h;
  for (int i = 0; i < 4 && !crowding.is_crowded(); ++i) {
    now = now + Crowding::kWindow;
    waited += Crowding::kWindow;
    taken += Crowding::kTakenMin;
    crowding.note_yield(now, now, [&] { return taken; }, [&] { return waited; });
  }
}

// Whose peer is in another session, or container.
TEST_F(OneProcessorTest, WhoSleepsInsteadIsWokenByWhatComes) {
  const OneProcessor one;
  start();
  listen();
  testing::QPHandle here = server->make_qp(), there = client->make_qp();
  ASSERT_NO_FATAL_FAILURE(establish(there, here));
  std::vector<std::uint64_t> answered, asked;
  const auto crowded = [&](testing::Side& side, testing::QPHandle& qp, bool first, auto& polls) {
    make_crowded(Crowding::here());
    ASSERT_TRUE(Crowding::here().is_crowded());
    const std::int64_t before = times_slept();
    take_turns(side, qp, first, polls);
    // For two thirds of the trips when nothing else runs, and fewer beside others: what has come
    // already is not slept for. Who yields does not sleep once.
    EXPECT_GT(times_slept() - before, 0);
  };
  std::thread peer([&] { crowded(*server, here, false, answered); });
  crowded(*client, there, true, asked);
  peer.join();
  ASSERT_EQ(asked.size(), static_cast<std::size_t>(kTrips));
  ASSERT_EQ(answered.size(), static_cast<std::size_t>(kTrips));
  EXPECT_LT(median(asked), 100u);
  EXPECT_LT(median(answered), 100u);
}

// Without giving way each keeps the other from answering until the kernel's slice is over: some
// thousands of polls for each message.
TEST_F(OneProcessorTest, WhoPollsInVainLetsThePeerAnswer) {
  const OneProcessor one;
  start();
  listen();
  testing::QPHandle here = server->make_qp(), there = client->make_qp();
  ASSERT_NO_FATAL_FAILURE(establish(there, here));
  std::vector<std::uint64_t> polls_here, polls_there;
  std::thread peer([&] { take_turns(*server, here, false, polls_here); });
  take_turns(*client, there, true, polls_there);
  peer.join();
  ASSERT_EQ(polls_here.size() + polls_there.size(), 2u * kTrips);
  EXPECT_LT(median(polls_here), 100u);
  EXPECT_LT(median(polls_there), 100u);
}

}  // namespace
}  // namespace weft::engine
