// FaultTransport: each fault by itself, and the same seed giving the same trace.
#include <algorithm>
#include <bit>

#include "transport/fault/fault_transport.h"
#include "transport/fault/random.h"
#include "transport/loopback/loopback_network.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/test_streams.h"

namespace weft::transport {
namespace {

using namespace testing;
using Kind = IOResult::Kind;

/// A faulty connection through memory. Both ends have the same faults.
struct World {
  explicit World(const FaultConfig& config, FaultTransport::Clock clock = {})
      : network([] {
          LoopbackOptions options;
          options.readiness = false;
          return options;
        }()),
        transport(network, config, std::move(clock)) {
    pair = make_pair_at(transport, v4("10.0.0.1", 5));
  }

  LoopbackNetwork network;
  FaultTransport transport;
  Pair pair;
};

struct Step {
  Kind kind;
  std::size_t octets;
  int error;
  friend bool operator==(const Step&, const Step&) = default;
};

/// 400 sends and receives of both ends, and what each of them said, and what arrived.
std::pair<std::vector<Step>, Bytes> trace(const FaultConfig& config, FaultCounters* counters) {
  World world(config);
  std::vector<Step> steps;
  Bytes arrived;
  Bytes out = pattern(500), in(700);
  const iovec from = piece(out), into = piece(in);
  for (int i = 0; i < 100; ++i) {
    for (Stream* stream : {world.pair.active.get(), world.pair.passive.get()}) {
      const IOResult sent = stream->send({&from, 1});
      steps.push_back({sent.kind, sent.octets, sent.error});
      const IOResult got = stream->receive({&into, 1});
      steps.push_back({got.kind, got.octets, got.error});
      arrived.insert(arrived.end(), in.begin(), in.begin() + static_cast<long>(got.octets));
    }
  }
  *counters = world.transport.counters();
  return {steps, arrived};
}

FaultConfig everything(std::uint64_t seed) {
  FaultConfig config;
  config.seed = seed;
  config.split_send = config.split_receive = 300'000;
  config.delay_send = config.delay_receive = config.delay_connect = 200'000;
  config.merge = 100'000;
  config.corrupt = 100'000;
  config.cut = config.fin_early = 300'000;
  config.cut_octets_max = config.fin_octets_max = 20'000;
  return config;
}

TEST(Random, IsTheSameEverywhere) {
  // Reference values of SplitMix64 from seed 1234567, and of xoshiro256** over SplitMix64.
  std::uint64_t state = 1234567;
  EXPECT_EQ(split_mix(state), 6457827717110365317u);
  EXPECT_EQ(split_mix(state), 3203168211198807973u);
  Random one(42), same(42), other(43);
  const std::uint64_t first = one.next();
  EXPECT_EQ(first, same.next());
  EXPECT_NE(first, other.next());
}

TEST(Random, BetweenKeepsItsBoundsAndReachesThem) {
  Random random(1);
  bool low = false, high = false;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t drawn = random.between(3, 6);
    ASSERT_TRUE(drawn >= 3 && drawn <= 6);
    low = low || drawn == 3;
    high = high || drawn == 6;
  }
  EXPECT_TRUE(low && high);
  EXPECT_EQ(random.between(5, 5), 5u);
  EXPECT_EQ(random.between(5, 4), 5u);
  random.between(0, ~std::uint64_t{0});
}

TEST(Random, ChanceIsPerMillion) {
  Random random(1);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) {
    hits += random.chance(250'000) ? 1 : 0;
    ASSERT_FALSE(random.chance(0));
    ASSERT_TRUE(random.chance(kAlways));
  }
  EXPECT_NEAR(hits, 25'000, 600);
}

TEST(Fault, NoFaultsByDefault) {
  World world({});
  EXPECT_EQ(send_some(*world.pair.active, pattern(5000)).octets, 5000u);
  Bytes in(6000);
  EXPECT_EQ(receive_some(*world.pair.passive, in).octets, 5000u);
  FaultCounters none;
  none.streams = 2;
  EXPECT_EQ(world.transport.counters(), none);
}

TEST(Fault, SameSeedSameTrace) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    FaultCounters first, second;
    EXPECT_EQ(trace(everything(seed), &first), trace(everything(seed), &second));
    EXPECT_EQ(first, second);
  }
}

