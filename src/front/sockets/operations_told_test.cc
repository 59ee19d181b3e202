// Which transfers' ends are told, and that none is withheld from who waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <vector>

#include "front/sockets/operations.h"

namespace weft::sockets {
namespace {

constexpr std::uint32_t kOpen = 128;
constexpr RemoteMemory kRemote{0x10000, 1 << 20, 77, IWARP_REMOTE_READ | IWARP_REMOTE_WRITE};

/// A queue pair: ends its requests in order.
struct FakeQueue final : TransferLane {
  struct Request {
    std::uint64_t id;
    bool told, mark;
  };
  int transfer(bool, std::span<const Piece>, std::uint64_t, std::uint32_t, Name name) override {
    requests.push_back({name.id, name.told, false});
    return 0;
  }
  int mark(std::uint64_t id) override {
    if (refuses_marks) return ENOTCONN;
    requests.push_back({id, true, true});
    ++marks;
    return 0;
  }
  std::deque<Request> requests;
  int marks = 0;
  bool refuses_marks = false;
};

class ToldTest : public ::testing::Test {
 protected:
  ToldTest() : operations(queue, regions, kOpen) {
    Region region;
    region.address = reinterpret_cast<std::uintptr_t>(memory.data());
    region.octets = memory.size();
    region.rights = IWARP_LOCAL_WRITE;
    region_ = *regions.add(region);
  }
  void write(std::size_t octets = 8) { transfer(false, octets); }
  void transfer(bool reads, std::size_t octets) {
    const iovec part{memory.data(), octets};
    ASSERT_EQ(operations.transfer(reads, {&part, 1}, kRemote, 0, {posted++, nullptr}), 0);
  }
  void fill() {
    while (operations.open() < kOpen) write();
  }
  /// So many requests of the queue end well.
  void finish(std::size_t count) {
    for (; count != 0; --count) finish_one(0);
  }
  /// The queue breaks: what is left in it is flushed, and tells so, asked or not.
  void flush() {
    while (!queue.requests.empty()) finish_one(ECONNRESET);
  }
  void finish_one(int error) {
    const auto request = queue.requests.front();
    queue.requests.pop_front();
    if (request.mark) return operations.handle_mark(request.id);
    if (request.told || error != 0) operations.handle_done(request.id, error);
  }
  std::size_t told() const {
    return static_cast<std::size_t>(std::count_if(queue.requests.begin(), queue.requests.end(),
                                                  [](const auto& one) { return one.told; }));
  }
  /// Takes what there is, in order; how many there were with each error.
  std::pair<std::uint64_t, std::uint64_t> take() {
    std::array<iwarp_completion, kOpen> all;
    const int count = operations.collect(all.data(), kOpen);
    std::uint64_t good = 0, bad = 0;
    for (int i = 0; i < count; ++i) {
      const auto& one = all[static_cast<unsigned>(i)];
      EXPECT_EQ(one.context, taken++);
      EXPECT_EQ(one.octets == 0, one.error != 0);
      ++(one.error == 0 ? good : bad);
    }
    return {good, bad};
  }
  using Counts = std::pair<std::uint64_t, std::uint64_t>;

  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(1 << 20);
  FakeQueue queue;
  Regions regions;
  Operations operations;
  Region* region_ = nullptr;
  std::uint64_t posted = 0, taken = 0;
};

TEST_F(ToldTest, EachOfFewIs) {
  for (int i = 0; i < 1000; ++i) {
    write();
    EXPECT_EQ(told(), queue.requests.size());
    if (queue.requests.size() == Operations::kOpenMany) {
      finish(1);
      EXPECT_EQ(take(), Counts(1, 0));
    }
  }
  EXPECT_FALSE(operations.expect_ends());
}

TEST_F(ToldTest, AmongManyOneInSoManyIs) {
  fill();
  EXPECT_EQ(told(),
            Operations::kOpenMany + (kOpen - Operations::kOpenMany) / Operations::kToldEvery);
  finish(Operations::kOpenMany + Operations::kToldEvery - 1);
  EXPECT_EQ(operations.completions(), Operations::kOpenMany);
  finish(1);
  EXPECT_EQ(take(), Counts(Operations::kOpenMany + Operations::kToldEvery, 0));
  EXPECT_FALSE(operations.expect_ends()) << "others are to be told";
  EXPECT_EQ(queue.marks, 0);
}

TEST_F(ToldTest, SoIsOneInSoManyOctetsAndTheLastThatFits) {
  while (operations.open() < Operations::kOpenMany) write();
  write(Operations::kToldOctets);
  write(1);
  EXPECT_TRUE(queue.requests.back().told) << "behind so many octets";
  while (operations.open() < kOpen - 1) write();
  const auto last_but_one = queue.requests.back();
  EXPECT_FALSE(last_but_one.told);
  write();
  EXPECT_TRUE(queue.requests.back().told) << "the program has to take completions now";
}

TEST_F(ToldTest, SoAreReadsAndWhatACallWaitsFor) {
  fill();
  finish(64);
  take();
  transfer(true, 8);
  EXPECT_TRUE(queue.requests.back().told);
  write();
  EXPECT_FALSE(queue.requests.back().told);
  Outcome outcome;
  const iovec part{memory.data(), 8};
  ASSERT_EQ(operations.transfer(false, {&part, 1}, kRemote, 0, {0, &outcome}), 0);
  EXPECT_TRUE(queue.requests.back().told);
  EXPECT_FALSE(outcome.done);
  finish(queue.requests.size());
  EXPECT_TRUE(outcome.done);
  EXPECT_EQ(operations.completions(), kOpen - 64 + 2) << "it stands for those before it";
}

TEST_F(ToldTest, WhoWaitsForTheLastOnesHearsOfThem) {
  fill();
  finish(64);
  take();
  for (int i = 0; i < 5; ++i) write();
  EXPECT_FALSE(operations.expect_ends());
  finish(queue.requests.size());
  EXPECT_EQ(take(), Counts(64, 0));
  EXPECT_EQ(operations.open(), 5u) << "done, and nobody knows";
  EXPECT_TRUE(operations.uses(*region_));
  EXPECT_TRUE(operations.expect_ends());
  EXPECT_FALSE(operations.expect_ends()) << "one mark at a time";
  finish(1);
  EXPECT_EQ(take(), Counts(5, 0));
  EXPECT_FALSE(operations.uses(*region_));
  EXPECT_TRUE(operations.drained());
  EXPECT_FALSE(operations.expect_ends()) << "nothing is open";
  // Who stopped once may do so often.
  fill();
  EXPECT_EQ(told(), kOpen);
}

TEST_F(ToldTest, AMarkTellsOfNothingBehindIt) {
  fill();
  finish(64);
  take();
  for (int i = 0; i < 5; ++i) write();
  finish(queue.requests.size());
  take();
  ASSERT_TRUE(operations.expect_ends());
  write();
  finish(1);
  EXPECT_EQ(take(), Counts(5, 0));
  EXPECT_EQ(operations.open(), 1u);
  finish(1);
  EXPECT_EQ(take(), Counts(1, 0));
}

TEST_F(ToldTest, WithADescriptorForCompletionsEachIs) {
  fill();
  finish(64);
  take();
  write();
  EXPECT_FALSE(queue.requests.back().told);
  operations.tell_all();
  EXPECT_TRUE(queue.requests.back().mark) << "nobody may look when those before it have ended";
  finish(queue.requests.size());
  EXPECT_TRUE(operations.drained());
  take();
  fill();
  EXPECT_EQ(told(), kOpen);
}

TEST_F(ToldTest, ABrokenQueueTellsExactlyWhatFailed) {
  // In the midst of those that are not told of one by one.
  for (std::size_t good = 0; good <= kOpen; ++good) {
    FakeQueue other;
    Operations all(other, regions, kOpen);
    const iovec part{memory.data(), 8};
    for (std::uint64_t i = 0; i < kOpen; ++i) {
      ASSERT_EQ(all.transfer(false, {&part, 1}, kRemote, 0, {i, nullptr}), 0);
    }
    for (std::size_t i = 0; i < other.requests.size(); ++i) {
      const auto& request = other.requests[i];
      if (i >= good) {
        all.handle_done(request.id, ECONNRESET);
      } else if (request.told) {
        all.handle_done(request.id, 0);
      }
    }
    std::array<iwarp_completion, kOpen> taken_now;
    ASSERT_EQ(all.collect(taken_now.data(), kOpen), static_cast<int>(kOpen)) << good;
    for (std::size_t i = 0; i < kOpen; ++i) {
      ASSERT_EQ(taken_now[i].context, i);
      ASSERT_EQ(taken_now[i].error, i < good ? 0 : ECONNRESET) << i << " of " << good;
    }
    EXPECT_TRUE(all.drained());
  }
}

TEST_F(ToldTest, AMarkThatIsFlushedTellsThatAllBeforeItWentWell) {
  fill();
  finish(64);
  take();
  for (int i = 0; i < 5; ++i) write();
  finish(queue.requests.size());
  take();
  ASSERT_TRUE(operations.expect_ends());
  flush();
  EXPECT_EQ(take(), Counts(5, 0));
}

TEST_F(ToldTest, AQueueThatTakesNoMarkFailsWhatNobodyKnowsOf) {
  fill();
  finish(64);
  take();
  for (int i = 0; i < 5; ++i) write();
  finish(queue.requests.size());
  take();
  queue.refuses_marks = true;
  EXPECT_TRUE(operations.expect_ends());
  EXPECT_EQ(take(), Counts(0, 5));
  EXPECT_TRUE(operations.drained());
}

TEST_F(ToldTest, AboutAsManyEndsAreAskedForAsTellOfWhatIsWanted) {
  EXPECT_EQ(operations.ends_of(16), 16) << "nothing is open, but there may be other completions";
  write();
  EXPECT_EQ(operations.ends_of(16), 16);
  fill();
  finish(Operations::kOpenMany);
  take();
  EXPECT_EQ(operations.ends_of(16), 1);
  EXPECT_EQ(operations.ends_of(1), 1);
  EXPECT_EQ(operations.ends_of(96), 6);
}

}  // namespace
}  // namespace weft::sockets
