// Short messages, each alone on a quiet connection: whatever the transport does to one, it arrives
// once and in its turn, or ends the connection as a long one would.
#include <cerrno>
#include <poll.h>

#include "engine/testing/short.h"

namespace weft::engine {
namespace {

using namespace testing;

TEST_P(ShortTest, WhereverTheTransportStopsItArrivesOnceAndInItsTurn) {
  for (const SendOpcode opcode : {SendOpcode::Send, SendOpcode::Write}) {
    const bool is_send = opcode == SendOpcode::Send;
    const std::size_t octets = is_send ? kSendFPDU : kTaggedFPDU;
    for (std::size_t room = 0; room < octets; ++room) {
      SCOPED_TRACE(::testing::Message() << (is_send ? "Send, " : "Write, ") << room);
      const std::size_t before = here.faults.taken;
      for (std::uint64_t i = is_send ? 1 : 2; i <= 3; ++i) there.post_receive(i, i);
      here.faults.limit(room);
      here.post(opcode, 1, 100 + room, there, 1);
      ASSERT_NO_FATAL_FAILURE(expect_stop(here, before + room));
      here.post(SendOpcode::Send, 2, 200 + room, there, 2);
      ASSERT_NO_FATAL_FAILURE(expect_stop(here, before + room));
      here.faults.end();
      ASSERT_NO_FATAL_FAILURE(expect_done_unpolled(here, 1));
      ASSERT_NO_FATAL_FAILURE(expect_done_unpolled(here, 2));
      if (is_send) expect_received(there, 1, 1, 100 + room);
      ASSERT_NO_FATAL_FAILURE(expect_received(there, 2, 2, 200 + room));
      EXPECT_EQ(there.inbox[1], 100 + room);
      here.post(SendOpcode::Send, 3, 300 + room, there, 3);
      ASSERT_NO_FATAL_FAILURE(expect_done(here, 3));
      ASSERT_NO_FATAL_FAILURE(expect_received(there, 3, 3, 300 + room));
      EXPECT_EQ(here.faults.taken, before + octets + 2 * kSendFPDU);
    }
  }
}

/// At the end that asks, or at the one that answers.
TEST_P(ShortTest, WhereverTheTransportStopsAReadIsAnswered) {
  for (End* end : {&here, &there}) {
    const std::size_t octets = end == &here ? kReadFPDU : kTaggedFPDU;
    for (std::size_t room = 0; room < octets; ++room) {
      SCOPED_TRACE(::testing::Message() << (end == &here ? "request, " : "answer, ") << room);
      const std::size_t asked = here.faults.taken, answered = there.faults.taken;
      const std::size_t before = end == &here ? asked : answered;
      const std::size_t at = room % here.copies.size();
      end->faults.limit(room);
      here.post_read(1, there.words[at], there.words_stag, at);
      ASSERT_NO_FATAL_FAILURE(expect_stop(*end, before + room));
      end->faults.end();
      ASSERT_NO_FATAL_FAILURE(expect_done_unpolled(here, 1));
      EXPECT_EQ(here.copies[at], there.words[at]);
      here.copies[at] = 0;
      // A thread may not be back from the call that sent the end; the next round begins behind it.
      ASSERT_TRUE(client->wait_until([&] {
        return here.faults.taken >= asked + kReadFPDU &&
               there.faults.taken >= answered + kTaggedFPDU;
      }));
      EXPECT_EQ(here.faults.taken, asked + kReadFPDU);
      EXPECT_EQ(there.faults.taken, answered + kTaggedFPDU);
    }
  }
}

TEST_P(ShortTest, OctetByOctetItArrivesToo) {
  for (End* end : {&here, &there}) end->faults.at_once = 1;
  for (std::uint64_t i = 0; i < 16; ++i) {
    there.post_receive(i, i);
    here.post(SendOpcode::Write, i, 100 + i, there, 16 + i);
    here.post(SendOpcode::Send, i, 200 + i, there, i);
    here.post_read(i, there.inbox[16 + i], there.inbox_stag, i);
    for (int k = 0; k < 3; ++k) ASSERT_NO_FATAL_FAILURE(expect_done(here, i));
    ASSERT_NO_FATAL_FAILURE(expect_received(there, i, i, 200 + i));
    EXPECT_EQ(here.copies[i], 100 + i);
  }
}

/// Each by itself, and all in a row; whatever the transport takes at once.
TEST_P(ShortTest, ShortAndLongOnesKeepTheirOrder) {
  const std::vector<std::uint32_t> lengths{8, 100'000, 8, 4096, 4097, 0, 8, 300'000, 1, 8};
  constexpr std::size_t kMost = 300'000;
  const std::size_t count = lengths.size();
  Bytes sources(count * kMost), targets(count * kMost);
  for (std::size_t i = 0; i < count; ++i) {
    const auto first = sources.begin() + static_cast<std::ptrdiff_t>(i * kMost);
    std::fill(first, first + kMost, static_cast<std::uint8_t>(i + 1));
  }
  const std::uint32_t stag = client->register_octets(sources.data(), sources.size(), 0);
  const std::uint32_t target_stag =
      server->register_octets(targets.data(), targets.size(), device::kLocalWrite);
  const auto expect_both = [&](std::size_t i) {
    expect_done(here, i);
    const auto received = server->wait_completion();
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(received->wr_id, i);
    EXPECT_EQ(received->octets, lengths[i]);
    const auto first = targets.begin() + static_cast<std::ptrdiff_t>(i * kMost);
    EXPECT_EQ(std::count(first, first + kMost, static_cast<std::uint8_t>(i + 1)), lengths[i]);
  };
  for (const std::size_t at_once : {SIZE_MAX, std::size_t{7'777}}) {
    here.faults.at_once = at_once;
    for (const bool alone : {true, false}) {
      SCOPED_TRACE(::testing::Message() << at_once << (alone ? ", alone" : ", in a row"));
      std::fill(targets.begin(), targets.end(), 0);
      for (std::size_t i = 0; i < count; ++i) {
        server->post_receive(there.qp, i, &targets[i * kMost], kMost, target_stag);
      }
      for (std::size_t i = 0; i < count; ++i) {
        client->post_send(here.qp, {.wr_id = i,
                                    .address = &sources[i * kMost],
                                    .octets = lengths[i],
                                    .stag = stag});
        if (alone) expect_both(i);
      }
      for (std::size_t i = 0; i < count && !alone; ++i) ASSERT_NO_FATAL_FAILURE(expect_both(i));
    }
  }
}

TEST_P(ShortTest, OneReadAfterTheOtherIsAnsweredEitherWay) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    End& reader = i % 2 == 0 ? here : there;
    End& peer = i % 2 == 0 ? there : here;
    const std::size_t at = i % peer.words.size();
    reader.post_read(i, peer.words[at], peer.words_stag, at);
    ASSERT_NO_FATAL_FAILURE(expect_done(reader, i));
    EXPECT_EQ(reader.copies[at], peer.words[at]);
  }
}

/// More at a time than the ORD, so some wait. A Read finds what was written before it.
TEST_P(ShortTest, BothEndsWriteAndReadAtOnce) {
  constexpr std::uint64_t kCount = 24;
  for (std::uint64_t round = 1; round <= 5; ++round) {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      for (const auto& [end, peer] : {std::pair(&here, &there), std::pair(&there, &here)}) {
        end->post(SendOpcode::Write, 2 * i, 1000 * round + i, *peer, i);
        end->post_read(2 * i + 1, peer->inbox[i], peer->inbox_stag, i);
      }
    }
    for (const End* end : {&here, &there}) {
      for (std::uint64_t i = 0; i < 2 * kCount; ++i) ASSERT_NO_FATAL_FAILURE(expect_done(*end, i));
      for (std::uint64_t i = 0; i < kCount; ++i) EXPECT_EQ(end->copies[i], 1000 * round + i);
    }
  }
}

TEST_P(ShortTest, OfAnyLengthItArrivesAsItWas) {
  struct Row {
    const char* name;
    bool crc, markers;
  };
  for (const Row& row : {Row{"CRC", true, false}, Row{"no CRC", false, false},
                         Row{"markers", true, true}, Row{"markers, no CRC", false, true}}) {
    SCOPED_TRACE(row.name);
    Settings settings = make_settings();
    settings.crc = row.crc;
    settings.markers = row.markers;
    ASSERT_NO_FATAL_FAILURE(begin_with(settings));
    constexpr std::uint32_t kRoom = 8192;
    Bytes source(kRoom), copy(kRoom), target(kRoom), written(kRoom);
    std::iota(source.begin(), source.end(), std::uint8_t{1});
    const std::uint32_t stag = client->register_octets(source.data(), source.size(), 0);
    const std::uint32_t copy_stag = client->register_octets(copy.data(), copy.size(), kAll);
    const std::uint32_t target_stag = server->register_octets(target.data(), target.size(), kAll);
    const std::uint32_t there_stag = server->register_octets(written.data(), written.size(), kAll);
    for (const std::uint32_t octets :
         {0u, 1u, 7u, 9u, 255u, 256u, 511u, 512u, 1000u, 1023u, 1024u, 1025u, 2000u, 4095u, 4096u,
          4097u, 5000u}) {
      SCOPED_TRACE(octets);
      const auto is_same = [&](const Bytes& other) {
        return std::equal(other.begin(), other.begin() + octets, source.begin()) &&
               std::count(other.begin() + octets, other.end(), 0) == kRoom - octets;
      };
      std::fill(copy.begin(), copy.end(), 0);
      std::fill(target.begin(), target.end(), 0);
      Side::Send request{.opcode = SendOpcode::Write,
                         .wr_id = 1,
                         .address = source.data(),
                         .octets = octets,
                         .stag = stag,
                         .remote_stag = there_stag,
                         .remote_to = reinterpret_cast<std::uintptr_t>(written.data())};
      client->post_send(here.qp, request);
      ASSERT_NO_FATAL_FAILURE(expect_done(here, 1));
      request.opcode = SendOpcode::Read;
      request.address = copy.data();
      request.stag = copy_stag;
      client->post_send(here.qp, request);
      ASSERT_NO_FATAL_FAILURE(expect_done(here, 1));
      EXPECT_TRUE(is_same(copy));
      server->post_receive(there.qp, 2, target.data(), kRoom, target_stag);
      client->post_send(here.qp,
                        {.wr_id = 2, .address = source.data(), .octets = octets, .stag = stag});
      ASSERT_NO_FATAL_FAILURE(expect_done(here, 2));
      ASSERT_NO_FATAL_FAILURE(expect_done(there, 2));
      EXPECT_TRUE(is_same(target));
    }
    ShortTest::TearDown();  // before the memory
  }
}

/// The Terminate goes in the place of the message, and may be stopped as one.
TEST_P(ShortTest, OneThatMayNotBeReadEndsTheStreamInOrder) {
  for (const std::size_t room : {SIZE_MAX, std::size_t{0}, std::size_t{5}}) {
    SCOPED_TRACE(room);
    here.faults.limit(room);
    client->post_send(here.qp, {.wr_id = 1,
                                .address = bulk.data(),
                                .octets = 8,
                                .stag = here.inbox_stag ^ 0x5a});
    if (room != SIZE_MAX) {
      for (int i = 0; i < 5; ++i) server->progress();
      EXPECT_FALSE(server->take_event().has_value()) << "it was told of what did not arrive";
      here.faults.end();
    }
    const auto told = server->wait_event();
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->event.kind, ConnectionEventKind::Disconnected);
    EXPECT_EQ(told->event.error, EREMOTEIO) << told->event.text;
    const Ending ending = await_ending(here);
    EXPECT_EQ(ending.status, CompletionStatus::LocalProtection);
    EXPECT_EQ(ending.kind, ConnectionEventKind::Disconnected);
    ASSERT_NO_FATAL_FAILURE(connect());
    ASSERT_NO_FATAL_FAILURE(exchange());
  }
}

