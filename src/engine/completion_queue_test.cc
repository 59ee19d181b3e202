// Which entries of a CQ give events, how often, and how long moderation keeps them back.
#include "engine/completion_queue.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

class CompletionQueueTest : public ::testing::Test {
 protected:
  bool push() { return cq.push({}) == CompletionQueue::Pushed::Notify; }
  void read(std::uint32_t count) {
    device::Ring ring = cq.ring();
    ring.release(read_ += count);
  }
  CompletionQueue cq{1, std::move(*CompletionQueue::make_memory(16)), 0};

 private:
  std::uint32_t read_ = 0;
};

TEST_F(CompletionQueueTest, OneEventForEachCompletionOfAConsumerThatArmsBeforeItReads) {
  EXPECT_FALSE(cq.arm(false));
  for (int i = 0; i < 40; ++i) {  // round the ring more than twice
    EXPECT_TRUE(push());
    EXPECT_FALSE(cq.arm(false)) << "entry " << i << " gave its event already";
    read(1);
  }
}

TEST_F(CompletionQueueTest, EventsDoNotEndWhileEntriesWait) {
  EXPECT_FALSE(cq.arm(false));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(push(), i == 0);
  // The consumer arms after each event and reads three: it has to get at all ten.
  EXPECT_TRUE(cq.arm(false));
  read(3);
  EXPECT_TRUE(cq.arm(false));
  read(3);
  EXPECT_TRUE(cq.arm(false));
  read(3);
  EXPECT_TRUE(cq.arm(false));
  read(1);
  EXPECT_FALSE(cq.arm(false));  // nothing is unread
  EXPECT_TRUE(push());
}

TEST_F(CompletionQueueTest, WhoReadsOneEntryPerEventAndArmsBeforeGetsAtAll) {
  EXPECT_FALSE(cq.arm(false));
  std::uint32_t events = 0;
  for (int i = 0; i < 10; ++i) events += push();
  for (std::uint32_t taken = 0; taken < 10; ++taken) {
    ASSERT_GT(events, 0u) << "asleep with " << 10 - taken << " entries unread";
    --events;
    events += cq.arm(false);
    read(1);
  }
  EXPECT_EQ(events, 0u);
}

TEST_F(CompletionQueueTest, ACQThatNobodyReadsGivesNoMoreEventsThanItHasEntries) {
  // perftest's receiver takes and arms again for the completions of its credits, but reads them
  // only at the end.
  EXPECT_FALSE(cq.arm(false));
  int events = 0;
  for (int i = 0; i < 5; ++i) events += push();
  for (int i = 0; i < 20; ++i) events += cq.arm(false);
  EXPECT_EQ(events, 5);
  EXPECT_TRUE(push()) << "it is armed";
}

TEST_F(CompletionQueueTest, ASolicitedEventDoesNotSilenceTheEntriesBeforeIt) {
  EXPECT_FALSE(push());
  EXPECT_FALSE(push());
  EXPECT_FALSE(cq.arm(true)) << "none is solicited";
  device::CompletionEntry solicited = {};
  solicited.flags = device::kSolicitedEvent;
  EXPECT_EQ(cq.push(solicited), CompletionQueue::Pushed::Notify);
  read(1);
  EXPECT_TRUE(cq.arm(false)) << "two are unread, one of them has had no event";
}

TEST_F(CompletionQueueTest, AnEntryWithoutAnEventGivesOneWhenArmed) {
  EXPECT_FALSE(push());
  EXPECT_TRUE(cq.arm(false));
  EXPECT_FALSE(cq.arm(false));
  ASSERT_TRUE(cq.resize(64));
  EXPECT_FALSE(cq.arm(false)) << "moved, but still the same entry";
}

