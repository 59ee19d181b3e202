// Bulk leaves as the pages that it lies in: WRs are complete when the peer has read them, not
// before, and whoever ends the stream meanwhile leaves nothing behind.
#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "engine/splice_habit.h"
#include "engine/spliced_batches.h"
#include "engine/testing/raw_peer.h"
#include "engine/testing/side.h"
#include "transport/tcp/peer_socket.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;
using testing::RawPeer;
using testing::Side;

using Bytes = std::vector<std::uint8_t>;

constexpr auto kSuccess = static_cast<std::uint8_t>(core::WorkStatus::Success);

/// A client, and a responder that answers nothing, reads when the test says so, and has promised to
/// copy what it reads.
class SpliceTest : public PairTest {
 protected:
  void SetUp() override {
    start();
    const sockaddr_storage address = listener.listen();
    qp = client->make_qp(1);
    const auto made =
        client->rnic.connect(nullptr, reinterpret_cast<const sockaddr*>(&address),
                             {.qp = qp.face.number, .ird = 4, .ord = 4, .private_data = {}}, 11);
    ASSERT_TRUE(made.ok());
    connection = *made;
    peer.emplace(listener.accept());
    ASSERT_TRUE(client->wait_until([&] {
      client->progress();
      std::uint8_t request[128];
      return peer->receive(request, sizeof request) > 0;
    }));
    transport::promise_to_copy(peer->fd());
    ASSERT_TRUE(peer->send({.kind = wire::StartupKind::Reply, .private_data = {}}));
    const auto event = client->wait_event();
    ASSERT_TRUE(event.has_value());
    ASSERT_EQ(event->event.kind, ConnectionEventKind::Established) << event->event.text;
    memory.assign(kMemory, 7);
    stag = client->register_octets(memory.data(), memory.size(), 0);
    send_bulk();
  }
  void TearDown() override { client.reset(); }
  Settings make_settings() override {
    Settings settings = settings_for(GetParam());
    settings.mpa_revision = 1;
    settings.splice_always = true;
    settings.close_timeout = std::chrono::seconds(1);
    return settings;
  }

