// Which entries of a CQ give events, and how often.
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

}  // namespace
}  // namespace weft::engine
