// More streams than the poller tells of by levels: what an edge tells of once is never left lying.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "engine/poller.h"
#include "engine/testing/many_streams.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::ManyStreamsTest;
using testing::Side;

constexpr std::size_t kStreams = 72;
constexpr std::uint32_t kMost = 8 * 1024 * 1024;

class EdgesTest : public ManyStreamsTest {
 protected:
  EdgesTest() : ManyStreamsTest(kStreams, kMost) {}
  /// Messages enough to make it brisk: turns beside it are short for 2 ms.
  void make_brisk(std::size_t stream) {
    for (int i = 0; i < 8; ++i) {
      receive(stream, 8);
      send(stream, 8);
      expect_from(*client, stream);
      expect_from(*server, stream);
    }
  }
};

TEST_P(EdgesTest, EachIsHeardAgainAndAgain) {
  for (int round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < kStreams; ++i) {
      receive(i, 8);
      send(i, 8);
    }
    std::vector<int> heard(kStreams);
    for (std::size_t i = 0; i < kStreams; ++i) {
      ASSERT_TRUE(client->wait_completion().has_value());
      const auto done = server->wait_completion();
      ASSERT_TRUE(done.has_value());
      ++heard[done->wr_id];
    }
    EXPECT_EQ(heard, std::vector<int>(kStreams, 1));
  }
}

/// A turn ends before the stream does: the rest comes in the next.
TEST_P(EdgesTest, WhatATurnLeavesIsReadInTheNext) {
  for (const std::size_t bulk : {kStreams - 1, kStreams - 2}) {
    for (const std::uint32_t octets : {kMost, 60'000u}) {
      receive(bulk, octets);
      make_brisk(kStreams - 3);
      send(bulk, octets);
      if (GetParam() == Placement::Inline) {
        // All that fits is there before any of it is read.
        for (int i = 0; i < 100; ++i) client->progress();
      }
      expect_from(*server, bulk);
      expect_from(*client, bulk);
    }
  }
}

/// The FIN is seen although a receive that was not filled came before it.
TEST_P(EdgesTest, TheEndBehindTheLastMessageIsSeen) {
  for (std::size_t i = kStreams - 4; i < kStreams; ++i) {
    receive(i, 8);
    send(i, 8);
    ASSERT_TRUE(client->rnic.disconnect(ends[i]).ok());
    expect_from(*server, i);
    const auto end = server->wait_event();
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->event.kind, ConnectionEventKind::Disconnected);
    EXPECT_EQ(end->event.error, 0) << end->event.text;
    expect_from(*client, i);
    ASSERT_TRUE(client->wait_event().has_value());
  }
}

/// A message waits for a receive; those behind it are not read meanwhile.
TEST_P(EdgesTest, WhatWaitedForAReceiveIsReadWhenThereIsOne) {
  constexpr std::size_t kStream = kStreams - 1;
  constexpr int kMessages = 20;
  for (int i = 0; i < kMessages; ++i) send(kStream, 4096);
  for (int i = 0; i < kMessages; ++i) expect_from(*client, kStream);
  for (int i = 0; i < 10; ++i) {
    server->progress();
    server->rnic.poll(server->cq.number);
  }
  EXPECT_TRUE(server->cq.completions.empty());
  for (int i = 0; i < kMessages; ++i) {
    receive(kStream, 4096);
    expect_from(*server, kStream);
  }
}

/// A program that polls and stops, again and again, while its thread stands back and returns.
TEST_P(EdgesTest, NothingIsLostBetweenAProgramAndItsThread) {
  for (std::uint64_t round = 1; round <= 60; ++round) {
    write_words(round);
    ASSERT_FALSE(HasFatalFailure());
    const bool polls = round % 3 != 0;
    ASSERT_TRUE(server->wait_until([&] {
      if (polls) server->rnic.poll(server->cq.number);
      if (!polls) server->progress();
      if (!polls) std::this_thread::sleep_for(std::chrono::microseconds(300));
      return is_written(round);
    })) << "round "
        << round;
  }
}

class EdgesSleepTest : public EdgesTest {};

/// A program's thread sleeps, is told of something, and the progress thread is about.
TEST_P(EdgesSleepTest, AWakeUpIsItsWhoSleeps) {
  std::atomic<std::uint32_t> queued{0}, taken{0};
  std::atomic<bool> stop{false};
  std::thread sleeper([&] {
    while (!stop) {
      if (queued > 0) {
        --queued;
        ++taken;
      } else if (server->rnic.sleep(queued, sigset_t{}) == device::Slept::NotHere) {
        std::this_thread::yield();
      }
    }
  });
  for (std::uint32_t round = 1; round <= 500; ++round) {
    const std::size_t stream = round % kStreams;
    receive(stream, 8);
    send(stream, 8);
    if (round % 3 == 0) server->rnic.poll(server->cq.number);
    ++queued;
    server->rnic.end_sleep(queued);
    EXPECT_TRUE(server->wait_until([&] { return taken == round; })) << "round " << round;
    expect_from(*server, stream);
    expect_from(*client, stream);
    if (HasFailure()) break;
  }
  stop = true;
  ++queued;
  server->rnic.end_sleep(queued);
  sleeper.join();
}

