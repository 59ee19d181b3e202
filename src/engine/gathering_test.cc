// Posts that wait for the posts behind them: which may, and that none waits in vain.
#include "engine/gathering.h"

#include <array>
#include <vector>

#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::CompletionStatus;
using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;

constexpr device::Posted kFirst{.entries = 1, .open = 0, .octets = 8};
constexpr device::Posted kAmongOthers{.entries = 1, .open = 4, .octets = 8};
constexpr std::uint64_t kBatchOctets = 512 * 1024;

std::uint32_t count_barred(Gathering& gathering, Company& company) {
  std::uint32_t count = 0;
  while (!gathering.may_wait(kAmongOthers, 0, 0, company)) ++count;
  gathering.handle_served(false, company);
  return count;
}

/// Posts once, and is served before it posts again. Did it wait?
bool waits_alone(Gathering& gathering, Company& company, std::uint32_t empty_polls) {
  const bool waits = gathering.may_wait(kAmongOthers, 0, empty_polls, company);
  gathering.handle_served(false, company);
  return waits;
}

TEST(GatheringTest, SmallPostsWaitUntilThereAreAHundredOrSo) {
  Gathering gathering;
  Company company;
  int count = 1;
  while (gathering.may_wait(kAmongOthers, 0, 0, company)) ++count;
  EXPECT_GT(count, 64);
  EXPECT_LT(count, 256);
}

TEST(GatheringTest, LargePostsWaitUntilTheyFillABatch) {
  Gathering gathering;
  Company company;
  EXPECT_TRUE(
      gathering.may_wait({.entries = 1, .open = 4, .octets = kBatchOctets / 2}, 0, 0, company));
  EXPECT_FALSE(
      gathering.may_wait({.entries = 1, .open = 5, .octets = kBatchOctets / 2}, 0, 0, company));
  gathering.handle_served(false, company);
  EXPECT_FALSE(
      gathering.may_wait({.entries = 1, .open = 4, .octets = kBatchOctets}, 0, 0, company));
}

TEST(GatheringTest, WhoIsForgottenAgainAndAgainSoonHardlyEverWaits) {
  Gathering gathering;
  std::uint32_t before = 500;
  for (int i = 0; i < 8; ++i) {
    Company company;
    ASSERT_TRUE(gathering.may_wait(kAmongOthers, 0, 0, company));
    gathering.handle_served(true, company);
    // count_barred ends with a post that did not wait in vain, which is forgiven half.
    const std::uint32_t barred = count_barred(gathering, company);
    EXPECT_GE(barred, before);
    before = barred;
    ASSERT_TRUE(gathering.may_wait(kAmongOthers, 0, 0, company));
    gathering.handle_served(true, company);
    before = count_barred(gathering, company);
    EXPECT_GE(before, barred);
  }
}

TEST(GatheringTest, WhoIsForgottenOrNotJoinedPostsAlone) {
  Gathering forgotten, other;
  Company company;
  EXPECT_FALSE(forgotten.is_lone(company));
  ASSERT_TRUE(forgotten.may_wait(kAmongOthers, 0, 0, company));
  EXPECT_FALSE(forgotten.is_lone(company));
  forgotten.handle_served(true, company);
  EXPECT_TRUE(forgotten.is_lone(company));
  EXPECT_FALSE(other.is_lone(company));
  count_barred(forgotten, company);
  EXPECT_FALSE(forgotten.is_lone(company));
  std::uint32_t polls = 0;
  while (waits_alone(other, company, ++polls)) ASSERT_LT(polls, 100u);
  EXPECT_TRUE(other.is_lone(company));
  EXPECT_TRUE(forgotten.is_lone(company));
}

TEST(GatheringTest, AMillionIsTheMost) {
  Gathering gathering;
  Company company;
  for (int i = 0; i < 40; ++i) {
    while (!gathering.may_wait(kAmongOthers, 0, 0, company)) {
    }
    gathering.handle_served(true, company);
  }
  EXPECT_LE(count_barred(gathering, company), 1u << 20);
}

TEST(CompanyTest, WhoseWaitNobodyJoinsDoesNotWaitForAThousandPosts) {
  std::array<Gathering, 4> gatherings;  // of as many QPs
  Company company;
  std::uint32_t polls = 0, waited = 0, left = 0;
  for (; waits_alone(gatherings[waited % 4], company, ++polls); ++waited) ASSERT_LT(waited, 100u);
  while (!waits_alone(gatherings[left % 4], company, ++polls)) ++left;
  EXPECT_EQ(waited, 16u);
  EXPECT_EQ(left, 1023u);
}

