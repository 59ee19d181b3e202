// Options: which go together, how they are written, and what a peer may send in their place.
#include "measure/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace weft::measure {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Plan ping() {
  return {.tool = Tool::Ping};
}
Plan blast() {
  return {.tool = Tool::Blast, .op = Op::Write, .outstanding = 16};
}

template <typename Change>
Plan changed(Plan plan, Change change) {
  change(plan);
  return plan;
}

TEST(Refusals, EachHasAPlanThatIsRefusedForItAlone) {
  const std::map<std::string_view, Plan> plans = {
      {"tcp-op", changed(ping(), [](Plan& p) { p.over = Over::TCP, p.op = Op::Write; })},
      {"tcp-inline", changed(ping(), [](Plan& p) { p.over = Over::TCP, p.inline_data = true; })},
      {"tcp-signal", changed(ping(), [](Plan& p) { p.over = Over::TCP, p.signal = Signal::None; })},
      {"tcp-passive",
       changed(ping(), [](Plan& p) { p.over = Over::TCP, p.passive = Passive::Poll; })},
      {"tcp-block-connections", changed(ping(),
                                        [](Plan& p) {
                                          p.over = Over::TCP, p.wait = Wait::Block;
                                          p.connections = 2;
                                        })},
      {"tcp-block-both", changed(blast(),
                                 [](Plan& p) {
                                   p.over = Over::TCP, p.op = Op::Send, p.wait = Wait::Block;
                                   p.both = true;
                                 })},
      {"tcp-read-both",
       changed(blast(), [](Plan& p) { p.over = Over::TCP, p.op = Op::Read, p.both = true; })},
      {"sockets-imm",
       changed(blast(), [](Plan& p) { p.over = Over::Sockets, p.op = Op::WriteImm; })},
      {"sockets-inline",
       changed(blast(), [](Plan& p) { p.over = Over::Sockets, p.inline_data = true; })},
      {"sockets-list", changed(blast(), [](Plan& p) { p.over = Over::Sockets, p.list = 2; })},
      {"sockets-signal",
       changed(blast(), [](Plan& p) { p.over = Over::Sockets, p.signal = Signal::Periodic; })},
      {"sockets-passive",
       changed(blast(), [](Plan& p) { p.over = Over::Sockets, p.passive = Passive::Poll; })},
      {"sockets-operations",
       changed(blast(), [](Plan& p) { p.over = Over::Sockets, p.outstanding = 4096; })},
      {"sockets-ping-write-event",
       changed(ping(),
               [](Plan& p) { p.over = Over::Sockets, p.op = Op::Write, p.wait = Wait::Event; })},
      {"one-sleeper", changed(ping(), [](Plan& p) { p.wait = Wait::Block, p.connections = 2; })},
      {"plain-sockets", changed(blast(), [](Plan& p) { p.congestion = "reno"; })},
      {"ping-chunk", changed(ping(), [](Plan& p) { p.over = Over::TCP, p.chunk = 64; })},
      {"memory-ping-write", changed(blast(), [](Plan& p) { p.wait = Wait::Memory; })},
      {"receives-one-sided", changed(blast(), [](Plan& p) { p.receives = 512; })},
      {"ping-write-event",
       changed(ping(), [](Plan& p) { p.op = Op::Write, p.wait = Wait::Event; })},
      {"passive-active", changed(ping(), [](Plan& p) { p.passive = Passive::Poll; })},
      {"read-inline", changed(ping(), [](Plan& p) { p.op = Op::Read, p.inline_data = true; })},
      {"read-signal", changed(ping(), [](Plan& p) { p.op = Op::Read, p.signal = Signal::None; })},
      {"blast-write-read", changed(blast(), [](Plan& p) { p.op = Op::WriteRead; })},
      {"blast-unsignalled", changed(blast(), [](Plan& p) { p.signal = Signal::None; })},
      {"read-verify-periodic", changed(blast(),
                                       [](Plan& p) {
                                         p.op = Op::Read, p.verify = true;
                                         p.signal = Signal::Periodic;
                                       })},
      {"ping-outstanding", changed(ping(), [](Plan& p) { p.outstanding = 2; })},
      {"ping-list", changed(ping(), [](Plan& p) { p.list = 2; })},
      {"ping-periodic", changed(ping(), [](Plan& p) { p.signal = Signal::Periodic; })},
      {"ping-both", changed(ping(), [](Plan& p) { p.both = true; })},
      {"ping-buffers", changed(ping(), [](Plan& p) { p.buffers = 2; })},
      {"list-outstanding", changed(blast(), [](Plan& p) { p.list = 17; })},
      {"threads-connections", changed(blast(), [](Plan& p) { p.connections = 3, p.threads = 2; })},
      {"verify-buffers", changed(blast(), [](Plan& p) { p.verify = true, p.buffers = 15; })},
      {"list-buffers", changed(blast(),
                               [](Plan& p) {
                                 p.over = Over::TCP, p.op = Op::Send;
                                 p.list = 4, p.buffers = 6;
                               })},
      {"memory", changed(blast(), [](Plan& p) { p.sizes = {64u << 20}, p.outstanding = 128; })},
  };
  for (const Refusal& one : kRefusals) {
    const auto found = plans.find(one.name);
    // A list longer than what is outstanding is told first, for ping's list too.
    ASSERT_NE(found, plans.end()) << one.name;
    EXPECT_TRUE(one.applies(found->second)) << one.name;
    std::string all;
    for (const Refusal& other : kRefusals) {
      if (other.applies(found->second)) all += std::string(other.name) + " ";
    }
    EXPECT_THAT(all, HasSubstr(one.name));
    EXPECT_FALSE(refusal(found->second).empty()) << one.name;
    EXPECT_NE(one.reason.back(), '.') << one.name;
    EXPECT_THAT(std::string(one.reason), ::testing::Not(HasSubstr("  "))) << one.name;
  }
  EXPECT_EQ(plans.size(), kRefusals.size());
}

