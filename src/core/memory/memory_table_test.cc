// MemoryTable: rights, bounds, invalidation, and a model under random operations.
#include "core/memory/memory_table.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace weft::core {
namespace {

constexpr PD kPD{7};
constexpr PD kOtherPD{8};
constexpr std::uint64_t kTop = ~std::uint64_t{0};

struct Fixture {
  explicit Fixture(std::uint32_t capacity = 16)
      : octets(MemoryTable::storage_octets(capacity)),
        // calloc'ed pages that are never touched cost nothing: as an engine would.
        storage(static_cast<std::uint8_t*>(std::calloc(1, octets + 64)), &std::free),
        table(MutableOctets(aligned(), octets), capacity) {}
  std::uint8_t* aligned() {
    const auto at = reinterpret_cast<std::uintptr_t>(storage.get());
    return storage.get() + (64 - at % 64) % 64;
  }
  STag add(const RegionAttributes& region) {
    const Result<STag> stag = table.register_region(region, random());
    EXPECT_TRUE(stag.ok());
    return *stag;
  }

  std::size_t octets;
  std::unique_ptr<std::uint8_t, void (*)(void*)> storage;
  MemoryTable table;
  std::mt19937_64 random{5};
};

std::uint8_t memory[4096];

RegionAttributes region(std::uint32_t access = 0, std::uint64_t octets = 100) {
  return {.pd = kPD, .access = access, .base_to = 0x10000, .address = memory, .octets = octets};
}

/// "ok" or the fault's name, so that failures read.
std::string outcome(const Result<std::uint8_t*, MemoryFault>& result) {
  if (result.ok()) return "ok";
  static constexpr const char* kNames[] = {"InvalidSTag", "NotAssociated", "Access", "Wrap",
                                           "Bounds"};
  return kNames[static_cast<int>(result.error())];
}

TEST(MemoryTable, ANullRegionReadsFromOnePlaceAndWritesToAnother) {
  Fixture f;
  const RegionAttributes null{
      .pd = kPD, .access = kLocalWrite | kNull, .address = memory, .octets = kTop};
  const STag stag = f.add(null);
  for (const std::uint64_t to : {std::uint64_t{0}, std::uint64_t{0xdeadbeef}, kTop - 100}) {
    EXPECT_EQ(*f.table.check(stag, to, 100, kLocalWrite, kPD), memory);
    const std::uint8_t* zeros = *f.table.check(stag, to, 100, kLocalRead, kPD);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(zeros),
              reinterpret_cast<std::uintptr_t>(memory) + kNullOctets);
  }
  EXPECT_EQ(outcome(f.table.check(stag, 0, 1, kRemoteRead, kPD)), "Access");
  EXPECT_EQ(outcome(f.table.check(stag, 0, 1, kRemoteWrite, kPD)), "Access");
  EXPECT_EQ(outcome(f.table.check(stag, 0, kNullOctets + 1, kLocalWrite, kPD)), "Bounds");
  EXPECT_EQ(outcome(f.table.check(stag, 0, 1, kLocalRead, kOtherPD)), "NotAssociated");
  for (const std::uint32_t access : {kNull | kLocalWrite | kRemoteRead, kNull | kLocalWrite |
                                     kWindowBind, std::uint32_t{kNull}}) {
    RegionAttributes refused = null;
    refused.access = access;
    EXPECT_EQ(f.table.register_region(refused, 1).error().code, EINVAL) << access;
  }
}

//= SEC-02
TEST(MemoryTable, BoundsAreExactToTheOctet) {
  Fixture f;
  const STag stag = f.add(region(0, 100));
  const auto check = [&](std::uint64_t to, std::uint64_t n) {
    return f.table.check(stag, to, n, 0, kPD);
  };
  EXPECT_EQ(*check(0x10000, 100), memory);
  EXPECT_EQ(*check(0x10000 + 99, 1), memory + 99);
  EXPECT_EQ(outcome(check(0x10000, 101)), "Bounds");
  EXPECT_EQ(outcome(check(0x10000 + 99, 2)), "Bounds");
  EXPECT_EQ(outcome(check(0x10000 + 100, 1)), "Bounds");
  EXPECT_EQ(outcome(check(0x10000 - 1, 1)), "Bounds");
  EXPECT_EQ(outcome(check(0x10000 - 1, 102)), "Bounds");
  EXPECT_EQ(outcome(check(0, 1)), "Bounds");
}

