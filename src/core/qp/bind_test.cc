// Memory windows bound and invalidated by work requests, and what the peer may do through them.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

constexpr std::uint32_t kBindable = kLocalWrite | kWindowBind;
constexpr std::uint32_t kRemote = kRemoteRead | kRemoteWrite | kRemoteAtomic;

STag next_key(STag stag) {
  return {(stag.value & ~0xffu) | ((stag.value + 1) & 0xff)};
}

STag window(End& end, WindowKind kind = WindowKind::Type2, PD pd = kPD) {
  const auto stag = end.table.allocate_window(pd, kind, 99);
  EXPECT_TRUE(stag.ok());
  return *stag;
}
WindowBinding whole(STag window, const Region& region, std::uint32_t access = kRemote) {
  return {window, region.stag, region.to, region.memory->size(), access};
}
std::uint64_t bind(End& end, const WindowBinding& binding, bool local_fence = false) {
  const auto id = end.post({.opcode = WorkOpcode::BindWindow, .local_fence = local_fence});
  end.queues.sends.back().binding = binding;
  return id;
}
bool open(const End& end, STag stag, const Region& region, Requester requester) {
  return end.table.check(stag, region.to, 1, kRemoteRead, requester).ok();
}
constexpr Requester kSelf{kPD, kStream}, kNeighbour{kPD, kOtherStream};

TEST(QPBind, TakesEffectBeforeLaterWorkAndCompletesInOrder) {
  End a;
  a.bind();
  const Region region = a.region(64, kBindable);
  const STag stag = window(a);
  const auto first = a.send("first"), second = bind(a, whole(stag, region)),
             third = a.send("third");
  const Bytes octets = a.transmit(false);
  EXPECT_EQ(ulpdus(octets).size(), 2u) << "a bind sends nothing";
  EXPECT_TRUE(open(a, stag, region, kSelf));
  EXPECT_TRUE(a.queues.sent.empty());
  a.qp->handle_sent(octets.size(), a.now);
  EXPECT_EQ(ids(a.queues.sent), (std::vector{first, second, third}));
  EXPECT_EQ(statuses(a.queues.sent), std::vector(3, WorkStatus::Success));
  EXPECT_EQ(a.queues.sent[1].opcode, WorkOpcode::BindWindow);
  EXPECT_EQ(a.queues.sent[1].octets, 0u);
}

TEST(QPBind, ALocalFenceWaitsForEverything) {
  End a;
  a.bind();
  const Region region = a.region(64, kBindable);
  const STag stag = window(a);
  a.send("first");
  bind(a, whole(stag, region), true);
  const Bytes octets = a.transmit(false);
  EXPECT_FALSE(open(a, stag, region, kSelf));
  EXPECT_FALSE(a.qp->wants_transmit());
  a.qp->handle_sent(octets.size(), a.now);
  EXPECT_TRUE(a.qp->wants_transmit());
  a.transmit();
  EXPECT_TRUE(open(a, stag, region, kSelf)) << "the binding was kept meanwhile";
  EXPECT_EQ(a.queues.sent.size(), 2u);
}

TEST(QPBind, SeveralInARowKeepTheirOwnBindings) {
  End a;
  a.bind();
  const Region one = a.region(64, kBindable), two = a.region(64, kBindable);
  const STag first = window(a), second = window(a, WindowKind::Type1);
  bind(a, whole(first, one));
  bind(a, whole(second, two));
  bind(a, whole(next_key(second), one));
  a.transmit();
  EXPECT_EQ(statuses(a.queues.sent), std::vector(3, WorkStatus::Success));
  EXPECT_TRUE(open(a, first, one, kSelf));
  EXPECT_FALSE(open(a, first, one, kNeighbour));
  EXPECT_FALSE(open(a, second, two, kSelf));
  EXPECT_TRUE(open(a, next_key(second), one, kNeighbour));
}

TEST(QPBind, FailureEndsTheStreamWithALocalError) {
  const struct {
    const char* name;
    WindowBinding (*make)(End&, const Region&);
  } rows[] = {
      {"no such window", [](End&, const Region& region) { return whole({0xdead00}, region); }},
      {"a window of another PD",
       [](End& a, const Region& region) {
         return whole(window(a, WindowKind::Type2, kOtherPD), region);
       }},
      {"no such region",
       [](End& a, const Region& region) {
         WindowBinding binding = whole(window(a), region);
         binding.region = {0xdead00};
         return binding;
       }},
      {"beyond the region",
       [](End& a, const Region& region) {
         WindowBinding binding = whole(window(a), region);
         ++binding.octets;
         return binding;
       }},
      {"a right that no window has",
       [](End& a, const Region& region) { return whole(window(a), region, kLocalWrite); }},
  };
  for (const auto& row : rows) {
    End a;
    a.bind();
    const Region region = a.region(64, kBindable);
    bind(a, row.make(a, region));
    a.send("never leaves");
    EXPECT_EQ(ulpdus(a.transmit_all()), only(terminate(0x0000))) << row.name;
    EXPECT_EQ(statuses(a.queues.sent), (std::vector{WorkStatus::WindowBind, WorkStatus::Flushed}))
        << row.name;
  }
}

