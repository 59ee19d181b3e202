// Runs of FPDUs that are alike: what arrives and leaves together is as if each were by itself.
#include <functional>

#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

using test::to_hex;

constexpr std::uint64_t kBase = 0x7000;
constexpr std::size_t kSegments = 9, kEach = 101;  // 101: there is a PAD

/// Two ends with the same memory under the same names, to which the same octets come: to one all
/// at once, to the other FPDU by FPDU.
class Twins {
 public:
  explicit Twins(const StreamParameters& parameters = End::stream(Role::Initiator),
                 std::size_t room = 4096) {
    for (std::size_t i = 0; i < 2; ++i) {
      ends[i].bind(parameters);
      regions.push_back(ends[i].region(room, End::kAll, kPD, kBase));
    }
  }
  STag stag() const { return regions[0].stag; }
  void each(const std::function<void(End&, Region&)>& act) {
    for (std::size_t i = 0; i < 2; ++i) act(ends[i], regions[i]);
  }
  void deliver(const std::vector<Bytes>& fpdus) {
    Bytes all;
    for (const Bytes& fpdu : fpdus) all.insert(all.end(), fpdu.begin(), fpdu.end());
    ends[0].deliver(all);
    for (const Bytes& fpdu : fpdus) ends[1].deliver(fpdu);
  }
  void expect_alike(const std::string& what) {
    const End& together = ends[0];
    const End& single = ends[1];
    EXPECT_EQ(together.qp->state(), single.qp->state()) << what;
    EXPECT_EQ(together.qp->terminate_sent(), single.qp->terminate_sent()) << what;
    EXPECT_EQ(*regions[0].memory, *regions[1].memory) << what;
    EXPECT_EQ(to_hex(ends[0].transmit_all()), to_hex(ends[1].transmit_all())) << what;
    EXPECT_EQ(statuses(together.queues.all), statuses(single.queues.all)) << what;
    EXPECT_EQ(together.mover.placements, single.mover.placements) << what;
  }

  End ends[2];
  std::vector<Region> regions;
};

/// ULPDUs of one tagged message.
std::vector<Bytes> message(wire::Opcode opcode, STag stag, std::uint64_t to,
                           std::size_t segments = kSegments) {
  std::vector<Bytes> out;
  for (std::size_t i = 0; i < segments; ++i) {
    out.push_back(tagged(opcode, stag, to + i * kEach, pattern(kEach, static_cast<std::uint8_t>(i)),
                         i + 1 == segments));
  }
  return out;
}

std::vector<Bytes> fpdus(const std::vector<Bytes>& ulpdus) {
  std::vector<Bytes> out;
  for (const Bytes& ulpdu : ulpdus) out.push_back(fpdu(ulpdu));
  return out;
}

//= DDP-20 DDP-24 DDP-25
TEST(QPRun, OfAWriteIsPlacedWhole) {
  for (const bool crc : {true, false}) {
    StreamParameters parameters = End::stream(Role::Initiator);
    parameters.crc = crc;
    Twins twins(parameters);
    auto both = message(wire::Opcode::Write, twins.stag(), kBase);
    for (const Bytes& more : message(wire::Opcode::Write, twins.stag(), kBase + 2000, 200)) {
      if (both.size() < 20) both.push_back(more);
    }
    auto arriving = fpdus(both);
    if (!crc) {
      for (Bytes& one : arriving) std::fill(one.end() - 4, one.end(), 0);
    }
    twins.deliver(arriving);
    twins.expect_alike("two Writes");
    for (std::size_t i = 0; i < kSegments; ++i) {
      const Bytes expected = pattern(kEach, static_cast<std::uint8_t>(i));
      const std::uint8_t* const place = twins.regions[0].data() + i * kEach;
      EXPECT_EQ(Bytes(place, place + kEach), expected) << i;
    }
    EXPECT_EQ(twins.ends[0].qp->state(), QPState::RTS);
  }
}

