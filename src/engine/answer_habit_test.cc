// Posts of programs that look at memory for the answer.
#include "engine/answer_habit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using namespace std::chrono_literals;
using Advice = AnswerHabit::Advice;

/// A program that posts to one QP, and what comes between its posts.
class Program {
 public:
  Advice post() { return habit.note_post(qp, placed, all, now); }
  void place(std::uint32_t writes) {
    placed += writes;
    all.writes += writes;
  }
  /// An answer, which no call of the program brings, and the next post.
  Advice turn(std::uint32_t writes = 1) {
    now = now + took;
    place(writes);
    habit.note_unasked(writes, now);
    now = now + works;
    return post();
  }
  /// As turn(), but the answer is here before the post returns.
  Advice waited_turn(std::uint32_t writes = 1) {
    now = now + took;
    place(writes);
    EXPECT_TRUE(habit.has_come(placed));
    habit.tell(true, now);
    now = now + works;
    return post();
  }
  void wait_in_vain() { habit.tell(false, now); }
  /// How many turns it takes until a post is worth waiting behind.
  std::uint32_t learn(std::uint32_t writes = 1) {
    for (std::uint32_t turns = 1; turns <= 2 * AnswerHabit::kRegularMax; ++turns) {
      if (turn(writes) == Advice::Yes) return turns;
    }
    return 0;
  }

  AnswerHabit habit;
  device::QPNumber qp = 7;
  std::uint32_t placed = 0;  ///< for it
  Arrivals all;
  Instant now{1};
  Duration took = 10us;  ///< an answer
  Duration works{};      ///< so long behind it the program posts
};

TEST(AnswerHabit, IsLearntFromAnswersThatNoCallBrought) {
  Program program;
  program.post();
  EXPECT_EQ(program.learn(), AnswerHabit::kRegularMin);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(program.waited_turn(), Advice::Yes);
}

TEST(AnswerHabit, WaitsForAllWritesOfAnAnswer) {
  Program program;
  program.post();
  EXPECT_EQ(program.learn(2), AnswerHabit::kRegularMin);
  program.place(1);
  EXPECT_FALSE(program.habit.has_come(program.placed));
  program.place(1);
  EXPECT_TRUE(program.habit.has_come(program.placed));
}

TEST(AnswerHabit, IsNotThatOfWhoPolls) {
  Program program;
  program.post();
  for (int i = 0; i < 100; ++i) {
    program.place(1);  // by a poll
    EXPECT_EQ(program.post(), Advice::No);
  }
}

TEST(AnswerHabit, IsNotThatOfWhoPostsWithoutAnAnswer) {
  Program program;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(program.post(), Advice::No);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(program.turn(), Advice::No);
    EXPECT_EQ(program.post(), Advice::No);
  }
}

TEST(AnswerHabit, IsNotThatOfWhoIsSentMessagesOrWrittenToByOthers) {
  for (const auto count : {&Arrivals::receives, &Arrivals::writes}) {
    Program program;
    program.post();
    for (int i = 0; i < 100; ++i) {
      ++(program.all.*count);
      EXPECT_EQ(program.turn(), Advice::No);
    }
  }
}

TEST(AnswerHabit, IsNotThatOfManyWritesOrOfOtherNumbersEachTime) {
  Program program;
  program.post();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(program.turn(AnswerHabit::kAnswerMax + 1), Advice::No);
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(program.turn(i % 2 + 1), Advice::No);
}

TEST(AnswerHabit, IsNotThatOfWhoPostsToTwo) {
  Program program;
  for (int i = 0; i < 100; ++i) {
    program.qp = i % 2 == 0 ? 7 : 8;
    EXPECT_EQ(program.turn(), Advice::No);
  }
}

TEST(AnswerHabit, IsNotThatOfWhoDoesSomethingBeforeItLooks) {
  Program program;
  program.works = 2 * AnswerHabit::kSoon;
  program.post();
  EXPECT_EQ(program.learn(), 0u);
}