TEST(CompanyTest, OneThatIsJoinedNowAndThenGoesOnWaiting) {
  Gathering gathering;
  Company company;
  std::uint32_t polls = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 15; ++i) ASSERT_TRUE(waits_alone(gathering, company, ++polls)) << round;
    ASSERT_TRUE(gathering.may_wait(kAmongOthers, 0, ++polls, company));
    ASSERT_TRUE(waits_alone(gathering, company, polls));
  }
}

/// Of a stream beside many answers, of its own QP or of others.
TEST(CompanyTest, PostsThatFollowEachOtherWaitSoonWhateverElseWaitsAlone) {
  for (const std::size_t qps : {1, 2, 100}) {
    std::vector<Gathering> gatherings(qps);
    Company company;
    std::uint32_t polls = 0;
    for (int round = 0; round < 100; ++round) {
      for (std::size_t i = 0; i < 100; ++i) {
        waits_alone(gatherings[qps - 1 - i % qps], company, ++polls);
      }
      ++polls;
      int waited = 0;
      for (int i = 0; i < 64; ++i) {
        waited += gatherings[0].may_wait(kAmongOthers, 0, polls, company) ? 1 : 0;
      }
      EXPECT_GE(waited, 59) << qps << ", " << round;
      gatherings[0].handle_served(false, company);
    }
  }
}

TEST(CompanyTest, WhatFillsABatchSaysNothing) {
  Gathering gathering;
  Company company;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(
        gathering.may_wait({.entries = 1, .open = 4, .octets = kBatchOctets}, 0, 0, company));
    gathering.handle_served(false, company);
    EXPECT_TRUE(
        gathering.may_wait({.entries = 1, .open = 4, .octets = kBatchOctets / 2}, 0, 0, company));
    EXPECT_FALSE(
        gathering.may_wait({.entries = 1, .open = 5, .octets = kBatchOctets / 2}, 0, 0, company));
    gathering.handle_served(false, company);
  }
}

/// A server with receives, and a client whose posts say what they like.
class GatheringPairTest : public PairTest {
 protected:
  void SetUp() override {
    start();
    listen();
    client_qp = client->make_qp(1);
    server_qp = server->make_qp(2);
    ASSERT_NO_FATAL_FAILURE(establish(client_qp, server_qp));
    for (std::uint64_t i = 0; i < 32; ++i) server->post_receive(server_qp, i, nullptr, 0, 0);
  }
  void TearDown() override {
    client.reset();
    server.reset();
  }
  bool gathers() const { return GetParam() == Placement::Thread; }
  /// Posts one send. Did it have to wait?
  bool waits(const device::Posted& posted) {
    const std::uint32_t before = client->rnic.gathered();
    client->post_send(client_qp, {.wr_id = ++posts}, posted);
    return client->rnic.gathered() != before;
  }
  /// The client does not call: not even to look whether its send is done.
  void expect_arrivals(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto received = server->wait_completion();
      ASSERT_TRUE(received.has_value());
      EXPECT_EQ(received->status, CompletionStatus::Success);
    }
  }

  QPHandle client_qp, server_qp;
  std::uint64_t posts = 0;
};

TEST_P(GatheringPairTest, OnlyAmongOthersAPostWaits) {
  EXPECT_FALSE(waits(kFirst));
  EXPECT_FALSE(waits({.entries = 1, .open = 3, .octets = 8}));
  EXPECT_EQ(waits(kAmongOthers), gathers());
  EXPECT_FALSE(waits({.entries = 1, .open = 9, .octets = kBatchOctets}));
  expect_arrivals(4);
}

TEST_P(GatheringPairTest, WhatWaitsLeavesWhenTheProgramPolls) {
  for (int i = 0; i < 5; ++i) waits(kAmongOthers);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    const auto done = client->wait_completion();
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->wr_id, i);
  }
  expect_arrivals(5);
}

TEST_P(GatheringPairTest, WhatWaitsLeavesAlthoughTheProgramDoesNotCallAgain) {
  for (int round = 0; round < 20; ++round) {
    waits(kAmongOthers);
    expect_arrivals(1);
  }
}

TEST_P(GatheringPairTest, WhoDidNotCallAgainIsNotWaitedForAgain) {
  if (!gathers()) GTEST_SKIP() << "nothing waits in engine inline";
  // The thread may also come by for another reason, and then nothing was in vain: rarely.
  EXPECT_TRUE(client->wait_until([&] {
    const bool waited = waits(kAmongOthers);
    expect_arrivals(1);
    if (!waited) return true;
    server->post_receive(server_qp, 0, nullptr, 0, 0);
    return HasFatalFailure();
  }));
}

