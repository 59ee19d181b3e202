// Two streams joined by lanes of memory, and one that meets a hostile peer.
#include "front/sockets/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace weft::sockets {
namespace {

constexpr std::uint16_t kEntries = 8;
constexpr std::uint32_t kRing = 8192;

/// One end: a stream, its memory, and what it asked for until the test lets it happen.
struct End final : Lane {
  struct Request {
    std::vector<std::uint8_t> octets;
    Sge target;
    std::optional<std::uint32_t> message;
    Tag tag;
  };

  explicit End(std::uint32_t iomap_entries = 0, std::uint16_t entries = kEntries)
      : send_ring(kRing),
        receive_ring(kRing),
        targets(kTargetEntries * sizeof(Sge) + iomap_entries * sizeof(IomapEntry)) {
    StreamShape shape;
    shape.send_ring = send_ring;
    shape.receive_ring = receive_ring;
    shape.target_sgl = {reinterpret_cast<Sge*>(targets.data()), kTargetEntries};
    shape.iomap = {reinterpret_cast<IomapEntry*>(targets.data() + kTargetEntries * sizeof(Sge)),
                   iomap_entries};
    shape.send_entries = entries;
    shape.receive_entries = entries;
    stream.emplace(shape, *this);
  }

  bool write(Octets octets, const Sge& target, std::uint32_t message, Tag tag) override {
    requests.push_back({{octets.begin(), octets.end()}, target, message, tag});
    return !broken;
  }
  bool write_entry(Octets entry, const Sge& target, std::uint32_t message, Tag tag) override {
    return write(entry, target, message, tag);
  }
  bool write_borrowed(Octets octets, std::uint32_t, const Sge& target, std::uint32_t message,
                      Tag tag) override {
    return write(octets, target, message, tag);
  }
  bool tell(std::uint32_t message, Tag tag) override {
    requests.push_back({{}, {}, message, tag});
    return !broken;
  }
  bool write_silently(Octets octets, const Sge& target, Tag tag) override {
    requests.push_back({{octets.begin(), octets.end()}, target, {}, tag});
    return !broken;
  }

  std::size_t write(const std::string& text) {
    std::string copy = text;
    const iovec part{copy.data(), copy.size()};
    Cursor from({&part, 1});
    return stream->write(from);
  }
  std::string read(std::size_t most, bool peek = false) {
    std::string text(most, '?');
    const iovec part{text.data(), text.size()};
    Cursor to({&part, 1});
    text.resize(stream->read(to, peek));
    return text;
  }
  /// The messages of the requests that did not happen yet.
  std::vector<std::uint32_t> told() const {
    std::vector<std::uint32_t> messages;
    for (const Request& request : requests) messages.push_back(request.message.value_or(0));
    return messages;
  }

  std::vector<std::uint8_t> send_ring, receive_ring;
  std::vector<std::uint8_t> targets;  ///< the SGL, and behind it the iomap
  std::deque<Request> requests;
  bool broken = false;
  std::optional<Stream> stream;
};

/// Lets the oldest request of `from` happen at `to`.
void deliver_one(End& from, End& to) {
  const End::Request request = from.requests.front();
  from.requests.pop_front();
  std::copy(request.octets.begin(), request.octets.end(),
            reinterpret_cast<std::uint8_t*>(request.target.address));
  if (request.message) to.stream->handle_message(*request.message);
  to.stream->advance();
  if (request.tag.requests != 0) from.stream->handle_done(request.tag);
  from.stream->advance();
}

void settle(End& a, End& b) {
  while (!a.requests.empty() || !b.requests.empty()) {
    if (!a.requests.empty()) deliver_one(a, b);
    if (!b.requests.empty()) deliver_one(b, a);
  }
}

class StreamTest : public ::testing::Test {
 protected:
  StreamTest() {
    a.stream->start(*parse_connect_data(encode(b.stream->offer())));
    b.stream->start(*parse_connect_data(encode(a.stream->offer())));
    settle(a, b);
  }
  End a, b;
};

std::string pattern(std::size_t octets) {
  std::string text(octets, ' ');
  for (std::size_t i = 0; i < octets; ++i) text[i] = static_cast<char>('a' + i * 7 % 23);
  return text;
}

TEST_F(StreamTest, OctetsArriveInOrder) {
  EXPECT_EQ(a.write("hello"), 5u);
  EXPECT_EQ(a.write(" world"), 6u);
  settle(a, b);
  EXPECT_EQ(b.stream->readable_octets(), 11u);
  EXPECT_EQ(b.read(3, true), "hel");
  EXPECT_EQ(b.read(7), "hello w");
  EXPECT_EQ(b.read(100), "orld");
  EXPECT_EQ(b.read(100), "");
  EXPECT_FALSE(b.stream->can_read());
}

/// As many messages as the peer has receives, and more behind them.
class HeldTest : public StreamTest {
 protected:
  static constexpr std::uint32_t kWritten = 100;