TEST(AnswerHabit, EndsWhereWorkWouldComeBehindTheAnswer) {
  Program program;
  program.post();
  program.learn();
  EXPECT_EQ(program.waited_turn(), Advice::Yes);
  program.works = 2 * AnswerHabit::kSoon;
  EXPECT_EQ(program.waited_turn(), Advice::Yes) << "it may have been disturbed";
  int more = 0;
  while (program.waited_turn() == Advice::Yes) ++more;
  EXPECT_LT(more, 8);
}

TEST(AnswerHabit, IsThatOfWhoIsDisturbedNowAndThen) {
  Program program;
  program.post();
  program.learn();
  for (int i = 1; i < 512; ++i) {
    program.works = i % 16 == 0 ? Duration{1s} : Duration{};
    EXPECT_EQ(program.waited_turn(), Advice::Yes);
  }
}

TEST(AnswerHabit, SomethingElseThatComesEndsTheWait) {
  Program program;
  program.post();
  program.learn();
  program.place(1);
  EXPECT_FALSE(program.habit.is_over(program.placed, program.all));
  ++program.all.writes;
  EXPECT_TRUE(program.habit.is_over(program.placed, program.all)) << "by another QP's peer";
  program.waited_turn();
  ++program.all.receives;
  EXPECT_TRUE(program.habit.is_over(program.placed, program.all));
}

TEST(AnswerHabit, InVainIsEverMoreRare) {
  Program program;
  program.post();
  program.learn();
  for (const int pauses : {1, 3, 7, 15}) {
    program.wait_in_vain();
    for (int i = 0; i < pauses; ++i) EXPECT_EQ(program.turn(), Advice::No) << pauses;
    EXPECT_EQ(program.turn(), Advice::Yes) << pauses;
  }
}

TEST(AnswerHabit, MoreThanTheAnswerEndsItAndItIsLearntAnewInTwiceAsManyTurns) {
  Program program;
  program.post();
  for (std::uint32_t needed = AnswerHabit::kRegularMin; needed <= AnswerHabit::kRegularMax;
       needed *= 2) {
    EXPECT_EQ(program.learn(), needed);
    program.place(1);
    program.habit.tell(true, program.now);
    EXPECT_EQ(program.turn(), Advice::Wake) << "one was waited for, another came behind it";
  }
  EXPECT_EQ(program.learn(), AnswerHabit::kRegularMax);
}

TEST(AnswerHabit, APostThatWasNotNotedIsNoSign) {
  Program program;
  program.post();
  program.learn();
  EXPECT_EQ(program.waited_turn(), Advice::Yes);
  program.habit.miss_post();
  EXPECT_EQ(program.turn(2), Advice::Wake) << "the answers to two posts";
  EXPECT_EQ(program.turn(), Advice::Yes);
}

TEST(AnswerHabit, EndsWhereManyPostsAreNotNoted) {
  Program program;
  program.post();
  program.learn();
  for (int i = 0; i < 4; ++i) {
    program.habit.miss_post();
    EXPECT_EQ(program.turn(2), Advice::Wake);
  }
  EXPECT_EQ(program.turn(), Advice::No);
}

TEST(AnswerHabit, APostOfAnotherKindEndsItAndCallsTheProgressThread) {
  Program program;
  EXPECT_FALSE(program.habit.note_other_post());
  program.post();
  program.learn();
  EXPECT_TRUE(program.habit.note_other_post());
  EXPECT_FALSE(program.habit.note_other_post());
  EXPECT_EQ(program.turn(), Advice::No);
  EXPECT_FALSE(program.habit.has_come(program.placed)) << "no answer is known";
}

