// The memory that short messages take: none of their own, unless the transport does not take them;
// and that of receive buffers, which connections of short messages keep while they are few.
#include <cerrno>

#include "engine/testing/failing_allocator.h"
#include "engine/testing/resources.h"
#include "engine/testing/short.h"

namespace weft::engine {
namespace {

using namespace testing;

/// Larger than anything the tests themselves allocate while it lasts (a std::deque's 512 octets).
constexpr std::size_t kEnginesOwn = 513;

/// All in this thread, whose allocations can fail, and no RTR: it takes a batch, which is kept.
class ShortMemoryTest : public ShortTest {
 protected:
  void SetUp() override { begin_with(make_settings()); }
  Settings make_settings() override {
    Settings settings = ShortTest::make_settings();
    settings.peer_to_peer = false;
    settings.close_timeout = std::chrono::milliseconds(500);
    return settings;
  }
  /// The server alone goes on. False: not as far as that, within a while.
  template <typename Done>
  bool serve_until(Done done) {
    const auto end = std::chrono::steady_clock::now() + Side::kWait;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      server->progress();
    }
    return true;
  }
  bool serve_receive() {
    return serve_until([this] { return !server->cq.completions.empty(); });
  }
  /// The reason that is told where there is none.
  static Ending no_memory() {
    return {CompletionStatus::Flushed, ConnectionEventKind::Disconnected, ENOMEM, kNoStaging,
            device::QPState::Error};
  }
  /// But for the listener and the like, also of descriptors; and others can connect.
  void expect_nothing_left(int descriptors) {
    EXPECT_TRUE(client->wait_until([&] {
      client->progress();
      return testing::count_descriptors() == descriptors;
    }));
    connect();
    if (!HasFatalFailure()) exchange();
  }
};

TEST_P(ShortMemoryTest, NothingIsAllocatedForAShortMessageNorForAnAnswer) {
  there.post_receive(1, 1);
  {
    FailAllocation fail(0, kEnginesOwn);
    here.post(SendOpcode::Write, 0, 100, there, 0);
    here.post(SendOpcode::Send, 1, 200, there, 1);
    here.post_read(2, there.inbox[0], there.inbox_stag, 0);
    EXPECT_FALSE(fail.struck());
  }
  {
    const std::size_t before = there.faults.taken;
    FailAllocation fail(0, kEnginesOwn);
    EXPECT_TRUE(serve_until([&] { return there.faults.taken >= before + kTaggedFPDU; }));
    EXPECT_FALSE(fail.struck());
  }
  ASSERT_NO_FATAL_FAILURE(expect_received(there, 1, 1, 200));
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(expect_done(here, i));
  EXPECT_EQ(here.copies[0], 100u);
}

TEST_P(ShortMemoryTest, WhereTheRestCannotBeKeptTheConnectionEndsForThatReason) {
  for (const std::size_t room : {std::size_t{0}, std::size_t{1}, kSendFPDU - 1}) {
    SCOPED_TRACE(room);
    ASSERT_NO_FATAL_FAILURE(begin_with(make_settings()));
    const int descriptors = testing::count_descriptors() - 2;  // of the connection
    const std::size_t before = here.faults.taken;
    here.faults.limit(room);
    {
      FailAllocation fail(0, kEnginesOwn);
      here.post(SendOpcode::Send, 1, 5, there, 1);
      EXPECT_TRUE(fail.struck());
    }
    EXPECT_EQ(here.faults.taken, before + room) << "memory was short before it was needed";
    here.faults.end();
    EXPECT_EQ(await_ending(here), no_memory());
    EXPECT_EQ(here.faults.taken, before + room);
    const auto told = server->wait_event();
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->event.kind, ConnectionEventKind::Disconnected);
    ASSERT_NO_FATAL_FAILURE(expect_nothing_left(descriptors));
  }
}