  HeldTest() {
    for (std::size_t i = 0; i < kWritten; ++i) EXPECT_EQ(a.write(text.substr(i, 1)), 1u);
    settle(a, b);
    EXPECT_EQ(b.stream->readable_octets(), kEntries);
    EXPECT_EQ(a.stream->held_octets(), kWritten - kEntries);
  }
  std::string read_all() {
    std::string got;
    for (std::string part; !(part = b.read(1000)).empty();) {
      got += part;
      settle(a, b);
    }
    return got;
  }
  const std::string text = pattern(3 * kRing);
};

TEST_F(HeldTest, WhatIsBehindLeavesTogetherWhenThePeerHasRead) {
  EXPECT_EQ(b.read(kEntries), text.substr(0, kEntries));
  EXPECT_FALSE(b.requests.empty()) << "it tells so";
  deliver_one(b, a);
  EXPECT_EQ(a.requests.size(), 1u);
  settle(a, b);
  EXPECT_EQ(a.stream->held_octets(), 0u);
  EXPECT_EQ(read_all(), text.substr(kEntries, kWritten - kEntries));
  EXPECT_EQ(a.write("x"), 1u);
  settle(a, b);
  EXPECT_EQ(read_all(), "x");
}

TEST_F(HeldTest, ThereIsRoomForWhatTheRingTakes) {
  std::size_t written = kWritten;
  EXPECT_TRUE(a.stream->can_write());
  while (const std::size_t taken = a.write(text.substr(written, 1000))) written += taken;
  EXPECT_FALSE(a.stream->can_write());
  EXPECT_GE(written, kRing - Stream::kSendRoomMin);
  EXPECT_LE(written, kRing + kEntries);
  std::string got = read_all();
  EXPECT_EQ(got, text.substr(0, written));
  EXPECT_TRUE(a.stream->can_write());
}

TEST_F(HeldTest, TheEndComesBehindIt) {
  a.stream->shutdown_write();
  settle(a, b);
  EXPECT_FALSE(a.stream->sending());
  EXPECT_TRUE(b.stream->receiving());
  EXPECT_EQ(read_all(), text.substr(0, kWritten));
  EXPECT_FALSE(b.stream->receiving());
}

TEST_F(HeldTest, SoDoesALeave) {
  a.stream->disconnect();
  settle(a, b);
  EXPECT_FALSE(a.stream->ended());
  EXPECT_EQ(read_all(), text.substr(0, kWritten));
  EXPECT_TRUE(a.stream->ended());
  EXPECT_TRUE(b.stream->ended());
}

TEST_F(HeldTest, NothingOvertakesIt) {
  std::vector<std::uint8_t> own(10, 'z');
  EXPECT_EQ(a.stream->write_borrowed(own, 1), 0u);
  EXPECT_FALSE(a.stream->publish(0, {}));
  EXPECT_EQ(read_all(), text.substr(0, kWritten));
  EXPECT_EQ(a.stream->write_borrowed(own, 1), own.size());
  settle(a, b);
  EXPECT_EQ(read_all(), "zzzzzzzzzz");
}

TEST(StreamStartTest, WhoHearsFirstGrantsNothingBefore) {
  End a, b;
  a.stream->start(*parse_connect_data(encode(b.stream->offer())));
  b.stream->start(*parse_connect_data(encode(a.stream->offer())), true);
  EXPECT_TRUE(b.requests.empty());
  // The offer is enough for the peer to begin.
  EXPECT_EQ(a.write("hello"), 5u);
  settle(a, b);
  EXPECT_EQ(b.read(100), "hello");
  const std::string all = pattern(kRing);
  EXPECT_EQ(a.write(all), kRing - 5u) << "both halves are granted now";
}

/// Who is told of each of its sends wakes for nothing.
TEST(StreamSendsTest, FewAreToldOfAndYetTheRoomComesBack) {
  constexpr std::uint16_t kMany = 64;
  End a(0, kMany), b(0, kMany);
  a.stream->start(*parse_connect_data(encode(b.stream->offer())));
  b.stream->start(*parse_connect_data(encode(a.stream->offer())));
  unsigned sends = 0, told = 0;
  for (const std::size_t size : {1u, 100u, 1500u, 3000u}) {
    const std::string sent = pattern(50 * size);
    std::string got;
    for (std::size_t from = 0; got.size() < sent.size();) {
      const std::size_t taken = a.write(sent.substr(from, size));
      from += taken;
      for (const End::Request& request : a.requests) {
        if (message_op(*request.message) != static_cast<unsigned>(Op::Data)) continue;
        ++sends;
        if (request.tag.requests != 0) ++told;
      }
      settle(a, b);
      const std::string read = b.read(sent.size());
      settle(a, b);
      got += read;
      ASSERT_TRUE(taken != 0 || !read.empty()) << "stuck with messages of " << size;
    }
    EXPECT_EQ(got, sent);
    if (size == 1) {
      EXPECT_LE(told * 8, sends);
    }
  }
  EXPECT_LT(told, sends);
}

TEST_F(StreamTest, AnyAmountPassesInBothDirectionsWhateverTheSizes) {
  for (const std::size_t size : {1u, 7u, 100u, 1000u, 4096u, 5000u, 30000u}) {
    const std::string sent = pattern(20 * size + 50);
    std::string to_b, to_a;
    std::size_t from_a = 0, from_b = 0;
    while (to_b.size() < sent.size() || to_a.size() < sent.size()) {
      const std::size_t before = to_a.size() + to_b.size() + from_a + from_b;
      from_a += a.write(sent.substr(from_a, size));
      from_b += b.write(sent.substr(from_b, size));
      settle(a, b);
      to_b += b.read(size * 2);
      to_a += a.read(size * 2);
      settle(a, b);
      ASSERT_GT(to_a.size() + to_b.size() + from_a + from_b, before) << size;
    }
    EXPECT_EQ(to_b, sent) << size;
    EXPECT_EQ(to_a, sent) << size;
  }
}

TEST_F(StreamTest, AWriterStopsWhenTheRingIsFull) {
  std::size_t taken = 0;
  while (const std::size_t part = a.write(pattern(4000))) {
    taken += part;
    settle(a, b);
  }
  EXPECT_EQ(taken, kRing);
  EXPECT_EQ(b.read(2 * kRing), [&] {
    std::string all;
    while (all.size() < taken) all += pattern(4000).substr(0, taken - all.size());
    return all.substr(0, taken);
  }());
}

TEST_F(StreamTest, AShutdownEndsOneDirection) {
  a.write("last");
  a.stream->shutdown_write();
  settle(a, b);
  EXPECT_FALSE(a.stream->sending());
  EXPECT_EQ(a.write("no"), 0u);
  EXPECT_TRUE(b.stream->can_read());
  EXPECT_FALSE(b.stream->receiving());
  EXPECT_EQ(b.read(10), "last");
  EXPECT_EQ(b.write("answer"), 6u);
  settle(a, b);
  EXPECT_EQ(a.read(10), "answer");
  b.stream->shutdown_write();
  settle(a, b);
  EXPECT_TRUE(a.stream->ended());
  EXPECT_TRUE(b.stream->ended());
  EXPECT_EQ(a.stream->error(), 0);
  EXPECT_EQ(b.stream->error(), 0);
}

TEST_F(StreamTest, WhatWasWrittenBeforeADisconnectStaysReadable) {
  a.write("bye");
  a.stream->disconnect();
  settle(a, b);
  EXPECT_TRUE(a.stream->ended());
  EXPECT_TRUE(b.stream->ended());
  EXPECT_EQ(b.read(10), "bye");
  EXPECT_FALSE(b.stream->sending());
  EXPECT_EQ(b.stream->error(), 0);
}

TEST_F(StreamTest, WhoLeavesFirstLeavesTheConnectionToThePeer) {
  a.write("bye");
  a.stream->disconnect();
  settle(a, b);
  ASSERT_TRUE(a.stream->ended() && b.stream->ended());
  EXPECT_TRUE(a.stream->peer_is_behind()) << "its credits may be on their way";
  EXPECT_FALSE(b.stream->peer_is_behind());
}

TEST_F(StreamTest, WhenBothLeaveNobodyIsBehind) {
  a.stream->disconnect();
  b.stream->disconnect();
  settle(a, b);
  ASSERT_TRUE(a.stream->ended() && b.stream->ended());
  EXPECT_FALSE(a.stream->peer_is_behind());
  EXPECT_FALSE(b.stream->peer_is_behind());
}

TEST_F(StreamTest, AConnectionThatGoesWithoutAWordIsTheEnd) {
  a.write("half");
  deliver_one(a, b);
  b.stream->handle_closed();
  EXPECT_EQ(b.read(10), "half");
  EXPECT_TRUE(b.stream->can_read());
  EXPECT_EQ(b.stream->error(), 0);
}

TEST_F(StreamTest, AQueuePairThatTakesNothingFailsTheStream) {
  a.broken = true;
  a.write("x");
  EXPECT_EQ(a.stream->error(), EIO);
}

TEST(StreamTargetsTest, AnEntryMayBeWrittenWhileItIsLookedAt) {
  End end, peer;
  end.stream->start(*parse_connect_data(encode(peer.stream->offer())));
  ASSERT_EQ(end.write(pattern(kRing / 2)), kRing / 2) << "all of the first grant";
  std::vector<std::uint8_t> granted(100);
  const Sge entry{reinterpret_cast<std::uintptr_t>(granted.data()), 7, 100};
  std::atomic<bool> looked = false;
  std::thread device([&] {  // which places it, and orders nothing
    while (!looked.load(std::memory_order_relaxed)) std::this_thread::yield();
    std::memcpy(&end.targets[sizeof entry], &entry, sizeof entry);  // the offer granted the first
  });
  end.stream->handle_message(make_message(Op::Credits, 2 * kEntries));
  looked.store(true, std::memory_order_relaxed);
  device.join();
  EXPECT_EQ(end.write(pattern(1)), 0u) << "it was not there";
  end.stream->handle_message(make_message(Op::Credits, 2 * kEntries));
  ASSERT_EQ(end.write(pattern(1)), 1u);
  EXPECT_EQ(end.requests.back().target.address, entry.address);
  EXPECT_EQ(end.requests.back().target.key, entry.key);
}

TEST(StreamIomapTest, OctetsGoStraightToWhereThePeerMappedThem) {
  End a, b(4);
  a.stream->start(*parse_connect_data(encode(b.stream->offer())));
  b.stream->start(*parse_connect_data(encode(a.stream->offer())));
  settle(a, b);
  EXPECT_EQ(a.stream->peer_iomap_entries(), 4u);
  std::string room(16, '.');
  IomapEntry entry;
  entry.offset = 1000;
  entry.memory = {reinterpret_cast<std::uintptr_t>(room.data()), 1, 16};
  EXPECT_TRUE(a.stream->publish(2, entry));
  settle(a, b);
  std::string text = "direct, and more than fits";
  const iovec part{text.data(), text.size()};
  Cursor from({&part, 1});
  ASSERT_EQ(b.stream->write_at(1010, from), 6u);
  Cursor beyond({&part, 1});
  EXPECT_EQ(b.stream->write_at(1016, beyond), std::nullopt);
  EXPECT_EQ(b.stream->write_at(999, beyond), std::nullopt);
  settle(a, b);
  EXPECT_EQ(room, "..........direct");
  EXPECT_FALSE(a.stream->can_read()) << "nobody is told of it";
}

// A peer that breaks the rules: one message or a few, and the stream ends with ECONNRESET.
struct Hostile {
  const char* what;
  std::vector<std::uint32_t> messages;
};

class HostilePeerTest : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostilePeerTest, EndsTheStream) {
  End end(2);
  End peer;
  end.stream->start(*parse_connect_data(encode(peer.stream->offer())));
  for (const std::uint32_t message : GetParam().messages) end.stream->handle_message(message);
  EXPECT_EQ(end.stream->error(), ECONNRESET) << GetParam().what;
  EXPECT_TRUE(end.stream->can_read());
  EXPECT_TRUE(end.stream->can_write()) << "a writer has to hear of it";
  EXPECT_EQ(end.write("x"), 0u);
  EXPECT_LE(end.stream->readable_octets(), kRing);
}

