// Two ends to which the same is done in two ways: nothing may tell which way was taken.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "core/qp/testing/hostile.h"

namespace weft::core::testing {

using test::to_hex;
using Ulpdus = std::vector<Bytes>;

inline constexpr std::uint64_t kTO = 0x7000;
inline constexpr std::size_t kOctets = 8192;

struct Setting {
  QPConfig config = {};
  StreamParameters stream = End::stream(Role::Initiator);
  std::size_t emss = 1460;
};

/// An end and its memory, under the same names in each of them.
struct Scene {
  explicit Scene(const Setting& setting = {}) : end(setting.config) {
    end.bind(setting.stream, setting.emss);
    local.fill(pattern(kOctets));
  }
  End end;
  Region local = end.region(kOctets, End::kAll, kPD, kTO);
  Region foreign = end.region(64, End::kAll, kOtherPD, kTO);
  Region read_only = end.region(64, kRemoteRead, kPD, kTO);
};

inline std::vector<std::array<std::uint64_t, 5>> described(
    const std::deque<Completion>& completions) {
  std::vector<std::array<std::uint64_t, 5>> out;
  for (const Completion& c : completions) {
    out.push_back({c.id, static_cast<std::uint64_t>(c.status), static_cast<std::uint64_t>(c.opcode),
                   c.octets, c.signaled});
  }
  return out;
}
inline std::vector<std::pair<int, std::uint16_t>> described(const std::vector<QPNotice>& notices) {
  std::vector<std::pair<int, std::uint16_t>> out;
  for (const QPNotice& n : notices) {
    out.push_back({static_cast<int>(n.kind), static_cast<std::uint16_t>(n.error)});
  }
  return out;
}

/// In everything that can be seen, and in what still leaves.
inline void expect_alike(Scene& one, Scene& other) {
  EXPECT_EQ(to_hex(one.end.transmit_all()), to_hex(other.end.transmit_all()));
  EXPECT_EQ(one.end.qp->state(), other.end.qp->state());
  EXPECT_EQ(one.end.qp->terminate_sent(), other.end.qp->terminate_sent());
  EXPECT_EQ(one.end.qp->reads_open(), other.end.qp->reads_open());
  EXPECT_EQ(one.end.qp->inbound_reads_open(), other.end.qp->inbound_reads_open());
  EXPECT_EQ(one.end.qp->wants_transmit(), other.end.qp->wants_transmit());
  EXPECT_TRUE(one.end.qp->poll_timeout() == other.end.qp->poll_timeout());
  EXPECT_EQ(one.end.action, other.end.action);
  EXPECT_EQ(described(one.end.notices), described(other.end.notices));
  EXPECT_EQ(described(one.end.queues.all), described(other.end.queues.all));
  EXPECT_EQ(one.end.arrived, other.end.arrived);
  EXPECT_EQ(one.end.mover.placements, other.end.mover.placements);
  EXPECT_EQ(*one.local.memory, *other.local.memory);
}

inline void deregister_local(Scene& s) {
  EXPECT_TRUE(s.end.table.deregister(s.local.stag).ok());
}

}  // namespace weft::core::testing
