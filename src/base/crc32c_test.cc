// All CRC32C implementations against the published vectors and a bit-by-bit model.
#include "base/crc32c.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "base/crc32c_fold.h"
#include "tests/support/hex.h"

namespace weft {
namespace {

using test::ascii;
using test::hex;
using test::to_hex;
using Buffer = std::vector<std::uint8_t>;

/// One bit at a time, straight from the definition: what everything else is compared with.
std::uint32_t extend_bit_by_bit(std::uint32_t state, Octets data) {
  for (const std::uint8_t octet : data) {
    state ^= octet;
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) ? 0x82f63b78u : 0);
  }
  return state;
}

std::uint32_t extend_by_copy(std::uint32_t state, Octets data) {
  Buffer target(data.size());
  return crc32c_copy(state, target, data);
}

std::uint32_t extend_by_unfolded_copy(std::uint32_t state, Octets data) {
  Buffer target(data.size());
  return crc32c_copy_unfolded(state, target, data);
}

template <std::uint32_t (*Fold)(std::uint32_t, Octets)>
std::uint32_t extend_folding(std::uint32_t state, Octets data) {
  return data.size() < kFoldOctetsMin ? crc32c_extend_unfolded(state, data) : Fold(state, data);
}

template <std::uint32_t (*Fold)(std::uint32_t, MutableOctets, Octets)>
std::uint32_t extend_by_folding_copy(std::uint32_t state, Octets data) {
  if (data.size() < kFoldOctetsMin) return crc32c_extend_unfolded(state, data);
  Buffer target(data.size());
  state = Fold(state, target, data);
  EXPECT_EQ(target, Buffer(data.begin(), data.end()));
  return state;
}

template <std::uint32_t (*Fold)(std::uint32_t, MutableOctets, Octets)>
std::uint32_t extend_by_folding_past(std::uint32_t state, Octets data) {
  return data.size() < kCopyPastOctetsMin ? crc32c_extend_unfolded(state, data)
                                      : extend_by_folding_copy<Fold>(state, data);
}

bool can_extend() {
  return true;
}

using Extend = std::uint32_t (*)(std::uint32_t, Octets);
struct Implementation {
  const char* name;
  Extend extend;
  bool (*can)() = can_extend;
};

std::string on_the_wire(Extend extend, Octets data) {
  Buffer crc(4);
  store_crc(crc.data(), crc32c_finish(extend(kCRC32CStart, data)));
  return to_hex(crc);
}

Buffer random_octets(std::size_t count, std::mt19937_64& random) {
  Buffer octets(count);
  for (std::uint8_t& octet : octets) octet = static_cast<std::uint8_t>(random());
  return octets;
}

class CRC32C : public testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override {
    if (!GetParam().can()) GTEST_SKIP() << "this processor cannot";
  }
};

INSTANTIATE_TEST_SUITE_P(
    Implementations, CRC32C,
    testing::Values(
        Implementation{"portable", crc32c_extend_portable}, Implementation{"hosted", crc32c_extend},
        Implementation{"ahead", crc32c_extend_ahead},
        Implementation{"unfolded", crc32c_extend_unfolded},
        Implementation{"by_512", extend_folding<crc32c_extend_512>, can_fold_512},
        Implementation{"copy_by_512", extend_by_folding_copy<crc32c_copy_512>, can_fold_512},
        Implementation{"by_256", extend_folding<crc32c_extend_256>, can_fold_256},
        Implementation{"copy_by_256", extend_by_folding_copy<crc32c_copy_256>, can_fold_256},
        Implementation{"past_by_512", extend_by_folding_past<crc32c_copy_past_512>, can_fold_512},
        Implementation{"past_by_256", extend_by_folding_past<crc32c_copy_past_256>, can_fold_256},
        Implementation{"copy", extend_by_copy},
        Implementation{"unfolded_copy", extend_by_unfolded_copy}),
    [](const auto& parameter) { return parameter.param.name; });

