// MemoryTable: windows, what they open and when they close; a model under random operations.
#include <cerrno>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/memory/memory_table.h"
#include "core/qp/testing/fakes.h"
#include "gtest/gtest.h"

namespace weft::core {
namespace {

constexpr PD kPD{7}, kOtherPD{8};
constexpr std::uint64_t kTop = ~std::uint64_t{0}, kBase = 0x10000;
constexpr Requester kFive{kPD, {5}}, kSix{kPD, {6}}, kForeign{kOtherPD, {5}};
constexpr std::uint32_t kRemote = kRemoteRead | kRemoteWrite | kRemoteAtomic;

alignas(8) std::uint8_t memory[4096];

struct Fixture {
  explicit Fixture(std::uint32_t capacity = 16)
      : storage(MemoryTable::storage_octets(capacity)), table(storage.octets(), capacity) {}

  STag region(std::uint32_t access = kLocalWrite | kWindowBind, PD pd = kPD) {
    return *table.register_region({.pd = pd,
                                   .access = access,
                                   .base_to = (access & kZeroBased) != 0 ? 0 : kBase,
                                   .address = memory,
                                   .octets = 1000},
                                  random());
  }
  STag window(WindowKind kind, PD pd = kPD) { return *table.allocate_window(pd, kind, random()); }
  /// "ok" or the fault's name, so that failures read.
  std::string bind(const WindowBinding& binding, Requester requester = kFive) {
    const auto done = table.bind(binding, requester);
    if (done.ok()) return "ok";
    static constexpr const char* kNames[] = {"NoWindow", "NotAssociated", "AlreadyBound",
                                             "NoRegion", "Access",        "Bounds"};
    return kNames[static_cast<int>(done.error())];
  }
  std::string check(STag stag, std::uint64_t to, std::uint64_t octets,
                    std::uint32_t rights = kRemoteRead, Requester requester = kFive) const {
    const auto place = table.check(stag, to, octets, rights, requester);
    if (place.ok()) return "ok";
    static constexpr const char* kNames[] = {"InvalidSTag", "NotAssociated", "Access", "Wrap",
                                             "Bounds"};
    return kNames[static_cast<int>(place.error())];
  }
  static std::string outcome(const Result<void, MemoryFault>& done) {
    if (done.ok()) return "ok";
    return done.error() == MemoryFault::InvalidSTag ? "InvalidSTag" : "NotAssociated";
  }
  std::string invalidate(STag stag, Requester requester = kFive) {
    return outcome(table.invalidate(stag, requester));
  }
  std::string invalidate_for_peer(STag stag, Requester requester = kFive) {
    return outcome(table.invalidate_for_peer(stag, requester));
  }

