// Test-only: two ends whose transport takes of short messages what the test allows, or is lost.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "engine/buffers.h"
#include "engine/testing/side.h"
#include "engine/testing/stream.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/rdmap.h"

namespace weft::engine::testing {

using device::CompletionStatus;
using device::ConnectionEventKind;
using device::SendOpcode;

using Bytes = std::vector<std::uint8_t>;

inline constexpr std::size_t kPayload = sizeof(std::uint64_t);
inline constexpr std::size_t kSendFPDU = wire::fpdu_octets(wire::kUntaggedHeaderOctets + kPayload);
inline constexpr std::size_t kTaggedFPDU = wire::fpdu_octets(wire::kTaggedHeaderOctets + kPayload);
inline constexpr std::size_t kReadFPDU =
    wire::fpdu_octets(wire::kUntaggedHeaderOctets + wire::ReadRequest::kOctets);
inline constexpr std::uint32_t kAll =
    device::kLocalWrite | device::kRemoteWrite | device::kRemoteRead;

/// What the transport of one end does with what it is to send: the test says, who sends looks.
struct Faults {
  std::atomic<std::size_t> room{SIZE_MAX};     ///< so many octets are taken, then no more
  std::atomic<std::size_t> at_once{SIZE_MAX};  ///< and so many by one call
  std::atomic<int> lost{0};  ///< errno: there is not just no room, but the connection is lost
  std::atomic<std::size_t> taken{0};    ///< octets
  std::atomic<std::size_t> refused{0};  ///< calls that found no room
  std::atomic<int> fd{-1};              ///< of the stream made last

  void limit(std::size_t octets) {
    refused = 0;
    room = octets;
  }
  void end() {
    lost = 0;
    room = at_once = SIZE_MAX;
  }
};

/// Kernel TCP that takes less.
class Stream final : public PassingStream {
 public:
  Stream(std::unique_ptr<transport::Stream> inner, Faults& faults)
      : PassingStream(std::move(inner)), faults_(faults) {
    faults_.fd = fd();
  }
  transport::IOResult send(std::span<const iovec> pieces) override {
    std::size_t left = std::min<std::size_t>(faults_.room, faults_.at_once);
    if (left == 0) return refuse();
    std::array<iovec, kTransmitPieces> some;
    std::size_t count = 0;
    for (const iovec& piece : pieces) {
      some[count++] = {piece.iov_base, std::min(piece.iov_len, left)};
      left -= some[count - 1].iov_len;
      if (left == 0) break;
    }
    const transport::IOResult r = PassingStream::send({some.data(), count});
    faults_.room -= r.octets;
    faults_.taken += r.octets;  // last: who sees it may set the room
    return r;
  }
  transport::IOResult receive(std::span<const iovec> pieces) override {
    return is_lost() ? lose() : PassingStream::receive(pieces);
  }

 private:
  bool is_lost() const { return faults_.lost != 0 && faults_.room == 0; }
  transport::IOResult lose() const { return {transport::IOResult::Kind::Lost, 0, faults_.lost}; }
  transport::IOResult refuse() {
    ++faults_.refused;
    return is_lost() ? lose() : transport::IOResult{};
  }

  Faults& faults_;
};

/// One end: its QP, what its peer may read, what its peer writes and sends to, what it has read.
struct End {
  using Words = std::array<std::uint64_t, 32>;

  /// With another Side, whose peer's words are other ones than ours.
  void begin(Side& made, std::uint64_t first_word) {
    side = &made;
    std::iota(words.begin(), words.end(), first_word);
    inbox = copies = {};
    words_stag = side->register_octets(words.data(), sizeof words, kAll);
    inbox_stag = side->register_octets(inbox.data(), sizeof inbox, kAll);
    copies_stag = side->register_octets(copies.data(), sizeof copies, kAll);
  }
  /// Into inbox[at].
  void post_receive(std::uint64_t id, std::size_t at) {
    side->post_receive(qp, id, &inbox[at], kPayload, inbox_stag);
  }
  /// Inline: a Send, or a Write to the peer's inbox[at].
  void post(SendOpcode opcode, std::uint64_t id, std::uint64_t value, const End& peer,
            std::size_t at) {
    ASSERT_FALSE(qp.face.send.full());
    auto* entry = static_cast<device::SendEntry*>(qp.face.send.entry(qp.sends));
    *entry = {};
    entry->wr_id = id;
    entry->opcode = opcode;
    entry->flags = device::kSignaled | device::kInline;
    entry->inline_octets = kPayload;
    std::memcpy(entry->inline_data(), &value, kPayload);
    if (opcode == SendOpcode::Write) {
      entry->remote_stag = peer.inbox_stag;
      entry->remote_to = reinterpret_cast<std::uintptr_t>(&peer.inbox[at]);
    }
    qp.face.send.publish(++qp.sends);
    side->rnic.ring_send(qp.face.number, {});
  }
  /// Of a word of the peer's, into copies[at].
  void post_read(std::uint64_t id, const std::uint64_t& word, std::uint32_t stag, std::size_t at) {
    side->post_send(qp, {.opcode = SendOpcode::Read,
                         .wr_id = id,
                         .address = &copies[at],
                         .octets = kPayload,
                         .stag = copies_stag,
                         .remote_stag = stag,
                         .remote_to = reinterpret_cast<std::uintptr_t>(&word)});
  }