//= rfc5044#4.4
// RFC 3720 B.4, and the check value every catalogue of CRCs gives.
//= MPA-13
TEST_P(CRC32C, PublishedVectors) {
  const Extend extend = GetParam().extend;
  EXPECT_EQ(on_the_wire(extend, Buffer(32, 0x00)), "aa36918a");
  EXPECT_EQ(on_the_wire(extend, Buffer(32, 0xff)), "43aba862");
  Buffer rising(32);
  std::iota(rising.begin(), rising.end(), std::uint8_t{0});
  EXPECT_EQ(on_the_wire(extend, rising), "4e79dd46");
  std::reverse(rising.begin(), rising.end());
  EXPECT_EQ(on_the_wire(extend, rising), "5cdb3f11");
  EXPECT_EQ(on_the_wire(extend, hex("01c00000 00000000 00000000 00000000 14000000 00000400 00000014"
                                    "00000018 28000000 00000000 02000000 00000000")),
            "563a96d9");
  EXPECT_EQ(on_the_wire(extend, ascii("123456789")), "839206e3");
}

TEST_P(CRC32C, NothingLeavesTheRegisterAlone) {
  EXPECT_EQ(GetParam().extend(kCRC32CStart, {}), kCRC32CStart);
  EXPECT_EQ(GetParam().extend(0x12345678, {}), 0x12345678u);
  EXPECT_EQ(crc32c_finish(kCRC32CStart), 0u);
}

