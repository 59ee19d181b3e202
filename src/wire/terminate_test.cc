// Terminate messages: worked examples both ways, broken promises, the list of codes.
#include "wire/terminate.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/hex.h"

namespace weft::wire {
namespace {

using test::hex;
using test::to_hex;
using Buffer = std::vector<std::uint8_t>;

// clang-format off
constexpr TermError kAllErrors[] = {
    TermError::RDMAPLocalCatastrophic,     TermError::RDMAPInvalidSTag,
    TermError::RDMAPBounds,                TermError::RDMAPAccess,
    TermError::RDMAPNotAssociated,         TermError::RDMAPTOWrap,
    TermError::RDMAPCannotInvalidate,      TermError::RDMAPProtectionUnspecified,
    TermError::RDMAPVersion,               TermError::RDMAPUnexpectedOpcode,
    TermError::RDMAPStreamCatastrophic,    TermError::RDMAPGlobalCatastrophic,
    TermError::RDMAPOperationCannotInvalidate, TermError::RDMAPOperationUnspecified,
    TermError::DDPLocalCatastrophic,       TermError::DDPTaggedInvalidSTag,
    TermError::DDPTaggedBounds,            TermError::DDPTaggedNotAssociated,
    TermError::DDPTaggedTOWrap,            TermError::DDPTaggedVersion,
    TermError::DDPUntaggedInvalidQN,       TermError::DDPUntaggedNoBuffer,
    TermError::DDPUntaggedMSNRange,        TermError::DDPUntaggedInvalidMO,
    TermError::DDPUntaggedTooLong,         TermError::DDPUntaggedVersion,
    TermError::MPAStreamLost,              TermError::MPACRC,
    TermError::MPAMarker,                  TermError::MPAStartup,
    TermError::MPALocalCatastrophic,       TermError::MPAInsufficientIRD,
    TermError::MPANoMatchingRTR,
};
// clang-format on

const Buffer kTagged = hex("c140 00dead00 00000000 00000010");
const Buffer kUntagged = hex("4141 00000000 00000001 00000002 00000000");
const Buffer kReadRequest = hex("0000aa01 00000000 00002000 00001000 0000bb02 00007f00 00001000");

std::string encoded(const Terminate& terminate) {
  Buffer out(terminate.octets());
  EXPECT_EQ(terminate.encode(out), out.size());
  return to_hex(out);
}

void expect_same(const Terminate& actual, const Terminate& expected) {
  EXPECT_EQ(actual.error, expected.error);
  EXPECT_EQ(actual.ddp_segment_octets, expected.ddp_segment_octets);
  EXPECT_EQ(to_hex(actual.ddp_header), to_hex(expected.ddp_header));
  EXPECT_EQ(to_hex(actual.read_request), to_hex(expected.read_request));
}

void expect_both_ways(const Terminate& terminate, const char* text) {
  const Buffer octets = hex(text);
  EXPECT_EQ(encoded(terminate), to_hex(octets));
  const auto parsed = Terminate::parse(octets);
  ASSERT_TRUE(parsed.has_value());
  expect_same(*parsed, terminate);
}

//= rfc5040#4.8
TEST(Terminate, WorkedExampleA10CarriesBothHeaders) {
  expect_both_ways({TermError::RDMAPBounds, std::uint16_t{0x2e}, kUntagged, kReadRequest},
                   "0101e000 002e 4141 00000000 00000001 00000002 00000000"
                   "0000aa01 00000000 00002000 00001000 0000bb02 00007f00 00001000");
}

TEST(Terminate, WorkedExampleB11CarriesATaggedHeader) {
  expect_both_ways({TermError::DDPTaggedInvalidSTag, std::uint16_t{0x22}, kTagged, {}},
                   "1100c000 0022 c140 00dead00 00000000 00000010");
}

TEST(Terminate, WorkedExampleC8CarriesNoHeader) {
  expect_both_ways({TermError::MPACRC, {}, {}, {}}, "20020000");
}

TEST(Terminate, ALengthMayStandAlone) {
  expect_both_ways({TermError::DDPUntaggedTooLong, std::uint16_t{0xfd00}, {}, {}}, "12058000 fd00");
}

TEST(Terminate, SizesStayWithinTheMaximum) {
  const Terminate largest{TermError::RDMAPBounds, std::uint16_t{46}, kUntagged, kReadRequest};
  EXPECT_EQ(largest.octets(), 52u);
  EXPECT_EQ(18 + largest.octets(), kTerminateOctetsMax);
  EXPECT_EQ((Terminate{TermError::MPACRC, {}, {}, {}}.octets()), 4u);
}

TEST(Terminate, EveryErrorSurvivesTheRoundTrip) {
  for (const TermError error : kAllErrors) {
    const Terminate terminate{error, {}, {}, {}};
    const Buffer octets = hex(encoded(terminate));
    EXPECT_EQ(octets[0], layer(error) * 16 + etype(error));
    EXPECT_EQ(octets[1], code(error));
    const auto parsed = Terminate::parse(octets);
    ASSERT_TRUE(parsed.has_value());
    expect_same(*parsed, terminate);
  }
}

TEST(Terminate, ReservedBitsAndTrailingOctetsAreIgnored) {
  const Buffer octets =
      hex("1100dfff 0022 c140 00dead00 00000000 00000010 ffffffff ffffffff ffffffff ffffffff"
          "ffffffff ffffffff ffffffff ffffffff");
  const auto parsed = Terminate::parse(octets);
  ASSERT_TRUE(parsed.has_value());
  expect_same(*parsed, {TermError::DDPTaggedInvalidSTag, std::uint16_t{0x22}, kTagged, {}});
}

TEST(Terminate, UnknownCodesAreReportedAsTheyCame) {
  const Buffer octets = hex("f7ee0000");
  const auto parsed = Terminate::parse(octets);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(static_cast<int>(parsed->error), 0xf7ee);
  EXPECT_EQ(layer(parsed->error), 15);
  EXPECT_EQ(etype(parsed->error), 7);
  EXPECT_EQ(code(parsed->error), 0xee);
  EXPECT_EQ(encoded(*parsed), "f7ee0000");
}

TEST(Terminate, ShorterThanItsCodeIsNone) {
  EXPECT_FALSE(Terminate::parse({}).has_value());
  EXPECT_FALSE(Terminate::parse(hex("01")).has_value());
}

TEST(Terminate, EndingBeforeTheHeaderControlMeansNoHeaders) {
  for (const char* text : {"0101", "0101e0"}) {
    const Buffer octets = hex(text);
    const auto parsed = Terminate::parse(octets);
    ASSERT_TRUE(parsed.has_value()) << text;
    expect_same(*parsed, {TermError::RDMAPBounds, {}, {}, {}});
  }
}

// The largest Terminate cut at every length: the code always, each header only when it is whole.
TEST(Terminate, APromiseThatIsNotKeptGivesWhatIsThere) {
  const Terminate whole{TermError::RDMAPBounds, std::uint16_t{46}, kUntagged, kReadRequest};
  const Buffer octets = hex(encoded(whole));
  for (std::size_t size = 2; size <= octets.size(); ++size) {
    SCOPED_TRACE(size);
    const Buffer prefix(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(size));
    const auto parsed = Terminate::parse(prefix);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->error, TermError::RDMAPBounds);
    EXPECT_EQ(parsed->ddp_segment_octets.has_value(), size >= 6);
    EXPECT_EQ(parsed->ddp_header.size(), size >= 24 ? 18u : 0u);
    EXPECT_EQ(parsed->read_request.size(), size >= 52 ? 28u : 0u);
  }
}

TEST(Terminate, TheIncludedHeadersOwnTBitSaysHowLongItIs) {
  // The same octets, once as a tagged and once as an untagged header.
  const Buffer tagged_octets = hex("1100c000 0022 c140 00000000 00000000 00000000");
  const auto tagged = Terminate::parse(tagged_octets);
  ASSERT_TRUE(tagged.has_value());
  EXPECT_EQ(tagged->ddp_header.size(), 14u);
  const Buffer untagged_octets = hex("1100c000 0022 4140 00000000 00000000 00000000");
  const auto untagged = Terminate::parse(untagged_octets);
  ASSERT_TRUE(untagged.has_value());
  EXPECT_TRUE(untagged->ddp_header.empty());
}

TEST(Terminate, AHeaderWithoutAValidLengthStillStandsBehindTheLengthField) {
  const Buffer octets = hex("11004000 ffff c140 00dead00 00000000 00000010");
  const auto parsed = Terminate::parse(octets);
  ASSERT_TRUE(parsed.has_value());
  expect_same(*parsed, {TermError::DDPTaggedInvalidSTag, {}, kTagged, {}});
  EXPECT_EQ(encoded(*parsed), "11004000 0000c140 00dead00 00000000 00000010");
}

TEST(TerminateDeathTest, HeadersOfTheWrongSizeAreOurBug) {
  Buffer out(kTerminateOctetsMax);
  const Octets header = kUntagged;
  EXPECT_DEATH((Terminate{TermError::RDMAPBounds, {}, header.first(17), {}}.encode(out)), "ddp_ok");
  EXPECT_DEATH((Terminate{TermError::RDMAPBounds, {}, header.first(14), {}}.encode(out)), "ddp_ok");
  EXPECT_DEATH((Terminate{TermError::RDMAPBounds, {}, {}, header}.encode(out)), "read_ok");
  Buffer small(3);
  EXPECT_DEATH((Terminate{TermError::MPACRC, {}, {}, {}}.encode(small)), "out.size");
}

//= rfc5040#4.8
// Figure 10.
TEST(TermErrors, HeadersToInclude) {
  for (const TermError error : kAllErrors) {
    SCOPED_TRACE(text(error));
    const TermHeaders headers = headers_for(error);
    const bool above_mpa = layer(error) < 2 && error != TermError::RDMAPLocalCatastrophic;
    EXPECT_EQ(headers.ddp, above_mpa);
    EXPECT_EQ(headers.read_request, layer(error) == 0 && etype(error) == 1);
  }
  EXPECT_FALSE(headers_for(static_cast<TermError>(0x0042)).ddp);
  EXPECT_FALSE(headers_for(static_cast<TermError>(0xf101)).ddp);
  EXPECT_TRUE(headers_for(TermError::DDPLocalCatastrophic).ddp);
}

TEST(TermErrors, EachHasASentenceOfItsOwn) {
  std::set<std::string> sentences;
  for (const TermError error : kAllErrors) {
    EXPECT_TRUE(sentences.insert(text(error)).second) << text(error);
    EXPECT_STRNE(text(error), "unassigned error code");
  }
  EXPECT_EQ(sentences.size(), 33u);
}

TEST(TermErrors, AllOtherValuesAreUnassigned) {
  const std::set<TermError> known(std::begin(kAllErrors), std::end(kAllErrors));
  for (int value = 0; value < 0x10000; ++value) {
    const auto error = static_cast<TermError>(value);
    // Layer 0 type 0 has no codes: any value there is the same error.
    const bool assigned = value < 0x100 || known.contains(error);
    ASSERT_EQ(std::string(text(error)) != "unassigned error code", assigned) << value;
  }
  EXPECT_STREQ(text(static_cast<TermError>(0x0077)), text(TermError::RDMAPLocalCatastrophic));
}

TEST(TermErrors, SplitIntoLayerTypeAndCode) {
  EXPECT_EQ(layer(TermError::RDMAPProtectionUnspecified), 0);
  EXPECT_EQ(etype(TermError::RDMAPProtectionUnspecified), 1);
  EXPECT_EQ(code(TermError::RDMAPProtectionUnspecified), 0xff);
  EXPECT_EQ(layer(TermError::DDPUntaggedVersion), 1);
  EXPECT_EQ(etype(TermError::DDPUntaggedVersion), 2);
  EXPECT_EQ(code(TermError::DDPUntaggedVersion), 6);
  EXPECT_EQ(layer(TermError::MPANoMatchingRTR), 2);
  EXPECT_EQ(etype(TermError::MPANoMatchingRTR), 0);
  EXPECT_EQ(code(TermError::MPANoMatchingRTR), 7);
}

}  // namespace
}  // namespace weft::wire
