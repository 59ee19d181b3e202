// What is particular to the in-memory network; the common rules are in contract_test.cc.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "transport/loopback/caller_memory.h"
#include "transport/loopback/loopback_network.h"
#include "transport/test_streams.h"

namespace weft::transport {
namespace {

using namespace testing;
using Kind = IOResult::Kind;

LoopbackOptions simulation(std::size_t buffer_octets = 64 * 1024) {
  LoopbackOptions options;
  options.buffer_octets = buffer_octets;
  options.readiness = false;
  return options;
}

bool readable(const Stream& stream) {
  pollfd waits = {stream.fd(), POLLIN, 0};
  return ::poll(&waits, 1, 0) == 1;
}

TEST(Loopback, BufferIsBoundedExactlyAndWrapsAround) {
  LoopbackNetwork network(simulation(100));
  Pair pair = make_pair_at(network, v4("10.0.0.1", 5));
  EXPECT_EQ(send_some(*pair.active, pattern(150)).octets, 100u);
  EXPECT_EQ(send_some(*pair.active, pattern(1)).kind, Kind::WouldBlock);
  EXPECT_EQ(send_some(*pair.passive, pattern(7)).octets, 7u) << "directions are apart";
  for (int round = 0; round < 50; ++round) {
    const Bytes got = receive_all(*pair.passive, 37);
    ASSERT_EQ(got.size(), 37u);
    EXPECT_EQ(send_some(*pair.active, pattern(50)).octets, 37u);
  }
}

TEST(Loopback, ContentSurvivesEveryWrapPosition) {
  LoopbackNetwork network(simulation(13));
  Pair pair = make_pair_at(network, v4("10.0.0.1", 5));
  for (std::uint8_t i = 0; i < 200; ++i) {
    const Bytes out = pattern(1 + i % 13, i);
    ASSERT_EQ(send_some(*pair.active, out).octets, out.size());
    ASSERT_EQ(receive_all(*pair.passive, out.size()), out);
  }
}

TEST(Loopback, SmallestBuffer) {
  LoopbackNetwork network(simulation(0));
  Pair pair = make_pair_at(network, v4("10.0.0.1", 5));
  EXPECT_EQ(send_some(*pair.active, pattern(2)).octets, 1u);
  EXPECT_EQ(send_some(*pair.active, pattern(2)).kind, Kind::WouldBlock);
}

TEST(Loopback, EmssIsAsConfigured) {
  LoopbackOptions options = simulation();
  options.emss = 9000;
  LoopbackNetwork network(options);
  EXPECT_EQ(make_pair_at(network, v4("10.0.0.1", 5)).active->emss(), 9000u);
  options.emss = 1;
  LoopbackNetwork small(options);
  EXPECT_EQ(make_pair_at(small, v4("10.0.0.1", 5)).active->emss(), 128u);
}

TEST(Loopback, SimulationHasNoDescriptors) {
  const int before = ::dup(0);
  ::close(before);
  LoopbackNetwork network(simulation());
  Pair pair = make_pair_at(network, v4("10.0.0.1", 5));
  EXPECT_EQ(pair.listener->fd(), -1);
  EXPECT_EQ(pair.active->fd(), -1);
  const int after = ::dup(0);
  ::close(after);
  EXPECT_EQ(before, after);
}

TEST(Loopback, DescriptorsAreGivenBackWhenEitherEndGoes) {
  LoopbackNetwork network;
  Pair pair = make_pair_at(network, v4("10.0.0.1", 5));
  const int fd = pair.active->fd();
  EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
  pair.active.reset();
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1) << "although the pair lives on for the other end";
}

TEST(Loopback, NetworksAreApart) {
  LoopbackNetwork one(simulation()), other(simulation());
  auto listener = one.listen(v4("10.0.0.1", 5), {});
  EXPECT_EQ(connect_errno(one, {}, v4("10.0.0.1", 5)), 0);
  EXPECT_EQ(connect_errno(other, {}, v4("10.0.0.1", 5)), ECONNREFUSED);
}

TEST(Loopback, BacklogIsBounded) {
  LoopbackNetwork network(simulation());
  ListenOptions options;
  options.backlog = 2;
  auto listener = network.listen(v4("10.0.0.1", 5), options);
  auto first = network.connect({}, v4("10.0.0.1", 5));
  auto second = network.connect({}, v4("10.0.0.1", 5));
  EXPECT_EQ(connect_errno(network, {}, v4("10.0.0.1", 5)), ECONNREFUSED);
  EXPECT_TRUE((*listener)->accept().ok());
  EXPECT_EQ(connect_errno(network, {}, v4("10.0.0.1", 5)), 0);
}

TEST(Loopback, ConnectionsComeInOrderOfConnecting) {
  LoopbackNetwork network(simulation());
  auto listener = network.listen(v4("10.0.0.1", 5), {});
  auto first = network.connect({}, v4("10.0.0.1", 5));
  auto second = network.connect({}, v4("10.0.0.1", 5));
  EXPECT_EQ((*(*listener)->accept())->peer().port(), (*first)->local().port());
  EXPECT_EQ((*(*listener)->accept())->peer().port(), (*second)->local().port());
}

TEST(Loopback, HostsOfOnePortAreApart) {
  LoopbackNetwork network(simulation());
  auto one = network.listen(v4("10.0.0.1", 5), {});
  auto two = network.listen(v4("10.0.0.2", 5), {});
  ASSERT_TRUE(one.ok() && two.ok());
  auto active = network.connect({}, v4("10.0.0.2", 5));
  EXPECT_FALSE((*one)->accept().ok());
  EXPECT_TRUE((*two)->accept().ok());
  EXPECT_EQ(connect_errno(network, {}, v4("10.0.0.3", 5)), ECONNREFUSED);
}

TEST(Loopback, AnyOfBothFamiliesWithV6Only) {
  LoopbackNetwork network(simulation());
  ListenOptions only;
  only.v6_only = true;
  auto six = network.listen(v6("::", 5), only);
  auto four = network.listen(v4("0.0.0.0", 5), {});
  ASSERT_TRUE(six.ok() && four.ok());
  EXPECT_EQ(connect_errno(network, {}, v4("10.0.0.1", 5)), 0);
  EXPECT_TRUE((*four)->accept().ok());
  EXPECT_EQ(connect_errno(network, {}, v6("fe80::1", 5)), 0);
  EXPECT_TRUE((*six)->accept().ok());
  EXPECT_EQ(network.listen(v6("::", 5), {}).error().code, EADDRINUSE);
}

TEST(Loopback, FreePortsComeInOrderAndSkipTakenOnes) {
  LoopbackNetwork network(simulation());
  auto taken = network.listen(v4("10.0.0.1", 49153), {});
  auto first = network.listen(v4("10.0.0.1", 0), {});
  auto second = network.listen(v4("10.0.0.1", 0), {});
  EXPECT_EQ((*first)->local().port(), 49152);
  EXPECT_EQ((*second)->local().port(), 49154);
}

TEST(Loopback, OutOfDescriptors) {
  LoopbackNetwork network;
  auto listener = network.listen(v4("10.0.0.1", 5), {});
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto active = network.connect({}, v4("10.0.0.1", 5));
  const auto second = network.listen(v4("10.0.0.1", 6), {});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(active.error().code, EMFILE);
  EXPECT_EQ(second.error().code, EMFILE);
  EXPECT_EQ((*listener)->accept().error().code, EAGAIN) << "no half connection was left";
}

TEST(Loopback, ReadinessDoesNotSpinAndTellsOfRoom) {
  LoopbackOptions options;
  options.buffer_octets = 10;
  LoopbackNetwork network(options);
  Pair pair = make_pair_at(network, v4("10.0.0.1", 5));
  EXPECT_FALSE(readable(*pair.active)) << "room to send is no event while nobody waits for it";
  send_some(*pair.active, pattern(10));
  EXPECT_FALSE(readable(*pair.active));
  EXPECT_EQ(send_some(*pair.active, pattern(1)).kind, Kind::WouldBlock);
  EXPECT_FALSE(readable(*pair.active));
  receive_all(*pair.passive, 1);
  EXPECT_TRUE(readable(*pair.active));
  EXPECT_EQ(send_some(*pair.active, pattern(1)).kind, Kind::Moved);
  EXPECT_FALSE(readable(*pair.active));
}

TEST(Loopback, ReadinessTellsASenderThatTheOtherEndIsGone) {
  LoopbackOptions options;
  options.buffer_octets = 10;
  LoopbackNetwork network(options);
  Pair pair = make_pair_at(network, v4("10.0.0.1", 5));
  send_some(*pair.active, pattern(10));
  send_some(*pair.active, pattern(1));
  pair.passive.reset();
  EXPECT_TRUE(readable(*pair.active));
  EXPECT_EQ(send_some(*pair.active, pattern(1)).error, ECONNRESET);
}

TEST(Loopback, StreamsOutliveTheNetwork) {
  Pair pair;
  {
    LoopbackNetwork network;
    pair = make_pair_at(network, v4("10.0.0.1", 5));
  }
  ASSERT_TRUE(send_all(*pair.active, pattern(10)));
  EXPECT_EQ(receive_all(*pair.passive, 10), pattern(10));
}

TEST(Loopback, EndsInTwoThreads) {
  LoopbackOptions options;
  options.buffer_octets = 1000;
  LoopbackNetwork network(options);
  Pair pair = make_pair_at(network, v4("10.0.0.1", 5));
  const Bytes out = pattern(500'000);
  std::thread sender([&] {
    EXPECT_TRUE(send_all(*pair.active, out));
    pair.active.reset();
  });
  const Bytes got = receive_all(*pair.passive, out.size() + 1);
  sender.join();
  EXPECT_EQ(got, out);
}

TEST(CallerMemory, CopiesBothWaysGuardedAndNot) {
  for (bool guarded : {false, true}) {
    Bytes caller = pattern(100), own(100);
    const iovec pieces[] = {piece(caller.data(), 30), piece(nullptr, 0), piece(&caller[30], 70)};
    const iovec runs[] = {piece(own.data(), 55), piece(&own[55], 40)};
    EXPECT_EQ(copy_caller_memory(CopyDirection::FromCaller, pieces, runs, guarded), 95u);
    EXPECT_TRUE(std::equal(own.begin(), own.begin() + 95, caller.begin()));
    EXPECT_EQ(own[95], 0);
    Bytes back(100);
    const iovec into[] = {piece(back.data(), 1), piece(&back[1], 99)};
    EXPECT_EQ(copy_caller_memory(CopyDirection::ToCaller, into, runs, guarded), 95u);
    EXPECT_EQ(back, own);
    EXPECT_EQ(copy_caller_memory(CopyDirection::FromCaller, {}, runs, guarded), 0u);
  }
}

}  // namespace
}  // namespace weft::transport