class ModerationTest : public CompletionQueueTest {
 protected:
  using Pushed = CompletionQueue::Pushed;
  static constexpr Instant kEnd{1'000};

  Pushed push(device::CompletionStatus status = device::CompletionStatus::Success,
              std::uint16_t flags = 0) {
    device::CompletionEntry entry = {};
    entry.status = status;
    entry.flags = static_cast<decltype(entry.flags)>(flags);
    return cq.push(entry);
  }
  void moderate(std::uint16_t count, std::uint16_t period_us) {
    cq.moderate({.count = count, .period_us = period_us});
  }
};

TEST_F(ModerationTest, TheCountGivesTheEventAndCountsAnewAfterEachArming) {
  moderate(3, 0);
  for (int round = 0; round < 12; ++round) {  // round the ring more than twice
    EXPECT_FALSE(cq.arm(false));
    EXPECT_EQ(push(), Pushed::Quiet);
    EXPECT_EQ(push(), Pushed::Quiet);
    EXPECT_EQ(push(), Pushed::Notify);
    EXPECT_FALSE(cq.deadline().has_value());
    EXPECT_EQ(push(), Pushed::Quiet) << "not armed";
    read(4);
  }
}

TEST_F(ModerationTest, ThePeriodBeginsWithTheFirstCompletionAndGivesOneEvent) {
  moderate(0, 50);
  EXPECT_EQ(cq.period(), std::chrono::microseconds(50));
  EXPECT_FALSE(cq.arm(false));
  EXPECT_FALSE(cq.wants_timer()) << "nothing is held yet";
  EXPECT_EQ(push(), Pushed::Hold);
  cq.hold_until(kEnd);
  EXPECT_EQ(push(), Pushed::Quiet) << "its end is known";
  EXPECT_EQ(cq.deadline(), kEnd);
  EXPECT_TRUE(cq.end_hold());
  EXPECT_FALSE(cq.deadline().has_value());
  EXPECT_FALSE(cq.end_hold());
}

TEST_F(ModerationTest, TheCountEndsAHoldBeforeItsTime) {
  moderate(2, 50);
  EXPECT_FALSE(cq.arm(false));
  EXPECT_EQ(push(), Pushed::Hold);
  cq.hold_until(kEnd);
  EXPECT_EQ(push(), Pushed::Notify);
  EXPECT_FALSE(cq.deadline().has_value());
  EXPECT_FALSE(cq.end_hold());
  read(2);
  EXPECT_FALSE(cq.arm(false));
  EXPECT_EQ(push(), Pushed::Hold) << "a new hold has a new end";
}

TEST_F(ModerationTest, WithoutBoundsOrWithACountOfOneNothingIsKeptBack) {
  struct Row {
    std::uint16_t count, period_us;
  };
  for (const auto& [count, period_us] : {Row{0, 0}, Row{1, 0}, Row{1, 50}}) {
    moderate(9, 9);
    moderate(count, period_us);
    EXPECT_FALSE(cq.arm(false));
    EXPECT_EQ(push(), Pushed::Notify) << count << " " << period_us;
    read(1);
  }
}

TEST_F(ModerationTest, ASolicitedOnlyArmingGetsItsEventAtOnce) {
  moderate(9, 50);
  EXPECT_FALSE(cq.arm(true));
  EXPECT_EQ(push(), Pushed::Quiet);
  EXPECT_FALSE(cq.wants_timer());
  EXPECT_EQ(push(device::CompletionStatus::Success, device::kSolicitedEvent), Pushed::Notify);
}

TEST_F(ModerationTest, ASolicitedCompletionOfACQArmedForAnyIsOneOfMany) {
  moderate(2, 0);
  EXPECT_FALSE(cq.arm(false));
  EXPECT_EQ(push(device::CompletionStatus::Success, device::kSolicitedEvent), Pushed::Quiet);
  EXPECT_EQ(push(), Pushed::Notify);
}

TEST_F(ModerationTest, AFailedCompletionGivesTheEventAtOnce) {
  moderate(9, 0);
  EXPECT_FALSE(cq.arm(false));
  EXPECT_EQ(push(), Pushed::Quiet);
  EXPECT_EQ(push(device::CompletionStatus::Flushed), Pushed::Notify);
  EXPECT_FALSE(cq.end_hold()) << "one event for both";
}

TEST_F(ModerationTest, TheEntryThatFillsTheRingGivesTheEventAtOnceAndTheNextOverflows) {
  moderate(100, 0);
  EXPECT_FALSE(cq.arm(false));
  for (int i = 0; i < 15; ++i) EXPECT_EQ(push(), Pushed::Quiet);
  EXPECT_EQ(push(), Pushed::Notify) << "or nobody would ever be told";
  EXPECT_TRUE(cq.arm(false)) << "15 have had no event, and no more can come";
  EXPECT_EQ(push(), Pushed::Overflowed);
  EXPECT_FALSE(cq.end_hold());
  EXPECT_FALSE(cq.deadline().has_value());
}

TEST_F(ModerationTest, ANudgeDoesNotWait) {
  moderate(9, 50);
  EXPECT_FALSE(cq.arm(false));
  EXPECT_EQ(push(), Pushed::Hold);
  cq.hold_until(kEnd);
  EXPECT_TRUE(cq.nudge());
  EXPECT_FALSE(cq.end_hold()) << "the hold went with the arming";
}

TEST_F(ModerationTest, WhatWaitsUnreadWhenArmedCountsAndIsHeldLikeTheRest) {
  moderate(3, 50);
  push();
  push();
  EXPECT_FALSE(cq.arm(false));
  EXPECT_TRUE(cq.wants_timer()) << "or the two would wait for a third for ever";
  cq.hold_until(kEnd);
  EXPECT_EQ(push(), Pushed::Notify);
  EXPECT_FALSE(cq.arm(false)) << "two have had no event";
  EXPECT_TRUE(cq.wants_timer());
  cq.hold_until(kEnd);
  EXPECT_TRUE(cq.end_hold());
  EXPECT_FALSE(cq.arm(false));
  EXPECT_TRUE(cq.end_hold());
  EXPECT_FALSE(cq.arm(false));
  EXPECT_FALSE(cq.wants_timer()) << "three entries had three events";
}

TEST_F(ModerationTest, EnoughUnreadEntriesGiveTheEventWithTheArming) {
  moderate(3, 0);
  for (int i = 0; i < 3; ++i) push();
  EXPECT_TRUE(cq.arm(false));
  moderate(9, 0);
  push(device::CompletionStatus::Flushed);
  EXPECT_TRUE(cq.arm(false)) << "one of them failed";
}

TEST_F(ModerationTest, ArmingAgainDoesNotPutTheEndOff) {
  moderate(3, 50);
  EXPECT_FALSE(cq.arm(false));
  EXPECT_EQ(push(), Pushed::Hold);
  cq.hold_until(kEnd);
  EXPECT_FALSE(cq.arm(false));
  EXPECT_EQ(cq.deadline(), kEnd);
  EXPECT_FALSE(cq.arm(true)) << "an arming is not narrowed";
  EXPECT_EQ(push(), Pushed::Quiet);
  EXPECT_EQ(push(), Pushed::Notify);
}

TEST_F(ModerationTest, AnEventForWhatWasReadMeanwhileAccountsForNothingLater) {
  moderate(9, 50);
  EXPECT_FALSE(cq.arm(false));
  EXPECT_EQ(push(), Pushed::Hold);
  cq.hold_until(kEnd);
  read(1);
  EXPECT_TRUE(cq.end_hold());
  EXPECT_EQ(push(), Pushed::Quiet);
  EXPECT_FALSE(cq.arm(false));
  EXPECT_TRUE(cq.wants_timer()) << "the second entry is owed an event of its own";
}

TEST_F(ModerationTest, AHoldSurvivesResizingUnlessTheNewRingIsFull) {
  moderate(9, 50);
  EXPECT_FALSE(cq.arm(false));
  for (int i = 0; i < 4; ++i) push();
  cq.hold_until(kEnd);
  ASSERT_TRUE(cq.resize(64));
  EXPECT_EQ(cq.deadline(), kEnd);
  EXPECT_FALSE(cq.full_hold());
  ASSERT_TRUE(cq.resize(4));
  EXPECT_TRUE(cq.full_hold());
  EXPECT_TRUE(cq.end_hold());
  EXPECT_FALSE(cq.full_hold());
}

}  // namespace
}  // namespace weft::engine
