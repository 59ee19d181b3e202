// For whom the kernel is asked whether a peer reads, and for how long its answer holds.
#include "engine/reading_peers.h"

#include <gtest/gtest.h>

#include "transport/test_streams.h"

namespace weft::engine {
namespace {

using transport::testing::v4;

constexpr Instant kStart{1'000'000'000};

/// Nobody asks it for octets.
class ToldStream final : public transport::Stream {
 public:
  explicit ToldStream(const transport::Address& peer) : peer_(peer) {}
  bool peer_copies() override {
    ++asked;
    return copies;
  }
  bool is_within_host() const override { return within_host; }
  transport::Address peer() const override { return peer_; }

  Result<void> connected() override { return {}; }
  transport::IOResult send(std::span<const iovec>) override { return {}; }
  transport::IOResult receive(std::span<const iovec>) override { return {}; }
  void close_gracefully() override {}
  void reset() override {}
  std::size_t emss() override { return 1460; }
  int fd() const override { return -1; }
  transport::Address local() const override { return {}; }

  bool copies = true, within_host = true;
  int asked = 0;

 private:
  const transport::Address peer_;
};

TEST(ReadingPeers, OneAnswerHoldsForAllOfAListenerForAMoment) {
  ReadingPeers peers;
  ToldStream first(v4("127.0.0.1", 7)), second(v4("127.0.0.1", 7));
  EXPECT_TRUE(peers.has(first, kStart));
  EXPECT_TRUE(peers.has(second, kStart + (ReadingPeers::kHolds - Duration(1))));
  EXPECT_EQ(second.asked, 0);
  second.copies = false;
  EXPECT_FALSE(peers.has(second, kStart + ReadingPeers::kHolds)) << "it may be another one's now";
  EXPECT_FALSE(peers.has(first, kStart + ReadingPeers::kHolds)) << "nor is a no asked for again";
  EXPECT_EQ(first.asked, 1);
}

TEST(ReadingPeers, AnotherPortAndAnotherHostAreOthers) {
  ReadingPeers peers;
  ToldStream known(v4("127.0.0.1", 7)), port(v4("127.0.0.1", 8)), host(v4("127.0.0.2", 7));
  EXPECT_TRUE(peers.has(known, kStart));
  port.copies = host.copies = false;
  EXPECT_FALSE(peers.has(port, kStart));
  EXPECT_FALSE(peers.has(host, kStart));
  EXPECT_TRUE(peers.has(known, kStart));
}

TEST(ReadingPeers, TheKernelKnowsOfNobodyElsewhere) {
  ReadingPeers peers;
  ToldStream far(v4("192.0.2.1", 7));
  far.within_host = false;
  EXPECT_FALSE(peers.has(far, kStart));
  EXPECT_EQ(far.asked, 0);
}

}  // namespace
}  // namespace weft::engine