//= MPA-16 DDP-14 DDP-20 DDP-24 DDP-25 SEC-01 SEC-02 SEC-03
TEST(QPRun, EndsWhereSomethingIsWrongAsIfEachHadComeByItself) {
  using Ulpdus = std::vector<Bytes>;
  struct Wrong {
    const char* what;
    std::function<void(Ulpdus&, std::size_t)> change;
  };
  const Wrong wrongs[] = {
      {"another TO within bounds", [](Ulpdus& all, std::size_t i) { all[i][13] ^= 1; }},
      {"a TO far away", [](Ulpdus& all, std::size_t i) { all[i][6] ^= 1; }},
      {"another STag", [](Ulpdus& all, std::size_t i) { all[i][5] ^= 1; }},
      {"another RDMAP version", [](Ulpdus& all, std::size_t i) { all[i][1] ^= 0x80; }},
      {"a Read Response", [](Ulpdus& all, std::size_t i) { all[i][1] ^= 2; }},
      {"another DDP version", [](Ulpdus& all, std::size_t i) { all[i][0] ^= 3; }},
      {"a reserved bit", [](Ulpdus& all, std::size_t i) { all[i][0] ^= 4; }},
      {"untagged", [](Ulpdus& all, std::size_t i) { all[i][0] ^= 0x80; }},
      {"the last one", [](Ulpdus& all, std::size_t i) { all[i][0] ^= 0x40; }},
      {"shorter", [](Ulpdus& all, std::size_t i) { all[i].erase(all[i].end() - 4, all[i].end()); }},
      {"without payload",
       [](Ulpdus& all, std::size_t i) { all[i].erase(all[i].begin() + 14, all[i].end()); }},
      {"a Send between",
       [](Ulpdus& all, std::size_t i) {
         all.insert(all.begin() + static_cast<std::ptrdiff_t>(i), send(1, bytes("x")));
       }},
  };
  for (const Wrong& wrong : wrongs) {
    for (std::size_t i = 0; i < kSegments; ++i) {
      Twins twins;
      twins.each([](End& end, Region& region) { end.receive({region.sge(10, 4000)}); });
      auto ulpdus = message(wire::Opcode::Write, twins.stag(), kBase);
      wrong.change(ulpdus, i);
      twins.deliver(fpdus(ulpdus));
      twins.expect_alike(wrong.what + std::string(" at ") + std::to_string(i));
    }
  }
}

//= MPA-16 MPA-18
TEST(QPRun, EndsBeforeABadCRC) {
  for (std::size_t i = 0; i < kSegments; ++i) {
    Twins twins;
    auto arriving = fpdus(message(wire::Opcode::Write, twins.stag(), kBase));
    arriving[i][40] ^= 1;
    twins.deliver(arriving);
    twins.expect_alike("a bad CRC at " + std::to_string(i));
    EXPECT_EQ(twins.ends[0].qp->terminate_sent(), wire::TermError::MPACRC);
    EXPECT_EQ(twins.ends[0].mover.placements, i);
  }
}

//= SEC-01 SEC-03
TEST(QPRun, EndsWhereTheMemoryEnds) {
  for (std::size_t i = 0; i < kSegments; ++i) {
    Twins bounds(End::stream(Role::Initiator), i * kEach + 50);
    bounds.deliver(fpdus(message(wire::Opcode::Write, bounds.stag(), kBase)));
    bounds.expect_alike("a region that ends at " + std::to_string(i));
    EXPECT_EQ(bounds.ends[0].qp->terminate_sent(), wire::TermError::DDPTaggedBounds);
    EXPECT_EQ(bounds.ends[0].mover.placements, i);

    Twins unmapped;
    unmapped.each(
        [&](End& end, Region& region) { end.mover.unmap(region.data() + i * kEach + 3, 1); });
    unmapped.deliver(fpdus(message(wire::Opcode::Write, unmapped.stag(), kBase)));
    unmapped.expect_alike("unmapped at " + std::to_string(i));
    EXPECT_EQ(unmapped.ends[0].qp->terminate_sent(), wire::TermError::DDPTaggedInvalidSTag);
    EXPECT_EQ(unmapped.ends[0].mover.placements, i);
  }
}

/// The octets of a Write are counted for the Immediate Data behind it, however they came.
TEST(QPRun, CountsForImmediateData) {
  Twins twins;
  twins.each([](End& end, Region&) { end.receive(); });
  auto ulpdus = message(wire::Opcode::Write, twins.stag(), kBase);
  ulpdus.push_back(immediate(1, 42));
  twins.deliver(fpdus(ulpdus));
  twins.expect_alike("a Write with Immediate Data");
  for (const End& end : twins.ends) {
    ASSERT_EQ(end.queues.received.size(), 1u);
    EXPECT_EQ(end.queues.received[0].octets, kSegments * kEach);
  }
}

TEST(QPRun, OfAWriteThatIsKeptIsNotPlaced) {
  for (const bool crc : {true, false}) {
    StreamParameters parameters = End::stream(Role::Initiator);
    parameters.crc = crc;
    Twins twins(parameters);
    twins.each([&](End& end, Region&) { end.queues.keeps = twins.stag(); });
    auto arriving = fpdus(message(wire::Opcode::Write, twins.stag(), kBase));
    if (!crc) {
      for (Bytes& one : arriving) std::fill(one.end() - 4, one.end(), 0);
    }
    twins.deliver(arriving);
    twins.expect_alike("a Write that is kept");
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& kept = twins.ends[i].queues.kept;
      EXPECT_EQ(kept.size(), crc ? kSegments : 0u);
      for (std::size_t k = 0; k < kept.size(); ++k) {
        EXPECT_EQ(kept[k].first, twins.regions[i].data() + k * kEach);
        EXPECT_EQ(kept[k].second, pattern(kEach, static_cast<std::uint8_t>(k)));
      }
    }
  }
}

