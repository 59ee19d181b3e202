// Tests of the event queues: order, accounts, waiting, and waiting inline.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "verbs/async_queue.h"
#include "verbs/completion_channel.h"
#include "verbs/testing/fake_device.h"

namespace weft::verbs {
namespace {

using device::AsyncEventKind;

struct NoEvents final : device::Events {
  void handle_completion_event(std::uint64_t) override {}
  void handle_async_event(const device::AsyncEvent&) override {}
  void handle_connection_event(const device::ConnectionEvent&) override {}
};

bool readable(int fd) {
  pollfd watched = {fd, POLLIN, 0};
  return ::poll(&watched, 1, 0) == 1;
}
void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest() { cq_a.owner = &cq_a, cq_b.owner = &cq_b; }
  void open() { ASSERT_TRUE(channel.open(device, Numbers::Lowest)); }
  void* get() {
    void* owner = nullptr;
    const int code = channel.get(&owner);
    EXPECT_EQ(code, 0);
    return owner;
  }

  NoEvents events;
  testing::FakeDevice device{events};
  CompletionChannel channel;
  CompletionEventState cq_a, cq_b;
};

TEST_F(ChannelTest, GivesEachEventOnce) {
  open();
  set_nonblocking(channel.fd());
  EXPECT_FALSE(readable(channel.fd()));
  channel.notify(cq_a);
  EXPECT_TRUE(readable(channel.fd()));
  EXPECT_EQ(get(), &cq_a);
  EXPECT_FALSE(readable(channel.fd()));
  void* owner;
  EXPECT_EQ(channel.get(&owner), EAGAIN);
}

TEST_F(ChannelTest, CQsTakeTurns) {
  open();
  for (int i = 0; i < 3; ++i) channel.notify(cq_a);
  channel.notify(cq_b);
  EXPECT_EQ(get(), &cq_a);
  EXPECT_EQ(get(), &cq_b);
  EXPECT_EQ(get(), &cq_a);
  EXPECT_EQ(get(), &cq_a);
  EXPECT_FALSE(readable(channel.fd()));
}

TEST_F(ChannelTest, AnEventThatIsTakenIsNotCounted) {
  open();
  set_nonblocking(channel.fd());
  bool takes = true;
  channel.hand([](void* cookie) { return *static_cast<bool*>(cookie); }, &takes);
  channel.notify(cq_a);
  EXPECT_FALSE(readable(channel.fd()));
  EXPECT_EQ(get(), &cq_a);
  takes = false;
  channel.notify(cq_b);
  EXPECT_TRUE(readable(channel.fd()));
  EXPECT_EQ(get(), &cq_b);
  EXPECT_FALSE(readable(channel.fd()));
}

TEST_F(ChannelTest, WhatWasTakenButNotFetchedCountsWhenNobodyTakesAnyMore) {
  open();
  set_nonblocking(channel.fd());
  channel.hand([](void*) { return true; }, nullptr);
  channel.notify(cq_a);
  EXPECT_FALSE(readable(channel.fd()));
  channel.hand(nullptr, nullptr);
  EXPECT_TRUE(readable(channel.fd()));
  EXPECT_EQ(get(), &cq_a);
  EXPECT_FALSE(readable(channel.fd()));
}

TEST_F(ChannelTest, RetireTakesBackWhatWasNotDelivered) {
  open();
  channel.notify(cq_a);
  channel.notify(cq_b);
  channel.notify(cq_a);
  channel.retire(cq_a);
  EXPECT_EQ(get(), &cq_b);
  EXPECT_FALSE(readable(channel.fd()));
  channel.notify(cq_a);  // the tail of the list is still in order
  EXPECT_EQ(get(), &cq_a);
}

TEST_F(ChannelTest, RetireWaitsForAcknowledgements) {
  open();
  channel.notify(cq_a);
  channel.notify(cq_a);
  get();
  get();
  std::atomic<bool> retired{false};
  std::thread destroyer([&] {
    channel.retire(cq_a);
    retired = true;
  });
  channel.acknowledge(cq_a, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(retired);
  channel.acknowledge(cq_a, 1);
  destroyer.join();
  EXPECT_TRUE(retired);
}

TEST_F(ChannelTest, TooManyAcknowledgementsDoNotHang) {
  open();
  channel.notify(cq_a);
  get();
  channel.acknowledge(cq_a, 5);
  channel.retire(cq_a);
}

TEST_F(ChannelTest, WaitsUntilThereIsAnEvent) {
  open();
  std::thread notifier([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    channel.notify(cq_b);
  });
  EXPECT_EQ(get(), &cq_b);
  notifier.join();
}

TEST_F(ChannelTest, ManyWaitersGetOneEventEach) {
  open();
  constexpr int kWaiters = 4;
  std::atomic<int> got{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&] {
      void* owner = nullptr;
      if (channel.get(&owner) == 0 && owner == &cq_a) ++got;
    });
  }
  for (int i = 0; i < kWaiters; ++i) channel.notify(cq_a);
  for (auto& waiter : waiters) waiter.join();
  EXPECT_EQ(got, kWaiters);
  EXPECT_FALSE(readable(channel.fd()));
}