//= SEC-02
TEST(MemoryTable, AnAccessThatPassesTheTopOfTheOffsetsIsAWrapNotABoundsFault) {
  Fixture f;
  const STag stag = f.add(region());
  EXPECT_EQ(outcome(f.table.check(stag, kTop, 2, 0, kPD)), "Wrap");
  EXPECT_EQ(outcome(f.table.check(stag, 0x10000, kTop, 0, kPD)), "Wrap");
  EXPECT_EQ(outcome(f.table.check(stag, kTop, 1, 0, kPD)), "Bounds") << "ends exactly at 2^64";
  // A region whose last octet is the last there is.
  RegionAttributes high = region(0, 16);
  high.base_to = kTop - 15;
  const STag top = f.add(high);
  EXPECT_EQ(*f.table.check(top, kTop - 15, 16, 0, kPD), memory);
  EXPECT_EQ(*f.table.check(top, kTop, 1, 0, kPD), memory + 15);
  EXPECT_EQ(outcome(f.table.check(top, kTop - 15, 17, 0, kPD)), "Wrap");
  EXPECT_EQ(outcome(f.table.check(top, kTop - 16, 1, 0, kPD)), "Bounds");
}

/// All memory from the second octet on: what a region of the whole process is.
RegionAttributes everything(std::uint32_t access) {
  return {.pd = kPD,
          .access = access,
          .base_to = 1,
          .address = reinterpret_cast<std::uint8_t*>(1),
          .octets = kTop - 1};
}

//= SEC-02
TEST(MemoryTable, ARegionOfAllMemoryIsExactAtBothEnds) {
  Fixture f;
  const STag stag = f.add(everything(0));
  const auto check = [&](std::uint64_t to, std::uint64_t n) {
    return f.table.check(stag, to, n, 0, kPD);
  };
  for (const std::uint64_t to : {std::uint64_t{1}, std::uint64_t{0x7fffdeadbeef},
                                 std::uint64_t{1} << 63, 0xffff800000000000u, kTop - 1}) {
    const auto place = check(to, 1);
    ASSERT_TRUE(place.ok()) << to;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*place), to) << "an offset is an address";
  }
  EXPECT_TRUE(check(1, kTop - 1).ok());
  EXPECT_EQ(outcome(check(1, kTop)), "Bounds") << "ends exactly at 2^64";
  EXPECT_EQ(outcome(check(2, kTop)), "Wrap");
  EXPECT_EQ(outcome(check(kTop - 1, 2)), "Bounds");
  EXPECT_EQ(outcome(check(kTop, 1)), "Bounds");
  EXPECT_EQ(outcome(check(kTop, 2)), "Wrap");
  EXPECT_EQ(outcome(check(0, 1)), "Bounds") << "there is nothing at the null pointer";
  EXPECT_EQ(outcome(check(0, 2)), "Bounds");
  // It gives no right that it was not made with, and lets no other domain in.
  for (const std::uint32_t right : {kLocalWrite, kRemoteRead, kRemoteWrite, kRemoteAtomic}) {
    EXPECT_EQ(outcome(f.table.check(stag, 0x1000, 8, right, kPD)), "Access") << right;
  }
  EXPECT_EQ(outcome(f.table.check(stag, 0x1000, 8, 0, kOtherPD)), "NotAssociated");
  // One octet more would pass the end, if it began any later.
  RegionAttributes longer = everything(0);
  longer.octets = kTop;
  EXPECT_TRUE(f.table.register_region(longer, 2).ok());
  longer.base_to = 2;
  EXPECT_EQ(f.table.register_region(longer, 3).error().code, EINVAL);
}