/// Of many, by edges, one or two are left, which polls ask directly. The program polls, and stops
/// behind any poll; what came is heard nevertheless, as by others.
class FewLeftTest : public EdgesTest {
 protected:
  void SetUp() override {
    EdgesTest::SetUp();
    // One more, in a CQ of its own.
    old_cq = server->cq;
    server->cq = *server->rnic.create_cq(256, 0);
    here.push_back(client->make_qp());
    there.push_back(server->make_qp());
    establish(here[kLast], there[kLast]);
    ASSERT_FALSE(HasFatalFailure());
    // It has answered once: no nudge makes up for what is lost.
    client->post_receive(here[kLast], kLast, nullptr, 0, 0);
    server->post_send(there[kLast], {.wr_id = kLast});
    expect_from(*client, kLast);
    expect_from(*server, kLast);
    for (std::size_t i = 0; i < kStreams - 1; ++i) {
      ASSERT_TRUE(client->rnic.disconnect(ends[i]).ok());
      ASSERT_TRUE(server->wait_event().has_value());
      ASSERT_TRUE(client->wait_event().has_value());
    }
  }
  /// The server's program, which calls nothing from now on.
  bool hears() {
    const auto end = std::chrono::steady_clock::now() + Side::kWait;
    while (server->cq.completions.empty() && std::chrono::steady_clock::now() < end) {
      client->progress();
      pollfd told{server->rnic.progress_fd(), POLLIN, 0};
      if (told.fd >= 0 && ::poll(&told, 1, 0) == 1) server->progress();
      std::this_thread::yield();
    }
    return !server->cq.completions.empty();
  }

  static constexpr std::size_t kLast = kStreams;
  device::CQFace old_cq;
};

TEST_P(FewLeftTest, WhatComesBetweenPollsOfAnotherCQIsHeard) {
  constexpr std::uint32_t kOctets = 8 * 1024;  // whose messages are small is asked by each poll
  for (int round = 0; round < 1000; ++round) {
    receive(kLast, kOctets);
    for (int i = 0; i < 100; ++i) server->rnic.poll(old_cq.number);
    if (round % 2 == 0) server->rnic.poll(server->cq.number);
    for (int i = 0; i < round % 97; ++i) server->rnic.poll(old_cq.number);
    send(kLast, kOctets);
    server->rnic.poll(old_cq.number);
    ASSERT_TRUE(hears()) << "round " << round;
    expect_from(*server, kLast);
    expect_from(*client, kLast);
  }
}

TEST(PollerTest, WhoAwaitsTakesTheWakeUpAndNothingElse) {
  Poller poller;
  ASSERT_TRUE(poller.open().ok());
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_NONBLOCK), 0);
  ASSERT_TRUE(poller.add(pipe[0], EPOLLIN | EPOLLET, 5).ok());
  EXPECT_FALSE(poller.await(Duration::zero()));
  poller.wake();
  EXPECT_TRUE(poller.await(std::chrono::hours(1)));
  EXPECT_FALSE(poller.await(Duration::zero()));
  ASSERT_EQ(::write(pipe[1], "x", 1), 1);
  EXPECT_TRUE(poller.await(std::chrono::hours(1)));
  std::array<epoll_event, 4> events;
  EXPECT_EQ(poller.look(events).size(), 1u);
  EXPECT_EQ(poller.look(events).size(), 0u) << "an edge is told of once";
  poller.wake();
  EXPECT_EQ(poller.look(events).size(), 0u);
  EXPECT_TRUE(poller.await(Duration::zero())) << "a wake-up is left by who looks";
  ::close(pipe[0]);
  ::close(pipe[1]);
}

INSTANTIATE_TEST_SUITE_P(Placements, EdgesTest,
                         ::testing::Values(Placement::Inline, Placement::Thread));

INSTANTIATE_TEST_SUITE_P(Placements, FewLeftTest,
                         ::testing::Values(Placement::Inline, Placement::Thread));

INSTANTIATE_TEST_SUITE_P(Placements, EdgesSleepTest, ::testing::Values(Placement::Thread));

}  // namespace
}  // namespace weft::engine