TEST(Fault, OtherSeedsGiveOtherTracesAndEveryFaultHappens) {
  std::vector<std::pair<std::vector<Step>, Bytes>> traces;
  FaultCounters all;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    FaultCounters counters;
    auto next = trace(everything(seed), &counters);
    EXPECT_EQ(std::count(traces.begin(), traces.end(), next), 0);
    traces.push_back(std::move(next));
    for (auto member : {&FaultCounters::sends_split, &FaultCounters::receives_split,
                        &FaultCounters::connects_delayed, &FaultCounters::sends_delayed,
                        &FaultCounters::receives_delayed, &FaultCounters::receives_merged,
                        &FaultCounters::octets_corrupted, &FaultCounters::streams_cut,
                        &FaultCounters::early_fins}) {
      all.*member += counters.*member;
    }
  }
  EXPECT_GT(all.sends_split, 0u);
  EXPECT_GT(all.receives_split, 0u);
  EXPECT_GT(all.connects_delayed, 0u);
  EXPECT_GT(all.sends_delayed, 0u);
  EXPECT_GT(all.receives_delayed, 0u);
  EXPECT_GT(all.receives_merged, 0u);
  EXPECT_GT(all.octets_corrupted, 0u);
  EXPECT_GT(all.streams_cut, 0u);
  EXPECT_GT(all.early_fins, 0u);
}

TEST(Fault, OneStreamsCallsDoNotDisturbAnothers) {
  const auto sizes = [](bool disturbed) {
    FaultConfig config;
    config.split_send = kAlways;
    World world(config);
    std::vector<std::size_t> octets;
    for (int i = 0; i < 20; ++i) {
      octets.push_back(send_some(*world.pair.active, pattern(1000)).octets);
      if (disturbed) {
        send_some(*world.pair.passive, pattern(1000));
      }
    }
    return octets;
  };
  EXPECT_EQ(sizes(false), sizes(true));
}

TEST(Fault, SplitsRespectTheLargestPart) {
  FaultConfig config;
  config.split_send = config.split_receive = kAlways;
  config.split_octets_max = 5;
  World world(config);
  for (int i = 0; i < 200; ++i) {
    const std::size_t sent = send_some(*world.pair.active, pattern(1000)).octets;
    EXPECT_TRUE(sent >= 1 && sent <= 5) << sent;
  }
  Bytes in(1000);
  for (int i = 0; i < 20; ++i) {
    const std::size_t got = receive_some(*world.pair.passive, in).octets;
    EXPECT_TRUE(got >= 1 && got <= 5) << got;
  }
  EXPECT_EQ(world.transport.counters().sends_split, 200u);
}

TEST(Fault, CertainDelaysStillLetOctetsThrough) {
  FaultConfig config;
  config.delay_send = config.delay_receive = config.delay_connect = kAlways;
  config.delay_steps_max = 3;
  World world(config);
  ASSERT_TRUE(send_all(*world.pair.active, pattern(100)));
  EXPECT_EQ(receive_all(*world.pair.passive, 100), pattern(100));
  EXPECT_EQ(world.transport.counters().connects_delayed, 1u);
  EXPECT_EQ(world.transport.counters().sends_delayed, 1u);
}