  testing::AlignedStorage storage;
  MemoryTable table;
  std::mt19937_64 random{5};
};

STag next_key(STag stag) {
  return {(stag.value & ~0xffu) | ((stag.value + 1) & 0xff)};
}

class MemoryWindows : public ::testing::TestWithParam<WindowKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, MemoryWindows,
                         ::testing::Values(WindowKind::Type1, WindowKind::Type2));

TEST_P(MemoryWindows, AWindowIsInvalidUntilItIsBound) {
  Fixture f;
  const STag window = f.window(GetParam());
  EXPECT_EQ(f.check(window, 0, 1, 0), "InvalidSTag");
  EXPECT_FALSE(f.table.find(window).has_value());
}

//= SEC-02
TEST_P(MemoryWindows, ItsBoundsCountAndNotTheRegions) {
  Fixture f;
  const STag region = f.region(), window = f.window(GetParam());
  ASSERT_EQ(f.bind({window, region, kBase + 100, 50, kRemote}), "ok");
  EXPECT_EQ(*f.table.check(window, kBase + 100, 50, kRemoteRead, kFive), memory + 100);
  EXPECT_EQ(*f.table.check(window, kBase + 149, 1, kRemoteWrite, kFive), memory + 149);
  EXPECT_EQ(f.check(window, kBase + 99, 1), "Bounds");
  EXPECT_EQ(f.check(window, kBase + 150, 1), "Bounds");
  EXPECT_EQ(f.check(window, kBase + 100, 51), "Bounds");
  EXPECT_EQ(f.check(window, kTop, 2), "Wrap");
  EXPECT_EQ(f.check(region, kBase + 99, 1, kLocalWrite), "ok") << "the region is what it was";
}

TEST_P(MemoryWindows, AZeroBasedWindowCountsFromItsStart) {
  Fixture f;
  const STag region = f.region(), window = f.window(GetParam());
  ASSERT_EQ(f.bind({window, region, kBase + 100, 50, kRemoteRead | kZeroBased}), "ok");
  EXPECT_EQ(*f.table.check(window, 0, 50, kRemoteRead, kFive), memory + 100);
  EXPECT_EQ(f.check(window, 0, 51), "Bounds");
  EXPECT_EQ(f.check(window, kBase + 100, 1), "Bounds");
}

//= SEC-03
TEST_P(MemoryWindows, ItsRightsCountAndNotTheRegions) {
  for (std::uint32_t rights = 0; rights < 8; ++rights) {
    const std::uint32_t granted = rights << 1;  // RemoteWrite, RemoteRead, RemoteAtomic
    Fixture f;
    const STag window = f.window(GetParam());
    ASSERT_EQ(f.bind({window, f.region(), kBase, 8, granted}), "ok");
    for (const std::uint32_t right : {kRemoteRead, kRemoteWrite, kRemoteAtomic}) {
      EXPECT_EQ(f.check(window, kBase, 8, right), (granted & right) != 0 ? "ok" : "Access");
    }
  }
  Fixture f;
  const STag shut = f.window(GetParam());
  ASSERT_EQ(f.bind({shut, f.region(kLocalWrite | kWindowBind | kRemote), kBase, 8, 0}), "ok");
  EXPECT_EQ(f.check(shut, kBase, 8, kRemoteRead), "Access") << "the region's rights do not count";
}

TEST_P(MemoryWindows, NoWindowIsGoodForOurOwnRequests) {
  Fixture f;
  const STag region = f.region(kLocalWrite | kWindowBind | kRemote), window = f.window(GetParam());
  ASSERT_EQ(f.bind({window, region, kBase, 100, kRemote}), "ok");
  EXPECT_EQ(f.check(window, kBase, 1, kLocalRead), "Access");
  EXPECT_EQ(f.check(window, kBase, 1, kLocalWrite), "Access");
  EXPECT_EQ(f.check(region, kBase, 1, kLocalRead), "ok");
}

TEST_P(MemoryWindows, BindingChecksWhatItIsGiven) {
  Fixture f(32);
  const STag window = f.window(GetParam()), region = f.region();
  const STag foreign = f.region(kLocalWrite | kWindowBind, kOtherPD);
  const STag unbindable = f.region(kLocalWrite), read_only = f.region(kWindowBind);
  const STag zero = f.region(kLocalWrite | kWindowBind | kZeroBased);
  const STag taken = f.region(), other = f.window(GetParam());
  ASSERT_EQ(f.invalidate(taken), "ok");
  const STag foreign_window = f.window(GetParam(), kOtherPD);
  const struct {
    const char* name;
    WindowBinding binding;
    const char* outcome;
  } rows[] = {
      {"no such window", {{window.value ^ 0xff00}, region, kBase, 8, kRemote}, "NoWindow"},
      {"STag 0", {{0}, region, kBase, 8, kRemote}, "NoWindow"},
      {"a region instead", {region, region, kBase, 8, kRemote}, "NoWindow"},
      {"a window of another PD", {foreign_window, region, kBase, 8, kRemote}, "NotAssociated"},
      {"no such region", {window, {region.value ^ 0xff00}, kBase, 8, kRemote}, "NoRegion"},
      {"the region's old key", {window, next_key(region), kBase, 8, kRemote}, "NoRegion"},
      {"a window as its region", {window, other, kBase, 8, kRemote}, "NoRegion"},
      {"itself as its region", {window, window, kBase, 8, kRemote}, "NoRegion"},
      {"an Invalid region", {window, taken, kBase, 8, kRemote}, "NoRegion"},
      {"a region of another PD", {window, foreign, kBase, 8, kRemote}, "NotAssociated"},
      {"a region not for windows", {window, unbindable, kBase, 8, 0}, "Access"},
      {"a zero-based region", {window, zero, 0, 8, kRemoteRead}, "Access"},
      {"remote write to read-only", {window, read_only, kBase, 8, kRemoteWrite}, "Access"},
      {"atomics on read-only", {window, read_only, kBase, 8, kRemoteAtomic}, "Access"},
      {"a local right", {window, region, kBase, 8, kLocalWrite}, "Access"},
      {"local read", {window, region, kBase, 8, kLocalRead}, "Access"},
      {"a right that nobody knows", {window, region, kBase, 8, 1u << 20}, "Access"},
      {"before the region", {window, region, kBase - 1, 8, kRemote}, "Bounds"},
      {"behind the region", {window, region, kBase + 1000, 1, kRemote}, "Bounds"},
      {"one octet too long", {window, region, kBase + 1, 1000, kRemote}, "Bounds"},
      {"passing 2^64", {window, region, kBase + 1, kTop, kRemote}, "Bounds"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(f.bind(row.binding), row.outcome) << row.name;
    EXPECT_EQ(f.check(window, kBase, 1, 0), "InvalidSTag") << row.name;
  }
  EXPECT_EQ(f.bind({window, region, kBase, 1000, kRemote}, kForeign), "NotAssociated");
  EXPECT_EQ(f.bind({window, read_only, kBase, 1000, kRemoteRead}), "ok") << "reads need no right";
}

TEST(MemoryWindow, OpensAnyPartOfARegionOfAllMemoryAndNoMore) {
  Fixture f;
  const STag region = *f.table.register_region({.pd = kPD,
                                                .access = kLocalWrite | kWindowBind,
                                                .base_to = 1,
                                                .address = reinterpret_cast<std::uint8_t*>(1),
                                                .octets = kTop - 1},
                                               7);
  const STag window = f.window(WindowKind::Type1);
  const auto here = reinterpret_cast<std::uintptr_t>(memory);
  ASSERT_EQ(f.bind({window, region, here, 16, kRemoteRead}), "ok");
  EXPECT_EQ(*f.table.check(window, here + 8, 8, kRemoteRead, kPD), memory + 8);
  EXPECT_EQ(f.check(window, here + 8, 9), "Bounds");
  EXPECT_EQ(f.check(region, here, 1), "Access") << "the region itself is not for peers";
  // The last octet that it has, and the one behind it.
  ASSERT_EQ(f.bind({window, region, kTop - 1, 1, kRemoteRead | kZeroBased}), "ok");
  EXPECT_EQ(f.check(window, 0, 1), "ok");
  EXPECT_EQ(f.check(window, 1, 1), "Bounds");
  EXPECT_EQ(f.bind({window, region, kTop - 1, 2, kRemoteRead}), "Bounds");
  EXPECT_EQ(f.bind({window, region, kTop, 1, kRemoteRead}), "Bounds");
  EXPECT_EQ(f.bind({window, region, 0, 1, kRemoteRead}), "Bounds");
  EXPECT_EQ(f.bind({window, region, 1, kTop, kRemoteRead}), "Bounds");
}

TEST(MemoryWindow, AFailedBindLeavesTheWindowAsItWas) {
  Fixture f;
  const STag region = f.region(), window = f.window(WindowKind::Type1);
  ASSERT_EQ(f.bind({window, region, kBase, 8, kRemoteRead}), "ok");
  EXPECT_EQ(f.bind({next_key(window), region, kBase, 1001, kRemoteRead}), "Bounds");
  EXPECT_EQ(f.check(window, kBase, 8), "ok");
  EXPECT_EQ(f.table.deregister(region).error().code, EBUSY);
}

//= DDP-24
//= SEC-01
TEST(MemoryWindow, Type1LetsItsPDInAndType2TheStreamThatBoundIt) {
  Fixture f;
  const STag region = f.region();
  const STag one = f.window(WindowKind::Type1), two = f.window(WindowKind::Type2);
  ASSERT_EQ(f.bind({one, region, kBase, 8, kRemote}), "ok");
  ASSERT_EQ(f.bind({two, region, kBase, 8, kRemote}), "ok");
  EXPECT_EQ(f.check(one, kBase, 8, kRemoteRead, kSix), "ok");
  EXPECT_EQ(f.check(one, kBase, 8, kRemoteRead, kForeign), "NotAssociated");
  EXPECT_EQ(f.check(two, kBase, 8, kRemoteRead, kFive), "ok");
  EXPECT_EQ(f.check(two, kBase, 8, kRemoteRead, kSix), "NotAssociated");
  EXPECT_EQ(f.check(two, kBase, 8, kRemoteRead, kForeign), "NotAssociated");
}

//= DDP-24
TEST(MemoryWindow, NoWindowOpensARegionThatIsTiedToAnotherStream) {
  Fixture f;
  const STag region = f.region();
  RegionAttributes tied = *f.table.find(region);
  tied.stream = {5};
  ASSERT_TRUE(f.table.reregister(region, tied).ok());
  const STag one = f.window(WindowKind::Type1), two = f.window(WindowKind::Type2);
  EXPECT_EQ(f.bind({one, region, kBase, 8, kRemote}), "NotAssociated");
  EXPECT_EQ(f.bind({two, region, kBase, 8, kRemote}, kSix), "NotAssociated");
  EXPECT_EQ(f.bind({two, region, kBase, 8, kRemote}), "ok");
}

TEST(MemoryWindow, Type1IsBoundAgainAndItsOldKeyIsDeadAtOnce) {
  Fixture f;
  const STag first = f.region(), second = f.region();
  const STag old = f.window(WindowKind::Type1), now = next_key(old);
  ASSERT_EQ(f.bind({old, first, kBase, 8, kRemote}), "ok");
  ASSERT_EQ(f.bind({now, second, kBase + 8, 8, kRemote}), "ok");
  EXPECT_EQ(f.check(old, kBase, 8), "InvalidSTag");
  EXPECT_EQ(f.check(old, kBase + 8, 8), "InvalidSTag");
  EXPECT_EQ(f.check(now, kBase + 8, 8), "ok");
  EXPECT_TRUE(f.table.deregister(first).ok()) << "no window is bound to it any more";
  EXPECT_EQ(f.table.deregister(second).error().code, EBUSY);
}

TEST(MemoryWindow, Type2IsBoundOnlyWhenInvalid) {
  Fixture f;
  const STag region = f.region(), old = f.window(WindowKind::Type2), now = next_key(old);
  ASSERT_EQ(f.bind({old, region, kBase, 8, kRemote}), "ok");
  EXPECT_EQ(f.bind({now, region, kBase, 8, kRemote}), "AlreadyBound");
  EXPECT_EQ(f.bind({now, {}, 0, 0, 0}), "AlreadyBound") << "nor is it unbound so";
  ASSERT_EQ(f.invalidate(old), "ok");
  EXPECT_EQ(f.bind({now, region, kBase, 8, kRemote}, kSix), "ok") << "another stream may";
  EXPECT_EQ(f.check(old, kBase, 8, kRemoteRead, kSix), "InvalidSTag");
  EXPECT_EQ(f.check(now, kBase, 8, kRemoteRead, kSix), "ok");
  EXPECT_EQ(f.check(now, kBase, 8, kRemoteRead, kFive), "NotAssociated");
}

TEST(MemoryWindow, ALengthOfZeroUnbindsType1) {
  Fixture f;
  const STag region = f.region(), window = f.window(WindowKind::Type1);
  ASSERT_EQ(f.bind({window, region, kBase, 8, kRemote}), "ok");
  ASSERT_EQ(f.bind({next_key(window), {}, 0, 0, 0}), "ok");
  EXPECT_EQ(f.check(window, kBase, 8), "InvalidSTag");
  EXPECT_EQ(f.check(next_key(window), kBase, 8), "InvalidSTag");
  EXPECT_TRUE(f.table.deregister(region).ok());
}

//= SEC-05
//= RDM-13
TEST(MemoryWindow, OnlyItsOwnStreamAndThatStreamsPeerInvalidateType2) {
  Fixture f;
  const STag region = f.region(), window = f.window(WindowKind::Type2);
  EXPECT_EQ(f.invalidate_for_peer(window), "NotAssociated") << "tied to no stream yet";
  ASSERT_EQ(f.bind({window, region, kBase, 8, kRemote}), "ok");
  EXPECT_EQ(f.invalidate(window, kSix), "NotAssociated");
  EXPECT_EQ(f.invalidate_for_peer(window, kSix), "NotAssociated");
  EXPECT_EQ(f.invalidate_for_peer(window, kForeign), "NotAssociated");
  EXPECT_EQ(f.invalidate_for_peer(next_key(window)), "InvalidSTag");
  EXPECT_EQ(f.check(window, kBase, 8), "ok");
  EXPECT_EQ(f.invalidate_for_peer(window), "ok");
  EXPECT_EQ(f.check(window, kBase, 8), "InvalidSTag");
  EXPECT_TRUE(f.table.deregister(region).ok());
  EXPECT_EQ(f.invalidate_for_peer(window), "ok") << "again is allowed";
  EXPECT_EQ(f.invalidate(window), "ok");
  EXPECT_EQ(f.invalidate_for_peer(window, kSix), "NotAssociated") << "it stays tied";
}

TEST(MemoryWindow, NobodyInvalidatesType1) {
  Fixture f;
  const STag region = f.region(), window = f.window(WindowKind::Type1);
  EXPECT_EQ(f.invalidate(window), "NotAssociated");
  ASSERT_EQ(f.bind({window, region, kBase, 8, kRemote}), "ok");
  EXPECT_EQ(f.invalidate(window), "NotAssociated");
  EXPECT_EQ(f.invalidate_for_peer(window), "NotAssociated");
  EXPECT_EQ(f.check(window, kBase, 8), "ok");
}

TEST_P(MemoryWindows, ARegionWithABoundWindowStaysAsItIs) {
  Fixture f;
  const STag region = f.region(), window = f.window(GetParam());
  const RegionAttributes attributes = *f.table.find(region);
  ASSERT_EQ(f.bind({window, region, kBase, 8, kRemote}), "ok");
  EXPECT_EQ(f.invalidate(region), "NotAssociated");
  EXPECT_EQ(f.table.deregister(region).error().code, EBUSY);
  EXPECT_EQ(f.table.reregister(region, attributes).error().code, EBUSY);
  EXPECT_EQ(f.check(window, kBase, 8), "ok");
  ASSERT_TRUE(f.table.deallocate_window(window).ok());
  EXPECT_EQ(f.check(window, kBase, 8), "InvalidSTag");
  EXPECT_TRUE(f.table.reregister(region, attributes).ok());
  EXPECT_EQ(f.invalidate(region), "ok");
  EXPECT_TRUE(f.table.deregister(region).ok());
}

TEST_P(MemoryWindows, AWindowIsNoRegionAndARegionNoWindow) {
  Fixture f;
  const STag region = f.region(), window = f.window(GetParam());
  EXPECT_EQ(f.table.deregister(window).error().code, EINVAL);
  EXPECT_EQ(f.table.reregister(window, *f.table.find(region)).error().code, EINVAL);
  EXPECT_EQ(f.table.deallocate_window(region).error().code, EINVAL);
  EXPECT_EQ(f.table.deallocate_window({0}).error().code, EINVAL);
  EXPECT_EQ(f.table.region_count(kPD), 2u) << "both hold the domain";
  ASSERT_TRUE(f.table.deallocate_window(next_key(window)).ok()) << "whatever the key";
  EXPECT_EQ(f.table.deallocate_window(window).error().code, EINVAL);
  EXPECT_EQ(f.table.region_count(kPD), 1u);
}

TEST_P(MemoryWindows, AFullTableAndNoPDAreRefused) {
  Fixture f(2);
  EXPECT_EQ(f.table.allocate_window({}, GetParam(), 1).error().code, EINVAL);
  f.region();
  const STag window = f.window(GetParam());
  EXPECT_EQ(f.table.allocate_window(kPD, GetParam(), 1).error().code, ENOMEM);
  ASSERT_TRUE(f.table.deallocate_window(window).ok());
  EXPECT_TRUE(f.table.allocate_window(kPD, GetParam(), 1).ok());
}

TEST(MemoryWindow, TheEndOfAStreamUnbindsItsWindowsAndNoOthers) {
  Fixture f;
  const STag region = f.region(), shared = f.window(WindowKind::Type1);
  ASSERT_EQ(f.bind({shared, region, kBase, 8, kRemote}), "ok");
  f.table.release_stream({5});
  STag windows[6];
  for (int i = 0; i < 6; ++i) {
    windows[i] = f.window(WindowKind::Type2);
    ASSERT_EQ(f.bind({windows[i], region, kBase, 8, kRemote}, i % 2 == 0 ? kFive : kSix), "ok");
  }
  ASSERT_EQ(f.invalidate(windows[2]), "ok");
  ASSERT_TRUE(f.table.deallocate_window(windows[3]).ok());
  f.table.release_stream({5});
  for (const int i : {0, 2, 4}) {
    EXPECT_EQ(f.check(windows[i], kBase, 8, kRemoteRead, kFive), "InvalidSTag");
    EXPECT_EQ(f.invalidate_for_peer(windows[i]), "NotAssociated") << "another stream's id by now";
    EXPECT_EQ(f.bind({next_key(windows[i]), region, kBase, 8, kRemote}), "ok");
  }
  for (const int i : {1, 5}) EXPECT_EQ(f.check(windows[i], kBase, 8, kRemoteRead, kSix), "ok");
  EXPECT_EQ(f.check(shared, kBase, 8), "ok");
  f.table.release_stream({5});
  f.table.release_stream({6});
  ASSERT_EQ(f.bind({shared, {}, 0, 0, 0}), "ok");
  EXPECT_TRUE(f.table.deregister(region).ok()) << "the count came down to nothing";
}

// Random calls against a map.
//= SEC-01
//= SEC-02
//= SEC-03
//= SEC-04
TEST(MemoryWindow, AgreeWithAModelOverRandomCalls) {
  struct Region {
    PD pd;
    std::uint32_t access;
    bool valid;
  };
  struct Window {
    PD pd;
    bool type2;
    std::uint8_t key;
    bool bound = false;
    std::uint32_t stream = 0, region = 0, access = 0;
    std::uint64_t to = 0, octets = 0;
  };
  Fixture f(24);
  std::mt19937_64& random = f.random;
  std::map<std::uint32_t, Region> regions;  // by STag
  std::map<std::uint32_t, Window> windows;  // by index
  const auto any_of = [&random](const auto& map) {
    auto it = map.begin();
    if (!map.empty()) std::advance(it, static_cast<long>(random() % map.size()));
    return it;
  };
  const auto bound_to = [&windows](std::uint32_t region) {
    std::size_t n = 0;
    for (const auto& [index, window] : windows) n += window.bound && window.region == region;
    return n;
  };
  std::size_t good_binds = 0, good_checks = 0;
  for (int step = 0; step < 60000; ++step) {
    const Requester requester{random() % 8 == 0 ? kOtherPD : kPD,
                              {1 + static_cast<std::uint32_t>(random() % 3)}};
    const auto window_at = any_of(windows);
    const auto region_at = any_of(regions);
    const bool has_window = window_at != windows.end(), has_region = region_at != regions.end();
    const std::uint32_t index = has_window ? window_at->first : 77;
    const std::uint32_t stag =
        index << 8 | (has_window && random() % 8 != 0 ? window_at->second.key : random() & 0xff);
    switch (random() % 12) {
      case 0: {
        const PD pd = random() % 6 == 0 ? kOtherPD : kPD;
        const std::uint32_t access = static_cast<std::uint32_t>(random() % 2) * kLocalWrite |
                                     (random() % 6 == 0 ? 0u : +kWindowBind);
        const auto made = f.table.register_region(
            {.pd = pd, .access = access, .base_to = kBase, .address = memory, .octets = 1000},
            random());
        ASSERT_EQ(made.ok(), regions.size() + windows.size() < 24);
        if (made.ok()) regions[made->value] = {pd, access, true};
        break;
      }
      case 1: {
        const PD pd = random() % 6 == 0 ? kOtherPD : kPD;
        const bool type2 = random() % 2 == 0;
        const auto made =
            f.table.allocate_window(pd, type2 ? WindowKind::Type2 : WindowKind::Type1, random());
        ASSERT_EQ(made.ok(), regions.size() + windows.size() < 24);
        if (made.ok()) {
          windows[made->value >> 8] = {pd, type2, static_cast<std::uint8_t>(made->value)};
        }
        break;
      }
      case 2:
        if (!has_region || random() % 3 != 0) break;
        ASSERT_EQ(f.table.deregister({region_at->first}).ok(), bound_to(region_at->first) == 0);
        if (bound_to(region_at->first) == 0) regions.erase(region_at->first);
        break;
      case 3:
        if (random() % 3 != 0) break;
        ASSERT_EQ(f.table.deallocate_window({stag}).ok(), has_window);
        if (has_window) windows.erase(index);
        break;
      case 4: {
        if (!has_region) break;
        Region& region = regions[region_at->first];
        const bool may = region.pd == requester.pd && bound_to(region_at->first) == 0;
        ASSERT_EQ(f.table.invalidate({region_at->first}, requester).ok(), may);
        if (may) region.valid = false;
        break;
      }
      case 5: {
        const bool peer = random() % 2 == 0;
        const auto done = peer ? f.table.invalidate_for_peer({stag}, requester)
                               : f.table.invalidate({stag}, requester);
        bool may = has_window && (stag & 0xff) == window_at->second.key;
        if (may) {
          const Window& w = window_at->second;
          may = w.type2 && w.pd == requester.pd &&
                (w.stream == requester.stream.value || (w.stream == 0 && !peer));
        }
        ASSERT_EQ(done.ok(), may);
        if (may) windows[index].bound = false;
        break;
      }
      case 6: {
        if (random() % 4 != 0) break;
        f.table.release_stream(requester.stream);
        for (auto& [unused, window] : windows) {
          if (window.stream != requester.stream.value) continue;
          window.stream = 0;
          window.bound = false;
        }
        break;
      }
      case 7:
      case 8:
      case 9: {
        WindowBinding binding{.stag = {stag}, .region = {has_region ? region_at->first : 1}};
        binding.to = kBase + random() % 1010 - 5;
        binding.octets = random() % 6 == 0 ? 0 : 1 + random() % 600;
        binding.access = static_cast<std::uint32_t>(random() % 64) & ~kLocalWrite & ~kWindowBind;
        bool may = has_window && window_at->second.pd == requester.pd &&
                   !(window_at->second.type2 && window_at->second.bound);
        if (may && binding.octets != 0) {
          may = has_region && region_at->second.valid && region_at->second.pd == requester.pd &&
                (region_at->second.access & kWindowBind) != 0 &&
                ((binding.access & (kRemoteWrite | kRemoteAtomic)) == 0 ||
                 (region_at->second.access & kLocalWrite) != 0) &&
                binding.to >= kBase && binding.to + binding.octets <= kBase + 1000;
        }
        ASSERT_EQ(f.table.bind(binding, requester).ok(), may);
        if (!may) break;
        Window& window = windows[index];
        window.key = static_cast<std::uint8_t>(stag);
        window.bound = binding.octets != 0;
        window.stream = window.type2 && window.bound ? requester.stream.value : 0;
        window.region = binding.region.value;
        window.access = binding.access;
        window.to = binding.to;
        window.octets = binding.octets;
        good_binds += window.bound;
        break;
      }
      default: {
        const std::uint32_t right = 1u << (random() % 4);
        std::uint64_t to = kBase + random() % 1010 - 5;
        const std::uint64_t n = 1 + random() % 40;
        std::string expected = "InvalidSTag";
        std::uint64_t offset = 0;
        if (has_window && window_at->second.bound && (stag & 0xff) == window_at->second.key) {
          const Window& w = window_at->second;
          const bool zero = (w.access & kZeroBased) != 0;
          const std::uint64_t first = zero ? 0 : w.to;
          if (random() % 2 == 0) to = first + random() % (w.octets + 4) - 2;
          const bool inside = to >= first && n <= w.octets && to - first <= w.octets - n;
          offset = w.to - kBase + (to - first);
          expected = w.pd != requester.pd || (w.stream != 0 && w.stream != requester.stream.value)
                         ? "NotAssociated"
                     : (right & ~(w.access & kRemote)) != 0 ? "Access"
                     : n - 1 > kTop - to                    ? "Wrap"
                     : inside                               ? "ok"
                                                            : "Bounds";
        }
        ASSERT_EQ(f.check({stag}, to, n, right, requester), expected);
        if (expected != "ok") break;
        ++good_checks;
        ASSERT_EQ(*f.table.check({stag}, to, n, right, requester), memory + offset);
      }
    }
    ASSERT_EQ(f.table.region_count(), regions.size() + windows.size());
  }
  EXPECT_GT(good_binds, 500u);
  EXPECT_GT(good_checks, 100u);
}

}  // namespace
}  // namespace weft::core
