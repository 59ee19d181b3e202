// A program that polls without a pause: its progress thread does not look any more, and the poller
// does not watch the streams that its polls read.
#include <gtest/gtest.h>

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/testing/side.h"
#include "engine/thread/nap.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::QPHandle;
using testing::SeenEvent;

/// The server's program polls for so long that the progress thread does not look any more.
class StayTest : public testing::PairTest {
 protected:
  Settings make_settings() override { return settings_for(Placement::Thread); }
  void SetUp() override {
    start();
    listen();
    here = server->make_qp();
    there = client->make_qp();
    ASSERT_NO_FATAL_FAILURE(establish(there, here));
    all = count_watched();
    // As long as nothing comes the progress thread may wait in the poller, and not stand back.
    if (!exchange_until([&] { return server->rnic.nap().is_pushed(); })) {
      GTEST_SKIP() << kNeverStays;
    }
  }
  /// False: not in all the time that is worth waiting for. Where more programs compute than there
  /// are processors none stays.
  template <typename Done>
  bool exchange_until(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!HasFailure() && std::chrono::steady_clock::now() < end) {
      expect_exchange();
      // Not every poll notes that it came, but one of so many does.
      for (int i = 0; i < 256; ++i) server->rnic.poll(server->cq.number);
      if (done()) return true;
    }
    return false;
  }
  /// Goes on polling for twice as long as the progress thread would wait for another poll. On a
  /// busy machine the program is away now and then.
  bool stay() {
    return exchange_until([&] {
      const auto end = std::chrono::steady_clock::now() + 2 * Nap::kPushed;
      do {
        server->rnic.poll(server->cq.number);
        if (!server->rnic.nap().is_pushed()) return false;
      } while (std::chrono::steady_clock::now() < end);
      return true;
    });
  }
  void expect_exchange() {
    server->post_receive(here, 1, nullptr, 0, 0);
    client->post_send(there, {});
    EXPECT_TRUE(server->wait_completion() && client->wait_completion());
  }
  /// Nobody calls the server.
  void expect_served() {
    server->post_receive(here, 1, nullptr, 0, 0);
    client->post_send(there, {});
    EXPECT_TRUE(server->wait_until([&] { return !server->cq.completions.empty(); }));
  }
  /// How many descriptors the server's poller watches.
  int count_watched() {
    std::ifstream info("/proc/self/fdinfo/" + std::to_string(server->rnic.poller().fd()));
    int count = 0;
    for (std::string line; std::getline(info, line);) count += line.starts_with("tfd:") ? 1 : 0;
    return count;
  }

  static constexpr const char* kNeverStays = "on this machine no program stays for so long";
  QPHandle here, there;
  int all = 0;  ///< that it watches when it watches their stream
};

TEST_F(StayTest, WhoStopsIsServed) {
  expect_served();
}

TEST_F(StayTest, WhoArmsInsteadIsServed) {
  // Of the first arming nothing is known: it may sleep in the device.
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(server->rnic.arm_cq(server->cq.number, false).ok());
  }
  expect_served();
  EXPECT_TRUE(server->wait_until([&] { return server->count_cq_events() == 1; }));
}

TEST_F(StayTest, WhoStaysIsNotLookedAt) {
  if (!stay()) GTEST_SKIP() << kNeverStays;
  expect_served();
}

/// Each poll of a stream's program takes as long as many polls of another one, in which the
/// progress thread would find it gone.
class BulkTest : public testing::PairTest {
 protected:
  static constexpr std::uint32_t kOctets = 1u << 20;

  Settings make_settings() override { return settings_for(Placement::Inline); }
  void SetUp() override {
    start();
    listen();
    here = server->make_qp();
    there = client->make_qp();
    ASSERT_NO_FATAL_FAILURE(establish(there, here));
    source = client->register_octets(memory.data(), kOctets, device::kLocalWrite);
    sink = server->register_octets(their_memory.data(), kOctets,
                                   device::kLocalWrite | device::kRemoteWrite);
  }
  void write(std::uint32_t octets) {
    client->post_send(there,
                      {.opcode = device::SendOpcode::Write,
                       .address = memory.data(),
                       .octets = octets,
                       .stag = source,
                       .remote_stag = sink,
                       .remote_to = reinterpret_cast<std::uintptr_t>(their_memory.data())});
  }
  /// Returns for how many calls it counts.
  std::uint32_t poll() {
    const std::uint32_t before = server->rnic.consumer_entries();
    server->rnic.poll(server->cq.number);
    return server->rnic.consumer_entries() - before;
  }