TEST(Fault, DelaysByClockEndAtTheTimeTold) {
  Instant now{1000};
  FaultConfig config;
  config.delay_receive = kAlways;
  config.delay_max = std::chrono::milliseconds(5);
  World world(config, [&] { return now; });
  EXPECT_FALSE(world.transport.next_wake().has_value());
  ASSERT_TRUE(send_all(*world.pair.active, pattern(100)));
  Bytes in(100);
  const iovec into = piece(in);
  EXPECT_EQ(world.pair.passive->receive({&into, 1}).kind, Kind::WouldBlock);
  const auto wake = world.transport.next_wake();
  ASSERT_TRUE(wake.has_value());
  EXPECT_GT(*wake, now);
  EXPECT_LE(*wake, now + config.delay_max);
  now.ns = wake->ns - 1;
  EXPECT_EQ(world.pair.passive->receive({&into, 1}).kind, Kind::WouldBlock);
  EXPECT_EQ(world.transport.counters().receives_delayed, 1u) << "one delay, not one for each call";
  now = *wake;
  EXPECT_EQ(world.pair.passive->receive({&into, 1}).octets, 100u);
  EXPECT_FALSE(world.transport.next_wake().has_value());
}

TEST(Fault, DestroyedStreamsWakeNobody) {
  FaultConfig config;
  config.delay_receive = kAlways;
  World world(config, [] { return Instant{}; });
  Bytes in(1);
  const iovec into = piece(in);
  EXPECT_EQ(world.pair.active->receive({&into, 1}).kind, Kind::WouldBlock);
  EXPECT_TRUE(world.transport.next_wake().has_value());
  world.pair.active.reset();
  EXPECT_FALSE(world.transport.next_wake().has_value());
}

TEST(Fault, MergesSeveralSendsIntoOneReceive) {
  FaultConfig config;
  config.merge = kAlways;
  config.merge_steps = 3;
  World world(config);
  Bytes in(100);
  const iovec into = piece(in);
  for (int i = 0; i < 3; ++i) {
    send_some(*world.pair.active, pattern(10));
    EXPECT_EQ(world.pair.passive->receive({&into, 1}).kind, Kind::WouldBlock);
  }
  EXPECT_EQ(world.pair.passive->receive({&into, 1}).octets, 30u);
  EXPECT_EQ(world.transport.counters().receives_merged, 1u);
}

TEST(Fault, CorruptsOneBitOfWhatArrivedAndNothingElse) {
  FaultConfig config;
  config.corrupt = kAlways;
  for (config.seed = 1; config.seed < 50; ++config.seed) {
    World world(config);
    const Bytes out = pattern(40);
    Bytes sent = out;
    const iovec from = piece(sent);
    ASSERT_EQ(world.pair.active->send({&from, 1}).octets, 40u);
    EXPECT_EQ(sent, out) << "the sender's memory is its own";
    Bytes in(60, 0xee);
    const iovec into[] = {piece(in.data(), 3), piece(&in[3], 57)};
    ASSERT_EQ(world.pair.passive->receive(into).octets, 40u);
    int bits = 0;
    for (std::size_t i = 0; i < 40; ++i) {
      bits += std::popcount(static_cast<unsigned>(in[i] ^ out[i]));
    }
    EXPECT_EQ(bits, 1);
    EXPECT_TRUE(std::all_of(in.begin() + 40, in.end(), [](auto octet) { return octet == 0xee; }));
    EXPECT_EQ(world.transport.counters().octets_corrupted, 1u);
  }
}

TEST(Fault, CutsAtExactlyTheDrawnOctet) {
  FaultConfig config;
  config.cut = kAlways;
  config.cut_octets_max = 1000;
  std::size_t smallest = 5000, largest = 0;
  for (config.seed = 1; config.seed < 60; ++config.seed) {
    World world(config);
    std::size_t sent = 0;
    IOResult result;
    do {
      result = send_some(*world.pair.active, pattern(100));
      sent += result.octets;
    } while (result.kind == Kind::Moved);
    EXPECT_EQ(result.kind, Kind::Lost);
    EXPECT_EQ(result.error, ECONNRESET);
    ASSERT_LE(sent, 1000u);
    smallest = std::min(smallest, sent);
    largest = std::max(largest, sent);
    Bytes in(10);
    EXPECT_EQ(receive_some(*world.pair.active, in).error, ECONNRESET);
    EXPECT_GE(world.transport.counters().streams_cut, 1u);
    world.pair.active->reset();
    EXPECT_EQ(send_some(*world.pair.active, pattern(1)).error, ECONNABORTED);
  }
  EXPECT_LT(smallest, 150u);
  EXPECT_GT(largest, 850u);
}