TEST(Refusals, WhatTheStudyNeedsIsNotRefused) {
  for (const Op op : {Op::Send, Op::WriteImm, Op::Read, Op::WriteRead}) {
    for (const Wait wait : {Wait::Poll, Wait::Event}) {
      EXPECT_EQ(refusal(changed(ping(), [&](Plan& p) { p.op = op, p.wait = wait; })), "");
    }
  }
  EXPECT_EQ(refusal(changed(ping(), [](Plan& p) { p.op = Op::Write; })), "");
  EXPECT_EQ(refusal(changed(ping(), [](Plan& p) { p.signal = Signal::None; })), "");
  EXPECT_EQ(refusal(changed(ping(), [](Plan& p) { p.op = Op::Write, p.wait = Wait::Memory; })), "");
  for (const Op op : {Op::Send, Op::Write, Op::WriteImm, Op::Read}) {
    for (const std::uint32_t outstanding : {1u, 2u, 16u, 128u, 1024u}) {
      const auto plan = changed(blast(), [&](Plan& p) {
        p.op = op, p.outstanding = outstanding, p.list = outstanding, p.both = true;
        p.connections = 4, p.threads = 2, p.wait = Wait::Event;
      });
      EXPECT_EQ(refusal(plan), "") << name_of(op) << " " << outstanding;
    }
  }
  const auto largest = [](std::uint32_t outstanding) {
    return changed(blast(), [=](Plan& p) { p.sizes = {kSizeMax}, p.outstanding = outstanding; });
  };
  EXPECT_EQ(refusal(largest(8)), "");
  EXPECT_NE(refusal(largest(9)), "");
}

TEST(Refusals, WhatIsAboutSocketsGoesOverTCPAlone) {
  for (const auto& set :
       {+[](Plan& p) { p.socket_buffers = 65536; }, +[](Plan& p) { p.chunk = 65536; },
        +[](Plan& p) { p.congestion = "reno"; }}) {
    Plan plan = changed(blast(), set);
    EXPECT_THAT(std::string(refusal(plan)), HasSubstr("--over tcp"));
    plan.over = Over::TCP, plan.op = Op::Send;
    EXPECT_EQ(refusal(plan), "");
  }
}