TEST_F(ChannelTest, ASignalEndsTheWait) {
  open();
  struct sigaction action = {};
  action.sa_handler = [](int) {};  // without SA_RESTART
  sigaction(SIGUSR1, &action, nullptr);
  std::atomic<int> code{-1};
  std::thread waiter([&] {
    void* owner;
    code = channel.get(&owner);
  });
  while (code == -1) {
    pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  waiter.join();
  EXPECT_EQ(code, EINTR);
}

/// Hears of SIGUSR1 for the time of a test.
class Hearing {
 public:
  static std::atomic<int> heard;

  explicit Hearing(int flags) {
    heard = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { ++heard; };
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, &before_);
  }
  ~Hearing() { sigaction(SIGUSR1, &before_, nullptr); }
  Hearing(const Hearing&) = delete;
  Hearing& operator=(const Hearing&) = delete;

 private:
  struct sigaction before_;
};
std::atomic<int> Hearing::heard;

/// Of a program that goes by EINTR none may get lost.
TEST_F(ChannelTest, ASignalThatComesWhileTheWaiterWorksEndsTheWait) {
  open();
  const Hearing hearing(0);
  int sleeps = 0;
  device.on_sleep = [&] {
    if (++sleeps == 3) raise(SIGUSR1);
    EXPECT_EQ(Hearing::heard, 0) << "with the device's work half done";
    EXPECT_LE(sleeps, 3);
    return device::Slept::Look;
  };
  void* owner;
  EXPECT_EQ(channel.get(&owner), EINTR);
  EXPECT_EQ(Hearing::heard, 1);
  EXPECT_EQ(sleeps, 3);
}

TEST_F(ChannelTest, AnEventIsMoreThanASignal) {
  open();
  const Hearing hearing(0);
  device.on_sleep = [&] {
    raise(SIGUSR1);
    channel.notify(cq_a);
    return device::Slept::Look;
  };
  EXPECT_EQ(get(), &cq_a);
  EXPECT_EQ(Hearing::heard, 1);
}

TEST_F(ChannelTest, AWaitGoesOnAfterAHandlerThatRestarts) {
  open();
  const Hearing hearing(SA_RESTART);
  int sleeps = 0;
  device.on_sleep = [&] {
    if (++sleeps == 1) raise(SIGUSR1);
    if (sleeps == 2) return device::Slept::Interrupted;
    if (sleeps == 3) channel.notify(cq_a);
    return device::Slept::Look;
  };
  EXPECT_EQ(get(), &cq_a);
  EXPECT_EQ(Hearing::heard, 1);
}

TEST_F(ChannelTest, InlineASignalThatComesAtWorkEndsTheWait) {
  device.become_inline();
  open();
  const Hearing hearing(0);
  int turns = 0;
  device.on_progress = [&] {
    if (++turns == 1) return device.signal_progress();  // before it waits
    raise(SIGUSR1);
    EXPECT_EQ(Hearing::heard, 0);
  };
  void* owner;
  EXPECT_EQ(channel.get(&owner), EINTR);
  EXPECT_EQ(Hearing::heard, 1);
}

TEST_F(ChannelTest, WhatASleeperFindsByItselfIsNotCountedAndTheRestIs) {
  open();
  int sleeps = 0;
  device.on_sleep = [&] {
    if (++sleeps == 2) {
      channel.notify(cq_a);
      channel.notify(cq_b);
      EXPECT_FALSE(readable(channel.fd()));
    }
    return device::Slept::Look;
  };
  EXPECT_EQ(get(), &cq_a);
  EXPECT_EQ(sleeps, 2);
  EXPECT_TRUE(readable(channel.fd())) << "of the other event, whoever polls may know";
  EXPECT_EQ(get(), &cq_b);
  EXPECT_FALSE(readable(channel.fd()));
  EXPECT_EQ(sleeps, 2);
}