TEST(Fault, CutAndEarlyFinDoNotDependOnTheSizesOfCalls) {
  const auto sent_in_steps_of = [](const FaultConfig& config, std::size_t step) {
    World world(config);
    std::size_t sent = 0;
    IOResult result;
    do {
      result = send_some(*world.pair.active, pattern(step));
      sent += result.octets;
    } while (result.kind == Kind::Moved);
    return sent;
  };
  FaultConfig cut, fin;
  cut.cut = fin.fin_early = kAlways;
  cut.cut_octets_max = fin.fin_octets_max = 1000;
  for (FaultConfig* config : {&cut, &fin}) {
    for (config->seed = 1; config->seed < 10; ++config->seed) {
      EXPECT_EQ(sent_in_steps_of(*config, 2000), sent_in_steps_of(*config, 7));
    }
  }
}

TEST(Fault, EarlyFinEndsSendingOnly) {
  FaultConfig config;
  config.fin_early = kAlways;
  config.fin_octets_max = 1000;
  World world(config);
  std::size_t sent = 0;
  IOResult result;
  do {
    result = send_some(*world.pair.active, pattern(100));
    sent += result.octets;
  } while (result.kind == Kind::Moved);
  EXPECT_EQ(result.error, EPIPE);
  EXPECT_LE(sent, 1000u);
  EXPECT_EQ(receive_all(*world.pair.passive, 2000).size(), sent);
  Bytes in(10);
  EXPECT_EQ(receive_some(*world.pair.passive, in).kind, Kind::Closed);
  const std::size_t back = send_some(*world.pair.passive, pattern(10)).octets;
  EXPECT_EQ(receive_all(*world.pair.active, back).size(), back);
}

TEST(Fault, AbortsAcceptsAndListensOn) {
  LoopbackNetwork network;
  FaultConfig config;
  config.abort_accept = 500'000;
  FaultTransport transport(network, config);
  auto listener = transport.listen(v4("10.0.0.1", 5), {});
  int accepted = 0, aborted = 0;
  for (int i = 0; i < 40; ++i) {
    auto active = transport.connect({}, v4("10.0.0.1", 5));
    auto passive = (*listener)->accept();
    if (passive) {
      ++accepted;
    } else {
      ++aborted;
      EXPECT_EQ(passive.error().code, ECONNABORTED);
      Bytes in(1);
      EXPECT_EQ(receive_some(**active, in).error, ECONNRESET);
    }
  }
  EXPECT_GT(accepted, 5);
  EXPECT_GT(aborted, 5);
  EXPECT_EQ(transport.counters().accepts_aborted, static_cast<std::uint64_t>(aborted));
}

TEST(Fault, StreamsOutliveTheTransport) {
  LoopbackNetwork network;
  Pair pair;
  {
    FaultTransport transport(network, everything(3));
    pair = make_pair_at(transport, v4("10.0.0.1", 5));
  }
  send_some(*pair.active, pattern(10));
  pair.active.reset();
  pair.passive.reset();
}

TEST(Fault, WrapsKernelTCP) {
  TCPTransport tcp;
  FaultConfig config;
  config.split_send = config.split_receive = kAlways;
  FaultTransport transport(tcp, config);
  Pair pair = make_pair_at(transport, v4("127.0.0.1", 0));
  EXPECT_GE(pair.active->fd(), 0);
  ASSERT_TRUE(send_all(*pair.active, pattern(30'000)));
  EXPECT_EQ(receive_all(*pair.passive, 30'000), pattern(30'000));
}

}  // namespace
}  // namespace weft::transport
