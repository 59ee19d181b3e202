// The line between the sides, with a peer that is another version, hostile, silent or gone.
#include "measure/line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>

#include "measure/rdma_runner.h"
#include "measure/session.h"

namespace weft::measure {
namespace {

using ::testing::HasSubstr;

/// A line whose other end is in the test's hand.
struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    line.emplace(fds[0]);
    peer = fds[1];
  }
  ~Pair() {
    if (peer >= 0) ::close(peer);
  }
  void peer_writes(std::string_view octets) {
    EXPECT_EQ(::write(peer, octets.data(), octets.size()), static_cast<ssize_t>(octets.size()));
  }
  void peer_leaves() {
    ::close(peer);
    peer = -1;
  }
  std::string fault(FrameKind expected = FrameKind::Hello) {
    try {
      line->get(expected, 1);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  }
  std::optional<Line> line;
  int peer;
};

std::string frame(std::string_view body, FrameKind kind = FrameKind::Hello,
                  std::uint16_t version = kLineVersion) {
  const auto head = encode_head({version, kind, static_cast<std::uint32_t>(body.size())});
  return std::string(reinterpret_cast<const char*>(head.data()), head.size()) + std::string(body);
}

TEST(Line, CarriesAFrame) {
  Pair pair;
  pair.peer_writes(frame(R"({"a": 1})"));
  EXPECT_EQ(pair.line->get(FrameKind::Hello).at("a"), 1);
  pair.line->put(FrameKind::Ready, {{"b", 2}});
  char octets[64];
  const ssize_t got = ::read(pair.peer, octets, sizeof octets);
  EXPECT_EQ(std::string(octets, static_cast<std::size_t>(got)),
            frame(R"({"b":2})", FrameKind::Ready));
}

TEST(Line, TheHeadIsTheSameInAllVersions) {
  EXPECT_EQ(frame("", FrameKind::Leg, 0x0102), std::string("WFTM\x01\x02\x00\x03\0\0\0\0", 12));
}

TEST(Line, AnotherVersionIsRefusedByName) {
  Pair pair;
  pair.peer_writes(frame("{}", FrameKind::Hello, 7));
  EXPECT_THAT(pair.fault(), HasSubstr("version 7"));
  EXPECT_THAT(pair.fault(), ::testing::Not(HasSubstr("\n")));
}

TEST(Line, HostileOctetsAreRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {"GET / HTTP/1.1\r\n\r\n", "does not speak"},
      {std::string(12, '\0'), "does not speak"},
      {frame("{}", static_cast<FrameKind>(0)), "unknown kind 0"},
      {frame("{}", static_cast<FrameKind>(999)), "unknown kind 999"},
      {std::string("WFTM\0\1\0\1\xff\xff\xff\xff", 12), "4294967295 octets"},
      {std::string("WFTM\0\1\0\1\0\x10\0\1", 12), "1048577 octets"},
      {frame("{"), "no JSON object"},
      {frame("[]"), "no JSON object"},
      {frame("\xff\xfe"), "no JSON object"},
      {frame(std::string(1 << 16, '[')), "no JSON object"},
      {frame(""), "no JSON object"},
      {frame("{}", FrameKind::Bye), "instead of"},
      {frame(R"({"reason": "no\u001b[31m room"})", FrameKind::Refused), "no?[31m room"},
      {frame(R"({"reason": 5})", FrameKind::Refused), "the other side says: no"},
  };
  for (const auto& [octets, says] : cases) {
    Pair pair;
    pair.peer_writes(octets);
    EXPECT_THAT(pair.fault(), HasSubstr(says));
  }
}

TEST(Line, APeerThatLeavesOrIsSilentEndsTheWait) {
  Pair gone;
  gone.peer_writes("WFTM");
  gone.peer_leaves();
  EXPECT_THAT(gone.fault(), HasSubstr("gone"));
  Pair silent;
  EXPECT_THAT(silent.fault(), HasSubstr("said nothing for 1 s"));
}

TEST(Line, CheckingThePeerTakesNothingThatItSent) {
  Pair pair;
  EXPECT_NO_THROW(pair.line->check_peer());
  pair.peer_writes(frame(R"({"a": 1})"));
  EXPECT_NO_THROW(pair.line->check_peer());
  EXPECT_EQ(pair.line->get(FrameKind::Hello).at("a"), 1);
  pair.peer_leaves();
  EXPECT_THROW(pair.line->check_peer(), Failure);
}

TEST(Line, ARefusalReachesThePeerWhileItWorks) {
  Pair pair;
  pair.peer_writes(frame(R"({"reason": "wrong data"})", FrameKind::Refused));
  try {
    pair.line->check_peer();
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "the other side says: wrong data");
  }
}

TEST(Region, OfAConnectionIsCheckedBeforeItIsBelieved) {
  const Region region{3, 0x123456789ABCDEF0u, 0x87654321u};
  const auto octets = encode_region(region);
  const Region back = parse_region(octets);
  EXPECT_EQ(back.connection, region.connection);
  EXPECT_EQ(back.base, region.base);
  EXPECT_EQ(back.key, region.key);
  EXPECT_THROW(parse_region({}), Failure);
  EXPECT_THROW(parse_region(std::span(octets).first(octets.size() - 1)), Failure);
  auto other = octets;
  other[0] = std::byte{'X'};
  EXPECT_THROW(parse_region(other), Failure);
}

TEST(Figures, OfAServerAreCheckedBeforeTheyAreBelieved) {
  SideFigures figures;
  figures.seconds = 1.5;
  figures.usage = {0.25, 0.5, 7, 8, {1, 2, 3, 4, 5}};
  const auto good = to_json(figures);
  EXPECT_EQ(to_json(figures_from_json(good)), good);
  for (const auto& [name, value] : good.items()) {
    for (const nlohmann::json& wrong : {nlohmann::json("x"), nlohmann::json(nullptr)}) {
      auto hostile = good;
      hostile[name] = wrong;
      EXPECT_THROW(figures_from_json(hostile), Failure) << name;
    }
    auto lacking = good;
    lacking.erase(name);
    EXPECT_THROW(figures_from_json(lacking), Failure) << name;
  }
  auto hostile = good;
  hostile["voluntary_switches"] = -1;
  EXPECT_THROW(figures_from_json(hostile), Failure);
  EXPECT_THROW(figures_from_json(nlohmann::json::array()), Failure);
}

}  // namespace
}  // namespace weft::measure