TEST_F(ChannelTest, ASleeperThatGivesUpLeavesItsEventsCounted) {
  open();
  device.on_sleep = [&] {
    channel.notify(cq_a);
    return device::Slept::Interrupted;
  };
  void* owner;
  EXPECT_EQ(channel.get(&owner), EINTR);
  EXPECT_TRUE(readable(channel.fd()));
  channel.retire(cq_a);
  EXPECT_FALSE(readable(channel.fd()));
}

TEST_F(ChannelTest, WhoIsSentAwayWaitsForTheDescriptor) {
  open();
  std::thread notifier;
  device.on_sleep = [&] {
    notifier = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      channel.notify(cq_b);
    });
    return device::Slept::NotHere;
  };
  EXPECT_EQ(get(), &cq_b);
  notifier.join();

  device.on_sleep = [&] {  // sent away after it worked for its own queue
    channel.notify(cq_a);
    return device::Slept::NotHere;
  };
  EXPECT_EQ(get(), &cq_a);
}

TEST_F(ChannelTest, InlineTheWaiterDoesTheProtocolsWork) {
  device.become_inline();
  open();
  device.on_progress = [&] { channel.notify(cq_a); };
  EXPECT_EQ(get(), &cq_a);  // without any other thread
}

TEST_F(ChannelTest, InlineTheDescriptorTellsOfWorkToo) {
  device.become_inline();
  open();
  set_nonblocking(channel.fd());
  EXPECT_FALSE(readable(channel.fd()));
  device.signal_progress();
  EXPECT_TRUE(readable(channel.fd()));
  void* owner;
  EXPECT_EQ(channel.get(&owner), EAGAIN);  // it was not about us; the work was done
  EXPECT_GE(device.calls("progress"), 1);
  EXPECT_FALSE(readable(channel.fd()));
  channel.notify(cq_a);
  EXPECT_TRUE(readable(channel.fd()));
  EXPECT_EQ(get(), &cq_a);
}

class AsyncQueueTest : public ::testing::Test {
 protected:
  AsyncQueueTest() {
    object.owner = &object, other.owner = &other;
    EXPECT_TRUE(queue.open(device, Numbers::Lowest));
  }
  NoEvents events;
  testing::FakeDevice device{events};
  AsyncQueue queue;
  AsyncEventState object, other;
};

TEST_F(AsyncQueueTest, GivesEventsOfAllKinds) {
  queue.notify(object, AsyncEventKind::QPFatal);
  queue.notify(other, AsyncEventKind::SRQLimit);
  queue.notify(object, AsyncEventKind::LastReceive);
  std::vector<std::pair<void*, AsyncEventKind>> got;
  for (int i = 0; i < 3; ++i) {
    AsyncQueue::Event event;
    ASSERT_EQ(queue.get(&event), 0);
    got.emplace_back(event.owner, event.kind);
  }
  EXPECT_THAT(got, ::testing::UnorderedElementsAre(
                       std::pair<void*, AsyncEventKind>(&object, AsyncEventKind::QPFatal),
                       std::pair<void*, AsyncEventKind>(&other, AsyncEventKind::SRQLimit),
                       std::pair<void*, AsyncEventKind>(&object, AsyncEventKind::LastReceive)));
  EXPECT_FALSE(readable(queue.fd()));
}

TEST_F(AsyncQueueTest, AnUndeliveredKindIsNotQueuedTwice) {
  set_nonblocking(queue.fd());
  for (int i = 0; i < 1000; ++i) queue.notify(object, AsyncEventKind::QPAccessError);
  AsyncQueue::Event event;
  EXPECT_EQ(queue.get(&event), 0);
  EXPECT_EQ(queue.get(&event), EAGAIN);
  queue.notify(object, AsyncEventKind::QPAccessError);
  EXPECT_EQ(queue.get(&event), 0);
}

TEST_F(AsyncQueueTest, RetirePurgesAndWaits) {
  queue.notify(object, AsyncEventKind::QPFatal);
  queue.notify(other, AsyncEventKind::QPFatal);
  queue.notify(object, AsyncEventKind::LastReceive);
  AsyncQueue::Event event;
  ASSERT_EQ(queue.get(&event), 0);
  ASSERT_EQ(event.owner, &object);
  std::atomic<bool> retired{false};
  std::thread destroyer([&] {
    queue.retire(object);
    retired = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(retired);
  queue.acknowledge(object);
  destroyer.join();
  ASSERT_EQ(queue.get(&event), 0);
  EXPECT_EQ(event.owner, &other);
  EXPECT_FALSE(readable(queue.fd()));
}

}  // namespace
}  // namespace weft::verbs
