// A Write that arrives by itself: as if there were others beside it.
#include "core/qp/testing/alike.h"

namespace weft::core::testing {
namespace {

using wire::Opcode;

constexpr std::size_t kOffset = 16;  // in the local memory
const Bytes kEmpty = fpdu(tagged(Opcode::Write, {1}, 0));

Bytes payload(std::size_t octets) {
  return pattern(octets, 99);
}
Bytes arriving(const Scene& s, std::size_t octets, bool last = true) {
  return tagged(Opcode::Write, s.local.stag, kTO + kOffset, payload(octets), last);
}
Bytes joined(const std::vector<Bytes>& all) {
  Bytes out;
  for (const Bytes& one : all) out.insert(out.end(), one.begin(), one.end());
  return out;
}
/// With the CRC that belongs to it now.
Bytes sealed(Bytes fpdu) {
  const Octets covered = Octets(fpdu).first(fpdu.size() - 4);
  store_crc(fpdu.data() + covered.size(),
            crc32c_finish(crc32c_extend_portable(kCRC32CStart, covered)));
  return fpdu;
}
Bytes changed(Bytes octets, std::size_t at, std::uint8_t bits) {
  octets[at] ^= bits;
  return octets;
}

/// Two ends that heard the peer. To one an FPDU comes by itself, to the other with a Write of no
/// octets in front of it, so that it is no lone one.
struct Both {
  explicit Both(bool crc = true) : Both(Setting{.stream = stream(crc)}) {
    for (Scene* scene : {&alone, &behind}) scene->end.deliver(kEmpty);
  }
  explicit Both(const Setting& setting) : alone(setting), behind(setting) {
    for (Scene* scene : {&alone, &behind}) scene->end.receive({scene->local.sge(64, 4000)});
  }
  static StreamParameters stream(bool crc) {
    StreamParameters parameters = End::stream(Role::Initiator);
    parameters.crc = crc;
    return parameters;
  }
  void deliver(const Bytes& octets) {
    const Received one = alone.end.deliver(octets);
    const Received other = behind.end.deliver(joined({kEmpty, octets}));
    EXPECT_EQ(one.wanted, other.wanted);
    EXPECT_EQ(one.held_back, other.held_back);
  }
  void expect_placed(std::size_t octets) {
    Bytes expected = pattern(kOctets);
    const Bytes placed = payload(octets);
    std::copy(placed.begin(), placed.end(), expected.begin() + kOffset);
    EXPECT_EQ(*alone.local.memory, expected);
    expect_alike(alone, behind);
  }
  Scene alone, behind;
};

struct Arriving {
  const char* what;
  std::function<Bytes(Scene&)> ulpdu;
  std::size_t placed = 0;        ///< octets
  std::uint16_t error = 0xffff;  ///< 0xLTCC of the Terminate that it causes
};

const Arriving kArriving[] = {
    {"8 octets", [](Scene& s) { return arriving(s, 8); }, 8},
    {"1 octet", [](Scene& s) { return arriving(s, 1); }, 1},
    {"2 octets, and no PAD", [](Scene& s) { return arriving(s, 2); }, 2},
    {"all that there is", [](Scene& s) { return arriving(s, kOctets - kOffset); },
     kOctets - kOffset},
    {"no octets", [](Scene& s) { return arriving(s, 0); }},
    {"no octets, to no memory", [](Scene&) { return tagged(Opcode::Write, {0xdead00}, 5); }},
    {"not the last segment", [](Scene& s) { return arriving(s, 8, false); }, 8},
    {"DDP's reserved bits", [](Scene& s) { return changed(arriving(s, 8), 0, 0x3c); }, 8},
    {"RDMAP's reserved bits", [](Scene& s) { return changed(arriving(s, 8), 1, 0x30); }, 8},
    {"DV 0", [](Scene& s) { return changed(arriving(s, 8), 0, 1); }, 0, 0x1104},
    {"DV 2", [](Scene& s) { return changed(arriving(s, 8), 0, 3); }, 0, 0x1104},
    {"RV 0", [](Scene& s) { return changed(arriving(s, 8), 1, 0x40); }, 0, 0x0205},
    {"RV 2", [](Scene& s) { return changed(arriving(s, 8), 1, 0xc0); }, 0, 0x0205},
    {"a Read Response", [](Scene& s) { return changed(arriving(s, 8), 1, 2); }, 0, 0x0206},
    {"a header that is cut",
     [](Scene& s) {
       Bytes ulpdu = arriving(s, 8);
       ulpdu.resize(13);
       return ulpdu;
     },
     0, 0x1000},
    {"no STag", [](Scene&) { return tagged(Opcode::Write, {0xdead00}, kTO, payload(8)); }, 0,
     0x1100},
    {"another key", [](Scene& s) { return changed(arriving(s, 8), 5, 1); }, 0, 0x1100},
    {"one octet more than there is", [](Scene& s) { return arriving(s, kOctets - kOffset + 1); }, 0,
     0x1101},
    {"one octet before the first",
     [](Scene& s) { return tagged(Opcode::Write, s.local.stag, kTO - 1, payload(8)); }, 0, 0x1101},
    {"a TO that wraps",
     [](Scene& s) {
       return tagged(Opcode::Write, s.local.stag, ~std::uint64_t{0} - 6, payload(8));
     },
     0, 0x1103},
    {"another PD's memory",
     [](Scene& s) { return tagged(Opcode::Write, s.foreign.stag, kTO, payload(8)); }, 0, 0x1102},
    {"memory that may not be written",
     [](Scene& s) { return tagged(Opcode::Write, s.read_only.stag, kTO, payload(8)); }, 0, 0x1100},
    {"a QP that lets nothing be written",
     [](Scene& s) {
       s.end.qp->set_remote_access(kRemoteRead);
       return arriving(s, 8);
     },
     0, 0x1100},
    {"memory that was deregistered",
     [](Scene& s) {
       deregister_local(s);
       return arriving(s, 8);
     },
     0, 0x1100},
    {"pages that are gone",
     [](Scene& s) {
       s.end.mover.unmap(s.local.data() + kOffset + 7, 1);
       return arriving(s, 8);
     },
     0, 0x1100},
    {"a stream that closes",
     [](Scene& s) {
       EXPECT_TRUE(s.end.qp->close(s.end.now).ok());
       return arriving(s, 8);
     }},
    {"a stream that ends",
     [](Scene& s) {
       EXPECT_TRUE(s.end.qp->terminate(s.end.now).ok());
       return arriving(s, 8);
     },
     0, 0x0000},
};

//= DDP-02 DDP-03 DDP-09 DDP-20 DDP-24 DDP-25 RDM-03 RDM-29 SEC-01 SEC-02 SEC-03
TEST(QPLoneWrite, EndsAsTogetherWithAnother) {
  for (const Arriving& row : kArriving) {
    for (const bool crc : {true, false}) {
      SCOPED_TRACE(row.what + std::string(crc ? "" : ", no CRC"));
      Both both(crc);
      const Bytes ulpdu = row.ulpdu(both.alone);
      ASSERT_EQ(row.ulpdu(both.behind), ulpdu);
      both.deliver(fpdu(ulpdu));
      both.expect_placed(row.placed);
      EXPECT_TRUE(both.alone.end.arrived.empty());
      std::optional<wire::TermError> error;
      if (row.error != 0xffff) error = static_cast<wire::TermError>(row.error);
      EXPECT_EQ(both.alone.end.qp->terminate_sent(), error);
    }
  }
}

TEST(QPLoneWrite, MayHaveAPadThatIsNot0) {
  Both both;
  both.deliver(sealed(changed(fpdu(arriving(both.alone, 7)), 2 + 14 + 7, 0xff)));
  both.expect_placed(7);
}

//= DDP-02 DDP-03 RDM-03 RDM-29
TEST(QPLoneWrite, WithAnyControlOctetsEndsAsTogetherWithAnother) {
  for (std::size_t i = 0; i < 512; ++i) {
    SCOPED_TRACE(i);
    Both both;
    Bytes ulpdu = arriving(both.alone, 8);
    ulpdu[i / 256] = static_cast<std::uint8_t>(i);
    both.deliver(fpdu(ulpdu));
    expect_alike(both.alone, both.behind);
  }
}

//= MPA-16 MPA-18 DDP-14
TEST(QPLoneWrite, WithAnyOctetDamagedEndsAsTogetherWithAnother) {
  for (const bool crc : {true, false}) {
    for (std::size_t i = 0; i < 28; ++i) {
      SCOPED_TRACE(std::to_string(i) + (crc ? "" : ", no CRC"));
      Both both(crc);
      const Bytes octets = fpdu(arriving(both.alone, 8));
      ASSERT_EQ(octets.size(), 28u);
      both.deliver(changed(octets, i, 1));
      expect_alike(both.alone, both.behind);
      if (crc && i > 1) {  // with another length it is a longer one, not all here yet
        EXPECT_EQ(both.alone.end.qp->terminate_sent(), wire::TermError::MPACRC);
        both.expect_placed(0);
      }
    }
  }
}

TEST(QPLoneWrite, InPiecesIsStillOne) {
  for (const bool crc : {true, false}) {
    for (std::size_t cut = 1; cut < 28; ++cut) {
      SCOPED_TRACE(cut);
      Both twice(crc);
      const Bytes octets = fpdu(arriving(twice.alone, 8));
      const auto middle = octets.begin() + static_cast<std::ptrdiff_t>(cut);
      twice.alone.end.deliver({octets.begin(), middle});
      EXPECT_EQ(twice.alone.end.mover.placements, 0u);
      twice.alone.end.deliver({middle, octets.end()});
      twice.behind.end.deliver(joined({kEmpty, octets}));
      twice.expect_placed(8);

      Both parts(crc);
      const Octets whole(octets);
      const Octets list[] = {kEmpty, whole.first(cut), whole.subspan(cut)};
      const std::span<const Octets> all(list), only = all.subspan(1);
      EXPECT_EQ(parts.alone.end.qp->handle_octets({only}, parts.alone.end.now).consumed, 28u);
      EXPECT_EQ(parts.behind.end.qp->handle_octets({all}, parts.behind.end.now).consumed, 48u);
      parts.expect_placed(8);
    }
  }
}

TEST(QPLoneWrite, WithMoreBehindItIsNoneAndNothingIsLost) {
  const Bytes next = fpdu(send(1, bytes("next")));
  for (std::size_t more = 1; more <= next.size(); ++more) {
    SCOPED_TRACE(more);
    Both both;
    const auto middle = next.begin() + static_cast<std::ptrdiff_t>(more);
    both.deliver(joined({fpdu(arriving(both.alone, 8)), Bytes(next.begin(), middle)}));
    expect_alike(both.alone, both.behind);
    for (Scene* scene : {&both.alone, &both.behind}) {
      scene->end.deliver({middle, next.end()});
      EXPECT_EQ(statuses(scene->end.queues.received), std::vector{WorkStatus::Success});
      EXPECT_EQ(scene->local.text(4, 4000), "next");
    }
    expect_alike(both.alone, both.behind);
  }
}

//= CON-15
TEST(QPLoneWrite, OpensAStreamLikeAnyFirstFPDU) {
  for (const Role role : {Role::Initiator, Role::Responder}) {
    Setting setting;
    setting.stream.role = role;
    Both both(setting);
    for (Scene* scene : {&both.alone, &both.behind}) {
      scene->end.write({scene->local.sge(8)}, {0x501}, 0x1000);
    }
    both.deliver(fpdu(arriving(both.alone, 8)));
    both.expect_placed(8);
    EXPECT_EQ(both.alone.end.noticed(QPNotice::Kind::FirstFPDUArrived), role == Role::Responder);
    EXPECT_EQ(statuses(both.alone.end.queues.sent), std::vector{WorkStatus::Success});
  }
}

TEST(QPLoneWrite, ThatIsKeptIsNotPlaced) {
  for (const bool crc : {true, false}) {
    Both both(crc);
    for (Scene* scene : {&both.alone, &both.behind}) scene->end.queues.keeps = scene->local.stag;
    both.deliver(fpdu(arriving(both.alone, 8)));
    both.expect_placed(crc ? 0 : 8);
    for (const Scene* scene : {&both.alone, &both.behind}) {
      const auto& kept = scene->end.queues.kept;
      ASSERT_EQ(kept.size(), crc ? 1u : 0u);
      if (!crc) continue;
      EXPECT_EQ(kept[0].first, scene->local.data() + kOffset);
      EXPECT_EQ(kept[0].second, payload(8));
    }
  }
}

struct Counted {
  const char* what;
  Ulpdus (*ulpdus)(const Scene&);
  std::vector<std::uint32_t> octets;  ///< of each receive
};

const Counted kCounted[] = {
    {"a Write",
     [](const Scene& s) {
       return Ulpdus{arriving(s, 8), immediate(1, 5)};
     },
     {8}},
    {"the last of two Writes",
     [](const Scene& s) {
       return Ulpdus{arriving(s, 8), arriving(s, 3), immediate(1, 5)};
     },
     {3}},
    {"a Write that ends in a segment by itself",
     [](const Scene& s) {
       return Ulpdus{arriving(s, 40, false), arriving(s, 2), immediate(1, 5)};
     },
     {42}},
    {"a Write that has not ended",
     [](const Scene& s) {
       return Ulpdus{arriving(s, 8), arriving(s, 40, false), immediate(1, 5)};
     },
     {0}},
    {"a Write of no octets",
     [](const Scene& s) {
       return Ulpdus{arriving(s, 8), arriving(s, 0), immediate(1, 5)};
     },
     {0}},
    {"a Write that Immediate Data has followed already",
     [](const Scene& s) {
       return Ulpdus{arriving(s, 8), immediate(1, 5), immediate(2, 6)};
     },
     {8, 0}},
    {"a Write before a Send",
     [](const Scene& s) {
       return Ulpdus{arriving(s, 8), send(1, bytes("s")), immediate(2, 6)};
     },
     {1, 0}},
};

//= EXT-10
TEST(QPLoneWrite, IsCountedForImmediateData) {
  for (const Counted& row : kCounted) {
    SCOPED_TRACE(row.what);
    Both both;
    Bytes all;
    for (Scene* scene : {&both.alone, &both.behind}) {
      scene->end.receive({scene->local.sge(64, 4000)});
    }
    for (const Bytes& ulpdu : row.ulpdus(both.alone)) {
      const Bytes octets = fpdu(ulpdu);
      both.alone.end.deliver(octets);
      all.insert(all.end(), octets.begin(), octets.end());
    }
    both.behind.end.deliver(all);
    expect_alike(both.alone, both.behind);
    std::vector<std::uint32_t> octets;
    for (const Completion& received : both.alone.end.queues.received) {
      octets.push_back(received.octets);
    }
    EXPECT_EQ(octets, row.octets);
  }
}

/// The octets of a whole FPDU, but a marker is due in it, and has not come.
TEST(QPLoneWrite, WithoutTheMarkerThatIsDueIsNoneYet) {
  Setting setting;
  setting.stream.crc = false;
  setting.stream.receive_markers = true;
  Both both(setting);
  const Bytes marker(4);
  for (Scene* scene : {&both.alone, &both.behind}) scene->end.deliver(joined({marker, kEmpty}));
  const Bytes octets = fpdu(arriving(both.alone, 500));
  both.deliver(octets);
  both.expect_placed(0);
  EXPECT_EQ(both.alone.end.arrived, octets);
  EXPECT_EQ(both.alone.end.qp->state(), QPState::RTS);
}

}  // namespace
}  // namespace weft::core::testing