TEST(QPBind, AnEntryThatMakesNoSenseFails) {
  End a;
  a.bind();
  a.post({.opcode = WorkOpcode::BindWindow});
  EXPECT_EQ(ulpdus(a.transmit_all()), only(terminate(0x0000))) << "no binding";
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::LocalQPOperation});

  End b;
  b.bind();
  const Region region = b.region(64, kBindable);
  const STag stag = window(b);
  b.post({.opcode = WorkOpcode::BindWindow}, {region.sge()});
  b.queues.sends.back().binding = whole(stag, region);
  b.transmit_all();
  EXPECT_EQ(statuses(b.queues.sent), std::vector{WorkStatus::LocalQPOperation}) << "with octets";
  EXPECT_FALSE(open(b, stag, region, kSelf));
}

TEST(QPBind, IsFlushedUndoneWhenTheStreamIsOver) {
  End a;
  a.bind();
  const Region region = a.region(64, kBindable);
  const STag stag = window(a);
  bind(a, whole(stag, region));
  EXPECT_TRUE(a.qp->fail(a.now).ok());
  EXPECT_EQ(statuses(a.queues.sent), std::vector{WorkStatus::Flushed});
  EXPECT_EQ(a.queues.sent[0].opcode, WorkOpcode::BindWindow);
  EXPECT_TRUE(a.table.deregister(region.stag).ok());
}

TEST(QPBind, AWindowIsNoLocalBuffer) {
  const struct {
    const char* name;
    std::size_t octets;
    WorkOpcode opcode;
  } rows[] = {{"Send", 64, WorkOpcode::Send},
              {"Send of several segments", 4000, WorkOpcode::Send},
              {"Read into it", 64, WorkOpcode::Read}};
  for (const auto& row : rows) {
    End a;
    a.bind();
    const Region region = a.region(row.octets, kBindable | kRemote);
    const STag stag = window(a);
    bind(a, whole(stag, region));
    a.post({.opcode = row.opcode, .remote_stag = {1}},
           {{region.to, static_cast<std::uint32_t>(row.octets), stag}});
    EXPECT_EQ(ulpdus(a.transmit_all()), only(terminate(0x0000))) << row.name;
    EXPECT_EQ(statuses(a.queues.sent),
              (std::vector{WorkStatus::Success, WorkStatus::LocalProtection}))
        << row.name;
  }
}

// The peer's side: `b` binds, `a` uses.
struct Bound : Pair {
  explicit Bound(std::uint32_t access, WindowKind kind = WindowKind::Type2) {
    open();
    stag = window(b, kind);
    WindowBinding binding = whole(stag, region, access);
    binding.to += 16;
    binding.octets = 16;
    testing::bind(b, binding);
    run();
    EXPECT_EQ(statuses(b.queues.sent), std::vector{WorkStatus::Success});
  }
  Region region = b.region(64, kBindable | kRemote);
  Region own = a.region(64);
  STag stag;
};

TEST(QPBind, ThePeerWritesReadsAndAddsThroughIt) {
  for (const WindowKind kind : {WindowKind::Type1, WindowKind::Type2}) {
    Bound pair(kRemote, kind);
    pair.region.set_number(40, 16);
    pair.a.write("12345678", pair.stag, pair.region.to + 24);
    pair.a.fetch_add(pair.own.sge(8), pair.stag, pair.region.to + 16, 2);
    pair.a.read({pair.own.sge(16, 16)}, pair.stag, pair.region.to + 16);
    pair.run();
    EXPECT_EQ(statuses(pair.a.queues.sent), std::vector(3, WorkStatus::Success));
    EXPECT_EQ(pair.own.number(), 40u);
    EXPECT_EQ(pair.own.number(16), 42u);
    EXPECT_EQ(pair.own.text(8, 24), "12345678");
  }
}

TEST(QPBind, ThePeerIsHeldToItsBoundsAndRights) {
  const struct {
    const char* name;
    std::uint32_t access;
    void (*post)(Bound&);
    wire::TermError error;
  } rows[] = {
      {"Write, one octet behind", kRemote,
       [](Bound& p) { p.a.write("x", p.stag, p.region.to + 32); },
       wire::TermError::DDPTaggedBounds},
      {"Write, one octet before", kRemote,
       [](Bound& p) { p.a.write("x", p.stag, p.region.to + 15); },
       wire::TermError::DDPTaggedBounds},
      {"Write without the right", kRemoteRead,
       [](Bound& p) { p.a.write("x", p.stag, p.region.to + 16); },
       wire::TermError::DDPTaggedInvalidSTag},
      {"Read, one octet too long", kRemote,
       [](Bound& p) { p.a.read({p.own.sge(17)}, p.stag, p.region.to + 16); },
       wire::TermError::RDMAPBounds},
      {"Read without the right", kRemoteWrite,
       [](Bound& p) { p.a.read({p.own.sge(16)}, p.stag, p.region.to + 16); },
       wire::TermError::RDMAPAccess},
      {"atomic without the right", kRemoteRead | kRemoteWrite,
       [](Bound& p) { p.a.fetch_add(p.own.sge(8), p.stag, p.region.to + 16, 1); },
       wire::TermError::RDMAPAccess},
      {"atomic beyond the end", kRemote,
       [](Bound& p) { p.a.fetch_add(p.own.sge(8), p.stag, p.region.to + 32, 1); },
       wire::TermError::RDMAPBounds},
      {"the key before", kRemote,
       [](Bound& p) { p.a.write("x", {p.stag.value ^ 1}, p.region.to + 16); },
       wire::TermError::DDPTaggedInvalidSTag},
  };
  for (const auto& row : rows) {
    Bound pair(row.access);
    const Bytes before = *pair.region.memory;
    row.post(pair);
    pair.run();
    EXPECT_EQ(pair.b.qp->terminate_sent(), row.error) << row.name;
    EXPECT_EQ(*pair.region.memory, before) << row.name;
  }
}