/// There is nothing to divide by.
TEST(QPRun, OfSegmentsWithoutPayloadIsNone) {
  for (const auto opcode : {wire::Opcode::Write, wire::Opcode::ReadResponse}) {
    Twins twins;
    twins.each([&](End& end, Region& region) {
      end.read({region.sge(300)}, {0x99}, 0x1234);
      end.transmit_all();
    });
    const Bytes empty = tagged(opcode, twins.stag(), kBase, {}, false);
    twins.deliver(fpdus({empty, empty, empty}));
    twins.expect_alike("segments without payload");
    EXPECT_EQ(twins.ends[0].qp->state(), QPState::RTS);
  }
}

TEST(QPRun, IsBoundedLikeTheRest) {
  Twins twins(End::stream(Role::Initiator), 2 << 20);
  End& end = twins.ends[0];
  const auto offer = [&](std::size_t segments, std::size_t each) {
    Bytes all;
    for (std::size_t i = 0; i < segments; ++i) {
      const Bytes one =
          fpdu(tagged(wire::Opcode::Write, twins.stag(), kBase + i * each, Bytes(each), false));
      all.insert(all.end(), one.begin(), one.end());
    }
    const Octets part(all);
    return end.qp->handle_octets({std::span(&part, 1)}, end.now).consumed;
  };
  EXPECT_EQ(offer(200, kEach), 64 * wire::fpdu_octets(14 + kEach));
  // None is begun after 1 MiB.
  EXPECT_EQ(offer(34, 60'000), 18 * wire::fpdu_octets(60'014));
  EXPECT_EQ(offer(36, 30'000), 35 * wire::fpdu_octets(30'014));
}

/// Of one part all that is there can be one run; the octets may come in any other way.
TEST(QPRun, OfManyPartsIsPlacedWhole) {
  const auto all = [](const Twins& twins) {
    Bytes octets;
    for (const Bytes& one : fpdus(message(wire::Opcode::Write, twins.stag(), kBase))) {
      octets.insert(octets.end(), one.begin(), one.end());
    }
    return octets;
  };
  for (std::size_t cut = 1; cut < 9 * 121; cut += 7) {
    Twins twins;
    const Bytes octets = all(twins);
    const Octets whole(octets);
    const std::array<Octets, 3> parts{whole.first(cut), Octets(), whole.subspan(cut)};
    End& end = twins.ends[0];
    EXPECT_EQ(end.qp->handle_octets({parts}, end.now).consumed, octets.size()) << cut;
    twins.ends[1].deliver(octets);
    EXPECT_EQ(end.qp->state(), QPState::RTS) << cut;
    EXPECT_EQ(*twins.regions[0].memory, *twins.regions[1].memory) << cut;
  }
}

/// TO may not pass 2^64, and is 0 behind it where the memory begins there.
TEST(QPRun, EndsAtTheTopOfAllTOs) {
  Twins twins;
  const std::uint64_t base = 0 - std::uint64_t{4 * kEach};
  for (std::size_t i = 0; i < 2; ++i) {
    twins.regions[i] = twins.ends[i].region(4 * kEach, End::kAll, kPD, base);
  }
  twins.deliver(fpdus(message(wire::Opcode::Write, twins.stag(), base)));
  twins.expect_alike("a Write that passes 2^64");
  EXPECT_EQ(twins.ends[0].mover.placements, 4u);
}

//= RDM-10 SEC-04
TEST(QPRun, OfAReadResponseEndsWhereTheReadDoes) {
  for (std::uint32_t i = 0; i < 2 * kSegments; ++i) {
    const std::uint32_t asked = (i / 2 + 1) * kEach + i % 2 * 50;
    Twins twins;
    twins.each([&](End& end, Region& region) {
      end.read({region.sge(asked)}, {0x99}, 0x1234);
      end.transmit_all();
    });
    twins.deliver(fpdus(message(wire::Opcode::ReadResponse, twins.stag(), kBase)));
    twins.expect_alike("a Read of " + std::to_string(asked));
    const bool right = asked == kSegments * kEach;
    EXPECT_EQ(twins.ends[0].qp->state() == QPState::RTS, right) << asked;
  }
}