TEST_P(CRC32C, EverySizeUpTo2KiB) {
  std::mt19937_64 random(1);
  const Buffer octets = random_octets(2048, random);
  for (std::size_t size = 0; size <= octets.size(); ++size) {
    const Buffer exact(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_EQ(GetParam().extend(kCRC32CStart, exact), extend_bit_by_bit(kCRC32CStart, exact))
        << size << " octets";
  }
}

TEST_P(CRC32C, EverySizeAroundThoseOfLongPieces) {
  std::mt19937_64 random(5);
  const Buffer octets = random_octets(45'400, random);
  for (const std::size_t first : {2'700u, 44'900u}) {
    for (std::size_t size = first; size < first + 500; ++size) {
      const Octets piece = Octets(octets).first(size);
      ASSERT_EQ(GetParam().extend(7, piece), crc32c_extend_portable(7, piece)) << size << " octets";
    }
  }
}

TEST_P(CRC32C, RandomSizesAlignmentsAndStates) {
  std::mt19937_64 random(2);
  const Buffer octets = random_octets(100'000, random);
  for (int round = 0; round < 300; ++round) {
    const std::size_t at = random() % 130;
    // Half of the sizes are near those of FPDUs, the others anything.
    const std::size_t size = random() % (round % 2 ? 1500 : octets.size() - at);
    const Octets piece = Octets(octets).subspan(at, size);
    const auto state = static_cast<std::uint32_t>(random());
    ASSERT_EQ(GetParam().extend(state, piece), extend_bit_by_bit(state, piece))
        << size << " octets at " << at << " from " << state;
  }
}

TEST(CRC32CAppend, GivesTheRegisterAfterBoth) {
  std::mt19937_64 random(4);
  const Buffer octets = random_octets(100'000, random);
  for (int round = 0; round < 300; ++round) {
    // Of FPDUs, powers of two among them, and anything.
    const std::size_t size = round % 3 == 0 ? std::size_t{1} << random() % 17
                                            : random() % (round % 3 == 1 ? 1500 : octets.size());
    const Octets piece = Octets(octets).first(size);
    const auto state = static_cast<std::uint32_t>(random());
    ASSERT_EQ(crc32c_append(state, crc32c_extend(0, piece), size), crc32c_extend(state, piece))
        << size << " octets from " << state;
  }
}

TEST_P(CRC32C, AnySplitGivesTheSame) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const Buffer octets = random_octets(random() % 10'000, random);
    const std::uint32_t whole = extend_bit_by_bit(kCRC32CStart, octets);
    std::uint32_t state = kCRC32CStart;
    for (Octets rest = octets; !rest.empty();) {
      const std::size_t size = std::min<std::size_t>(rest.size(), random() % 3000);
      state = GetParam().extend(state, rest.first(size));
      rest = rest.subspan(size);
    }
    ASSERT_EQ(state, whole) << octets.size() << " octets, round " << round;
  }
}

// The register after data and its own CRC is a constant: a receiver may check either way.
TEST_P(CRC32C, ResidueIsTheSameForAnyData) {
  std::mt19937_64 random(4);
  for (const std::size_t size : {0, 1, 3, 20, 127, 128, 129, 1448, 4096, 65536}) {
    Buffer octets = random_octets(size, random);
    const std::uint32_t crc = crc32c_finish(GetParam().extend(kCRC32CStart, octets));
    octets.resize(size + 4);
    store_crc(octets.data() + size, crc);
    EXPECT_EQ(load_crc(octets.data() + size), crc);
    EXPECT_EQ(GetParam().extend(kCRC32CStart, octets), 0xb798b438u);
    EXPECT_EQ(crc32c_finish(GetParam().extend(kCRC32CStart, octets)), 0x48674bc7u);
  }
}

//= rfc5044#4.4
TEST_P(CRC32C, OneWrongBitIsNoticed) {
  std::mt19937_64 random(5);
  for (const std::size_t size : {1, 28, 130, 1428, 9000}) {
    Buffer octets = random_octets(size, random);
    const std::uint32_t good = GetParam().extend(kCRC32CStart, octets);
    for (int round = 0; round < 100; ++round) {
      const std::size_t bit = random() % (size * 8);
      octets[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
      ASSERT_NE(GetParam().extend(kCRC32CStart, octets), good) << size << " octets, bit " << bit;
      octets[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    }
  }
}

TEST(CRC32CStore, LeastSignificantOctetFirstAtAnyAddress) {
  Buffer octets(6, 0xaa);
  store_crc(octets.data() + 1, 0x04030201);
  EXPECT_EQ(to_hex(octets), "aa010203 04aa");
  EXPECT_EQ(load_crc(octets.data() + 1), 0x04030201u);
  store_crc(octets.data() + 1, 0xfffefdfc);
  EXPECT_EQ(load_crc(octets.data() + 1), 0xfffefdfcu);
}

TEST(CRC32CCopy, CopiesExactlyTheSource) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 300; ++round) {
    const std::size_t size = random() % (round % 2 ? 300 : 20'000);
    const std::size_t source_at = random() % 70;
    const std::size_t target_at = random() % 70;
    const std::size_t spare = random() % 70;
    const Buffer source = random_octets(source_at + size, random);
    const Buffer before = random_octets(target_at + size + spare, random);
    Buffer target = before;
    const Octets piece = Octets(source).subspan(source_at);

    const auto copy = std::array{crc32c_copy, crc32c_copy_past, crc32c_place, crc32c_place_past,
                                 crc32c_place_unfolded}[static_cast<std::size_t>(round) % 5];
    const std::uint32_t state =
        copy(kCRC32CStart, MutableOctets(target).subspan(target_at), piece);

    Buffer expected = before;
    std::copy(piece.begin(), piece.end(),
              expected.begin() + static_cast<std::ptrdiff_t>(target_at));
    ASSERT_EQ(target, expected) << size << " octets, " << source_at << " to " << target_at;
    ASSERT_EQ(state, extend_bit_by_bit(kCRC32CStart, piece)) << size << " octets";
  }
}

TEST(CRC32CCopyDeathTest, ATargetThatIsTooSmallIsOurBug) {
  const Buffer source(10);
  Buffer target(9);
  for (const auto copy : {crc32c_copy, crc32c_copy_past, crc32c_place, crc32c_place_past}) {
    EXPECT_DEATH(copy(kCRC32CStart, target, source), "target.size\\(\\) >= source.size\\(\\)");
  }
}

}  // namespace
}  // namespace weft
