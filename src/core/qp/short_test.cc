// Short messages that leave by themselves: as if they had gone in a batch.
#include <array>
#include <functional>

#include "core/qp/testing/alike.h"

namespace weft::core::testing {
namespace {

using wire::Opcode;

// Of the peer, who only hears of it.
constexpr STag kPeer{0x501};
constexpr std::uint64_t kPeerTO = 0x1000;

using Act = std::function<void(Scene&)>;

/// One message by way of poll_short, as the engine asks it. Empty: it had none to give.
Bytes poll_short(End& end, std::size_t staging_octets = QP::kShortStagingOctets) {
  Bytes staging(staging_octets);
  Piece piece;
  TransmitBatch batch(staging, {&piece, 1}, staging.size());
  const bool polled = end.qp->poll_short(batch, end.now);
  EXPECT_EQ(polled, batch.octets() != 0);
  if (batch.octets() == 0) return {};
  EXPECT_EQ(piece.octets, batch.octets());
  EXPECT_FALSE(piece.registered);
  end.qp->handle_sent(piece.octets, end.now);
  end.drain();
  return {piece.data, piece.data + piece.octets};
}
/// All that may go now: what poll_short has, and whenever it has nothing a batch.
Bytes poll_all(End& end) {
  Bytes all;
  while (true) {
    Bytes part = poll_short(end);
    if (part.empty()) part = end.transmit();
    if (part.empty()) return all;
    all.insert(all.end(), part.begin(), part.end());
  }
}

/// The FPDUs of a stream without markers. Without a CRC the field holds zeros.
Bytes framed(const Ulpdus& ulpdus, bool crc) {
  Bytes all;
  for (const Bytes& ulpdu : ulpdus) {
    Bytes one = fpdu(ulpdu);
    if (!crc) std::fill(one.end() - 4, one.end(), 0);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

struct Leaving {
  const char* what;
  Act begin;                                      ///< posts it, or lets it be asked for
  std::function<Ulpdus(const Scene&)> leaves;     ///< from then on
  std::function<void(Setting&)> adjust = nullptr;
  Act then = nullptr;                             ///< when all that could leave has left
  std::vector<WorkStatus> sent = {};              ///< what fails: how its work ends
};

/// Asks one end by way of poll_short, the other without. `at_once`: what poll_short says first.
void expect_leaves_alike(const Leaving& row, bool crc, bool markers, std::optional<bool> at_once) {
  SCOPED_TRACE(row.what + std::string(crc ? "" : ", no CRC") + (markers ? ", markers" : ""));
  Setting setting;
  setting.stream.crc = crc;
  setting.stream.transmit_markers = markers;
  if (row.adjust) row.adjust(setting);
  Scene polled(setting), plain(setting);
  row.begin(polled);
  row.begin(plain);
  Bytes octets = poll_short(polled.end);
  if (at_once && !markers) {
    EXPECT_EQ(!octets.empty(), *at_once);
  }
  const auto add = [&octets](const Bytes& more) {
    octets.insert(octets.end(), more.begin(), more.end());
  };
  add(poll_all(polled.end));
  Bytes expected = plain.end.transmit_all();
  if (row.then) {
    row.then(polled);
    row.then(plain);
    add(poll_all(polled.end));
    const Bytes more = plain.end.transmit_all();
    expected.insert(expected.end(), more.begin(), more.end());
  }
  EXPECT_EQ(to_hex(octets), to_hex(expected));
  if (row.leaves && !markers) {
    EXPECT_EQ(to_hex(octets), to_hex(framed(row.leaves(polled), setting.stream.crc)));
  }
  expect_alike(polled, plain);
  if (!row.sent.empty()) {
    EXPECT_EQ(statuses(polled.end.queues.sent), row.sent);
  }
}
void expect_all_leave_alike(std::span<const Leaving> rows, std::optional<bool> at_once) {
  for (const Leaving& row : rows) {
    for (const bool crc : {true, false}) {
      for (const bool markers : {false, true}) expect_leaves_alike(row, crc, markers, at_once);
    }
  }
}

// The payload of what is posted begins where the local memory does, so it is known beforehand.
Act posts(SendWR wr, std::uint32_t octets) {
  wr.remote_stag = kPeer;
  wr.remote_to = kPeerTO;
  return [=](Scene& s) { s.end.post(wr, {s.local.sge(octets)}); };
}
Act writes(std::uint32_t octets) { return posts({.opcode = WorkOpcode::Write}, octets); }
Act writes_inline(std::size_t octets) {
  return [=](Scene& s) {
    s.end.post({.opcode = WorkOpcode::Write, .remote_stag = kPeer, .remote_to = kPeerTO}, {},
               pattern(octets));
  };
}
Act writes_from(SGE sge) {
  return [=](Scene& s) { s.end.write({sge}, kPeer, kPeerTO); };
}
Act reads(std::uint32_t octets) { return posts({.opcode = WorkOpcode::Read}, octets); }
Act all_of(std::vector<Act> acts) {
  return [=](Scene& s) {
    for (const Act& act : acts) act(s);
  };
}
Bytes asked(const Scene& s, std::uint32_t octets) {
  return read_request(1, {kPeer, kPeerTO, octets, s.local.stag, kTO});
}
Act is_asked(std::uint32_t octets) {
  return [=](Scene& s) { s.end.deliver(fpdu(asked(s, octets))); };
}
/// The peer adds nothing to a number of ours.
void is_asked_atomically(Scene& s) {
  s.end.deliver(fpdu(atomic_request(
      1, {wire::AtomicOpcode::FetchAdd, 7, s.local.stag, kTO, {.data = 0, .data_mask = 0}})));
}
void is_answered(Scene& s) {
  s.end.deliver(fpdu(tagged(Opcode::ReadResponse, s.local.stag, kTO, pattern(8, 99))));
}
void is_gone(Scene& s) { deregister_local(s); }
void hears_of_the_peer(Scene& s) { s.end.deliver(fpdu(tagged(Opcode::Write, {1}, 0))); }
void is_unmapped(Scene& s) { s.end.mover.unmap(s.local.data(), 8); }

std::function<Ulpdus(const Scene&)> these(Ulpdus ulpdus) {
  return [=](const Scene&) { return ulpdus; };
}
Bytes written(std::size_t octets) {
  return tagged(Opcode::Write, kPeer, kPeerTO, pattern(octets));
}
Bytes sent(std::size_t octets, Opcode opcode = Opcode::Send, STag invalidate = {}) {
  return untagged(opcode, 0, 1, 0, pattern(octets), true, invalidate);
}
Bytes answer(std::size_t octets) {
  return tagged(Opcode::ReadResponse, kPeer, kPeerTO, pattern(octets));
}
Bytes request(const Scene& s, std::uint32_t octets, std::uint32_t msn = 1) {
  return read_request(msn, {s.local.stag, kTO, octets, kPeer, kPeerTO});
}
/// Of a message of `octets`, in segments of `each`.
Ulpdus segments(Opcode opcode, std::size_t octets, std::size_t each) {
  Ulpdus out;
  const Bytes all = pattern(octets);
  for (std::size_t at = 0; at < octets; at += each) {
    const std::size_t end = std::min(at + each, octets);
    out.push_back(tagged(opcode, kPeer, kPeerTO + at, Bytes(all.data() + at, all.data() + end),
                         end == octets));
  }
  return out;
}
Ulpdus with(Ulpdus ulpdus, const Bytes& behind) {
  ulpdus.push_back(behind);
  return ulpdus;
}

void as_responder(Setting& setting) { setting.stream.role = Role::Responder; }
void in_long_segments(Setting& setting) { setting.emss = 65'000; }
/// Of the MULPDU of a Scene, with the longest header.
constexpr std::uint32_t kInSegment = 1436;

const Leaving kShort[] = {
    {"an inline Write of 1 octet", writes_inline(1), these({written(1)})},
    {"an inline Write of 8 octets", writes_inline(8), these({written(8)})},
    {"an inline Write of 64 octets", writes_inline(64), these({written(64)})},
    {"a Write of 8 octets", writes(8), these({written(8)})},
    {"the longest Write", writes(4096), these({written(4096)}), in_long_segments},
    {"the longest Write that a segment has room for", writes(kInSegment),
     these({written(kInSegment)})},
    {"a Write of nothing, to no STag",
     [](Scene& s) { s.end.write(std::vector<SGE>{}, {0}, 0); },
     these({tagged(Opcode::Write, {1}, 0)})},
    {"a Write of no octets of what is no memory", writes_from({kTO, 0, {0xdead00}}),
     these({written(0)})},
    {"an unsignalled Write", posts({.opcode = WorkOpcode::Write, .signaled = false}, 8),
     these({written(8)})},
    {"a Send", posts({.opcode = WorkOpcode::Send}, 8), these({sent(8)})},
    {"the longest Send", posts({.opcode = WorkOpcode::Send}, 4096), these({sent(4096)}),
     in_long_segments},
    {"a Send of nothing", [](Scene& s) { s.end.send(std::vector<SGE>{}); }, these({sent(0)})},
    {"a solicited Send", posts({.opcode = WorkOpcode::Send, .solicited = true}, 8),
     these({sent(8, Opcode::SendSolicited)})},
    {"a Send with Invalidate",
     posts({.opcode = WorkOpcode::SendInvalidate, .invalidate_stag = {0x77}}, 8),
     these({sent(8, Opcode::SendInvalidate, {0x77})})},
    {"a solicited Send with Invalidate",
     posts({.opcode = WorkOpcode::SendInvalidate, .solicited = true, .invalidate_stag = {0x77}}, 8),
     these({sent(8, Opcode::SendSolicitedInvalidate, {0x77})})},
    {"a Read", reads(8), [](const Scene& s) { return Ulpdus{request(s, 8)}; }, nullptr,
     is_answered},
    {"a Read of much", reads(kOctets), [](const Scene& s) { return Ulpdus{request(s, kOctets)}; }},
    {"a Write behind what is done here",
     [](Scene& s) {
       s.end.post(
           {.opcode = WorkOpcode::LocalInvalidate, .invalidate_stag = s.read_only.stag});
       writes(8)(s);
     },
     these({written(8)})},
    {"a Write, a Send, a Read and a Write",
     all_of({writes(8), posts({.opcode = WorkOpcode::Send}, 9), reads(8), writes_inline(7)}),
     [](const Scene& s) { return Ulpdus{written(8), sent(9), request(s, 8), written(7)}; },
     nullptr, is_answered},
    {"an answer of 8 octets", is_asked(8), these({answer(8)}), as_responder},
    {"an answer of no octets", is_asked(0), these({answer(0)}), as_responder},
    {"the longest answer", is_asked(4096), these({answer(4096)}), in_long_segments},
    {"an answer, and Writes that are not to wait for the next one",
     [](Scene& s) {
       writes(8)(s);
       is_asked(8)(s);
       s.end.deliver(fpdu(read_request(2, {kPeer, kPeerTO, 8, s.local.stag, kTO})));
       writes(9)(s);
     },
     these({answer(8), written(8), answer(8), written(9)}), as_responder},
};

//= RDM-02 RDM-04 RDM-06 DDP-07
TEST(QPShort, LeavesAsInABatch) { expect_all_leave_alike(kShort, true); }

/// Whatever was begun for poll_short is not lost: here it is found only that there is no room.
TEST(QPShort, WithoutRoomLeavesInTheNextBatch) {
  for (const Leaving& row : kShort) {
    SCOPED_TRACE(row.what);
    for (const std::size_t staging : {0, 19}) {  // the shortest FPDU has 20
      Setting setting;
      if (row.adjust) row.adjust(setting);
      Scene scene(setting);
      row.begin(scene);
      EXPECT_TRUE(poll_short(scene.end, staging).empty());
      EXPECT_TRUE(poll_short(scene.end, staging).empty());
      EXPECT_EQ(to_hex(scene.end.transmit_all()), to_hex(framed(row.leaves(scene), true)));
      EXPECT_EQ(scene.end.qp->state(), QPState::RTS);
    }
  }
}

const Leaving kOthers[] = {
    {"nothing", [](Scene&) {}, these({})},
    {"a Write of 4097 octets", writes(4097), these({written(4097)}), in_long_segments},
    {"a Send of 4097 octets", posts({.opcode = WorkOpcode::Send}, 4097), these({sent(4097)}),
     in_long_segments},
    {"a Write of two pieces",
     [](Scene& s) { s.end.write({s.local.sge(3), s.local.sge(5, 3)}, kPeer, kPeerTO); },
     these({written(8)})},
    {"a fenced Send behind a Read",
     [](Scene& s) {
       reads(8)(s);
       s.end.transmit();
       posts({.opcode = WorkOpcode::Send, .read_fence = true}, 4)(s);
       s.end.queues.sends.back().sges = {s.local.sge(4, 8)};  // not where the answer goes
     },
     these({send(1, pattern(4, 1 + 8 * 7))}), nullptr, is_answered},
    {"a Read beyond the ORD",
     [](Scene& s) {
       reads(8)(s);
       s.end.transmit();
       reads(9)(s);
     },
     [](const Scene& s) { return Ulpdus{request(s, 9, 2)}; },
     [](Setting& setting) { setting.stream.ord = 1; }, is_answered},
    {"a Write while sends pause",
     [](Scene& s) {
       s.end.qp->pause_sends(true);
       writes(8)(s);
     },
     these({written(8)}), nullptr, [](Scene& s) { s.end.qp->pause_sends(false); }},
    {"a Read with Invalidate", posts({.opcode = WorkOpcode::ReadInvalidate}, 8),
     [](const Scene& s) { return Ulpdus{request(s, 8)}; }, nullptr, is_answered},
    {"a Write with Immediate Data",
     [](Scene& s) { s.end.write_immediate("w", kPeer, kPeerTO, 5); },
     these({tagged(Opcode::Write, kPeer, kPeerTO, bytes("w")), immediate(1, 5)})},
    {"a Send with Immediate Data", [](Scene& s) { s.end.send_immediate("s", 0); },
     these({immediate(1, 0x53656e64), send(2, bytes("s"))})},
    {"an atomic", [](Scene& s) { s.end.fetch_add(s.local.sge(8), kPeer, kPeerTO, 5); }, nullptr,
     nullptr, [](Scene& s) { s.end.deliver(fpdu(atomic_response(1, 1, 4))); }},
    {"an answer of 4097 octets", is_asked(4097), these({answer(4097)}), in_long_segments},
    {"an answer of several segments", is_asked(3000),
     these(segments(Opcode::ReadResponse, 3000, 1440)), as_responder},
    {"an answer that is lent", is_asked(1000), these({answer(1000)}),
     [](Setting& setting) {
       setting.config.gather_octets_min = 512;
       setting.stream.crc = false;
     }},
    {"an atomic's answer", is_asked_atomically,
     [](const Scene& s) { return Ulpdus{atomic_response(1, 7, s.local.number())}; }, as_responder},
    {"an atomic's answer before a Write",
     [](Scene& s) {
       is_asked_atomically(s);
       writes(8)(s);
     },
     [](const Scene& s) { return Ulpdus{atomic_response(1, 7, s.local.number()), written(8)}; }},
    {"a Write of a responder that heard nothing yet", writes(8), these({written(8)}), as_responder,
     hears_of_the_peer},
    {"a Write behind the RTR", writes(8), these({tagged(Opcode::Write, {1}, 0), written(8)}),
     [](Setting& setting) {
       setting.stream.peer_to_peer = true;
       setting.stream.rtr = RTR::Write;
     }},
    {"a Write behind a long one", all_of({writes(3000), writes(8)}),
     these(with(segments(Opcode::Write, 3000, 1440), written(8)))},
    {"a Write behind a long one that was begun",
     [](Scene& s) {
       writes(3000)(s);
       writes(8)(s);
       s.end.transmit(true, 1);
     },
     [](const Scene&) {
       Ulpdus left = with(segments(Opcode::Write, 3000, 1440), written(8));
       left.erase(left.begin());
       return left;
     }},
    {"a Write in segments", writes(200), these(segments(Opcode::Write, 200, 114)),
     [](Setting& setting) { setting.emss = 134; }},
    {"a Write that a probe follows", writes(8),
     these({written(8), read_request(1, {{1}, 0, 0, {1}, 0})}),
     [](Setting& setting) { setting.config.complete_placed = true; }},
    {"a Write between markers", writes(8), nullptr,
     [](Setting& setting) { setting.stream.transmit_markers = true; }},
    {"a Write of a stream that ends",
     [](Scene& s) {
       EXPECT_TRUE(s.end.qp->terminate(s.end.now).ok());
       writes(8)(s);
     },
     these({terminate(0x0000)})},
    {"a Write of a stream that is over",
     [](Scene& s) {
       EXPECT_TRUE(s.end.qp->fail(s.end.now).ok());
       writes(8)(s);
     },
     these({})},
};

//= DDP-10 RDM-22 RDM-23
TEST(QPShort, IsWhatNothingElseIs) { expect_all_leave_alike(kOthers, false); }

constexpr auto kFails = WorkStatus::LocalProtection;
constexpr auto kFlushed = WorkStatus::Flushed;
const std::vector<WorkStatus> kFirstFails{kFails, kFlushed};

/// A Write of 7 octets is posted behind each.
const Leaving kFailing[] = {
    {"no memory", writes_from({kTO, 8, {0xdead00}}), these({terminate(0)}), nullptr, nullptr,
     kFirstFails},
    {"memory that was deregistered", all_of({writes(8), is_gone}), these({terminate(0)}), nullptr,
     nullptr, kFirstFails},
    {"another PD's memory", [](Scene& s) { s.end.write({s.foreign.sge(8)}, kPeer, kPeerTO); },
     these({terminate(0)}), nullptr, nullptr, kFirstFails},
    {"one octet more than there is",
     [](Scene& s) { s.end.write({s.local.sge(8, kOctets - 7)}, kPeer, kPeerTO); },
     these({terminate(0)}), nullptr, nullptr, kFirstFails},
    {"a TO that wraps",
     [](Scene& s) { s.end.write({{~std::uint64_t{0} - 3, 8, s.local.stag}}, kPeer, kPeerTO); },
     these({terminate(0)}), nullptr, nullptr, kFirstFails},
    {"pages that are gone", all_of({is_unmapped, writes(8)}), these({terminate(0)}), nullptr,
     nullptr, kFirstFails},
    {"many octets from pages that are gone", all_of({is_unmapped, writes(4096)}),
     these({terminate(0)}), in_long_segments, nullptr, kFirstFails},
    {"a Send of no memory", [](Scene& s) { s.end.send({{kTO, 8, {0xdead00}}}); },
     these({terminate(0)}), nullptr, nullptr, kFirstFails},
    {"a Send with Invalidate of pages that are gone",
     all_of({is_unmapped, posts({.opcode = WorkOpcode::SendInvalidate}, 8)}),
     these({terminate(0)}), nullptr, nullptr, kFirstFails},
    {"no memory behind what is there", all_of({writes(8), writes_from({kTO, 8, {0xdead00}})}),
     these({written(8), terminate(0)}), nullptr, nullptr,
     {WorkStatus::Success, kFails, kFlushed}},
    {"a Read into no memory",
     [](Scene& s) { s.end.read({{kTO, 8, {0xdead00}}}, kPeer, kPeerTO); }, these({terminate(0)}),
     nullptr, nullptr, kFirstFails},
    {"a Read into what is not to be written",
     [](Scene& s) { s.end.read({s.read_only.sge(8)}, kPeer, kPeerTO); }, these({terminate(0)}),
     nullptr, nullptr, kFirstFails},
    {"a Read with an ORD of 0", reads(8), these({terminate(0)}),
     [](Setting& setting) { setting.stream.ord = 0; }, nullptr,
     {WorkStatus::LocalQPOperation, kFlushed}},
    {"an answer from memory that was deregistered", all_of({is_asked(8), is_gone}),
     [](const Scene& s) { return Ulpdus{terminate(0x0100, asked(s, 8), true)}; }, as_responder,
     nullptr, {kFlushed}},
    {"an answer from pages that are gone", all_of({is_asked(8), is_unmapped}),
     [](const Scene& s) { return Ulpdus{terminate(0x0100, asked(s, 8), true)}; }, as_responder,
     nullptr, {kFlushed}},
    {"an answer from what may not be read any more",
     all_of({is_asked(8), [](Scene& s) { s.end.qp->set_remote_access(kRemoteWrite); }}),
     [](const Scene& s) { return Ulpdus{terminate(0x0102, asked(s, 8), true)}; }, as_responder,
     nullptr, {kFlushed}},
};

//= RDM-26 RDM-27 RDM-30 SEC-04
TEST(QPShort, OfMemoryThatIsNoneFailsAsInABatch) {
  for (Leaving row : kFailing) {
    row.begin = all_of({row.begin, writes_inline(7)});
    expect_all_leave_alike({&row, 1}, {});
  }
}

}  // namespace
}  // namespace weft::core::testing