//= RDM-13 SEC-05
TEST(QPBind, ThePeerInvalidatesType2AndHasNoAccessAfterwards) {
  Bound pair(kRemote);
  pair.b.receive();
  pair.a.post({.opcode = WorkOpcode::SendInvalidate, .invalidate_stag = pair.stag});
  pair.run();
  ASSERT_EQ(pair.b.queues.received.size(), 1u);
  EXPECT_EQ(pair.b.queues.received[0].status, WorkStatus::Success);
  EXPECT_TRUE(pair.b.queues.received[0].invalidated);
  EXPECT_EQ(pair.b.queues.received[0].invalidated_stag, pair.stag);
  EXPECT_TRUE(pair.b.table.deregister(pair.region.stag).ok()) << "no window holds it";
  pair.a.write("x", pair.stag, pair.region.to + 16);
  pair.run();
  EXPECT_EQ(pair.b.qp->terminate_sent(), wire::TermError::DDPTaggedInvalidSTag);
}

//= RDM-13 SEC-05
TEST(QPBind, ThePeerInvalidatesNeitherType1NorARegionWithWindows) {
  for (const bool the_region : {false, true}) {
    Bound pair(kRemote, the_region ? WindowKind::Type2 : WindowKind::Type1);
    pair.b.receive();
    pair.a.post({.opcode = WorkOpcode::SendInvalidate,
                 .invalidate_stag = the_region ? pair.region.stag : pair.stag});
    pair.run();
    EXPECT_EQ(pair.b.qp->terminate_sent(), wire::TermError::RDMAPCannotInvalidate);
    EXPECT_TRUE(testing::open(pair.b, pair.stag, {nullptr, {}, pair.region.to + 16}, kSelf));
  }
}

TEST(QPBind, LocalInvalidateClosesType2AndFailsOnType1AndOnBoundRegions) {
  for (const int which : {0, 1, 2}) {
    Bound pair(kRemote, which == 1 ? WindowKind::Type1 : WindowKind::Type2);
    pair.b.queues.sent.clear();
    pair.b.post({.opcode = WorkOpcode::LocalInvalidate,
                 .invalidate_stag = which == 2 ? pair.region.stag : pair.stag});
    pair.run();
    EXPECT_EQ(statuses(pair.b.queues.sent),
              std::vector{which == 0 ? WorkStatus::Success : WorkStatus::LocalProtection});
    EXPECT_EQ(testing::open(pair.b, pair.stag, {nullptr, {}, pair.region.to + 16}, kSelf),
              which != 0);
  }
}

TEST(QPBind, AReadResponseUnderWayEndsWithTheWindow) {
  Pair pair({}, End::stream(Role::Initiator), 200);
  pair.open();
  const Region region = pair.b.region(2000, kBindable), own = pair.a.region(2000);
  const STag stag = window(pair.b);
  bind(pair.b, whole(stag, region));
  pair.run();
  pair.a.read({own.sge()}, stag, region.to);
  pair.b.deliver(pair.a.transmit());
  pair.a.deliver(pair.b.transmit(true, 600));
  EXPECT_TRUE(pair.b.table.invalidate(stag, kSelf).ok());
  pair.run();
  EXPECT_EQ(pair.b.qp->terminate_sent(), wire::TermError::RDMAPInvalidSTag);
}

TEST(QPBind, ResetAndTheQPsEndUnbindWhatIsTiedToIt) {
  for (const bool destroy : {false, true}) {
    End a;
    a.bind();
    const Region region = a.region(64, kBindable);
    const STag tied = window(a), shared = window(a, WindowKind::Type1);
    bind(a, whole(tied, region));
    bind(a, whole(shared, region));
    a.transmit();
    EXPECT_TRUE(a.qp->fail(a.now).ok());
    EXPECT_TRUE(open(a, tied, region, kSelf)) << "the end of the stream alone changes nothing";
    if (destroy) {
      a.qp.reset();
    } else {
      EXPECT_TRUE(a.qp->reset(a.now).ok());
    }
    EXPECT_FALSE(open(a, tied, region, kSelf));
    EXPECT_TRUE(open(a, shared, region, kNeighbour));
  }
}

}  // namespace
}  // namespace weft::core::testing