  QPHandle here, there;
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(kOctets);
  std::vector<std::uint8_t> their_memory = std::vector<std::uint8_t>(kOctets);
  std::uint32_t source = 0, sink = 0;
};

TEST_F(BulkTest, APollThatMovesMuchCountsAsMany) {
  write(64);
  EXPECT_EQ(poll(), 1u);
  write(kOctets);
  std::uint32_t most = 0;
  EXPECT_TRUE(client->wait_until([&] {
    most = std::max(most, poll());
    client->rnic.poll(client->cq.number);
    return !client->cq.completions.empty();
  }));
  EXPECT_GE(most, 16u);
}

/// It goes on, and the poller does not watch its stream.
class LeftToPollsTest : public StayTest {
 protected:
  void SetUp() override {
    StayTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    if (!leave()) GTEST_SKIP() << kNeverStays;
  }
  bool leave() {
    if (!stay()) return false;
    const int watched = count_watched();
    // Was it away? Else it has pushed the nap, and that leaves streams to the polls.
    timespec now;
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const Instant time{std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec};
    if (!server->rnic.nap().is_pushed() || !server->rnic.presence().stays(time)) return false;
    EXPECT_EQ(watched, all - 1);
    return true;
  }
  bool watched_again() {
    return server->wait_until([&] { return count_watched() == all; });
  }
};

TEST_F(LeftToPollsTest, PollsFindWhatComes) {
  expect_exchange();
}

TEST_F(LeftToPollsTest, OfWhoStopsItIsWatchedAgain) {
  expect_served();
  EXPECT_TRUE(watched_again());
}

TEST_F(LeftToPollsTest, OfWhoStopsItIsWatchedAgainThoughNothingCame) {
  EXPECT_TRUE(watched_again());
  expect_served();
}

TEST_F(LeftToPollsTest, WhoSleepsInTheDeviceWatchesIt) {
  bool seen = false;
  // The progress thread may have come first.
  const bool done = server->wait_until([&] {
    if (!leave()) return true;
    std::atomic<std::uint32_t> events{0};
    std::thread sleeper([&] {
      while (events == 0) {
        // Another thread does the work, for a while: that wakes nobody here.
        const device::Slept slept = server->rnic.sleep(events, sigset_t{});
        if (slept == device::Slept::NotHere) std::this_thread::yield();
      }
    });
    server->wait_until([&] { return server->rnic.sleeps_for(events); });
    const int watched = count_watched();
    if (server->rnic.nap().is_pushed()) {
      EXPECT_EQ(watched, all);
      seen = true;
    }
    expect_served();
    ++events;
    server->rnic.end_sleep(events);
    sleeper.join();
    server->wait_completion();
    client->wait_completion();
    return seen || HasFailure();
  });
  EXPECT_TRUE(done);
  if (!seen) GTEST_SKIP() << kNeverStays;
}

TEST_F(LeftToPollsTest, OfMoreStreamsThanPollsAskAllAreWatched) {
  // Whoever waits, the server's program polls.
  server->peer_progress = client->peer_progress = [&] { server->rnic.poll(server->cq.number); };
  constexpr int kMore = 4;
  for (int i = 0; i < kMore; ++i) {
    QPHandle passive = server->make_qp(), active = client->make_qp();
    ASSERT_NO_FATAL_FAILURE(establish(active, passive));
  }
  all += kMore;
  const int watched = count_watched();
  if (!server->rnic.nap().is_pushed()) GTEST_SKIP() << kNeverStays;
  EXPECT_EQ(watched, all);
}

TEST_F(LeftToPollsTest, PollsFindThatThePeerIsGone) {
  server->peer_progress = nullptr;
  client.reset();
  std::optional<SeenEvent> event;
  EXPECT_TRUE(server->wait_until([&] {
    server->rnic.poll(server->cq.number);
    event = server->take_event();
    return event.has_value();
  }));
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
}

}  // namespace
}  // namespace weft::engine