TEST(MemoryTable, TellsWhetherMemoryIsHeldByAnyRegionOfAPD) {
  Fixture f;
  EXPECT_FALSE(f.table.holds(kPD, memory, 1));
  const STag small = f.add(region(0, 100));
  EXPECT_TRUE(f.table.holds(kPD, memory, 100));
  EXPECT_TRUE(f.table.holds(kPD, memory + 99, 1));
  EXPECT_FALSE(f.table.holds(kPD, memory, 101));
  EXPECT_FALSE(f.table.holds(kPD, memory + 100, 1));
  EXPECT_FALSE(f.table.holds(kPD, memory - 1, 2));
  EXPECT_FALSE(f.table.holds(kOtherPD, memory, 100));
  const STag all = f.add(everything(0));
  EXPECT_TRUE(f.table.holds(kPD, memory + 50, 100));
  EXPECT_FALSE(f.table.holds(kOtherPD, memory, 1));
  ASSERT_TRUE(f.table.deregister(small).ok());
  EXPECT_TRUE(f.table.holds(kPD, memory, 100));
  ASSERT_TRUE(f.table.invalidate(all, kPD).ok());
  EXPECT_FALSE(f.table.holds(kPD, memory, 1));
  // Of a null region: the memory that stands for it, not the length that it claims.
  f.add({.pd = kPD, .access = kLocalWrite | kNull, .address = memory, .octets = kTop});
  EXPECT_TRUE(f.table.holds(kPD, memory + 5, 2 * kNullOctets - 5));
  EXPECT_FALSE(f.table.holds(kPD, memory + 5, 2 * kNullOctets - 4));
}

//= SEC-02
TEST(MemoryTable, AZeroBasedRegionStartsAtOffsetZero) {
  Fixture f;
  RegionAttributes zero = region(kZeroBased);
  zero.base_to = 0;
  const STag stag = f.add(zero);
  EXPECT_EQ(*f.table.check(stag, 10, 90, 0, kPD), memory + 10);
  EXPECT_EQ(outcome(f.table.check(stag, 10, 91, 0, kPD)), "Bounds");
  EXPECT_EQ(outcome(f.table.check(stag, 0x10000, 1, 0, kPD)), "Bounds");
}

//= SEC-01
TEST(MemoryTable, NoStreamOfAnotherPDGetsIn) {
  Fixture f;
  const STag stag = f.add(region(kLocalWrite | kRemoteWrite | kRemoteRead));
  EXPECT_EQ(outcome(f.table.check(stag, 0x10000, 1, kRemoteWrite, kOtherPD)), "NotAssociated");
  EXPECT_EQ(outcome(f.table.check(stag, 0x10000, 1, 0, PD{0})), "NotAssociated");
  EXPECT_EQ(f.table.invalidate(stag, kOtherPD).error(), MemoryFault::NotAssociated);
  EXPECT_EQ(outcome(f.table.check(stag, 0x10000, 1, kRemoteWrite, kPD)), "ok");
}

//= DDP-24
//= SEC-01
TEST(MemoryTable, ARegionTiedToAStreamIsClosedToAllOthers) {
  Fixture f;
  RegionAttributes tied = region(kLocalWrite | kRemoteWrite | kRemoteRead);
  tied.stream = {5};
  const STag stag = f.add(tied);
  const auto check = [&](Requester requester) {
    return outcome(f.table.check(stag, 0x10000, 1, kRemoteWrite, requester));
  };
  EXPECT_EQ(check({kPD, {5}}), "ok");
  EXPECT_EQ(check({kPD, {6}}), "NotAssociated");
  EXPECT_EQ(check(kPD), "NotAssociated") << "no stream at all";
  EXPECT_EQ(check({kOtherPD, {5}}), "NotAssociated");
  EXPECT_EQ(f.table.invalidate(stag, Requester{kPD, {6}}).error(), MemoryFault::NotAssociated);
  ASSERT_TRUE(f.table.reregister(stag, region(kLocalWrite | kRemoteWrite)).ok());
  EXPECT_EQ(check({kPD, {6}}), "ok") << "no longer tied";
}

