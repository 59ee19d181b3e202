// Bulk leaves as the pages that it lies in: WRs are complete when the peer has read them, not
// before, and whoever ends the stream meanwhile leaves nothing behind.
#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "engine/testing/splicing.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::QPHandle;
using testing::RawPeer;
using testing::SplicingTest;

constexpr auto kSuccess = static_cast<std::uint8_t>(core::WorkStatus::Success);

/// What is spliced lies in the program's memory.
class SpliceTest : public SplicingTest {
 protected:
  Settings make_settings() override {
    Settings settings = SplicingTest::make_settings();
    settings.splice_always = true;
    return settings;
  }
  /// A Send of memory that cannot be read any more, and where nothing else comes to lie.
  void post_gone(std::uint64_t id) {
    constexpr std::size_t kGone = 256 * 1024;
    void* gone = ::mmap(nullptr, kGone, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(gone, MAP_FAILED);
    const std::uint32_t gone_stag = client->register_octets(gone, kGone, 0);
    ASSERT_EQ(::mprotect(gone, kGone, PROT_NONE), 0);
    client->post_send(qp, {.opcode = device::SendOpcode::Send,
                           .wr_id = id,
                           .address = gone,
                           .octets = kGone,
                           .stag = gone_stag});
  }
  /// Of WR 100 and WR 101.
  void expect_success_and_fault() {
    const auto first = client->wait_completion(), second = client->wait_completion();
    ASSERT_TRUE(first.has_value() && second.has_value());
    EXPECT_EQ(first->wr_id, 100u);
    EXPECT_EQ(static_cast<std::uint8_t>(first->status), kSuccess);
    EXPECT_EQ(second->wr_id, 101u);
    EXPECT_EQ(second->status, device::CompletionStatus::LocalProtection);
  }
};

/// Nobody looks at what is sent before the kernel does.
class SpliceUnlookedTest : public SpliceTest {
 protected:
  Settings make_settings() override {
    Settings settings = SpliceTest::make_settings();
    settings.crc = false;
    return settings;
  }
};

TEST_P(SpliceUnlookedTest, MemoryThatIsGoneIsBlamedOnItsOwnWorkRequest) {
  post_unread(100, 200'000);
  post_gone(101);
  expect_success_and_fault();
}

TEST_P(SpliceTest, AWorkRequestIsCompleteWhenThePeerHasReadIt) {
  post_unread(100, 200'000);
  for (int i = 0; i < 300; ++i) {
    client->rnic.poll(client->cq.number);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  EXPECT_TRUE(client->cq.completions.empty()) << "its memory is still read from";
  read_until_quiet();
  const auto done = client->wait_completion();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->wr_id, 100u);
  EXPECT_EQ(static_cast<std::uint8_t>(done->status), kSuccess);
}

TEST_P(SpliceTest, WhoAsksOnAndOnHearsWhatWasRead) {
  post_unread(100, 200'000);
  EXPECT_EQ(client->rnic.progress_spliced(), SplicedState::NoneRead);
  EXPECT_TRUE(client->cq.completions.empty());
  while (read_some() != 0) {
  }
  EXPECT_TRUE(client->wait_until(
      [&] { return client->rnic.progress_spliced() == SplicedState::None; }));
  EXPECT_FALSE(client->cq.completions.empty());
  EXPECT_EQ(client->rnic.progress_spliced(), SplicedState::None);
}

// A program that makes no call for it: the thread alone sees to what is left.
TEST_P(SpliceTest, WhatIsLeftIsSentAsThePeerReads) {
  if (GetParam() == Placement::Inline) GTEST_SKIP() << "without a thread somebody has to call";
  constexpr std::uint64_t kCount = 16;
  for (std::uint64_t i = 0; i < kCount; ++i) post(200 + i, kMemory);
  std::uint64_t done = 0;
  ASSERT_TRUE(client->wait_until([&] {
    read_some();
    while (!client->cq.completions.empty()) {
      EXPECT_EQ(client->wait_completion()->wr_id, 200 + done++);
    }
    return done == kCount;
  }));
}

TEST_P(SpliceTest, CompletionsKeepTheirOrderBehindIt) {
  post_unread(100, 200'000);
  post_unread(101, 10);
  EXPECT_TRUE(client->cq.completions.empty());
  read_until_quiet();
  EXPECT_EQ(client->wait_completion()->wr_id, 100u);
  EXPECT_EQ(client->wait_completion()->wr_id, 101u);
}

// More than may be under way: it goes on as the peer reads.
TEST_P(SpliceTest, ThereIsNoEndToWhatCanBeSent) {
  constexpr std::uint64_t kCount = 48;
  std::uint64_t done = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) post(200 + i, kMemory);
  ASSERT_TRUE(client->wait_until([&] {
    client->rnic.poll(client->cq.number);
    read_some();
    while (!client->cq.completions.empty()) {
      EXPECT_EQ(client->wait_completion()->wr_id, 200 + done++);
    }
    return done == kCount;
  }));
}

// Who sleeps is woken, although nothing arrives that would tell.
TEST_P(SpliceTest, WhoSleepsForACompletionGetsIt) {
  if (GetParam() == Placement::Inline) GTEST_SKIP() << "without a thread nobody sleeps in here";
  post_unread(100, 200'000);
  ASSERT_TRUE(client->rnic.arm_cq(client->cq.number, false).ok());
  const int before = client->count_cq_events();
  while (read_some() != 0) {
  }
  ASSERT_TRUE(client->wait_until([&] { return client->count_cq_events() > before; }));
  EXPECT_EQ(client->wait_completion()->wr_id, 100u);
}

// The peer reads while our program ends the connection: what it has read is complete.
TEST_P(SpliceTest, WhatIsBeingReadIsCompleteAtADisconnect) {
  post_unread(100, 200'000);
  post(101, kMemory);
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) {
      if (read_some() == 0) std::this_thread::yield();
    }
  });
  EXPECT_TRUE(client->rnic.disconnect(connection).ok());
  const auto first = client->wait_completion(), second = client->wait_completion();
  over = true;
  reader.join();
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(static_cast<std::uint8_t>(first->status), kSuccess);
  EXPECT_EQ(static_cast<std::uint8_t>(second->status), kSuccess) << "it was posted before";
}

// What the peer has read before it left is not flushed with the rest.
TEST_P(SpliceTest, WhatWasReadBeforeThePeerLeftIsComplete) {
  post_unread(100, 200'000);
  while (waiting_at_peer() != 0) read_some();
  peer->close();
  const auto done = client->wait_completion();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(static_cast<std::uint8_t>(done->status), kSuccess);
}

// It had acknowledged all or not: TCP had it, or had not.
TEST_P(SpliceTest, APeerThatLeavesWithoutReadingHoldsNothing) {
  post_unread(100, 200'000);
  peer->reset();
  EXPECT_TRUE(client->wait_completion().has_value());
  const auto event = client->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
}

// Of what was sent and what could not be read the latter is to blame.
TEST_P(SpliceTest, MemoryThatIsGoneIsBlamedOnItsOwnWorkRequest) {
  post_unread(100, 200'000);
  post_gone(101);
  read_until_quiet();  // there is a Terminate behind the first
  expect_success_and_fault();
}

/// Where the kernel told it so far, nothing comes any more.
void silence_kernel() {
  int silenced = 0;
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 3; fd < 4096; ++fd) {
    int protocol = 0, domain = 0;
    socklen_t octets = sizeof protocol;
    if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &octets) < 0) continue;
    if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &octets) < 0) continue;
    if (domain != AF_NETLINK || protocol != NETLINK_SOCK_DIAG) continue;
    ASSERT_EQ(::dup2(nowhere, fd), fd);
    ++silenced;
  }
  ::close(nowhere);
  ASSERT_EQ(silenced, 1);
}

// Whether the peer has read it cannot be known any more: nobody waits for that for ever.
TEST_P(SpliceTest, AStreamEndsWhereTheKernelTellsNothing) {
  post_unread(100, 200'000);
  silence_kernel();
  const auto done = client->wait_completion();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->wr_id, 100u);
  EXPECT_EQ(done->status, device::CompletionStatus::Flushed);
  const auto event = client->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
  EXPECT_EQ(event->event.error, EIO);
}

TEST_P(SpliceTest, AQueuePairMayGoBeforeThePeerHasRead) {
  post_unread(100, 200'000);
  post(101, kMemory);
  EXPECT_TRUE(client->rnic.destroy_qp(qp.face.number).ok());
  const auto event = client->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
}

// A peer that has not promised, as any that is not weft: everything is copied, as ever.
TEST_P(SpliceTest, WhoPromisesNothingIsSentCopies) {
  const RawPeer first = std::move(*peer);
  connect(false);
  send_bulk();
  post_unread(100, 200'000);
  const auto done = client->wait_completion();
  ASSERT_TRUE(done.has_value()) << "TCP has it all";
  EXPECT_EQ(done->wr_id, 100u);
}

INSTANTIATE_TEST_SUITE_P(Placements, SpliceTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });
INSTANTIATE_TEST_SUITE_P(Placements, SpliceUnlookedTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
