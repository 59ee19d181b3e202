// Where something runs out: memory, descriptors, and turns at the lock.
#include <sys/resource.h>
#include <sys/wait.h>

#include <vector>

#include "engine/progress_lock.h"
#include "engine/testing/raw_peer.h"
#include "engine/testing/resources.h"
#include "engine/testing/side.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEFT_SANITIZED 1
#else
#define WEFT_SANITIZED 0
#endif

namespace weft::engine {
namespace {

using testing::PairTest;
using testing::QPHandle;
using testing::Side;

#if !WEFT_SANITIZED  // whose shadow memory does not fit any limit
/// Exit code of the child: the errno of the first refusal, 0 if there was none.
int use_up_memory(device::QPRequest request) {
  Settings settings;
  settings.engine = Placement::Inline;
  Side side(settings);
  request.pd = side.pd;
  request.send_cq = request.receive_cq = side.cq.number;
  const rlimit little = {256 << 20, 256 << 20};
  ::setrlimit(RLIMIT_AS, &little);
  for (int i = 0; i < 100; ++i) {
    const auto qp = side.rnic.create_qp(request);
    if (!qp) {
      const auto cq = side.rnic.create_cq(device::kCQDepthMax, 0);
      const auto srq = side.rnic.create_srq(side.pd, 32768, 32, 0);
      const auto resized = side.rnic.resize_cq(side.cq.number, device::kCQDepthMax);
      const bool all = !cq && cq.error().code == ENOMEM && !srq && srq.error().code == ENOMEM &&
                       !resized && resized.error().code == ENOMEM;
      return all ? qp.error().code : 1;
    }
  }
  return 0;
}

TEST(LimitsTest, NoMemoryForQueuesIsAnErrorNotAnEnd) {
  const pid_t child = ::fork();
  if (child == 0) {
    _exit(use_up_memory({.send_depth = device::kQueueDepthMax,
                         .receive_depth = device::kQueueDepthMax,
                         .send_sges = 32,
                         .receive_sges = 32,
                         .inline_octets = 512}));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), ENOMEM);
}
#endif

class DescriptorLimitTest : public PairTest {};

TEST_P(DescriptorLimitTest, NoDescriptorForAConnectionIsOnlyADelay) {
  start();
  listen();
  QPHandle client_qp = client->make_qp(1), server_qp = server->make_qp(2);
  testing::RawPeer early;
  rlimit old = {};
  ::getrlimit(RLIMIT_NOFILE, &old);
  const rlimit used_up = {static_cast<rlim_t>(early.fd() + 1), old.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &used_up);
  const bool connected = early.connect(server_address);
  const bool spun = testing::spins(*server);
  const auto refused =
      client->rnic.connect(nullptr, reinterpret_cast<const sockaddr*>(&server_address),
                           {.qp = client_qp.face.number, .private_data = {}}, 1);
  ::setrlimit(RLIMIT_NOFILE, &old);
  EXPECT_TRUE(connected);
  EXPECT_FALSE(spun);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EMFILE);
  establish(client_qp, server_qp);
}

INSTANTIATE_TEST_SUITE_P(Placements, DescriptorLimitTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

// Who holds the lock most of the time and takes it again at once must not keep others out.
TEST(ProgressLockTest, WaitersAreServedInTurn) {
  ProgressLock lock;
  std::atomic<bool> stop{false};
  std::atomic<int> holds{0};
  std::thread busy([&] {
    while (!stop.load()) {
      lock.lock();
      holds.fetch_add(1);
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
      while (std::chrono::steady_clock::now() < end) {
      }
      lock.unlock();
    }
  });
  int most = 0;
  for (int i = 0; i < 50; ++i) {
    while (holds.load() < 3) std::this_thread::yield();
    const int before = holds.load();
    lock.lock();
    most = std::max(most, holds.load() - before);
    lock.unlock();
  }
  stop.store(true);
  busy.join();
  EXPECT_LE(most, 3);
}

TEST(ProgressLockTest, TryGivesWayToWhoWaits) {
  ProgressLock lock;
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  std::atomic<bool> in{false};
  std::thread waiter([&] {
    lock.lock();
    in.store(true);
    lock.unlock();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  lock.unlock();
  while (!lock.try_lock()) std::this_thread::yield();
  EXPECT_TRUE(in.load());
  lock.unlock();
  waiter.join();
}

TEST(ProgressLockTest, OneAtATime) {
  ProgressLock lock;
  int counter = 0;  // not atomic: the lock is all that protects it
  std::vector<std::thread> threads;
  std::atomic<int> tries{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        if (t % 2 == 0) {
          lock.lock();
        } else if (!lock.try_lock()) {
          continue;
        }
        ++counter;
        tries.fetch_add(1);
        lock.unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, tries.load());
}

}  // namespace
}  // namespace weft::engine