/// Before it, in the middle of it, and before its last octet.
TEST_P(ShortTest, ALostConnectionEndsItAsALongOne) {
  for (const int error : {ECONNRESET, EPIPE, ETIMEDOUT}) {
    for (const std::size_t room : {std::size_t{0}, std::size_t{1}, kTaggedFPDU - 1}) {
      SCOPED_TRACE(::testing::Message() << error << ", " << room);
      const auto ending_of = [&](auto post) {
        const std::size_t before = here.faults.taken;
        here.faults.lost = error;
        here.faults.limit(room);
        post();
        const Ending ending = await_ending(here);
        EXPECT_EQ(here.faults.taken, before + room);
        here.faults.end();
        const auto told = server->wait_event();
        EXPECT_TRUE(told && told->event.kind == ConnectionEventKind::Disconnected);
        connect();
        exchange();
        return ending;
      };
      const Ending of_long = ending_of([&] { post_long(); });
      const Ending expected{CompletionStatus::Flushed, ConnectionEventKind::Disconnected, error,
                            "the TCP connection was lost", device::QPState::Error};
      EXPECT_EQ(of_long, expected);
      for (const SendOpcode opcode : {SendOpcode::Send, SendOpcode::Write}) {
        EXPECT_EQ(ending_of([&] { here.post(opcode, 1, 5, there, 1); }), expected);
      }
      const auto post_read = [&] { here.post_read(1, there.words[0], there.words_stag, 0); };
      EXPECT_EQ(ending_of(post_read), expected);
      ASSERT_FALSE(HasFatalFailure());
    }
  }
}

TEST_P(ShortTest, APeersResetThatSendingFindsIsToldAsWithALongOne) {
  if (GetParam() == Placement::Thread) GTEST_SKIP() << "the thread finds it by receiving";
  const auto ending_of = [&](auto post) {
    EXPECT_TRUE(server->rnic.command_qp(there.qp.face.number, device::QPCommand::Fail).ok());
    pollfd reset{here.faults.fd, 0, 0};
    EXPECT_EQ(::poll(&reset, 1, 20'000), 1);
    post();
    const Ending ending = await_ending(here);
    EXPECT_TRUE(server->wait_event().has_value());
    connect();
    exchange();
    return ending;
  };
  const Ending of_long = ending_of([&] { post_long(); });
  EXPECT_EQ(of_long.status, CompletionStatus::Flushed);
  EXPECT_EQ(of_long.error, ECONNRESET);
  EXPECT_EQ(ending_of([&] { here.post(SendOpcode::Send, 1, 5, there, 1); }), of_long);
  EXPECT_EQ(ending_of([&] { here.post(SendOpcode::Write, 1, 5, there, 1); }), of_long);
}

INSTANTIATE_TEST_SUITE_P(Placements, ShortTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });
}  // namespace
}  // namespace weft::engine
