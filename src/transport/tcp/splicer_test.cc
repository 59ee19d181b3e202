// Octets that leave as the pages they lie in, and what the kernel tells of who reads them.
#include "transport/tcp/splicer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "transport/tcp/tcp_transport.h"
#include "transport/test_streams.h"

namespace weft::transport {
namespace {

using namespace testing;
using Kind = IOResult::Kind;

constexpr std::size_t kBulk = 2 << 20;

/// A pair between which a few MiB went in one direction: enough for the one to promise and for the
/// other to ask.
class Splicing : public ::testing::Test {
 protected:
  void SetUp() override {
    pair_ = make_pair_at(transport_, v4("127.0.0.1", 0));
    ASSERT_FALSE(pair_.active->can_splice()) << "too little was sent";
    send_bulk(*pair_.active, *pair_.passive);
    if (!pair_.active->can_splice()) GTEST_SKIP() << "this kernel does not tell of the peer";
  }

  void send_bulk(Stream& from, Stream& to) {
    Bytes octets = pattern(64 * 1024), got(octets.size());
    for (std::size_t done = 0; done < kBulk; done += octets.size()) {
      ASSERT_TRUE(send_all(from, octets));
      ASSERT_EQ(receive_all(to, octets.size()), octets);
    }
  }

  TCPTransport transport_;
  Pair pair_;
};

Address of(const Stream& stream, bool peer) {
  return peer ? stream.peer() : stream.local();
}

std::optional<PeerSocket> find(const Stream& stream) {
  return PeerSocket::find(stream.fd(), of(stream, false), of(stream, true));
}

std::size_t pages() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// A listener has promised it for whom it accepts; who connects does when there is much to read.
TEST_F(Splicing, APeerThatPromisedNothingIsNotFound) {
  Pair fresh = make_pair_at(transport_, v4("127.0.0.1", 0));
  EXPECT_TRUE(find(*fresh.active).has_value());
  EXPECT_TRUE(fresh.active->peer_copies());
  EXPECT_FALSE(find(*fresh.passive).has_value());
  EXPECT_FALSE(fresh.passive->peer_copies());
  promise_to_copy(fresh.active->fd());
  EXPECT_TRUE(find(*fresh.passive).has_value());
  EXPECT_TRUE(fresh.passive->peer_copies());
}

// The kernel tells of a listener that has the port when the peer's socket is there no more.
TEST_F(Splicing, AListenerIsNotThePeer) {
  Pair fresh = make_pair_at(transport_, v4("127.0.0.1", 0));
  ASSERT_TRUE(fresh.active->peer_copies());
  const int soon = 1;  // second, in which it waits for our FIN
  ASSERT_EQ(::setsockopt(fresh.passive->fd(), IPPROTO_TCP, TCP_LINGER2, &soon, sizeof soon), 0);
  fresh.passive.reset();
  ASSERT_TRUE(eventually([&] { return !fresh.active->peer_copies(); }));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < end) {
    ASSERT_FALSE(fresh.active->peer_copies());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST_F(Splicing, OverIPv6Too) {
  Pair pair = make_pair_at(transport_, v6("::1", 0));
  send_bulk(*pair.active, *pair.passive);
  EXPECT_TRUE(pair.active->can_splice());
}

TEST_F(Splicing, WhatThePeerHasNotReadIsCounted) {
  auto peer = find(*pair_.active);
  ASSERT_TRUE(peer.has_value());
  EXPECT_EQ(peer->unread().octets, 0u);
  ASSERT_TRUE(send_all(*pair_.active, pattern(1000)));
  EXPECT_TRUE(eventually([&] { return peer->unread().octets == 1000; }));
  EXPECT_EQ(receive_all(*pair_.passive, 400).size(), 400u);
  EXPECT_EQ(peer->unread().octets, 600u);
  EXPECT_EQ(peer->unread().kind, PeerSocket::Unread::Kind::Known);
}

TEST_F(Splicing, ASocketThatIsClosedIsGone) {
  auto peer = find(*pair_.active);
  ASSERT_TRUE(peer.has_value());
  ASSERT_TRUE(send_all(*pair_.active, pattern(1000)));
  pair_.passive.reset();
  EXPECT_EQ(peer->unread().kind, PeerSocket::Unread::Kind::Gone);
  EXPECT_EQ(peer->unread().octets, 0u);
}

// Both ended their direction; the peer's socket only waits now, as the kernel tells, but what is in
// it can still be read.
TEST_F(Splicing, WhatWaitsBehindBothFinsIsHeld) {
  Bytes octets(128 * 1024, 1);
  const iovec rest = piece(octets.data(), octets.size());
  ASSERT_EQ(pair_.active->splice({&rest, 1}).octets, octets.size());
  pair_.passive->close_gracefully();
  Bytes scrap(10);
  const iovec room = piece(scrap.data(), scrap.size());
  ASSERT_TRUE(eventually([&] { return pair_.active->receive({&room, 1}).kind == Kind::Closed; }));
  pair_.active->close_gracefully();
  for (int i = 0; i < 1000; ++i) ASSERT_GE(pair_.active->held(), octets.size());
}

// The octets leave without a copy: what is written there before they are read is what arrives.
TEST_F(Splicing, OctetsAreReadWhereTheyLie) {
  Bytes octets(128 * 1024, 1);
  iovec rest = piece(octets.data(), octets.size());
  const IOResult sent = pair_.active->splice({&rest, 1});
  ASSERT_EQ(sent.kind, Kind::Moved);
  ASSERT_EQ(sent.octets, octets.size());
  EXPECT_GE(pair_.active->held(), octets.size());
  std::fill(octets.begin(), octets.end(), 2);
  EXPECT_EQ(receive_all(*pair_.passive, octets.size()), octets);
  EXPECT_TRUE(eventually([&] { return pair_.active->held() == 0; }));
}

// What lies behind is copied, in order, and is counted until it is read.
TEST_F(Splicing, CopiedOctetsFollowSplicedOnes) {
  Bytes spliced = pattern(100'000, 3), copied = pattern(5000, 4);
  iovec rest = piece(spliced.data(), spliced.size());
  ASSERT_EQ(pair_.active->splice({&rest, 1}).octets, spliced.size());
  ASSERT_TRUE(send_all(*pair_.active, copied));
  EXPECT_GE(pair_.active->held(), spliced.size() + copied.size());
  EXPECT_EQ(receive_all(*pair_.passive, spliced.size()), spliced);
  EXPECT_GE(pair_.active->held(), copied.size());
  EXPECT_EQ(receive_all(*pair_.passive, copied.size()), copied);
}

// What was read counts as read when it is acknowledged. TCP, which saw this pair talk in turns, has
// time for that (40 ms); who copies has not. Often enough no 100 questions are asked before.
TEST_F(Splicing, WhatWasReadIsAcknowledgedByWhoHasNothingToAnswer) {
  Bytes octets = pattern(62'000), scrap(10);
  const iovec room = piece(scrap.data(), scrap.size());
  bool soon = false;
  for (int attempt = 0; attempt < 20 && !soon; ++attempt) {
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(send_all(*pair_.active, pattern(100)));
      ASSERT_EQ(receive_all(*pair_.passive, 100).size(), 100u);
      ASSERT_TRUE(send_all(*pair_.passive, pattern(100)));
      ASSERT_EQ(receive_all(*pair_.active, 100).size(), 100u);
    }
    const iovec rest = piece(octets.data(), octets.size());
    ASSERT_EQ(pair_.active->splice({&rest, 1}).octets, octets.size());
    ASSERT_EQ(receive_all(*pair_.passive, octets.size()), octets);
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(pair_.passive->receive({&room, 1}).kind, Kind::WouldBlock);
    }
    for (int i = 0; i < 100 && !soon; ++i) soon = pair_.active->held() == 0;
    ASSERT_TRUE(eventually([&] { return pair_.active->held() == 0; }));
  }
  EXPECT_TRUE(soon);
}

// Pieces of any length at any place, more than a pipe or a socket takes, to a peer that reads a
// little at a time.
TEST_F(Splicing, WhatWasNotTakenIsOfferedAgain) {
  const Bytes all = pattern(24 << 20, 5);
  std::vector<iovec> pieces;
  for (std::size_t at = 0, n = 1; at < all.size(); n = (n * 7 + 13) % 70'001 + 1) {
    const std::size_t octets = std::min(n, all.size() - at);
    pieces.push_back(piece(const_cast<std::uint8_t*>(all.data()) + at, octets));
    at += octets;
  }
  Bytes got;
  std::size_t sent = 0;
  bool was_full = false;
  ASSERT_TRUE(eventually([&] {
    if (sent < all.size()) {
      std::vector<iovec> rest;
      std::size_t skip = sent;
      for (const iovec& one : pieces) {
        if (skip >= one.iov_len) {
          skip -= one.iov_len;
          continue;
        }
        rest.push_back({static_cast<std::uint8_t*>(one.iov_base) + skip, one.iov_len - skip});
        skip = 0;
      }
      const IOResult r = pair_.active->splice(rest);
      sent += r.octets;
      if (r.kind != Kind::WouldBlock) return r.kind != Kind::Moved;
      was_full = true;
    }
    Bytes some(300'000);
    const iovec room = piece(some.data(), some.size());
    const IOResult r = pair_.passive->receive({&room, 1});
    got.insert(got.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(r.octets));
    return got.size() == all.size();
  }));
  EXPECT_TRUE(was_full);
  EXPECT_EQ(got, all);
}

TEST_F(Splicing, MemoryThatIsNotThereIsNamed) {
  void* gone = ::mmap(nullptr, 32 * pages(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  const iovec bad = piece(gone, 32 * pages());
  EXPECT_EQ(pair_.active->splice({&bad, 1}).kind, Kind::BadMemory);
  ::munmap(gone, 32 * pages());
  Bytes octets = pattern(70'000);
  const iovec good = piece(octets.data(), octets.size());
  EXPECT_EQ(pair_.active->splice({&good, 1}).octets, octets.size()) << "the stream is as it was";
  EXPECT_EQ(receive_all(*pair_.passive, octets.size()), octets);
}

// A call that moved something before the stream was over says how much, and has raised the signal.
TEST_F(Splicing, AStreamThatEndsWithinACallRaisesNoSignal) {
  ASSERT_EQ(::signal(SIGPIPE, SIG_DFL), SIG_DFL);
  Bytes octets = pattern(1 << 20);
  for (int i = 0; i < 4; ++i) {
    Pair pair = make_pair_at(transport_, v4("127.0.0.1", 0));
    send_bulk(*pair.active, *pair.passive);
    ASSERT_TRUE(pair.active->can_splice());
    pair.passive.reset();  // everything was read: a FIN, and a reset for what comes behind it
    ASSERT_TRUE(eventually([&] {
      const iovec rest = piece(octets.data(), octets.size());
      return pair.active->splice({&rest, 1}).kind == Kind::Lost;
    }));
  }
}

// A stream with octets in the pipe that its owner does not go on with can say nothing more: what
// came next would stand in the wrong place.
TEST_F(Splicing, NothingIsSentPastWhatIsUnderWay) {
  Bytes octets(8 << 20);
  const iovec rest = piece(octets.data(), octets.size());
  std::size_t sent = 0;
  ASSERT_TRUE(eventually([&] {
    const iovec left = piece(octets.data() + sent, octets.size() - sent);
    const IOResult r = pair_.active->splice({&left, 1});
    sent += r.octets;
    return r.kind == Kind::WouldBlock || sent == octets.size();
  }));
  if (sent == rest.iov_len) GTEST_SKIP() << "this socket holds more than is sent here";
  Bytes more = pattern(10);
  const iovec next = piece(more.data(), more.size());
  EXPECT_EQ(pair_.active->send({&next, 1}).kind, Kind::Lost);
}

// splice() raises SIGPIPE, which would end a program that knows nothing of our sockets.
TEST_F(Splicing, AStreamThatIsOverRaisesNoSignal) {
  ASSERT_EQ(::signal(SIGPIPE, SIG_DFL), SIG_DFL);
  Bytes octets = pattern(100'000);
  // The FIN first: behind it a reset is EPIPE and not ECONNRESET.
  pair_.passive->close_gracefully();
  Bytes scrap(10);
  const iovec room = piece(scrap.data(), scrap.size());
  ASSERT_TRUE(eventually([&] { return pair_.active->receive({&room, 1}).kind == Kind::Closed; }));
  pair_.passive.reset();
  ASSERT_TRUE(eventually([&] {
    const iovec rest = piece(octets.data(), octets.size());
    return pair_.active->splice({&rest, 1}).kind == Kind::Lost;
  }));
  sigset_t pending;
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_FALSE(sigismember(&pending, SIGPIPE));
}

TEST_F(Splicing, FewStreamsOfAProcessHavePipes) {
  std::vector<Pair> pairs;
  std::size_t splicing = 1;  // pair_
  for (int i = 0; i < 12; ++i) {
    pairs.push_back(make_pair_at(transport_, v4("127.0.0.1", 0)));
    send_bulk(*pairs.back().active, *pairs.back().passive);
    splicing += pairs.back().active->can_splice();
  }
  EXPECT_EQ(splicing, 8u);
  pairs.clear();
  Pair another = make_pair_at(transport_, v4("127.0.0.1", 0));
  send_bulk(*another.active, *another.passive);
  EXPECT_TRUE(another.active->can_splice()) << "places are given back";
}

}  // namespace
}  // namespace weft::transport