//= SEC-05
//= RDM-13
TEST(MemoryTable, APeerInvalidatesOnlyWhatItsOwnStreamAloneCanReach) {
  Fixture f;
  RegionAttributes tied = region(kLocalWrite | kRemoteWrite);
  tied.stream = {5};
  const STag own = f.add(tied), shared = f.add(region(kLocalWrite | kRemoteWrite));
  const Requester five{kPD, {5}}, six{kPD, {6}};
  EXPECT_EQ(f.table.invalidate_for_peer(shared, five).error(), MemoryFault::NotAssociated);
  EXPECT_EQ(f.table.invalidate_for_peer(own, six).error(), MemoryFault::NotAssociated);
  EXPECT_EQ(f.table.invalidate_for_peer(own, Requester{kOtherPD, {5}}).error(),
            MemoryFault::NotAssociated);
  EXPECT_EQ(f.table.invalidate_for_peer(STag{own.value ^ 1}, five).error(),
            MemoryFault::InvalidSTag);
  EXPECT_EQ(outcome(f.table.check(shared, 0x10000, 1, kRemoteWrite, six)), "ok");
  EXPECT_EQ(outcome(f.table.check(own, 0x10000, 1, kRemoteWrite, five)), "ok");
  ASSERT_TRUE(f.table.invalidate_for_peer(own, five).ok());
  EXPECT_EQ(outcome(f.table.check(own, 0x10000, 1, kRemoteWrite, five)), "InvalidSTag");
  EXPECT_TRUE(f.table.invalidate_for_peer(own, five).ok()) << "again is allowed";
  EXPECT_TRUE(f.table.invalidate(shared, five).ok()) << "its own consumer may";
}

//= SEC-03
TEST(MemoryTable, EveryRightIsGrantedAloneAndAskedForAlone) {
  Fixture f(64);
  const std::uint32_t rights[] = {0u, kLocalWrite, kRemoteWrite, kRemoteRead, kRemoteAtomic,
                                  kRemoteRead | kRemoteWrite};
  for (std::uint32_t access = 0; access < 16; ++access) {
    const std::uint32_t granted = access | kLocalWrite;
    const STag stag = f.add(region(granted));
    for (const std::uint32_t asked : rights) {
      EXPECT_EQ(outcome(f.table.check(stag, 0x10000, 1, asked, kPD)),
                (asked & ~granted) == 0 ? "ok" : "Access");
    }
  }
  const STag read_only = f.add(region());
  EXPECT_EQ(outcome(f.table.check(read_only, 0x10000, 1, 0, kPD)), "ok") << "local read";
  EXPECT_EQ(outcome(f.table.check(read_only, 0x10000, 1, kLocalWrite, kPD)), "Access");
}

//= SEC-01
//= SEC-02
TEST(MemoryTable, FaultsComeInTheStatedOrder) {
  Fixture f;
  const STag stag = f.add(region());
  const STag none{stag.value ^ 0xffff0000u};
  EXPECT_EQ(outcome(f.table.check(none, kTop, 2, kRemoteRead, kOtherPD)), "InvalidSTag");
  EXPECT_EQ(outcome(f.table.check(stag, kTop, 2, kRemoteRead, kOtherPD)), "NotAssociated");
  EXPECT_EQ(outcome(f.table.check(stag, kTop, 2, kRemoteRead, kPD)), "Access");
  EXPECT_EQ(outcome(f.table.check(stag, kTop, 2, 0, kPD)), "Wrap");
  EXPECT_EQ(outcome(f.table.check(stag, 0, 2, 0, kPD)), "Bounds");
}

//= SEC-06
TEST(MemoryTable, TheKeyIsPartOfTheSTag) {
  Fixture f;
  const STag stag = f.add(region());
  for (std::uint32_t flip = 1; flip < 256; ++flip) {
    EXPECT_EQ(outcome(f.table.check(STag{stag.value ^ flip}, 0x10000, 1, 0, kPD)), "InvalidSTag");
    EXPECT_FALSE(f.table.deregister(STag{stag.value ^ flip}).ok());
    EXPECT_FALSE(f.table.find(STag{stag.value ^ flip}).has_value());
  }
  EXPECT_EQ(outcome(f.table.check(STag{0}, 0, 1, 0, kPD)), "InvalidSTag");
}