TEST(QPRun, OfAReadResponseIsNotPlacedIfTheSinkIsGone) {
  Twins twins;
  twins.each([&](End& end, Region& region) {
    end.read({region.sge(kSegments * kEach)}, {0x99}, 0x1234);
    end.transmit_all();
  });
  const auto arriving = fpdus(message(wire::Opcode::ReadResponse, twins.stag(), kBase));
  twins.deliver({arriving[0]});
  twins.each([&](End& end, Region&) { ASSERT_TRUE(end.table.deregister(twins.stag()).ok()); });
  twins.deliver({arriving.begin() + 1, arriving.end()});
  twins.expect_alike("a sink that is gone");
  EXPECT_EQ(statuses(twins.ends[0].queues.sent), std::vector{WorkStatus::LocalProtection});
}

/// Of a MULPDU of 134 octets.
constexpr std::size_t kFPDUOctetsMax = 140;

/// Everything with the payload that `gather_octets_min` says is copied, in runs, or sent from where
/// it lies, without.
Bytes all_that_leaves(std::size_t gather_octets_min, bool crc, std::size_t octets_max,
                      std::size_t octets_bound = SIZE_MAX) {
  QPConfig config;
  config.gather_octets_min = gather_octets_min;
  End end(config);
  StreamParameters parameters = End::stream(Role::Initiator);
  parameters.crc = crc;
  end.bind(parameters, 134);  // 114 octets of payload in a Write's segment
  const Region source = end.region(8000, End::kAll, kPD, kBase);
  source.fill(pattern(8000));
  for (const std::uint32_t octets : {113, 114, 115, 228, 229, 1139, 1140, 1141, 5000}) {
    end.write({source.sge(octets)}, {7}, 0x1'0000'0000 - 500);
    end.send({source.sge(octets, 9)});
    end.write({source.sge(octets / 3), source.sge(0), source.sge(octets - octets / 3, 700)}, {7},
              0);
  }
  // In the places of WRs that had SGEs.
  for (int i = 0; i < 3; ++i) {
    end.post({.opcode = WorkOpcode::Write, .remote_stag = {7}}, {}, pattern(1000, 77));
  }
  // The peer is there, and reads.
  end.deliver(fpdu(read_request(1, {{5}, 0x2000, 5000, source.stag, source.to + 11})));
  end.deliver(fpdu(read_request(2, {{5}, 0x2000, 1140, source.stag, source.to})));
  Bytes all;
  for (Bytes part = end.transmit(true, octets_max, octets_bound); !part.empty();
       part = end.transmit(true, octets_max, octets_bound)) {
    if (octets_bound > kFPDUOctetsMax) {
      EXPECT_LE(part.size(), octets_bound);
    }
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_EQ(end.queues.sent.size(), 30u);
  return all;
}

//= DDP-01 DDP-04 DDP-07 RDM-02 RDM-04
TEST(QPRun, LeavesAsIfEachWereFramedByItself) {
  for (const bool crc : {true, false}) {
    const Bytes single = all_that_leaves(1, crc, 65536);
    for (const std::size_t octets_max : {65536, 1, 131, 3000, 8191}) {
      for (const std::size_t octets_bound : {SIZE_MAX, octets_max}) {
        EXPECT_EQ(to_hex(all_that_leaves(8192, crc, octets_max, octets_bound)), to_hex(single))
            << octets_max << " of " << octets_bound << (crc ? "" : ", no CRC");
      }
    }
  }
}

TEST(QPRun, ThatLeavesEndsWhereMemoryIsGone) {
  for (const std::uint32_t at : {0u, 120u, 700u, 1139u}) {
    Bytes left[2];
    for (const std::size_t i : {0, 1}) {
      QPConfig config;
      config.gather_octets_min = i == 0 ? 8192 : 1;
      End end(config);
      end.bind(Role::Initiator, 134);
      const Region source = end.region(1140, End::kAll, kPD, kBase);
      end.mover.unmap(source.data() + at, 1);
      end.write({source.sge()}, {7}, 0);
      left[i] = end.transmit_all();
      EXPECT_EQ(statuses(end.queues.sent), std::vector{WorkStatus::LocalProtection});
      EXPECT_EQ(ulpdus(left[i]).size(), at / 114 + 1) << "what was there, and a Terminate";
    }
    EXPECT_EQ(to_hex(left[0]), to_hex(left[1])) << at;
  }
}

/// Nothing is copied twice on the way to it: who unmaps may not make the others wait.
TEST(QPRun, ThatLeavesCopiesOnceWhatIsThere) {
  End end;
  end.bind(Role::Initiator, 134);
  const Region source = end.region(114 * 500);
  end.mover.unmap(source.data() + 114 * 400, 1);
  end.write({source.sge()}, {7}, 0);
  EXPECT_EQ(ulpdus(end.transmit(true, 1 << 20)).size(), 401u);
  EXPECT_LE(end.mover.fetches, 404u);
}

}  // namespace
}  // namespace weft::core::testing