  void post(std::uint64_t id, std::uint32_t octets, std::uint8_t flags = device::kSignaled) {
    client->post_send(qp, {.opcode = device::SendOpcode::Send,
                           .wr_id = id,
                           .address = memory.data(),
                           .octets = octets,
                           .stag = stag,
                           .flags = flags});
  }
  /// Enough for the stream to ask whether the peer has promised.
  void send_bulk() {
    for (std::uint64_t i = 0; i < 16; ++i) {
      post(i, 128 * 1024);
      ASSERT_TRUE(client->wait_until([&] {
        client->rnic.poll(client->cq.number);
        read_some();
        return !client->cq.completions.empty();
      }));
      ASSERT_EQ(client->wait_completion()->wr_id, i);
    }
    read_until_quiet();
  }
  std::size_t read_some() {
    static Bytes some(1 << 20);
    const ssize_t n = peer->receive(some.data(), some.size());
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  void read_until_quiet() {
    for (int i = 0; i < 20; ++i) {
      if (read_some() != 0) i = 0;
      client->rnic.poll(client->cq.number);
    }
  }
  /// A Send of memory that cannot be read any more, and where nothing else comes to lie.
  void post_gone(std::uint64_t id) {
    constexpr std::size_t kGone = 256 * 1024;
    void* gone = ::mmap(nullptr, kGone, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(gone, MAP_FAILED);
    const std::uint32_t gone_stag = client->register_octets(gone, kGone, 0);
    ASSERT_EQ(::mprotect(gone, kGone, PROT_NONE), 0);
    client->post_send(qp, {.opcode = device::SendOpcode::Send,
                           .wr_id = id,
                           .address = gone,
                           .octets = kGone,
                           .stag = gone_stag});
  }
  /// Of WR 100 and WR 101.
  void expect_success_and_fault() {
    const auto first = client->wait_completion(), second = client->wait_completion();
    ASSERT_TRUE(first.has_value() && second.has_value());
    EXPECT_EQ(first->wr_id, 100u);
    EXPECT_EQ(static_cast<std::uint8_t>(first->status), kSuccess);
    EXPECT_EQ(second->wr_id, 101u);
    EXPECT_EQ(second->status, device::CompletionStatus::LocalProtection);
  }
  int waiting_at_peer() {
    int octets = 0;
    EXPECT_EQ(::ioctl(peer->fd(), FIONREAD, &octets), 0);
    return octets;
  }
  /// Posts so much and waits until TCP has brought it to the peer, who does not read it.
  void post_unread(std::uint64_t id, std::uint32_t octets) {
    post(id, octets);
    ASSERT_TRUE(client->wait_until([&] {
      client->rnic.poll(client->cq.number);
      return waiting_at_peer() >= static_cast<int>(octets);
    }));
  }

  static constexpr std::size_t kMemory = 1 << 20;
  RawPeer listener;
  std::optional<RawPeer> peer;
  QPHandle qp;
  device::ConnectionNumber connection = 0;
  Bytes memory;
  std::uint32_t stag = 0;
};

/// Nobody looks at what is sent before the kernel does.
class SpliceUnlookedTest : public SpliceTest {
 protected:
  Settings make_settings() override {
    Settings settings = SpliceTest::make_settings();
    settings.crc = false;
    return settings;
  }
};

TEST_P(SpliceUnlookedTest, MemoryThatIsGoneIsBlamedOnItsOwnWorkRequest) {
  post_unread(100, 200'000);
  post_gone(101);
  expect_success_and_fault();
}

TEST_P(SpliceTest, AWorkRequestIsCompleteWhenThePeerHasReadIt) {
  post_unread(100, 200'000);
  for (int i = 0; i < 300; ++i) {
    client->rnic.poll(client->cq.number);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  EXPECT_TRUE(client->cq.completions.empty()) << "its memory is still read from";
  read_until_quiet();
  const auto done = client->wait_completion();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->wr_id, 100u);
  EXPECT_EQ(static_cast<std::uint8_t>(done->status), kSuccess);
}

TEST_P(SpliceTest, WhoAsksOnAndOnHearsWhatWasRead) {
  post_unread(100, 200'000);
  EXPECT_EQ(client->rnic.progress_spliced(), SplicedState::NoneRead);
  EXPECT_TRUE(client->cq.completions.empty());
  while (read_some() != 0) {
  }
  EXPECT_TRUE(client->wait_until(
      [&] { return client->rnic.progress_spliced() == SplicedState::None; }));
  EXPECT_FALSE(client->cq.completions.empty());
  EXPECT_EQ(client->rnic.progress_spliced(), SplicedState::None);
}

// A program that makes no call for it: the thread alone sees to what is left.
TEST_P(SpliceTest, WhatIsLeftIsSentAsThePeerReads) {
  if (GetParam() == Placement::Inline) GTEST_SKIP() << "without a thread somebody has to call";
  constexpr std::uint64_t kCount = 16;
  for (std::uint64_t i = 0; i < kCount; ++i) post(200 + i, kMemory);
  std::uint64_t done = 0;
  ASSERT_TRUE(client->wait_until([&] {
    read_some();
    while (!client->cq.completions.empty()) {
      EXPECT_EQ(client->wait_completion()->wr_id, 200 + done++);
    }
    return done == kCount;
  }));
}

TEST_P(SpliceTest, CompletionsKeepTheirOrderBehindIt) {
  post_unread(100, 200'000);
  post_unread(101, 10);
  EXPECT_TRUE(client->cq.completions.empty());
  read_until_quiet();
  EXPECT_EQ(client->wait_completion()->wr_id, 100u);
  EXPECT_EQ(client->wait_completion()->wr_id, 101u);
}

// More than may be under way: it goes on as the peer reads.
TEST_P(SpliceTest, ThereIsNoEndToWhatCanBeSent) {
  constexpr std::uint64_t kCount = 48;
  std::uint64_t done = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) post(200 + i, kMemory);
  ASSERT_TRUE(client->wait_until([&] {
    client->rnic.poll(client->cq.number);
    read_some();
    while (!client->cq.completions.empty()) {
      EXPECT_EQ(client->wait_completion()->wr_id, 200 + done++);
    }
    return done == kCount;
  }));
}

// Who sleeps is woken, although nothing arrives that would tell.
TEST_P(SpliceTest, WhoSleepsForACompletionGetsIt) {
  if (GetParam() == Placement::Inline) GTEST_SKIP() << "without a thread nobody sleeps in here";
  post_unread(100, 200'000);
  ASSERT_TRUE(client->rnic.arm_cq(client->cq.number, false).ok());
  const int before = client->count_cq_events();
  while (read_some() != 0) {
  }
  ASSERT_TRUE(client->wait_until([&] { return client->count_cq_events() > before; }));
  EXPECT_EQ(client->wait_completion()->wr_id, 100u);
}

// The peer reads while our program ends the connection: what it has read is complete.
TEST_P(SpliceTest, WhatIsBeingReadIsCompleteAtADisconnect) {
  post_unread(100, 200'000);
  post(101, kMemory);
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) {
      if (read_some() == 0) std::this_thread::yield();
    }
  });
  EXPECT_TRUE(client->rnic.disconnect(connection).ok());
  const auto first = client->wait_completion(), second = client->wait_completion();
  over = true;
  reader.join();
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(static_cast<std::uint8_t>(first->status), kSuccess);
  EXPECT_EQ(static_cast<std::uint8_t>(second->status), kSuccess) << "it was posted before";
}

// What the peer has read before it left is not flushed with the rest.
TEST_P(SpliceTest, WhatWasReadBeforeThePeerLeftIsComplete) {
  post_unread(100, 200'000);
  while (waiting_at_peer() != 0) read_some();
  peer->close();
  const auto done = client->wait_completion();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(static_cast<std::uint8_t>(done->status), kSuccess);
}

// It had acknowledged all or not: TCP had it, or had not.
TEST_P(SpliceTest, APeerThatLeavesWithoutReadingHoldsNothing) {
  post_unread(100, 200'000);
  peer->reset();
  EXPECT_TRUE(client->wait_completion().has_value());
  const auto event = client->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
}

// Of what was sent and what could not be read the latter is to blame.
TEST_P(SpliceTest, MemoryThatIsGoneIsBlamedOnItsOwnWorkRequest) {
  post_unread(100, 200'000);
  post_gone(101);
  read_until_quiet();  // there is a Terminate behind the first
  expect_success_and_fault();
}

/// Where the kernel told it so far, nothing comes any more.
void silence_kernel() {
  int silenced = 0;
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 3; fd < 4096; ++fd) {
    int protocol = 0, domain = 0;
    socklen_t octets = sizeof protocol;
    if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &octets) < 0) continue;
    if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &octets) < 0) continue;
    if (domain != AF_NETLINK || protocol != NETLINK_SOCK_DIAG) continue;
    ASSERT_EQ(::dup2(nowhere, fd), fd);
    ++silenced;
  }
  ::close(nowhere);
  ASSERT_EQ(silenced, 1);
}

// Whether the peer has read it cannot be known any more: nobody waits for that for ever.
TEST_P(SpliceTest, AStreamEndsWhereTheKernelTellsNothing) {
  post_unread(100, 200'000);
  silence_kernel();
  const auto done = client->wait_completion();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->wr_id, 100u);
  EXPECT_EQ(done->status, device::CompletionStatus::Flushed);
  const auto event = client->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
  EXPECT_EQ(event->event.error, EIO);
}

TEST_P(SpliceTest, AQueuePairMayGoBeforeThePeerHasRead) {
  post_unread(100, 200'000);
  post(101, kMemory);
  EXPECT_TRUE(client->rnic.destroy_qp(qp.face.number).ok());
  const auto event = client->wait_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event.kind, ConnectionEventKind::Disconnected);
}

// A peer that has not promised, as any that is not weft: everything is copied, as ever.
TEST_P(SpliceTest, WhoPromisesNothingIsSentCopies) {
  const int on = 1;
  ASSERT_EQ(::setsockopt(peer->fd(), IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof on), 0);
  RawPeer other;
  const sockaddr_storage address = other.listen();
  QPHandle second = client->make_qp(2);
  ASSERT_TRUE(client->rnic
                  .connect(nullptr, reinterpret_cast<const sockaddr*>(&address),
                           {.qp = second.face.number, .ird = 4, .ord = 4, .private_data = {}}, 12)
                  .ok());
  peer.emplace(other.accept());
  ASSERT_TRUE(client->wait_until([&] {
    client->progress();
    std::uint8_t request[128];
    return peer->receive(request, sizeof request) > 0;
  }));
  ASSERT_TRUE(peer->send({.kind = wire::StartupKind::Reply, .private_data = {}}));
  ASSERT_TRUE(client->wait_event().has_value());
  qp = second;
  send_bulk();
  post_unread(100, 200'000);
  const auto done = client->wait_completion();
  ASSERT_TRUE(done.has_value()) << "TCP has it all";
  EXPECT_EQ(done->wr_id, 100u);
}

INSTANTIATE_TEST_SUITE_P(Placements, SpliceTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });
INSTANTIATE_TEST_SUITE_P(Placements, SpliceUnlookedTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

std::unique_ptr<TransmitBuffer> borrow(TransmitPool& pool) {
  return pool.borrow();
}

TEST(SplicedBatches, AreToldOfAsFarAsNothingIsHeld) {
  TransmitPool pool;
  SplicedBatches batches(true);
  EXPECT_TRUE(batches.empty());
  batches.note_sent(100);
  batches.keep(borrow(pool));
  batches.note_sent(50);
  batches.keep(borrow(pool));
  EXPECT_EQ(batches.release(1000, false, pool), 0u);
  EXPECT_EQ(batches.release(60, false, pool), 90u);
  EXPECT_EQ(pool.borrowed(), 2u);
  EXPECT_EQ(batches.release(50, false, pool), 10u);
  EXPECT_EQ(pool.borrowed(), 1u);
  EXPECT_EQ(batches.release(0, false, pool), 50u);
  EXPECT_EQ(pool.borrowed(), 0u);
  EXPECT_TRUE(batches.empty());
}

TEST(SplicedBatches, CopiesBehindThemNeedNobodyToRead) {
  TransmitPool pool;
  SplicedBatches batches(true);
  batches.note_sent(100);
  batches.keep(borrow(pool));
  batches.note_sent(30);
  EXPECT_EQ(batches.release(80, false, pool), 50u);
  EXPECT_EQ(batches.release(30, false, pool), 80u) << "what is held was copied";
  EXPECT_TRUE(batches.empty());
}

// Another core has read them: to write them again at once is slow.
TEST(SplicedBatches, BuffersRestBeforeTheyAreLentAgain) {
  TransmitPool pool;
  SplicedBatches batches(true);
  std::vector<const TransmitBuffer*> lent;
  for (int i = 0; i < 24; ++i) {
    auto buffer = borrow(pool);
    lent.push_back(buffer.get());
    batches.note_sent(100);
    batches.keep(std::move(buffer));
    ASSERT_EQ(batches.release(0, false, pool), 100u);
  }
  constexpr std::size_t kResting = TransmitPool::kResting;
  const auto last = lent.end() - kResting;
  EXPECT_EQ(std::set(last, lent.end()).size(), kResting) << "one was lent again before others were";
  EXPECT_TRUE(std::equal(last, lent.end(), last - kResting)) << "others were made";
  constexpr std::uintptr_t kLargePage = 2 * 1024 * 1024;
  std::set<std::uintptr_t> pages;
  for (auto buffer = last; buffer != lent.end(); ++buffer) {
    pages.insert(reinterpret_cast<std::uintptr_t>(*buffer) / kLargePage);
    pages.insert(reinterpret_cast<std::uintptr_t>(*buffer + 1) / kLargePage);
  }
  EXPECT_LE(pages.size(), 3u) << "with the one behind the last octet";
}

TEST(SplicedBatches, MoreThanThoseThatRestAreMadeAndLentBehindThem) {
  TransmitPool pool;
  pool.give_back_to_rest(borrow(pool));
  std::vector<std::unique_ptr<TransmitBuffer>> lent;
  for (std::size_t i = 0; i < 2 * TransmitPool::kResting; ++i) lent.push_back(borrow(pool));
  std::set<const TransmitBuffer*> resting;
  for (const auto& buffer : lent) {
    if (buffer->home != nullptr) resting.insert(buffer.get());
  }
  EXPECT_EQ(resting.size(), TransmitPool::kResting);
  std::set<const TransmitBuffer*> all;
  for (const auto& buffer : lent) all.insert(buffer.get());
  for (int round = 0; round < 4; ++round) {
    for (auto& buffer : lent) {
      const bool rests = round % 2 != 0;
      rests ? pool.give_back_to_rest(std::move(buffer)) : pool.give_back(std::move(buffer));
    }
    EXPECT_EQ(pool.borrowed(), 0u);
    for (auto& buffer : lent) buffer = borrow(pool);
    for (std::size_t i = 0; i < lent.size(); ++i) {
      EXPECT_EQ(resting.contains(lent[i].get()), i < TransmitPool::kResting) << i;
      EXPECT_TRUE(all.contains(lent[i].get())) << "another was made: " << i;
    }
  }
  for (auto& buffer : lent) pool.give_back_to_rest(std::move(buffer));
}

TEST(SplicedBatches, NotAllThatWereEverLentAreKept) {
  TransmitPool pool;
  pool.give_back_to_rest(borrow(pool));
  std::vector<std::unique_ptr<TransmitBuffer>> lent(100);
  for (int round = 0; round < 2; ++round) {
    for (auto& buffer : lent) buffer = borrow(pool);
    for (auto& buffer : lent) pool.give_back(std::move(buffer));
  }
  EXPECT_EQ(pool.borrowed(), 0u);
  EXPECT_LE(pool.kept(), TransmitPool::kResting + 8);
}

// A connection may end behind its RNIC.
TEST(SplicedBatches, BuffersOutliveTheirPool) {
  std::unique_ptr<TransmitBuffer> buffer;
  {
    TransmitPool pool;
    pool.give_back_to_rest(borrow(pool));
    buffer = borrow(pool);
    ASSERT_NE(buffer->home, nullptr);
  }
  buffer->staging.fill(1);
}

TEST(SplicedBatches, LostBuffersAreReplaced) {
  TransmitPool pool;
  std::vector<std::unique_ptr<TransmitBuffer>> lost;
  for (std::size_t i = 0; i < 3 * TransmitPool::kResting; ++i) {
    pool.give_back_to_rest(borrow(pool));
    auto buffer = borrow(pool);
    ASSERT_NE(buffer, nullptr);
    buffer->staging.fill(static_cast<std::uint8_t>(i));
    TransmitBuffer* const place = buffer.get();
    for (const auto& other : lost) EXPECT_NE(other.get(), place) << "a lost one was lent again";
    pool.lose(std::move(buffer));
    lost.emplace_back(place);
  }
  EXPECT_EQ(pool.borrowed(), 0u);
}

TEST(SplicedBatches, WhereNothingMayBeFreedNoneAreReplaced) {
  TransmitPool pool;
  auto first = borrow(pool);
  const TransmitBuffer* const own = first.get();
  pool.keep_all();
  pool.give_back_to_rest(std::move(first));
  first = borrow(pool);
  EXPECT_EQ(first.get(), own);
  pool.give_back(std::move(first));
}

TEST(SplicedBatches, BuffersThatWereCopiedFromAreLentAgainAtOnce) {
  TransmitPool pool;
  SplicedBatches batches(true);
  batches.note_sent(100);
  batches.keep(borrow(pool));
  ASSERT_EQ(batches.release(0, false, pool), 100u);
  for (int i = 0; i < 8; ++i) pool.give_back(borrow(pool));
  auto copied = borrow(pool);
  const TransmitBuffer* const hot = copied.get();
  pool.give_back(std::move(copied));
  copied = borrow(pool);
  EXPECT_EQ(copied.get(), hot);
  pool.give_back(std::move(copied));
}

/// Batches that were spliced of so many, with so many in a row before the program waits for them.
int spliced_of(SpliceHabit& habit, int batches, int in_a_row) {
  int spliced = 0;
  std::uint32_t empty_polls = 0;
  for (int i = 1; i <= batches; ++i) {
    spliced += habit.splices();
    const bool more = i % in_a_row != 0;
    habit.note_batch(more, 0, empty_polls);
    if (more) continue;
    ++empty_polls;
    habit.note_told();
  }
  return spliced;
}

TEST(SpliceHabit, StreamsThatDoNotRunOutAreSpliced) {
  SpliceHabit habit(false);
  EXPECT_EQ(spliced_of(habit, 10'000, 1'000'000), 10'000);
}

TEST(SpliceHabit, WhoWaitsForCompletionsIsSentCopies) {
  for (const int in_a_row : {1, 2, 4}) {
    SpliceHabit habit(false);
    EXPECT_LT(spliced_of(habit, 100'000, in_a_row), 600) << in_a_row;
  }
}

// Posts that come late are the program's way: nothing of what it posts waits for a completion.
TEST(SpliceHabit, APauseIsNoWait) {
  SpliceHabit habit(false);
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(habit.splices());
    habit.note_batch(false, 0, static_cast<std::uint32_t>(i));
  }
}

// As fast as it posts the peer reads; it never finds its CQ empty.
TEST(SpliceHabit, WhoIsTooBusyPostingDoesNotWait) {
  SpliceHabit habit(false);
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(habit.splices());
    habit.note_batch(false, 0, 0);
    habit.note_told();
  }
}

TEST(SpliceHabit, WhoSleepsIsSentCopies) {
  SpliceHabit habit(false);
  int spliced = 0;
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    spliced += habit.splices();
    habit.note_batch(true, i / 4, 0);
  }
  EXPECT_LT(spliced, 600);
}

TEST(SpliceHabit, AProgramThatChangesIsTriedAgain) {
  SpliceHabit habit(false);
  spliced_of(habit, 10'000, 1);
  EXPECT_GT(spliced_of(habit, 100'000, 1'000'000), 50'000);
}

// Of a batch of which the transport has only a part that part is held too.
TEST(SplicedBatches, APartOfABatchIsHeldToo) {
  TransmitPool pool;
  SplicedBatches batches(true);
  batches.note_sent(100);
  EXPECT_EQ(batches.release(100, true, pool), 0u);
  EXPECT_EQ(batches.release(40, true, pool), 60u);
  EXPECT_EQ(batches.release(0, true, pool), 40u);
}

TEST(SplicedBatches, AreFullAtABound) {
  TransmitPool pool;
  SplicedBatches batches(true);
  int kept = 0;
  while (!batches.full()) {
    batches.note_sent(10);
    batches.keep(borrow(pool));
    ASSERT_LT(++kept, 100);
  }
  EXPECT_EQ(batches.release(10 * static_cast<std::size_t>(kept - 1), false, pool), 10u);
  EXPECT_FALSE(batches.full());
  batches.abandon(pool);
  EXPECT_TRUE(batches.empty());
  EXPECT_EQ(pool.borrowed(), 0u);
}

// The peer of a stream that is over may still read: what is staged next is not for it.
TEST(SplicedBatches, AbandonedBuffersGetOtherPages) {
  TransmitPool pool;
  SplicedBatches batches(true);
  auto buffer = borrow(pool);
  buffer->staging.fill(9);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const iovec piece = {buffer->staging.data() + 100, 1000};
  ASSERT_EQ(::vmsplice(ends[1], &piece, 1, 0), 1000);
  batches.note_sent(1000);
  batches.keep(std::move(buffer));
  batches.abandon(pool);
  auto again = borrow(pool);
  again->staging.fill(3);
  Bytes got(1000);
  ASSERT_EQ(::read(ends[0], got.data(), got.size()), 1000);
  EXPECT_EQ(got, Bytes(1000, 9));
  ::close(ends[0]);
  ::close(ends[1]);
  pool.give_back(std::move(again));
}

}  // namespace
}  // namespace weft::engine