//= SEC-03
//= SEC-04
TEST(MemoryTable, NothingIsGrantedAfterDeregistration) {
  Fixture f;
  const STag stag = f.add(region(kLocalWrite | kRemoteWrite));
  EXPECT_EQ(f.table.region_count(), 1u);
  ASSERT_TRUE(f.table.deregister(stag).ok());
  EXPECT_EQ(outcome(f.table.check(stag, 0x10000, 1, kRemoteWrite, kPD)), "InvalidSTag");
  EXPECT_EQ(f.table.invalidate(stag, kPD).error(), MemoryFault::InvalidSTag);
  EXPECT_EQ(f.table.deregister(stag).error().code, EINVAL);
  EXPECT_EQ(f.table.reregister(stag, region()).error().code, EINVAL);
  EXPECT_FALSE(f.table.find(stag).has_value());
  EXPECT_EQ(f.table.region_count(), 0u);
}

//= SEC-04
TEST(MemoryTable, AnInvalidatedRegionGrantsNothingUntilReregistered) {
  Fixture f;
  const STag stag = f.add(region(kLocalWrite | kRemoteWrite));
  ASSERT_TRUE(f.table.invalidate(stag, kPD).ok());
  EXPECT_EQ(outcome(f.table.check(stag, 0x10000, 1, kRemoteWrite, kPD)), "InvalidSTag");
  EXPECT_TRUE(f.table.invalidate(stag, kPD).ok()) << "again is allowed";
  EXPECT_EQ(f.table.invalidate(stag, kOtherPD).error(), MemoryFault::NotAssociated);
  EXPECT_TRUE(f.table.find(stag).has_value()) << "it stays registered";
  EXPECT_EQ(f.table.region_count(kPD), 1u);
  ASSERT_TRUE(f.table.reregister(stag, region(kRemoteRead)).ok());
  EXPECT_EQ(outcome(f.table.check(stag, 0x10000, 1, kRemoteRead, kPD)), "ok");
  EXPECT_EQ(outcome(f.table.check(stag, 0x10000, 1, kRemoteWrite, kPD)), "Access")
      << "the old right is gone";
  ASSERT_TRUE(f.table.invalidate(stag, kPD).ok());
  EXPECT_TRUE(f.table.deregister(stag).ok());
}

//= SEC-03
TEST(MemoryTable, ContradictionsAreRefused) {
  Fixture f;
  const auto refused = [&](RegionAttributes bad) {
    const bool fresh = f.table.register_region(bad, 1).ok();
    const STag stag = f.add(region());
    const bool again = f.table.reregister(stag, bad).ok();
    EXPECT_EQ(*f.table.check(stag, 0x10000, 100, 0, kPD), memory) << "left as it was";
    EXPECT_TRUE(f.table.deregister(stag).ok());
    return !fresh && !again;
  };
  EXPECT_TRUE(refused(region(kRemoteWrite)));
  EXPECT_TRUE(refused(region(kRemoteAtomic)));
  EXPECT_TRUE(refused(region(1u << 7)));
  EXPECT_TRUE(refused(region(1u << 31)));
  EXPECT_TRUE(refused(region(kZeroBased))) << "with a base_to of 0x10000";
  RegionAttributes bad = region();
  bad.pd = {};
  EXPECT_TRUE(refused(bad));
  bad = region();
  bad.address = nullptr;
  EXPECT_TRUE(refused(bad));
  bad = region();
  bad.base_to = kTop - 98;
  EXPECT_TRUE(refused(bad));
  bad.base_to = kTop - 99;
  EXPECT_TRUE(f.table.register_region(bad, 1).ok());
  bad = region(0, kTop);
  bad.base_to = 0;
  EXPECT_TRUE(refused(bad)) << "address + octets wraps";
  EXPECT_TRUE(f.table.register_region(region(0, 0), 1).ok()) << "an empty region is none";
}

TEST(MemoryTable, AFullTableRefusesAndAFreedSlotIsUsedAgain) {
  Fixture f(3);
  const STag a = f.add(region());
  f.add(region());
  f.add(region());
  EXPECT_EQ(f.table.register_region(region(), 9).error().code, ENOMEM);
  EXPECT_EQ(f.table.region_count(), 3u);
  ASSERT_TRUE(f.table.deregister(a).ok());
  const STag d = f.add(region());
  EXPECT_NE(d.value >> 8, a.value >> 8);
  EXPECT_EQ(f.table.register_region(region(), 9).error().code, ENOMEM);
}