/// Who posted since the thread looked, or is in a call just now, has forgotten nothing.
TEST_P(GatheringPairTest, WhoIsBusyHasForgottenNothing) {
  if (!gathers()) GTEST_SKIP() << "nothing waits in engine inline";
  // So that the thread does not look. What it was woken for it does before it comes to wait.
  ASSERT_TRUE(client->wait_until([&] {
    client->rnic.poller().wake();
    return client->rnic.place().try_take();
  }));
  ASSERT_TRUE(client->wait_until([&] { return client->rnic.place().awaited(); }));
  ASSERT_TRUE(waits(kAmongOthers));
  const std::uint32_t seen = client->rnic.gathered();
  ASSERT_TRUE(waits(kAmongOthers));
  client->rnic.serve_forgotten(seen);
  expect_arrivals(2);
  EXPECT_TRUE(waits(kAmongOthers));

  client->on_connection_event = [&] {  // in a call, which holds the lock
    client->rnic.serve_forgotten(client->rnic.gathered());
  };
  const std::uint32_t before = client->rnic.gathered();
  client->rnic.serve_forgotten(before);
  expect_arrivals(1);
  EXPECT_FALSE(waits(kAmongOthers)) << "that one was forgotten";
  expect_arrivals(1);
  ASSERT_TRUE(client->rnic.disconnect(client_connection).ok());
  EXPECT_TRUE(server->wait_event().has_value());
  client->rnic.place().leave();
  EXPECT_TRUE(client->wait_event().has_value());
}

/// Who came in every turn for long is looked after seldom; what it then leaves lying still goes.
TEST_P(GatheringPairTest, WhatWaitsLeavesAlsoBehindALongStream) {
  if (!gathers()) GTEST_SKIP() << "nothing waits in engine inline";
  const auto post_one = [&] {
    server->post_receive(server_qp, 0, nullptr, 0, 0);
    return waits(kAmongOthers);
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (std::chrono::steady_clock::now() < end) {
    post_one();
    ASSERT_TRUE(client->wait_completion().has_value());
    ASSERT_NO_FATAL_FAILURE(expect_arrivals(1));
    for (int i = 0; i < 10; ++i) client->rnic.poll(client->cq.number);
  }
  // Where the thread came by for another reason, posts do not wait for a while.
  EXPECT_TRUE(client->wait_until([&] {
    const bool waited = post_one();
    expect_arrivals(1);
    while (!client->cq.completions.empty()) {
      client->cq.completions.release(client->cq.completions.consumed_own() + 1);
    }
    return waited || HasFatalFailure();
  }));
}

/// Who armed a CQ may sleep next.
TEST_P(GatheringPairTest, NothingWaitsWhileACQIsArmed) {
  ASSERT_TRUE(client->rnic.arm_cq(client->cq.number, false).ok());
  EXPECT_FALSE(waits(kAmongOthers));
  ASSERT_TRUE(client->wait_completion().has_value());
  EXPECT_FALSE(waits(kAmongOthers)) << "it was armed since the last post: the program sleeps";
  EXPECT_EQ(waits(kAmongOthers), gathers());
  expect_arrivals(3);
}

TEST_P(GatheringPairTest, ADisconnectComesBehindThePosts) {
  for (int i = 0; i < 8; ++i) waits(kAmongOthers);
  ASSERT_TRUE(client->rnic.disconnect(client_connection).ok());
  expect_arrivals(8);
  for (int i = 0; i < 8; ++i) {
    const auto done = client->wait_completion();
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->status, CompletionStatus::Success);
  }
  const auto event = server->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
  EXPECT_EQ(event->event.error, 0);
}

/// What the QP still had to send goes before it does.
TEST_P(GatheringPairTest, AQPThatIsDestroyedSendsWhatWaits) {
  for (int i = 0; i < 8; ++i) waits(kAmongOthers);
  ASSERT_TRUE(client->rnic.command_qp(client_qp.face.number, device::QPCommand::Close).ok());
  expect_arrivals(8);
}

INSTANTIATE_TEST_SUITE_P(Placements, GatheringPairTest,
                         ::testing::Values(Placement::Thread, Placement::Inline),
                         [](const auto& row) {
                           return row.param == Placement::Thread ? "Thread" : "Inline";
                         });

}  // namespace
}  // namespace weft::engine