TEST(AnswerHabit, TellsWhichQPsPostsAreAnswered) {
  Program program;
  program.post();
  EXPECT_FALSE(program.habit.is_answered(program.qp));
  EXPECT_FALSE(program.habit.is_another_answered(program.qp));
  ASSERT_NE(program.learn(), 0u);
  EXPECT_TRUE(program.habit.is_answered(program.qp));
  EXPECT_FALSE(program.habit.is_another_answered(program.qp));
  EXPECT_FALSE(program.habit.is_answered(program.qp + 1));
  EXPECT_TRUE(program.habit.is_another_answered(program.qp + 1));
  program.post();  // without an answer
  EXPECT_FALSE(program.habit.is_answered(program.qp));
  ASSERT_NE(program.learn(), 0u);
  EXPECT_EQ(program.habit.qp(), program.qp);
  program.habit.note_other_post();
  EXPECT_FALSE(program.habit.is_answered(program.qp));
  EXPECT_FALSE(program.habit.is_another_answered(program.qp + 1));
  EXPECT_NE(program.habit.qp(), program.qp) << "who waits for an answer there would wait on";
}

/// However long it takes until they are waited behind again: else they would wait for others.
TEST(AnswerHabit, TellsSoonWhichAreAnsweredAgain) {
  Program program;
  program.post();
  for (int i = 0; i < 8; ++i) {
    ASSERT_NE(program.learn(), 0u);
    program.post();
  }
  std::uint32_t turns = 0;
  while (!program.habit.is_answered(program.qp)) {
    ASSERT_NE(program.turn(), Advice::Yes);
    ASSERT_LE(++turns, AnswerHabit::kRegularMin);
  }
}

TEST(AnswerHabit, WaitsForTwiceAsLongAsAnswersTook) {
  Program program;
  program.post();
  program.took = 300us;
  program.learn();
  EXPECT_EQ(program.habit.wait(), 600us);
  program.took = 10us;
  for (int i = 0; i < 100; ++i) program.waited_turn();
  EXPECT_EQ(program.habit.wait(), AnswerHabit::kWaitMin);
  program.took = 1s;
  program.waited_turn();
  EXPECT_EQ(program.habit.wait(), AnswerHabit::kWaitMax);
}

/// How many posts are waited behind until one is not, to see whether the answer comes all the same.
/// 0: there is none.
std::uint32_t waited_until_probe(Program& program) {
  for (std::uint32_t posts = 1; posts <= AnswerHabit::kProbeMax; ++posts) {
    if (program.waited_turn() == Advice::Wake) return posts;
  }
  return 0;
}

TEST(AnswerHabit, IsProbedAndGoesOn) {
  Program program;
  program.post();
  program.learn();
  EXPECT_EQ(waited_until_probe(program) + 1, AnswerHabit::kProbeMin);
  EXPECT_EQ(program.turn(), Advice::Yes);
  EXPECT_EQ(waited_until_probe(program) + 1, 2 * AnswerHabit::kProbeMin);
  EXPECT_EQ(program.turn(), Advice::Yes);
}

TEST(AnswerHabit, EndsWhereAProbeFindsNoAnswer) {
  Program program;
  program.post();
  program.learn();
  ASSERT_NE(waited_until_probe(program), 0u);
  EXPECT_EQ(program.post(), Advice::Wake) << "the program did not wait for one";
  EXPECT_EQ(program.learn(), 2 * AnswerHabit::kRegularMin);
}

/// A word that a peer writes. By design nothing orders the two but the value.
[[gnu::noinline, gnu::no_sanitize("thread")]] std::uint64_t peek(const std::uint64_t& word) {
  return word;
}
/// And the RNIC may still be about to send what was here before.
[[gnu::noinline, gnu::no_sanitize("thread")]] void poke(std::uint64_t& word, std::uint64_t value) {
  word = value;
}