TEST(MemoryTable, CountsRegionsByPD) {
  Fixture f;
  const STag a = f.add(region());
  f.add(region());
  RegionAttributes other = region();
  other.pd = kOtherPD;
  f.add(other);
  EXPECT_EQ(f.table.region_count(kPD), 2u);
  EXPECT_EQ(f.table.region_count(kOtherPD), 1u);
  ASSERT_TRUE(f.table.reregister(a, other).ok());
  EXPECT_EQ(f.table.region_count(kPD), 1u);
  EXPECT_EQ(f.table.region_count(PD{99}), 0u);
}

//= SEC-06
TEST(MemoryTable, STagsAreSparseAndTellNothingAboutEachOther) {
  Fixture f(4096);
  std::vector<std::uint32_t> stags;
  for (int i = 0; i < 4096; ++i) stags.push_back(f.add(region()).value);
  std::set<std::uint32_t> indices, distances;
  int bits[32] = {}, changed[32] = {};
  for (std::size_t i = 0; i < stags.size(); ++i) {
    EXPECT_NE(stags[i] >> 8, 0u);
    indices.insert(stags[i] >> 8);
    if (i > 0) distances.insert(stags[i] - stags[i - 1]);
    for (int bit = 0; bit < 32; ++bit) {
      bits[bit] += stags[i] >> bit & 1;
      if (i > 0) changed[bit] += (stags[i] ^ stags[i - 1]) >> bit & 1;
    }
  }
  EXPECT_EQ(indices.size(), 4096u);
  EXPECT_GT(distances.size(), 4090u) << "one STag follows from the other";
  // Fair coins: 2048 of 4096 with a standard deviation of 32.
  for (int bit = 0; bit < 32; ++bit) {
    EXPECT_NEAR(bits[bit], 2048, 200) << bit;
    EXPECT_NEAR(changed[bit], 2048, 200) << bit;
  }
}

//= SEC-06
TEST(MemoryTable, EvenARepeatedRandomGivesOtherSTags) {
  Fixture f(1000);
  std::set<std::uint32_t> stags;
  for (int i = 0; i < 1000; ++i) stags.insert(f.table.register_region(region(), 0)->value >> 8);
  EXPECT_EQ(stags.size(), 1000u);
}

//= SEC-06
TEST(MemoryTable, AFreedIndexComesBackOnlyAfterAllOthers) {
  Fixture f(64);
  std::deque<std::uint32_t> recent;
  for (int i = 0; i < 20000; ++i) {
    const STag stag = f.add(region());
    const std::uint32_t index = stag.value >> 8;
    for (const std::uint32_t old : recent) ASSERT_NE(index, old);
    ASSERT_TRUE(f.table.deregister(stag).ok());
    recent.push_back(index);
    if (recent.size() > 63) recent.pop_front();
  }
}

