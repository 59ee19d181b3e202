// The ring between two threads, at the end of its index, and against a hostile other side.
#include "device/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>

#include "device/names.h"
#include "device/ring_shape.h"

namespace weft::device {
namespace {

/// A ring's memory with guard octets behind it.
class Storage {
 public:
  Storage(std::uint32_t capacity, std::uint32_t stride)
      : octets_(Ring::storage_octets(capacity, stride)),
        data_(static_cast<std::uint8_t*>(::operator new (octets_ + 64, std::align_val_t{64}))) {
    std::memset(data_, 0xa5, octets_ + 64);
    Ring::format(data_, capacity, stride);
  }
  ~Storage() { ::operator delete (data_, std::align_val_t{64}); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() { return data_; }
  RingControl& control() { return *reinterpret_cast<RingControl*>(data_); }
  bool guard_is_whole() const {
    return std::all_of(data_ + octets_, data_ + octets_ + 64, [](auto o) { return o == 0xa5; });
  }

 private:
  std::size_t octets_;
  std::uint8_t* data_;
};

struct Item {
  std::uint64_t number;
  std::uint64_t words[6];
  std::uint64_t checksum;
};
static_assert(sizeof(Item) == 64);

std::uint64_t checksum_of(const Item& item) {
  std::uint64_t sum = item.number * 0x9e3779b97f4a7c15u;
  for (const std::uint64_t word : item.words) {
    sum = (sum ^ word) * 0x100000001b3u;
  }
  return sum;
}

void write_item(void* entry, std::uint64_t number) {
  Item item = {number, {}, 0};
  for (std::uint64_t& word : item.words) {
    word = number = number * 6364136223846793005u + 1442695040888963407u;
  }
  item.checksum = checksum_of(item);
  std::memcpy(entry, &item, sizeof item);
}

Item read_item(const void* entry) {
  Item item;
  std::memcpy(&item, entry, sizeof item);
  return item;
}

/// What a consumer must do when the other side may be another process: the fill, or -1 when the
/// indexes cannot be true. Each index is read once.
std::int64_t checked_fill(const Ring& ring) {
  const std::uint32_t fill = ring.produced_seen() - ring.consumed_own();
  return fill <= ring.capacity() ? static_cast<std::int64_t>(fill) : -1;
}

TEST(Ring, AViewKeepsItsGeometryWhateverTheMemorySays) {
  const RingShape shape = completion_ring(5);
  EXPECT_EQ(shape.capacity, 8u);
  EXPECT_EQ(shape.stride, 64u);
  Storage storage(shape.capacity, shape.stride);
  const Ring ring = Ring::format(storage.data(), shape.capacity, shape.stride);
  storage.control().capacity = 1u << 31;
  storage.control().stride = 1u << 30;
  EXPECT_EQ(ring.capacity(), 8u);
  EXPECT_EQ(ring.stride(), 64u);
  const auto* first = static_cast<std::uint8_t*>(ring.entry(0));
  EXPECT_EQ(static_cast<std::uint8_t*>(ring.entry(0xffffffff)), first + 7 * 64);
}

// A host that brings the memory has to know how much.
TEST(Ring, ShapesHaveRoomForTheLargestEntry) {
  QPRequest request;
  request.send_depth = 3;
  request.inline_octets = 200;
  EXPECT_EQ(send_ring(request).capacity, 4u);
  EXPECT_EQ(send_ring(request).stride, 256u) << "32 of the entry and 200 of data";
  request.inline_octets = 0;
  request.send_sges = 32;
  EXPECT_EQ(send_ring(request).stride, 576u);
  request.send_sges = 1;
  EXPECT_EQ(send_ring(request).stride, 64u) << "an atomic's operands fit beside one SGE";
  EXPECT_EQ(receive_ring(1, 3).stride, 64u);
  EXPECT_EQ(receive_ring(1, 4).stride, 128u);
  EXPECT_EQ(receive_ring(1, 4).octets(), sizeof(RingControl) + 128u);
}

void stress(std::uint32_t capacity, std::uint32_t first_index, std::uint64_t count) {
  Storage storage(capacity, 64);
  storage.control().produced = first_index;
  storage.control().consumed = first_index;
  std::thread producer([&] {
    Ring ring(storage.data());
    for (std::uint64_t number = 0; number < count; ++number) {
      while (ring.full()) {
        std::this_thread::yield();
      }
      const std::uint32_t index = ring.produced_own();
      write_item(ring.entry(index), number);
      ring.publish(index + 1);
    }
  });
  Ring ring(storage.data());
  std::uint64_t wrong = 0;
  for (std::uint64_t number = 0; number < count;) {
    const std::int64_t fill = checked_fill(ring);
    ASSERT_GE(fill, 0);
    if (fill == 0) {
      std::this_thread::yield();
    }
    std::uint32_t index = ring.consumed_own();
    for (std::int64_t i = 0; i < fill; ++i, ++number, ++index) {
      const Item item = read_item(ring.entry(index));
      wrong += item.number != number || item.checksum != checksum_of(item) ? 1 : 0;
    }
    ring.release(index);
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(ring.consumed_own(), static_cast<std::uint32_t>(first_index + count));
  EXPECT_TRUE(storage.guard_is_whole());
}

TEST(Ring, TwoThreads) {
  stress(64, 0, 200'000);
}

TEST(Ring, TwoThreadsWithOneEntry) {
  stress(1, 0, 20'000);
}

TEST(Ring, TwoThreadsAcrossTheEndOfTheIndex) {
  stress(16, 0xffffff00u, 100'000);
}

TEST(Ring, FullAndEmptyAcrossTheEndOfTheIndex) {
  Storage storage(4, 64);
  storage.control().produced = storage.control().consumed = 0xfffffffeu;
  Ring ring(storage.data());
  EXPECT_TRUE(ring.empty());
  for (std::uint64_t number = 0; number < 4; ++number) {
    ASSERT_FALSE(ring.full());
    const std::uint32_t index = ring.produced_own();
    write_item(ring.entry(index), number);
    ring.publish(index + 1);
    EXPECT_FALSE(ring.empty());
  }
  EXPECT_TRUE(ring.full());
  EXPECT_EQ(checked_fill(ring), 4);
  for (std::uint64_t number = 0; number < 4; ++number) {
    EXPECT_EQ(read_item(ring.entry(ring.consumed_own())).number, number);
    ring.release(ring.consumed_own() + 1);
    EXPECT_FALSE(ring.full());
  }
  EXPECT_TRUE(ring.empty());
}

TEST(Ring, EntriesAreApartAndInsideForEveryIndex) {
  Storage storage(8, 128);
  Ring ring(storage.data());
  auto* first = static_cast<std::uint8_t*>(storage.data()) + sizeof(RingControl);
  for (std::uint32_t index : {0u, 1u, 7u, 8u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    EXPECT_EQ(ring.entry(index), first + std::size_t{index % 8} * 128);
    std::memset(ring.entry(index), 1, ring.stride());
  }
  EXPECT_TRUE(storage.guard_is_whole());
}

TEST(Ring, GeometryIsReadOnce) {
  Storage storage(8, 64);
  Ring ring(storage.data());
  storage.control().capacity = 0x80000000u;
  storage.control().stride = 0xffffffc0u;
  EXPECT_EQ(ring.capacity(), 8u);
  EXPECT_EQ(ring.stride(), 64u);
  std::memset(ring.entry(0xffffffffu), 1, 64);
  EXPECT_TRUE(storage.guard_is_whole());
}

TEST(Ring, ImpossibleIndexesOfTheProducerAreSeen) {
  Storage storage(8, 64);
  Ring ring(storage.data());
  for (std::uint32_t consumed : {0u, 5u, 0xfffffffcu}) {
    storage.control().consumed = consumed;
    for (std::uint32_t fill : {0u, 1u, 8u}) {
      storage.control().produced = consumed + fill;
      EXPECT_EQ(checked_fill(ring), fill);
    }
    for (std::uint32_t fill : {9u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
      storage.control().produced = consumed + fill;
      EXPECT_EQ(checked_fill(ring), -1);
    }
  }
}

TEST(Ring, ImpossibleIndexesOfTheConsumerLookFull) {
  Storage storage(8, 64);
  Ring ring(storage.data());
  storage.control().produced = 100;
  for (std::uint32_t consumed : {101u, 91u, 0u, 0x80000000u, 0xffffffffu}) {
    storage.control().consumed = consumed;
    EXPECT_TRUE(ring.full()) << consumed;
  }
  storage.control().consumed = 93;
  EXPECT_FALSE(ring.full());
}

TEST(Names, EveryValueHasOneAndOthersAreUnknown) {
  EXPECT_STREQ(name(SendOpcode::LocalInvalidate), "Local Invalidate");
  EXPECT_STREQ(name(SendOpcode::Write), "RDMA Write");
  EXPECT_STREQ(name(SendOpcode::SendImmediate), "Send with Immediate");
  EXPECT_STREQ(name(CompletionStatus::RemoteInvalidRequest), "remote invalid request");
  EXPECT_STREQ(name(CompletionStatus::Success), "success");
  EXPECT_STREQ(name(CompletionStatus::Flushed), "flushed");
  EXPECT_STREQ(name(CompletionStatus::Fatal), "fatal error");
  EXPECT_STREQ(name(CompletionOpcode::Receive), "Receive");
  EXPECT_STREQ(name(static_cast<CompletionStatus>(200)), "unknown");
  EXPECT_STREQ(name(static_cast<SendOpcode>(200)), "unknown");
}

}  // namespace
}  // namespace weft::device