/// Two programs that post Writes and look at memory, and make no other call.
class AnswerTest : public testing::PairTest {
 protected:
  Settings make_settings() override { return settings_for(Placement::Thread); }
  void SetUp() override {
    start();
    listen();
    for (End* end : {&here, &there}) {
      end->side = end == &here ? client.get() : server.get();
      end->qp = end->side->make_qp();
      end->stag = end->side->register_octets(&end->words, sizeof end->words,
                                             device::kLocalWrite | device::kRemoteWrite);
    }
    establish(here.qp, there.qp);
  }
  struct End {
    testing::Side* side = nullptr;
    testing::QPHandle qp;
    std::uint32_t stag = 0;
    std::array<std::uint64_t, 2> words{};  ///< written by the peer, and to be sent
  };
  void post(End& from, End& to, std::uint64_t value) {
    poke(from.words[1], value);
    // Not signalled, for nobody polls.
    from.side->post_send(from.qp, {.opcode = device::SendOpcode::Write,
                                   .address = &from.words[1],
                                   .octets = sizeof value,
                                   .stag = from.stag,
                                   .remote_stag = to.stag,
                                   .remote_to = reinterpret_cast<std::uintptr_t>(&to.words[0]),
                                   .flags = 0},
                         posted);
  }
  /// Answers whatever number comes by the same, until it is told to stop.
  void answer(std::atomic<bool>& stop) {
    for (std::uint64_t seen = 0; !stop.load();) {
      const std::uint64_t value = peek(there.words[0]);
      if (value == seen) continue;
      seen = value;
      post(there, here, value);
    }
  }
  /// Posts numbers and looks for them until as many answers in a row were here when the post
  /// returned, and the progress thread stands back for it. False: not in time.
  bool exchange_until_waited(int wanted) {
    const auto end = std::chrono::steady_clock::now() + 5s;
    for (int waited = 0; waited < wanted || !here.side->rnic.nap().is_under_way();) {
      post(here, there, ++number);
      waited = peek(here.words[0]) == number ? waited + 1 : 0;
      while (peek(here.words[0]) != number) {
        if (std::chrono::steady_clock::now() > end) return false;
      }
    }
    return true;
  }

  /// The same, with somebody who answers meanwhile.
  bool is_waited_for() {
    std::atomic<bool> stop{false};
    std::thread other([&] { answer(stop); });
    const bool waited = exchange_until_waited(4);
    stop = true;
    other.join();
    return waited;
  }

  End here, there;
  device::Posted posted;  ///< how each post looks to its program
  std::uint64_t number = 0;
};

TEST_F(AnswerTest, IsHereWhenThePostReturns) {
  ASSERT_FALSE(HasFatalFailure());
  // Where more programs compute than there are processors nobody answers in time.
  if (!is_waited_for()) GTEST_SKIP() << "on this machine no answer comes so soon";
}

/// As in the middle of a stream, in which posts wait for the next ones: they do not for long.
TEST_F(AnswerTest, IsHereAlsoWhereNoPostIsKnownToBeDone) {
  ASSERT_FALSE(HasFatalFailure());
  constexpr device::Posted kInAStream{.entries = 1, .open = 16, .octets = 8};
  constexpr int kTimes = 3;
  for (int i = 0; i < kTimes; ++i) {
    posted = kInAStream;
    if (is_waited_for()) return;
    posted = {};
    if (!is_waited_for()) GTEST_SKIP() << "on this machine no answer comes so soon";
  }
  ADD_FAILURE() << "it is where each post is by itself";
}

TEST_F(AnswerTest, ThatComesLateIsPlacedThoughNobodyCalls) {
  ASSERT_FALSE(HasFatalFailure());
  constexpr int kTimes = 10;
  int awake = 0;
  for (int i = 0; i < kTimes; ++i) {
    if (!is_waited_for()) GTEST_SKIP() << "on this machine no answer comes so soon";
    post(here, there, ++number);  // nobody answers: so in the end the progress thread is called
    awake += client->rnic.nap().is_under_way() ? 0 : 1;
    ASSERT_TRUE(client->wait_until([&] { return peek(there.words[0]) == number; }));
    post(there, here, number);
    ASSERT_TRUE(client->wait_until([&] { return peek(here.words[0]) == number; }));
  }
  EXPECT_GT(awake, kTimes / 2) << "or it sleeps on, and what comes late lies there meanwhile";
}

}  // namespace
}  // namespace weft::engine