// Random calls against a map, with a table that is full most of the time: the probe runs are as
// long as they get, and slots and indices are reused all the time.
//= SEC-01
//= SEC-03
//= SEC-04
TEST(MemoryTable, AgreesWithAModelOverRandomCalls) {
  for (const std::uint32_t capacity : {1u, 2u, 7u, 64u, 500u}) {
    Fixture f(capacity);
    struct Model {
      RegionAttributes region;
      bool valid;
    };
    std::map<std::uint32_t, Model> model;
    std::vector<std::uint32_t> dead;
    std::mt19937_64& random = f.random;
    const auto any = [&]() -> std::uint32_t {
      if (!dead.empty() && random() % 4 == 0) return dead[random() % dead.size()];
      if (model.empty() || random() % 16 == 0) return static_cast<std::uint32_t>(random());
      auto it = model.begin();
      std::advance(it, static_cast<long>(random() % model.size()));
      return it->first;
    };
    constexpr Requester kRequester{kPD, {1}};
    const auto lets_in = [](const RegionAttributes& r) {
      return r.pd == kPD && r.stream.value != 2;
    };
    const auto make = [&] {
      RegionAttributes r = region(static_cast<std::uint32_t>(random() % 16) | kLocalWrite,
                                  random() % 4096);
      r.pd = random() % 2 == 0 ? kPD : kOtherPD;
      r.stream = {static_cast<std::uint32_t>(random() % 3)};
      r.base_to = random();
      if (r.base_to > kTop - 4096) r.base_to = 0;
      return r;
    };
    for (int step = 0; step < 20000; ++step) {
      const std::uint32_t stag = any();
      const auto it = model.find(stag);
      switch (random() % 8) {
        case 0:
        case 1:
        case 2: {
          const RegionAttributes r = make();
          const Result<STag> added = f.table.register_region(r, random());
          ASSERT_EQ(added.ok(), model.size() < capacity);
          if (!added.ok()) break;
          for (const auto& [other, unused] : model) ASSERT_NE(other >> 8, added->value >> 8);
          model[added->value] = {r, true};
          break;
        }
        case 3:
        case 4:
          ASSERT_EQ(f.table.deregister(STag{stag}).ok(), it != model.end());
          if (it == model.end()) break;
          model.erase(it);
          dead.push_back(stag);
          break;
        case 5: {
          const RegionAttributes r = make();
          ASSERT_EQ(f.table.reregister(STag{stag}, r).ok(), it != model.end());
          if (it != model.end()) it->second = {r, true};
          break;
        }
        case 6: {
          const bool peer = random() % 2 == 0;
          const auto done = peer ? f.table.invalidate_for_peer(STag{stag}, kRequester)
                                 : f.table.invalidate(STag{stag}, kRequester);
          ASSERT_EQ(done.ok(), it != model.end() && lets_in(it->second.region) &&
                                   (!peer || it->second.region.stream.value == 1));
          if (done.ok()) it->second.valid = false;
          break;
        }
        default: {
          const std::uint64_t base = it != model.end() ? it->second.region.base_to : random();
          const std::uint64_t to = base + random() % 4200 - 50, n = 1 + random() % 4200;
          const std::uint32_t rights = static_cast<std::uint32_t>(random() % 8);
          const auto is = f.table.check(STag{stag}, to, n, rights, kRequester);
          std::string expected = "ok";
          if (it == model.end() || !it->second.valid) {
            expected = "InvalidSTag";
          } else if (!lets_in(it->second.region)) {
            expected = "NotAssociated";
          } else if ((rights & ~it->second.region.access) != 0) {
            expected = "Access";
          } else if (n - 1 > kTop - to) {
            expected = "Wrap";
          } else if (to < base || to - base + n > it->second.region.octets) {
            expected = "Bounds";
          }
          ASSERT_EQ(outcome(is), expected);
          if (is.ok()) {
            ASSERT_EQ(*is, memory + (to - base));
          }
        }
      }
      ASSERT_EQ(f.table.region_count(), model.size());
    }
    for (const auto& [stag, entry] : model) ASSERT_TRUE(f.table.find(STag{stag}).has_value());
    std::uint32_t of_pd = 0;
    for (const auto& [stag, entry] : model) of_pd += entry.region.pd == kPD ? 1 : 0;
    EXPECT_EQ(f.table.region_count(kPD), of_pd);
  }
}

TEST(MemoryTable, TheLargestTableFillsAndEmpties) {
  Fixture f(MemoryTable::kCapacityMax);
  std::vector<STag> stags;
  for (std::uint32_t i = 0; i < MemoryTable::kCapacityMax; ++i) stags.push_back(f.add(region()));
  EXPECT_EQ(f.table.register_region(region(), 1).error().code, ENOMEM);
  for (const STag stag : stags) ASSERT_TRUE(f.table.check(stag, 0x10000, 100, 0, kPD).ok());
  for (const STag stag : stags) ASSERT_TRUE(f.table.deregister(stag).ok());
  EXPECT_EQ(f.table.region_count(), 0u);
  for (std::uint32_t i = 0; i < 1000; ++i) f.add(region());
}

}  // namespace
}  // namespace weft::core