TEST(Refusals, WhatSocketsWithRegisteredMemoryCanDoIsNotRefused) {
  const auto over_sockets = [](Plan plan, Op op, Wait wait) {
    plan.over = Over::Sockets, plan.op = op, plan.wait = wait, plan.verify = true;
    return plan;
  };
  for (const Op op : {Op::Send, Op::Read, Op::WriteRead}) {
    for (const Wait wait : {Wait::Poll, Wait::Event, Wait::Block}) {
      EXPECT_EQ(refusal(over_sockets(ping(), op, wait)), "") << name_of(op);
    }
  }
  EXPECT_EQ(refusal(over_sockets(ping(), Op::Write, Wait::Poll)), "");
  EXPECT_EQ(refusal(over_sockets(ping(), Op::Write, Wait::Memory)), "");
  for (const Op op : {Op::Send, Op::Write, Op::Read}) {
    Plan plan = over_sockets(blast(), op, Wait::Event);
    plan.both = true, plan.connections = 4, plan.threads = 2, plan.outstanding = 1024;
    EXPECT_EQ(refusal(plan), "") << name_of(op);
    EXPECT_LE(plan.operations(), 4096u);
  }
}

TEST(Refusals, ASocketsOperationsAreItsMessagesAndItsReceives) {
  const auto with = [](Op op, std::uint32_t outstanding, std::uint32_t receives) {
    return changed(blast(), [&](Plan& p) {
      p.over = Over::Sockets, p.op = op, p.outstanding = outstanding, p.receives = receives;
    });
  };
  EXPECT_EQ(refusal(with(Op::Write, 4096 - kOperationsBeside, 0)), "");
  EXPECT_NE(refusal(with(Op::Write, 4097 - kOperationsBeside, 0)), "");
  EXPECT_EQ(refusal(with(Op::Send, 96, 4000 - kOperationsBeside)), "");
  EXPECT_NE(refusal(with(Op::Send, 97, 4000 - kOperationsBeside)), "");
}

TEST(Refusals, MessagesMayBeFetchedOverTCP_ByBlastAlone) {
  const auto fetched = [](Plan plan) {
    return changed(plan, [](Plan& p) { p.over = Over::TCP, p.op = Op::Read; });
  };
  EXPECT_EQ(refusal(fetched(blast())), "");
  EXPECT_NE(refusal(fetched(ping())), "");
  EXPECT_TRUE(fetched(blast()).sends(false));
  EXPECT_FALSE(fetched(blast()).sends(true));
}

TEST(Periodic, IsOneInHalfOfWhatIsOutstanding) {
  const auto every = [](std::uint32_t outstanding) {
    return changed(blast(),
                   [&](Plan& p) {
                     p.signal = Signal::Periodic;
                     p.outstanding = outstanding;
                   })
        .signal_every();
  };
  EXPECT_EQ(every(1), 1u);
  EXPECT_EQ(every(2), 1u);
  EXPECT_EQ(every(16), 8u);
  EXPECT_EQ(blast().signal_every(), 1u);
}

