// Threads of a program that sleep in the device, and what they do there.
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "engine/poller_place.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::Slept;
using testing::PairTest;
using testing::QPHandle;
using testing::Side;

TEST(PollerPlaceTest, HasRoomForOne) {
  PollerPlace place;
  EXPECT_FALSE(place.taken());
  EXPECT_TRUE(place.try_take());
  EXPECT_FALSE(place.try_take());
  EXPECT_FALSE(place.leave());
  EXPECT_TRUE(place.try_take());
}

TEST(PollerPlaceTest, WhoAwaitsItComesBackWhenItIsLeft) {
  PollerPlace place;
  place.await();  // nobody is there
  ASSERT_TRUE(place.try_take());
  std::atomic<int> back{0};
  std::thread first([&] { place.await(), ++back; });
  std::thread second([&] { place.await(), ++back; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(back, 0);
  EXPECT_TRUE(place.leave());
  first.join();
  second.join();
}

TEST(PollerPlaceTest, ClosedItIsNeitherTakenNorAwaited) {
  PollerPlace place;
  ASSERT_TRUE(place.try_take());
  std::thread waiter([&] { place.await(); });
  place.close();
  waiter.join();
  place.leave();
  EXPECT_FALSE(place.try_take());
}

TEST(PollerPlaceTest, AWishIsToldOnce) {
  PollerPlace place;
  EXPECT_FALSE(place.take_wish());
  place.wish();
  EXPECT_TRUE(place.take_wish());
  EXPECT_FALSE(place.take_wish());
}

/// A queue of events as verbs/wake_fd.h has them: what is queued, and whether a sign was given.
struct Queue {
  std::atomic<std::uint32_t> queued{0};
  std::atomic<std::uint32_t> signs{0};

  void add(Rnic& rnic) {
    ++queued;
    if (!rnic.end_sleep(queued)) ++signs;
  }
};

/// Of a thread that takes all signals.
const sigset_t kTakesAll{};

class SleepTest : public PairTest {
 protected:
  void SetUp() override { start(); }
  Settings make_settings() override { return settings_for(Placement::Thread); }
  Rnic& rnic() { return server->rnic; }

  /// Sleeps until there is an event, as a blocking call does. Returns how it ended.
  Slept sleep_for(Queue& queue) {
    while (queue.queued == 0) {
      const Slept slept = rnic().sleep(queue.queued, kTakesAll);
      if (slept != Slept::Look) return slept;
    }
    return Slept::Look;
  }
  /// Waits for a thread that is about to sleep: it has to be in the poller.
  void wait_for_sleeper(Queue& queue) {
    ASSERT_TRUE(server->wait_until([&] { return rnic().sleeps_for(queue.queued); }));
  }
};

TEST_F(SleepTest, TheSleeperServesWhatComesAndNeedsNoSign) {
  Queue queue;
  std::thread::id server_of_it;
  server->on_completion_event = [&] {
    server_of_it = std::this_thread::get_id();
    queue.add(rnic());
  };
  listen();
  QPHandle client_qp = client->make_qp(), server_qp = server->make_qp();
  establish(client_qp, server_qp);
  ASSERT_FALSE(HasFatalFailure());

  // The progress thread may be on its way back from something and be faster, once or twice.
  bool served = false;
  for (int round = 0; round < 50 && !served; ++round) {
    queue.queued = queue.signs = 0;
    server->post_receive(server_qp, 1, nullptr, 0, 0);
    ASSERT_TRUE(rnic().arm_cq(server->cq.number, false).ok());
    std::thread sleeper([&] {
      ASSERT_EQ(sleep_for(queue), Slept::Look);
      served = server_of_it == std::this_thread::get_id() && queue.signs == 0;
    });
    wait_for_sleeper(queue);
    client->post_send(client_qp, {.wr_id = 2});
    sleeper.join();
    EXPECT_EQ(server->wait_completion()->status, device::CompletionStatus::Success);
    EXPECT_EQ(client->wait_completion()->status, device::CompletionStatus::Success);
  }
  EXPECT_TRUE(served);
}

/// By that the progress thread knows of programs that wait at their descriptors, and answer.
TEST_F(SleepTest, WhoAnswersAndIsToldByADescriptorIsInAnExchange) {
  listen();
  QPHandle client_qp = client->make_qp(), server_qp = server->make_qp();
  establish(client_qp, server_qp);
  ASSERT_FALSE(HasFatalFailure());
  const auto answer = [&] {
    client->post_receive(client_qp, 1, nullptr, 0, 0);
    server->post_send(server_qp, {.wr_id = 2});
    EXPECT_TRUE(client->wait_completion().has_value());
    EXPECT_TRUE(server->wait_completion().has_value());
  };
  // The client's message first.
  server->post_receive(server_qp, 1, nullptr, 0, 0);
  client->post_send(client_qp, {.wr_id = 2});
  for (Side* side : {client.get(), server.get()}) ASSERT_TRUE(side->wait_completion().has_value());

  Queue queue;
  answer();
  const std::uint32_t told = rnic().told();
  queue.add(rnic());
  EXPECT_EQ(rnic().told(), told + 1);
  queue.add(rnic());
  EXPECT_EQ(rnic().told(), told + 1) << "nothing was sent";
  answer();
  queue.add(rnic());
  EXPECT_EQ(rnic().told(), told + 2);
  EXPECT_EQ(queue.signs, 3u);

  // Nor is who sleeps in here.
  answer();
  Queue slept_for;
  std::thread sleeper([&] { ASSERT_EQ(sleep_for(slept_for), Slept::Look); });
  wait_for_sleeper(slept_for);
  slept_for.add(rnic());
  sleeper.join();
  EXPECT_EQ(slept_for.signs, 0u);
  EXPECT_EQ(rnic().told(), told + 2);
}

TEST_F(SleepTest, AnEventThatIsThereIsNotSleptThrough) {
  Queue queue;
  queue.queued = 1;
  EXPECT_EQ(rnic().sleep(queue.queued, kTakesAll), Slept::Look);
}

/// How often the RNIC was asked: once by each sleep, and more by one that looks first.
TEST_F(SleepTest, ItLooksFirstButInVainEverMoreRarely) {
  constexpr int kWaits = 31;
  int looked = 0;
  for (int wait = 0; wait < kWaits; ++wait) {
    Queue queue;
    const std::uint32_t before = rnic().empty_polls();
    std::uint32_t sleeps = 0;
    std::thread sleeper([&] {
      while (queue.queued == 0) {
        ++sleeps;
        if (rnic().sleep(queue.queued, kTakesAll) != Slept::Look) break;
      }
    });
    wait_for_sleeper(queue);
    // Until it does not look any more.
    std::uint32_t seen = 0;
    do {
      seen = rnic().empty_polls();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (rnic().empty_polls() != seen);
    queue.add(rnic());
    sleeper.join();
    const bool did = rnic().empty_polls() - before > sleeps;
    if (wait == 0) {
      EXPECT_TRUE(did);
    }
    looked += did ? 1 : 0;
  }
  EXPECT_LE(looked, 10) << "after 1, 3, 7 and 15 sleeps, and a few more where one ended early";
}

TEST_F(SleepTest, AsLongAsItFindsSomethingItLooks) {
  Queue queue;
  server->on_completion_event = [&] { queue.add(rnic()); };
  listen();
  QPHandle client_qp = client->make_qp(), server_qp = server->make_qp();
  establish(client_qp, server_qp);
  ASSERT_FALSE(HasFatalFailure());
  // The progress thread may be faster, in any number of rounds.
  constexpr int kSleeps = 25, kRoundsMax = 10'000;
  int slept = 0, looked = 0;
  for (int round = 0; slept < kSleeps && round < kRoundsMax; ++round) {
    queue.queued = 0;
    server->post_receive(server_qp, 1, nullptr, 0, 0);
    ASSERT_TRUE(rnic().arm_cq(server->cq.number, false).ok());
    client->post_send(client_qp, {.wr_id = 2});  // it is there before the sleep
    const std::uint32_t before = rnic().empty_polls();
    std::uint32_t sleeps = 0;
    while (queue.queued == 0) {
      ++sleeps;
      ASSERT_EQ(rnic().sleep(queue.queued, kTakesAll), Slept::Look);
    }
    slept += sleeps > 0 ? 1 : 0;
    looked += rnic().empty_polls() - before > sleeps ? 1 : 0;
    EXPECT_EQ(server->wait_completion()->status, device::CompletionStatus::Success);
    EXPECT_EQ(client->wait_completion()->status, device::CompletionStatus::Success);
  }
  ASSERT_GT(slept, 0);
  EXPECT_GT(2 * looked, slept);
}

TEST_F(SleepTest, OnlyItsOwnQueueEndsASleepWithoutASign) {
  Queue mine, other;
  std::thread sleeper([&] { EXPECT_EQ(sleep_for(mine), Slept::Look); });
  wait_for_sleeper(mine);
  other.add(rnic());
  EXPECT_EQ(other.signs, 1u);
  mine.add(rnic());
  sleeper.join();
  mine.add(rnic());
  EXPECT_EQ(mine.queued, 2u);
  EXPECT_EQ(mine.signs, 1u) << "of the second: nobody sleeps any more";
}

TEST_F(SleepTest, WhoComesLaterTakesThePlace) {
  Queue first, second;
  std::thread earlier([&] { EXPECT_EQ(sleep_for(first), Slept::NotHere); });
  wait_for_sleeper(first);
  std::thread later([&] { EXPECT_EQ(sleep_for(second), Slept::Look); });
  earlier.join();
  wait_for_sleeper(second);
  second.add(rnic());
  later.join();
}

/// Another thread's polls look into the poller, too, and must not take the sleeper's wake-up.
TEST_F(SleepTest, WhoPollsBesideASleeperLeavesItItsWakeUp) {
  std::atomic<bool> over{false};
  std::thread poller([&] {
    while (!over) rnic().poll(device::kNoCQ);
  });
  for (int round = 0; round < 200; ++round) {
    Queue queue;
    std::thread sleeper([&] { EXPECT_EQ(sleep_for(queue), Slept::Look); });
    wait_for_sleeper(queue);
    queue.add(rnic());
    sleeper.join();
  }
  over = true;
  poller.join();
}

TEST_F(SleepTest, ASignalEndsIt) {
  struct sigaction action = {};
  action.sa_handler = [](int) {};  // without SA_RESTART
  sigaction(SIGUSR1, &action, nullptr);
  Queue queue;
  std::atomic<bool> ended{false};
  std::thread sleeper([&] {
    EXPECT_EQ(sleep_for(queue), Slept::Interrupted);
    ended = true;
  });
  while (!ended) {
    pthread_kill(sleeper.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  sleeper.join();
}

TEST_F(SleepTest, ACancelledSleeperLeavesNothingBehind) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizers lose track of a thread that is cancelled in epoll_wait";
#endif
  Queue queue;
  std::thread sleeper([&] { sleep_for(queue); });
  wait_for_sleeper(queue);
  pthread_cancel(sleeper.native_handle());
  sleeper.join();
  EXPECT_FALSE(rnic().sleeps_for(queue.queued));
  std::thread next([&] { EXPECT_EQ(sleep_for(queue), Slept::Look); });
  wait_for_sleeper(queue);
  queue.add(rnic());
  next.join();
}

TEST_F(SleepTest, WhenTheSleeperIsGoneTheProgressThreadServes) {
  Queue queue;
  std::thread sleeper([&] { EXPECT_EQ(sleep_for(queue), Slept::Look); });
  wait_for_sleeper(queue);
  queue.add(rnic());
  sleeper.join();
  // Nobody calls into the server's device from here on.
  listen();
  QPHandle client_qp = client->make_qp();
  begin(client_qp);
}

TEST_F(SleepTest, ASleeperLearnsOfNewDeadlines) {
  Queue queue;
  std::thread sleeper([&] { EXPECT_EQ(sleep_for(queue), Slept::Look); });
  wait_for_sleeper(queue);
  // Nobody answers there: only the sleeper can notice that the time is up.
  server->on_connection_event = [&] { queue.add(rnic()); };
  QPHandle qp = server->make_qp();
  const sockaddr_in nobody = testing::ipv4("127.0.0.1", 1);
  ASSERT_TRUE(rnic()
                  .connect(nullptr, reinterpret_cast<const sockaddr*>(&nobody),
                           {.qp = qp.face.number, .ird = 1, .ord = 1, .private_data = {}}, 3)
                  .ok());
  sleeper.join();
  EXPECT_EQ(server->take_event()->event.kind, device::ConnectionEventKind::Failed);
}

/// A pipe, and a wait for it in the device.
class SleepAmongTest : public SleepTest {
 protected:
  void SetUp() override {
    SleepTest::SetUp();
    ASSERT_EQ(pipe(ends_), 0);
    watched_ = {ends_[0], POLLIN, 0};
  }
  void TearDown() override {
    close(ends_[0]);
    close(ends_[1]);
    SleepTest::TearDown();
  }
  void write_one() { ASSERT_EQ(::write(ends_[1], "x", 1), 1); }
  Slept sleep_among(const timespec* wait = nullptr) {
    return rnic().sleep_among({&watched_, 1, wait, nullptr});
  }
  void wait_for_taken_place() {
    ASSERT_TRUE(server->wait_until([&] { return rnic().sleeps_among(); }));
  }

  int ends_[2];
  pollfd watched_;
};

TEST_F(SleepAmongTest, ADescriptorEndsIt) {
  std::thread sleeper([&] {
    while (watched_.revents == 0) EXPECT_EQ(sleep_among(), Slept::Look);
    EXPECT_EQ(watched_.revents, POLLIN);
  });
  wait_for_taken_place();
  write_one();
  sleeper.join();
}

TEST_F(SleepAmongTest, ItsTimeEndsIt) {
  const timespec moment{0, 1'000'000};
  EXPECT_EQ(sleep_among(&moment), Slept::Look);
  EXPECT_EQ(watched_.revents, 0);
}

TEST_F(SleepAmongTest, WhoSleepsServesWhatComes) {
  std::thread::id server_of_it;
  std::atomic<bool> came{false};
  server->on_completion_event = [&] {
    server_of_it = std::this_thread::get_id();
    came = true;
  };
  listen();
  QPHandle client_qp = client->make_qp(), server_qp = server->make_qp();
  establish(client_qp, server_qp);
  ASSERT_FALSE(HasFatalFailure());
  bool served = false;
  for (int round = 0; round < 50 && !served; ++round) {
    came = false;
    server->post_receive(server_qp, 1, nullptr, 0, 0);
    ASSERT_TRUE(rnic().arm_cq(server->cq.number, false).ok());
    std::thread sleeper([&] {
      while (!came && watched_.revents == 0) EXPECT_NE(sleep_among(), Slept::Interrupted);
      served = came && server_of_it == std::this_thread::get_id();
    });
    wait_for_taken_place();
    client->post_send(client_qp, {.wr_id = 2});
    // The progress thread may have been faster.
    EXPECT_TRUE(server->wait_until([&] { return came.load(); }));
    write_one();
    sleeper.join();
    char octet;
    ASSERT_EQ(::read(ends_[0], &octet, 1), 1);
    watched_.revents = 0;
    EXPECT_EQ(server->wait_completion()->status, device::CompletionStatus::Success);
    EXPECT_EQ(client->wait_completion()->status, device::CompletionStatus::Success);
  }
  EXPECT_TRUE(served);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
sigjmp_buf jumped_to;

TEST_F(SleepAmongTest, WhoJumpedOutOfItCanGiveThePlaceBack) {
  struct sigaction action = {};
  action.sa_handler = [](int) { siglongjmp(jumped_to, 1); };
  sigaction(SIGUSR1, &action, nullptr);
  std::atomic<bool> jumped{false};
  std::thread sleeper([&] {
    if (sigsetjmp(jumped_to, 1) == 0) {
      sleep_among();
    } else {
      jumped = true;
      EXPECT_TRUE(rnic().sleeps_among());
      rnic().abandon_sleep();
    }
  });
  wait_for_taken_place();
  // A moment later it is in the kernel; before that the jump leaves from where it does no harm.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  pthread_kill(sleeper.native_handle(), SIGUSR1);
  sleeper.join();
  EXPECT_TRUE(jumped);
  Queue queue;
  std::thread next([&] { EXPECT_EQ(sleep_for(queue), Slept::Look); });
  wait_for_sleeper(queue);
  queue.add(rnic());
  next.join();
}
#endif

}  // namespace
}  // namespace weft::engine