std::vector<std::uint32_t> times(unsigned count, std::uint32_t message) {
  return std::vector<std::uint32_t>(count, message);
}

INSTANTIATE_TEST_SUITE_P(
    All, HostilePeerTest,
    ::testing::Values(
        Hostile{"more octets than were granted", {make_message(Op::Data, kRing + 1)}},
        Hostile{"the most octets a message can say", {make_message(Op::Data, kMessageDataMax)}},
        Hostile{"octets that add up to more than were granted",
                {make_message(Op::Data, kRing - 1), make_message(Op::Data, 2)}},
        Hostile{"no octets", {make_message(Op::Data, 0)}},
        Hostile{"more messages than credits", times(kEntries + 1, make_message(Op::Data, 1))},
        Hostile{"maps beyond the credits", times(kEntries + 1, make_message(Op::IomapEntry, 0))},
        Hostile{"a map beyond the table", {make_message(Op::IomapEntry, 2)}},
        Hostile{"octets after its shutdown",
                {make_message(Control::Shutdown), make_message(Op::Data, 1)}},
        Hostile{"an unknown control", {make_message(Op::Control, 3)}},
        Hostile{"reserved operation 1", {1u << kMessageDataBits}},
        Hostile{"operation 2, which never travels", {2u << kMessageDataBits}},
        Hostile{"reserved operation 3", {3u << kMessageDataBits}},
        Hostile{"reserved operation 5", {5u << kMessageDataBits}}));

TEST(HostilePeer, GrantsOfNonsenseAddressOnlyItsOwnMemory) {
  End end, peer;
  end.stream->start(*parse_connect_data(encode(peer.stream->offer())));
  end.requests.clear();
  reinterpret_cast<Sge*>(end.targets.data())[1] = {~std::uint64_t{0}, ~std::uint32_t{0},
                                                   ~std::uint32_t{0}};
  for (int i = 0; i < 1000; ++i) {
    end.stream->handle_message(make_message(Op::Credits, static_cast<std::uint32_t>(i * 7919)));
  }
  EXPECT_EQ(end.stream->error(), 0);
  std::size_t taken = 0;
  while (const std::size_t part = end.write(pattern(3000))) taken += part;
  EXPECT_LE(taken, kRing) << "what is not done yet bounds what is sent";
}

TEST(HostilePeer, CreditsAreNotAnsweredWithoutBound) {
  End end, peer;
  end.stream->start(*parse_connect_data(encode(peer.stream->offer())));
  for (int i = 0; i < 100; ++i) {
    end.stream->handle_message(make_message(Op::Data, 1));
    end.read(1);
    end.stream->advance();
  }
  EXPECT_LE(end.requests.size(), std::size_t{Stream::kControlSlots}) << "nothing of it was done";
}

}  // namespace
}  // namespace weft::sockets