TEST(Sizes, AreNumbersListsAndSweepsByPowersOfTwo) {
  EXPECT_THAT(parse_sizes("64"), ElementsAre(64));
  EXPECT_THAT(parse_sizes("4K,1M"), ElementsAre(4096, 1u << 20));
  EXPECT_THAT(parse_sizes("1-8"), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(parse_sizes("3-13,5"), ElementsAre(3, 6, 12, 13, 5));
  EXPECT_THAT(parse_sizes("256M"), ElementsAre(256u << 20));
  EXPECT_EQ(parse_sizes("1-256M").size(), 29u);
  for (const char* wrong : {"", "0", "257M", "4k", "1G", "8-4", "1,,2", "1,", "-", "1-", "-1", "x",
                            "18446744073709551616", "4K1"}) {
    EXPECT_THROW(parse_sizes(wrong), Failure) << wrong;
  }
}

TEST(Cpus, AreListsAndRanges) {
  EXPECT_THAT(parse_cpus("0"), ElementsAre(0));
  EXPECT_THAT(parse_cpus("0,2-4"), ElementsAre(0, 2, 3, 4));
  for (const char* wrong : {"", "a", "1-", "3-1", "1,", "-1", "1024", "1 "}) {
    EXPECT_THROW(parse_cpus(wrong), Failure) << wrong;
  }
}

TEST(PlanAsJson, ComesBackAsItWas) {
  Plan plan = changed(blast(), [](Plan& p) {
    p.sizes = {1, 77, 256u << 20};
    p.outstanding = 1, p.connections = 2, p.threads = 2, p.count = 5, p.seconds = 0.25,
    p.warm_up = 0.5;
    p.wait = Wait::Event;
  });
  EXPECT_EQ(to_json(plan_from_json(to_json(plan))), to_json(plan));
}

TEST(PlanAsJson, WhatIsAboutSocketsComesBackAsItWas) {
  const Plan plan = changed(blast(), [](Plan& p) {
    p.over = Over::TCP, p.op = Op::Read;
    p.socket_buffers = 1u << 20, p.chunk = 65536, p.congestion = "cubic";
  });
  const Plan back = plan_from_json(to_json(plan));
  EXPECT_EQ(back.socket_buffers, 1u << 20);
  EXPECT_EQ(back.chunk, 65536u);
  EXPECT_EQ(back.congestion, "cubic");
}

std::string fault_of(const Json& json) {
  try {
    plan_from_json(json);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(PlanAsJson, ThatIsNotOursIsRefusedByField) {
  const Json good = to_json(blast());
  ASSERT_EQ(fault_of(good), "");
  for (const auto& [name, value] : good.items()) {
    Json lacking = good;
    lacking.erase(name);
    EXPECT_THAT(fault_of(lacking), HasSubstr(name));
    for (const Json& wrong : {Json(nullptr), Json::object(), Json(-1), Json("\x01"), Json({-1}),
                              Json({"a"}), Json::array(), Json(1e300)}) {
      Json hostile = good;
      hostile[name] = wrong;
      EXPECT_THAT(fault_of(hostile), HasSubstr(name)) << wrong;
    }
  }
  const std::pair<const char*, Json> beyond[] = {
      {"outstanding", 0},
      {"outstanding", kOutstandingMax + 1},
      {"buffers", 0},
      {"list", 0},
      {"receives", 0},
      {"connections", kConnectionsMax + 1},
      {"connections", 0},
      {"threads", 0},
      {"threads", kThreadsMax + 1},
      {"count", kCountMax + 1},
      {"seconds", 0},
      {"seconds", kSecondsMax * 2},
      {"warm_up", kSecondsMax * 2},
      {"sizes", Json({0})},
      {"sizes", {kSizeMax + 1}},
      {"sizes", Json(std::vector<int>(kSizesMax + 1, 1))},
      {"op", "flush"},
      {"congestion", "../cubic"},
      {"congestion", std::string(kCongestionMax + 1, 'a')},
      {"socket_buffers", kSizeMax + 1},
      {"chunk", kSizeMax + 1},
      {"tool", "pong"},
      {"outstanding", 1.5},
      {"outstanding", ~std::uint64_t{0}},
  };
  for (const auto& [name, value] : beyond) {
    Json hostile = good;
    hostile[name] = value;
    EXPECT_THAT(fault_of(hostile), HasSubstr(name)) << value;
  }
  Json more = good;
  more["also"] = 1;
  EXPECT_THAT(fault_of(more), HasSubstr("does not know"));
  EXPECT_THAT(fault_of(Json::array()), HasSubstr("not an object"));
  Json refused = good;
  refused["signal"] = "none";
  EXPECT_THAT(fault_of(refused), HasSubstr("only a completion tells"));
}

}  // namespace
}  // namespace weft::measure