  Faults faults;
  WrappingTransport transport{
      [this](auto inner) { return std::make_unique<Stream>(std::move(inner), faults); }};
  Side* side = nullptr;
  QPHandle qp;
  Words words{}, inbox{}, copies{};
  std::uint32_t words_stag = 0, inbox_stag = 0, copies_stag = 0;
};

/// How a connection ended for who posted.
struct Ending {
  CompletionStatus status = CompletionStatus::Success;
  ConnectionEventKind kind = ConnectionEventKind::Established;
  int error = 0;
  std::string text;
  device::QPState state = device::QPState::Idle;

  bool operator==(const Ending&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Ending& e) {
    return out << "status " << int(e.status) << ", event " << int(e.kind) << ", error " << e.error
               << ", " << e.text << ", state " << int(e.state);
  }
};

class ShortTest : public PairTest {
 protected:
  void SetUp() override {
    begin_with(make_settings());
    if (!HasFatalFailure()) exchange();
  }
  void TearDown() override {
    client.reset();
    server.reset();
  }
  void begin_with(const Settings& settings) {
    ShortTest::TearDown();
    for (End* end : {&here, &there}) end->faults.end();
    server = std::make_unique<Side>(settings, &there.transport);
    client = std::make_unique<Side>(settings, &here.transport);
    server->peer_progress = [this] { client->progress(); };
    client->peer_progress = [this] { server->progress(); };
    here.begin(*client, 1000);
    there.begin(*server, 2000);
    listen();
    if (!HasFatalFailure()) connect();
  }
  /// QPs of their own, whatever became of those before.
  void connect() {
    here.qp = client->make_qp(1);
    there.qp = server->make_qp(2);
    establish(here.qp, there.qp);
  }
  /// One message each way: from then on nobody is nudged, and all octets are the test's.
  void exchange() {
    for (const auto& [from, to] : {std::pair(&here, &there), std::pair(&there, &here)}) {
      to->post_receive(91, 0);
      from->post(SendOpcode::Send, 90, 5, *to, 0);
      expect_done(*from, 90);
      expect_received(*to, 91, 0, 5);
      if (HasFatalFailure()) return;
    }
  }
  static void expect_done(const End& end, std::uint64_t id) {
    const auto done = end.side->wait_completion();
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->wr_id, id);
    EXPECT_EQ(done->status, CompletionStatus::Success);
  }
  static void expect_received(const End& end, std::uint64_t id, std::size_t at,
                              std::uint64_t value) {
    const auto done = end.side->wait_completion();
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->wr_id, id);
    EXPECT_EQ(done->status, CompletionStatus::Success);
    EXPECT_EQ(done->octets, kPayload);
    EXPECT_EQ(end.inbox[at], value);
  }
  /// The transport of `end` has taken so many octets, and no more; and nobody is told of them.
  void expect_stop(const End& end, std::size_t taken) {
    ASSERT_TRUE(end.side->wait_until([&] {
      end.side->progress();
      return end.faults.refused != 0;
    }));
    EXPECT_EQ(end.faults.taken, taken);
    for (int i = 0; i < 5; ++i) {
      for (Side* side : {client.get(), server.get()}) {
        side->progress();
        side->rnic.poll(side->cq.number);
        EXPECT_TRUE(side->cq.completions.empty());
      }
    }
  }
  /// Nobody polls: the poller, or the thread, has to tell that there is room again.
  static void expect_done_unpolled(const End& end, std::uint64_t id) {
    ASSERT_TRUE(end.side->wait_until([&] {
      end.side->progress();
      return !end.side->cq.completions.empty();
    }));
    expect_done(end, id);
  }
  /// Of the connection of `end`, where one WR was open.
  Ending await_ending(const End& end) {
    const auto done = end.side->wait_completion();
    const auto event = end.side->wait_event();
    const auto status = end.side->rnic.query_qp(end.qp.face.number);
    EXPECT_TRUE(done.has_value() && event.has_value() && status.ok());
    if (!done || !event || !status) return {};
    EXPECT_EQ(done->wr_id, 1u);
    return {done->status, event->event.kind, event->event.error, event->event.text, status->state};
  }
  void post_long() {
    client->post_send(here.qp, {.wr_id = 1,
                                .address = bulk.data(),
                                .octets = static_cast<std::uint32_t>(bulk.size()),
                                .stag = client->register_octets(bulk.data(), bulk.size(), 0)});
  }

  End here, there;  ///< the client's and the server's
  Bytes bulk = Bytes(100'000, 7);
};

}  // namespace weft::engine::testing
