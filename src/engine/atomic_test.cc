// Atomic operations of several devices and streams, and of the CPU, on one number.
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::CompletionStatus;
using device::SendOpcode;
using testing::QPHandle;
using testing::Side;

/// Read as a program has to read what its peers change: atomically.
std::uint64_t value_of(std::uint64_t& number) {
  return std::atomic_ref<std::uint64_t>(number).load();
}

class AtomicTest : public testing::PairTest {
 protected:
  void SetUp() override {
    start();
    listen();
  }
};

//= EXT-07
TEST_P(AtomicTest, NothingIsLostAmongStreamsAndTheCPU) {
  constexpr std::size_t kStreams = 4, kEach = 200, kOpen = 4;
  alignas(8) std::uint64_t number = 0;
  std::vector<std::uint64_t> originals(kStreams * kEach);
  const auto stag =
      server->register_octets(&number, sizeof number, device::kLocalWrite | device::kRemoteAtomic);
  const auto sink =
      client->register_octets(originals.data(), originals.size() * 8, device::kLocalWrite);
  std::vector<QPHandle> qps;
  for (std::size_t i = 0; i < kStreams; ++i) {
    QPHandle here = client->make_qp(1, 0, 256), there = server->make_qp(2, 0, 16);
    establish(here, there);
    ASSERT_FALSE(HasFatalFailure());
    qps.push_back(here);
  }
  // The CPU counts along, as a program may with what its peers count in.
  std::atomic<bool> done = false;
  std::vector<std::uint64_t> seen_by_cpu;
  std::thread cpu([&] {
    while (!done && seen_by_cpu.size() < 100'000) {
      seen_by_cpu.push_back(std::atomic_ref<std::uint64_t>(number).fetch_add(1));
      std::this_thread::yield();
    }
  });
  std::size_t posted = 0, completed = 0;
  bool good = true;
  while (good && completed < originals.size()) {
    for (; posted < originals.size() && posted < completed + kStreams * kOpen; ++posted) {
      client->post_send(qps[posted % kStreams],
                        {.opcode = SendOpcode::FetchAdd,
                         .wr_id = posted,
                         .address = &originals[posted],
                         .octets = 8,
                         .stag = sink,
                         .remote_stag = stag,
                         .remote_to = reinterpret_cast<std::uintptr_t>(&number),
                         .operand = 1});
    }
    const auto entry = client->wait_completion();
    good = entry && entry->status == CompletionStatus::Success && entry->octets == 8 &&
           entry->opcode == device::CompletionOpcode::FetchAdd;
    ++completed;
  }
  done = true;
  cpu.join();
  ASSERT_TRUE(good) << completed;
  EXPECT_EQ(value_of(number), originals.size() + seen_by_cpu.size());
  std::set<std::uint64_t> values(originals.begin(), originals.end());
  values.insert(seen_by_cpu.begin(), seen_by_cpu.end());
  EXPECT_EQ(values.size(), value_of(number)) << "two of them saw the same value";
}

TEST_P(AtomicTest, OnlyTheExpectedValueIsSwapped) {
  alignas(8) std::uint64_t words[2] = {5, 0};
  const auto stag =
      server->register_octets(words, sizeof words, device::kLocalWrite | device::kRemoteAtomic);
  const auto sink = client->register_octets(words, sizeof words, device::kLocalWrite);
  QPHandle here = client->make_qp(), there = server->make_qp(2);
  establish(here, there);
  ASSERT_FALSE(HasFatalFailure());
  const auto swap = [&](std::uint64_t compare, std::uint64_t operand) {
    client->post_send(here, {.opcode = SendOpcode::CompareSwap,
                             .wr_id = 1,
                             .address = &words[1],
                             .octets = 8,
                             .stag = sink,
                             .remote_stag = stag,
                             .remote_to = reinterpret_cast<std::uintptr_t>(words),
                             .operand = operand,
                             .compare = compare});
    const auto entry = client->wait_completion();
    EXPECT_TRUE(entry && entry->status == CompletionStatus::Success);
    return words[1];
  };
  EXPECT_EQ(swap(5, 6), 5u);
  EXPECT_EQ(value_of(words[0]), 6u);
  EXPECT_EQ(swap(5, 7), 6u);
  EXPECT_EQ(value_of(words[0]), 6u);
}

INSTANTIATE_TEST_SUITE_P(Placements, AtomicTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine
