// Operations on a lane that only remembers what it was asked, and a stream to a peer that is not
// there.
#include "front/sockets/operations.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

namespace weft::sockets {
namespace {

constexpr std::uint32_t kOpen = 4;
constexpr std::uint64_t kPeerAddress = 0x10000;
constexpr RemoteMemory kRemote{kPeerAddress, 1000, 77, IWARP_REMOTE_READ | IWARP_REMOTE_WRITE};

struct FakeLane final : TransferLane {
  struct Asked {
    bool reads;
    std::vector<Piece> pieces;
    std::uint64_t address;
    std::uint32_t key;
    std::uint64_t id;
  };
  int transfer(bool reads, std::span<const Piece> pieces, std::uint64_t address, std::uint32_t key,
               Name name) override {
    if (broken) return EINVAL;
    EXPECT_TRUE(name.told) << "of few";
    asked.push_back({reads, {pieces.begin(), pieces.end()}, address, key, name.id});
    return 0;
  }
  int mark(std::uint64_t) override { return EINVAL; }
  std::vector<Asked> asked;
  bool broken = false;
};

/// What a stream sends, until the test says that it was done.
struct FakeStreamLane final : Lane {
  struct Sent {
    std::string octets;
    std::uint32_t message;
    Tag tag;
  };
  bool write(Octets octets, const Sge&, std::uint32_t message, Tag tag) override {
    sent.push_back({{octets.begin(), octets.end()}, message, tag});
    return true;
  }
  bool write_entry(Octets, const Sge&, std::uint32_t message, Tag tag) override {
    return tell(message, tag);
  }
  bool write_borrowed(Octets octets, std::uint32_t, const Sge& target, std::uint32_t message,
                      Tag tag) override {
    return write(octets, target, message, tag);
  }
  bool tell(std::uint32_t, Tag tag) override {
    told.push_back(tag);
    return true;
  }
  bool write_silently(Octets, const Sge&, Tag) override { return true; }
  std::vector<Sent> sent;
  std::vector<Tag> told;
};

class OperationsTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kRing = 8192, kPeerBuffer = 100;

  OperationsTest() : operations(lane, regions, kOpen) {
    add(memory.data(), memory.size(), IWARP_LOCAL_WRITE);
    StreamShape shape;
    shape.send_ring = send_ring;
    shape.receive_ring = receive_ring;
    shape.target_sgl = targets;
    shape.send_entries = 8;
    shape.receive_entries = 8;
    stream.emplace(shape, stream_lane);
    ConnectData peer;
    peer.credits = 8;
    peer.target_sgl = {1, 1, 2};
    peer.buffer = {kPeerAddress, 5, kPeerBuffer};
    stream->start(peer);
  }
  Region* add(void* at, std::size_t octets, int rights) {
    Region region;
    region.address = reinterpret_cast<std::uintptr_t>(at);
    region.octets = octets;
    region.rights = rights;
    region.local_key = static_cast<std::uint32_t>(1000 + regions.size());
    return *regions.add(region);
  }
  /// 0 or an errno.
  int post(bool reads, std::vector<iovec> local, std::uint64_t offset = 0,
           std::uint64_t context = 0, const RemoteMemory& remote = kRemote) {
    return operations.transfer(reads, local, remote, offset, {context, nullptr});
  }
  int write(std::size_t octets, std::uint64_t offset = 0, std::uint64_t context = 0) {
    return post(false, {{memory.data(), octets}}, offset, context);
  }
  int send(std::size_t octets, std::uint64_t context = 0) {
    const iovec part{memory.data(), octets};
    const auto posted = operations.post_send({&part, 1}, context);
    if (!posted) return posted.error().code;
    operations.advance(*stream);
    return 0;
  }
  int receive(std::size_t octets, bool all, std::uint64_t context = 0) {
    const auto posted = operations.post_receive({memory.data(), octets}, all, context);
    if (!posted) return posted.error().code;
    operations.advance(*stream);
    return 0;
  }
  void arrives(const std::string& text) {
    std::copy(text.begin(), text.end(), receive_ring.begin() + arrived);
    arrived += static_cast<long>(text.size());
    stream->handle_message(make_message(Op::Data, static_cast<std::uint32_t>(text.size())));
    operations.advance(*stream);
  }
  void grant(std::uint32_t octets) {
    targets[1] = {kPeerAddress, 5, octets};
    stream->handle_message(make_message(Op::Credits, 8));
    operations.advance(*stream);
  }
  void finish_sent() {
    for (const auto& sent : stream_lane.sent) stream->handle_done(sent.tag);
    stream_lane.sent.clear();
    operations.advance(*stream);
  }
  /// "operation:context:octets:error" of each completion.
  std::vector<std::string> completions() {
    std::array<iwarp_completion, kOpen> taken;
    std::vector<std::string> all;
    const int count = operations.collect(taken.data(), kOpen);
    for (int i = 0; i < count; ++i) {
      const auto& one = taken[static_cast<unsigned>(i)];
      all.push_back(std::string(1, " wrsv"[one.operation]) + ":" + std::to_string(one.context) +
                    ":" + std::to_string(one.octets) + ":" + std::to_string(one.error));
    }
    return all;
  }

  using Strings = std::vector<std::string>;
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(4096, 'm');
  std::vector<std::uint8_t> send_ring = std::vector<std::uint8_t>(kRing);
  std::vector<std::uint8_t> receive_ring = std::vector<std::uint8_t>(kRing);
  std::array<Sge, kTargetEntries> targets{};
  long arrived = 0;
  FakeLane lane;
  FakeStreamLane stream_lane;
  Regions regions;
  Operations operations;
  std::optional<Stream> stream;
};

TEST_F(OperationsTest, AWriteGoesStraightToThePeersMemory) {
  EXPECT_EQ(write(10, 20, 5), 0);
  ASSERT_EQ(lane.asked.size(), 1u);
  const auto& asked = lane.asked[0];
  EXPECT_FALSE(asked.reads);
  EXPECT_EQ(asked.address, kPeerAddress + 20);
  EXPECT_EQ(asked.key, 77u);
  ASSERT_EQ(asked.pieces.size(), 1u);
  EXPECT_EQ(asked.pieces[0].address, reinterpret_cast<std::uintptr_t>(memory.data()));
  EXPECT_EQ(asked.pieces[0].octets, 10u);
  EXPECT_EQ(asked.pieces[0].key, 1000u);
  EXPECT_EQ(completions(), Strings{});
  operations.handle_done(asked.id, 0);
  EXPECT_EQ(completions(), Strings{"w:5:10:0"});
}

struct Refusal {
  const char* what;
  bool reads;
  std::uint64_t offset;
  std::size_t octets;
  RemoteMemory remote;
  int error;
};

TEST_F(OperationsTest, WhatCannotBeIsRefusedBeforeAnythingIsSent) {
  RemoteMemory only_read = kRemote, only_write = kRemote;
  only_read.rights = IWARP_REMOTE_READ;
  only_write.rights = IWARP_REMOTE_WRITE;
  const Refusal rows[] = {
      {"a write to what may only be read", false, 0, 10, only_read, EACCES},
      {"a read of what may only be written", true, 0, 10, only_write, EACCES},
      {"an octet beyond the end", false, 991, 10, kRemote, ERANGE},
      {"from beyond the end", false, 1001, 0, kRemote, ERANGE},
      {"from so far that it wraps", true, ~std::uint64_t{0}, 10, kRemote, ERANGE},
      {"longer than the registered memory", false, 0, 4097, kRemote, EFAULT},
      {"longer than an operation may be", false, 0, IWARP_OCTETS_MAX + 1, kRemote, EMSGSIZE},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(post(row.reads, {{memory.data(), row.octets}}, row.offset, 0, row.remote), row.error)
        << row.what;
  }
  EXPECT_EQ(lane.asked.size(), 0u);
  EXPECT_EQ(operations.open(), 0u);
}

TEST_F(OperationsTest, MemoryThatIsOnlyReadIsNoTargetOfAReadAndNoStrangerIsASource) {
  std::array<std::uint8_t, 16> source{}, stranger{};
  add(source.data(), source.size(), 0);
  EXPECT_EQ(post(true, {{source.data(), 4}}), EACCES);
  EXPECT_EQ(post(false, {{source.data(), 4}}), 0);
  EXPECT_EQ(post(false, {{stranger.data(), 4}}), EFAULT);
  EXPECT_EQ(post(false, {{source.data(), 4}, {stranger.data(), 1}}), EFAULT) << "one piece of two";
}

TEST_F(OperationsTest, PiecesAreGatheredWithoutTheEmptyOnes) {
  EXPECT_EQ(post(false, {{&memory[0], 1}, {nullptr, 0}, {&memory[100], 2}, {&memory[50], 3}}), 0);
  ASSERT_EQ(lane.asked.size(), 1u);
  EXPECT_EQ(lane.asked[0].pieces.size(), 3u);
  EXPECT_EQ(post(false, std::vector<iovec>(IWARP_IOV_MAX + 1, {&memory[0], 1})), EMSGSIZE);
}

TEST_F(OperationsTest, EntriesOfTheSendQueueAreCounted) {
  EXPECT_EQ(TransferLane::entries_of(false, 0), 1u);
  EXPECT_EQ(TransferLane::entries_of(false, 4), 1u);
  EXPECT_EQ(TransferLane::entries_of(false, 5), 2u);
  EXPECT_EQ(TransferLane::entries_of(true, 5), 5u);
  // Few operations at once, but one of them may be as long as any.
  EXPECT_EQ(operations.entries_free(), std::size_t{IWARP_IOV_MAX});
  const std::vector<iovec> ten(10, {&memory[0], 1});
  EXPECT_EQ(post(true, ten), 0);
  EXPECT_EQ(operations.entries_free(), 6u);
  EXPECT_EQ(post(true, ten), EAGAIN);
  operations.handle_done(lane.asked[0].id, 0);
  EXPECT_EQ(post(true, ten), 0);
}

TEST_F(OperationsTest, StayOpenUntilTheirCompletionsAreTaken) {
  for (std::uint32_t i = 0; i < kOpen; ++i) EXPECT_EQ(write(1, 0, i), 0);
  EXPECT_EQ(write(1), EAGAIN);
  EXPECT_EQ(send(1), EAGAIN);
  EXPECT_EQ(receive(1, false), EAGAIN);
  operations.handle_done(lane.asked.back().id, 0);
  EXPECT_EQ(write(1), EAGAIN) << "done, and not taken";
  EXPECT_EQ(completions(), (Strings{"w:0:1:0", "w:1:1:0", "w:2:1:0", "w:3:1:0"}));
  EXPECT_EQ(write(1), 0);
}

TEST_F(OperationsTest, OneThatACallWaitsForLeavesNoCompletion) {
  Outcome outcome;
  const iovec part{memory.data(), 7};
  ASSERT_EQ(operations.transfer(true, {&part, 1}, kRemote, 0, {0, &outcome}), 0);
  EXPECT_FALSE(outcome.done);
  operations.handle_done(lane.asked[0].id, EACCES);
  EXPECT_TRUE(outcome.done);
  EXPECT_EQ(outcome.error, EACCES);
  EXPECT_EQ(completions(), Strings{});
}

TEST_F(OperationsTest, OneThatFailedInTheMiddleEndsOnce) {
  write(1, 0, 1);
  write(1, 0, 2);
  const auto first = lane.asked[0].id, second = lane.asked[1].id;
  operations.handle_done(first, ECONNRESET);
  operations.handle_done(first, ECONNRESET);
  EXPECT_EQ(completions(), Strings{"w:1:0:" + std::to_string(ECONNRESET)});
  operations.handle_done(second, ECONNRESET);
  operations.handle_done(second, 0);
  EXPECT_EQ(completions(), Strings{"w:2:0:" + std::to_string(ECONNRESET)});
}

TEST_F(OperationsTest, AQueuePairThatTakesNothingLeavesNothingOpen) {
  lane.broken = true;
  EXPECT_EQ(write(1), ECONNRESET);
  EXPECT_EQ(operations.open(), 0u);
  EXPECT_EQ(operations.entries_free(), std::size_t{IWARP_IOV_MAX});
}

TEST_F(OperationsTest, ARegionIsInUseUntilTheLastThatUsesItIsDone) {
  std::array<std::uint8_t, 16> other{};
  Region* second = add(other.data(), other.size(), 0);
  Region* first = regions.find(0);
  write(1);
  EXPECT_TRUE(operations.uses(*first));
  EXPECT_FALSE(operations.uses(*second));
  post(false, {{other.data(), 1}, {memory.data(), 1}});
  operations.handle_done(lane.asked[0].id, 0);
  EXPECT_TRUE(operations.uses(*first));
  EXPECT_TRUE(operations.uses(*second));
  operations.handle_done(lane.asked[1].id, 0);
  EXPECT_FALSE(operations.uses(*first));
  EXPECT_FALSE(operations.uses(*second)) << "completions that were not taken hold no memory";
}

TEST_F(OperationsTest, RingsGoRound) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(write(1, 0, i), 0);
    ASSERT_EQ(write(1, 0, i), 0);
    operations.handle_done(lane.asked.back().id, 0);
    const std::string one = "w:" + std::to_string(i) + ":1:0";
    ASSERT_EQ(completions(), (Strings{one, one}));
  }
}

TEST_F(OperationsTest, APostedSendLeavesWithoutACopy) {
  EXPECT_EQ(send(10, 3), 0);
  ASSERT_EQ(stream_lane.sent.size(), 1u);
  EXPECT_EQ(stream_lane.sent[0].octets, "mmmmmmmmmm");
  EXPECT_FALSE(operations.sends_wait());
  EXPECT_TRUE(operations.uses(*regions.find(0)));
  EXPECT_EQ(completions(), Strings{});
  finish_sent();
  EXPECT_EQ(completions(), Strings{"s:3:10:0"});
  EXPECT_FALSE(operations.uses(*regions.find(0)));
}

TEST_F(OperationsTest, APostedSendWaitsForThePeersRoom) {
  EXPECT_EQ(send(kPeerBuffer + 50, 3), 0);
  ASSERT_EQ(stream_lane.sent.size(), 1u);
  EXPECT_EQ(stream_lane.sent[0].octets.size(), kPeerBuffer);
  EXPECT_TRUE(operations.sends_wait());
  finish_sent();
  EXPECT_EQ(completions(), Strings{});
  grant(kPeerBuffer);
  ASSERT_EQ(stream_lane.sent.size(), 1u);
  EXPECT_EQ(stream_lane.sent[0].octets.size(), 50u);
  finish_sent();
  EXPECT_EQ(completions(), Strings{"s:3:150:0"});
}

TEST_F(OperationsTest, APostedSendOfNothingIsDoneInItsTurn) {
  send(10, 1);
  send(0, 2);
  EXPECT_EQ(completions(), Strings{});
  finish_sent();
  EXPECT_EQ(completions(), (Strings{"s:1:10:0", "s:2:0:0"}));
}

TEST_F(OperationsTest, AShutSocketFailsWhatHasNotLeftOnceItsMemoryIsFree) {
  send(kPeerBuffer + 50, 1);
  send(1, 2);
  stream->shutdown_write();
  operations.advance(*stream);
  EXPECT_EQ(completions(), Strings{}) << "the first hundred octets are under way";
  finish_sent();
  const std::string pipe = std::to_string(EPIPE);
  EXPECT_EQ(completions(), (Strings{"s:1:0:" + pipe, "s:2:0:" + pipe}));
}

TEST_F(OperationsTest, ABrokenStreamFailsPostedSendsAndReceives) {
  send(kPeerBuffer + 50, 1);
  receive(10, false, 2);
  stream->handle_failure(ECONNRESET);
  operations.advance(*stream);
  const std::string reset = std::to_string(ECONNRESET);
  EXPECT_EQ(completions(), (Strings{"s:1:0:" + reset, "v:2:0:" + reset}));
}

TEST_F(OperationsTest, APostedReceiveTakesWhatComes) {
  receive(10, false, 1);
  receive(10, false, 2);
  arrives("abc");
  EXPECT_EQ(completions(), Strings{"v:1:3:0"});
  EXPECT_EQ(memory[0], 'a');
  arrives("0123456789abcdef");
  EXPECT_EQ(completions(), Strings{"v:2:10:0"});
  EXPECT_EQ(stream->readable_octets(), 6u) << "for whoever asks next";
  receive(10, false, 3);
  EXPECT_EQ(completions(), Strings{"v:3:6:0"}) << "that was there";
}

TEST_F(OperationsTest, APostedReceiveOfAllWaitsUntilItIsFull) {
  receive(6, true, 1);
  arrives("abc");
  EXPECT_EQ(completions(), Strings{});
  arrives("defgh");
  EXPECT_EQ(completions(), Strings{"v:1:6:0"});
  EXPECT_EQ(std::string(memory.begin(), memory.begin() + 6), "abcdef");
}

TEST_F(OperationsTest, TheEndOfTheStreamEndsPostedReceives) {
  receive(6, true, 1);
  receive(6, false, 2);
  arrives("abc");
  stream->handle_message(make_message(Control::Shutdown));
  operations.advance(*stream);
  EXPECT_EQ(completions(), (Strings{"v:1:3:0", "v:2:0:0"}));
  receive(6, false, 3);
  EXPECT_EQ(completions(), Strings{"v:3:0:0"});
}

TEST_F(OperationsTest, AllFailAtOnceWhenTheSocketIsClosed) {
  Outcome outcome;
  const iovec part{memory.data(), 7};
  write(1, 0, 1);
  ASSERT_EQ(operations.transfer(false, {&part, 1}, kRemote, 0, {0, &outcome}), 0);
  send(kPeerBuffer + 50, 2);
  receive(1, false, 3);
  EXPECT_FALSE(operations.drained());
  operations.fail_all(EBADF);
  const std::string closed = std::to_string(EBADF);
  EXPECT_EQ(completions(), (Strings{"w:1:0:" + closed, "s:2:0:" + closed, "v:3:0:" + closed}));
  EXPECT_EQ(outcome.error, EBADF);
  EXPECT_TRUE(operations.drained());
  operations.handle_done(lane.asked.back().id, 0);  // flushed later, and nobody's
  EXPECT_EQ(completions(), Strings{});
}

}  // namespace
}  // namespace weft::sockets