TEST_P(ShortMemoryTest, WhereTheRestOfAnAnswerCannotBeKeptTooTheConnectionEnds) {
  for (const std::size_t room : {std::size_t{0}, std::size_t{1}, kTaggedFPDU - 1}) {
    SCOPED_TRACE(room);
    ASSERT_NO_FATAL_FAILURE(begin_with(make_settings()));
    const int descriptors = testing::count_descriptors() - 2;  // of the connection
    const std::size_t before = there.faults.taken;
    there.faults.limit(room);
    here.post_read(1, there.words[0], there.words_stag, 0);
    {
      FailAllocation fail(0, kEnginesOwn);
      EXPECT_TRUE(serve_until([&] { return fail.struck(); }));
    }
    EXPECT_EQ(there.faults.taken, before + room) << "memory was short before it was needed";
    there.faults.end();
    const auto told = server->wait_event();
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->event.error, ENOMEM);
    EXPECT_STREQ(told->event.text, kNoStaging);
    const Ending ending = await_ending(here);
    EXPECT_EQ(ending.status, CompletionStatus::Flushed);
    EXPECT_EQ(ending.kind, ConnectionEventKind::Disconnected);
    ASSERT_NO_FATAL_FAILURE(expect_nothing_left(descriptors));
  }
}

/// Connections enough that the poller tells of each. What the server lends of receive buffers shows
/// where one more is allocated: it has as many as were ever lent at a time.
class ShortBuffersTest : public ShortMemoryTest {
 protected:
  static constexpr std::size_t kConnections = 12;

  void SetUp() override {
    ShortMemoryTest::SetUp();
    while (!HasFatalFailure()) {
      ends.push_back({here.qp, there.qp});
      if (ends.size() == kConnections) break;
      connect();
    }
    source_stag = client->register_octets(bulk.data(), bulk.size(), 0);
    target_stag = server->register_octets(target.data(), target.size(), device::kLocalWrite);
  }
  /// One message, which waits for the server.
  void post(std::size_t connection, std::uint32_t octets = kPayload) {
    Ends& end = ends[connection];
    server->post_receive(end.server, connection, target.data(), octets, target_stag);
    client->post_send(end.client, {.wr_id = connection,
                                   .address = bulk.data(),
                                   .octets = octets,
                                   .stag = source_stag,
                                   .flags = 0});
  }
  void deliver(std::size_t connection, std::uint32_t octets = kPayload) {
    post(connection, octets);
    EXPECT_TRUE(serve_receive());
    EXPECT_TRUE(take_success(connection));
  }
  /// True: the server would have needed one more buffer for it, and that connection has ended.
  bool needs_memory(std::size_t connection, std::uint32_t octets = kPayload) {
    post(connection, octets);
    FailAllocation fail(0, sizeof(ReceiveBuffer));
    EXPECT_TRUE(serve_receive());
    EXPECT_EQ(take_success(connection), !fail.struck());
    return fail.struck();
  }
  bool take_success(std::size_t connection) {
    const auto done = server->wait_completion();
    EXPECT_TRUE(done && done->wr_id == connection);
    return done && done->status == CompletionStatus::Success;
  }

  struct Ends {
    QPHandle client, server;
  };
  std::vector<Ends> ends;
  Bytes target = Bytes(16 * 1024);
  std::uint32_t source_stag = 0, target_stag = 0;
};

TEST_P(ShortBuffersTest, AFewConnectionsOfSmallMessagesKeepTheirBuffersAndOthersShareOne) {
  for (std::size_t i = 0; i < 4; ++i) deliver(i);
  EXPECT_TRUE(needs_memory(4)) << "one of the first four has given its buffer back";
  const auto told = server->wait_event();
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->event.error, ENOMEM);
  EXPECT_STREQ(told->event.text, kNoStaging);
  deliver(5);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = round == 0 ? 6 : 0; i < kConnections; ++i) {
      if (i == 4) continue;
      EXPECT_FALSE(needs_memory(i)) << "a fifth one keeps its buffer, before " << i;
    }
  }
}

TEST_P(ShortBuffersTest, MessagesOf4KiBAreSmallWithTheirHeader) {
  for (std::size_t i = 0; i < 4; ++i) deliver(i, 4096);
  EXPECT_TRUE(needs_memory(4, 4096)) << "one of the first four has given its buffer back";
}

TEST_P(ShortBuffersTest, WhoReceivesMoreAtATimeKeepsNone) {
  for (std::size_t i = 0; i < kConnections; ++i) {
    EXPECT_FALSE(needs_memory(i, 2 * kSmallOctets)) << "one before " << i << " keeps its buffer";
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, ShortMemoryTest, ::testing::Values(Placement::Inline));
INSTANTIATE_TEST_SUITE_P(Placements, ShortBuffersTest, ::testing::Values(Placement::Inline));

}  // namespace
}  // namespace weft::engine
