// The opcode table against the figures of the RFCs; Read Request headers both ways.
#include "wire/rdmap.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/hex.h"
#include "wire/ddp.h"

namespace weft::wire {
namespace {

using test::hex;
using test::to_hex;

struct ExpectedRow {
  int opcode;
  Model model;
  std::uint32_t queue;
  int fixed_octets;
  bool supported;
  const char* name;
};

//= rfc5040#4.1
// Figure 4, and figure 1 of RFC 7306, written down a second time.
TEST(Opcodes, TableMatchesTheFigures) {
  constexpr ExpectedRow kRows[] = {
      {0x0, Model::Tagged, 0, 0, true, "RDMA Write"},
      {0x1, Model::Untagged, 1, 28, true, "RDMA Read Request"},
      {0x2, Model::Tagged, 0, 0, true, "RDMA Read Response"},
      {0x3, Model::Untagged, 0, 0, true, "Send"},
      {0x4, Model::Untagged, 0, 0, true, "Send with Invalidate"},
      {0x5, Model::Untagged, 0, 0, true, "Send with Solicited Event"},
      {0x6, Model::Untagged, 0, 0, true, "Send with Solicited Event and Invalidate"},
      {0x7, Model::Untagged, 2, 0, true, "Terminate"},
      {0x8, Model::Untagged, 0, 8, true, "Immediate Data"},
      {0x9, Model::Untagged, 0, 8, true, "Immediate Data with Solicited Event"},
      {0xa, Model::Untagged, 1, 52, true, "Atomic Request"},
      {0xb, Model::Untagged, 3, 12, true, "Atomic Response"},
  };
  for (const ExpectedRow& row : kRows) {
    SCOPED_TRACE(row.name);
    const OpcodeTraits& actual = traits(static_cast<std::uint8_t>(row.opcode));
    EXPECT_EQ(actual.model, row.model);
    EXPECT_EQ(actual.queue, row.queue);
    EXPECT_EQ(actual.fixed_octets, row.fixed_octets);
    EXPECT_EQ(actual.supported, row.supported);
    EXPECT_STREQ(actual.name, row.name);
  }
}

TEST(Opcodes, OnlyThreeAreSolicitedAndOnlyTwoInvalidate) {
  std::set<int> solicited;
  std::set<int> invalidating;
  for (int op = 0; op < 16; ++op) {
    if (kOpcodes[static_cast<std::size_t>(op)].solicited) solicited.insert(op);
    if (kOpcodes[static_cast<std::size_t>(op)].invalidates) invalidating.insert(op);
  }
  EXPECT_EQ(solicited, (std::set<int>{5, 6, 9}));
  EXPECT_EQ(invalidating, (std::set<int>{4, 6}));
}

TEST(Opcodes, UnassignedRowsAreThereAndUnsupported) {
  std::set<std::string> names;
  for (int op = 0; op < 16; ++op) {
    const OpcodeTraits& row = traits(static_cast<std::uint8_t>(op));
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " stands there twice";
    if (op >= 0xc) {
      EXPECT_EQ(row.model, Model::None);
      EXPECT_FALSE(row.supported);
    } else {
      EXPECT_NE(row.model, Model::None);
    }
  }
}

TEST(Opcodes, AnyControlOctetHasARow) {
  for (int control = 0; control < 256; ++control) {
    const auto octet = static_cast<std::uint8_t>(control);
    EXPECT_EQ(&traits(octet), &kOpcodes[static_cast<std::size_t>(control) % 16]);
    EXPECT_EQ(static_cast<int>(rdmap_opcode(octet)), control % 16);
    EXPECT_EQ(rdmap_version(octet), control / 64);
  }
}

//= rfc5040#4.1
TEST(ControlOctet, IsVersionOneThenTheOpcode) {
  EXPECT_EQ(rdmap_control(Opcode::Write), 0x40);
  EXPECT_EQ(rdmap_control(Opcode::ReadRequest), 0x41);
  EXPECT_EQ(rdmap_control(Opcode::ReadResponse), 0x42);
  EXPECT_EQ(rdmap_control(Opcode::Send), 0x43);
  EXPECT_EQ(rdmap_control(Opcode::SendInvalidate), 0x44);
  EXPECT_EQ(rdmap_control(Opcode::SendSolicited), 0x45);
  EXPECT_EQ(rdmap_control(Opcode::SendSolicitedInvalidate), 0x46);
  EXPECT_EQ(rdmap_control(Opcode::Terminate), 0x47);
  EXPECT_EQ(rdmap_control(Opcode::AtomicResponse), 0x4b);
}

//= rfc5040#4.4
TEST(ReadRequest, WorkedExampleA6) {
  const auto octets = hex("0000aa01 00000000 00002000 00000008 0000bb02 00007f00 00001000");
  ReadRequest request;
  request.sink_stag = {0xaa01};
  request.sink_to = 0x2000;
  request.octets = 8;
  request.source_stag = {0xbb02};
  request.source_to = 0x7f0000001000;
  std::vector<std::uint8_t> out(ReadRequest::kOctets);
  request.encode(out);
  EXPECT_EQ(to_hex(out), to_hex(octets));
  EXPECT_EQ(ReadRequest::parse(octets), request);
}

TEST(ReadRequest, EveryFieldHasItsOwnOctets) {
  const auto octets = hex("01020304 05060708 090a0b0c 0d0e0f10 11121314 15161718 191a1b1c");
  const ReadRequest request = ReadRequest::parse(octets);
  EXPECT_EQ(request.sink_stag.value, 0x01020304u);
  EXPECT_EQ(request.sink_to, 0x05060708090a0b0cu);
  EXPECT_EQ(request.octets, 0x0d0e0f10u);
  EXPECT_EQ(request.source_stag.value, 0x11121314u);
  EXPECT_EQ(request.source_to, 0x15161718191a1b1cu);
  std::vector<std::uint8_t> out(ReadRequest::kOctets + 1, 0xee);
  request.encode(out);
  EXPECT_EQ(to_hex(out), to_hex(octets) + " ee");
}

TEST(ReadRequestDeathTest, ABufferThatIsTooSmallIsOurBug) {
  std::vector<std::uint8_t> small(ReadRequest::kOctets - 1);
  EXPECT_DEATH(ReadRequest{}.encode(small), "out.size\\(\\) >= kOctets");
  EXPECT_DEATH(ReadRequest::parse(small), "in.size\\(\\) >= kOctets");
}

}  // namespace
}  // namespace weft::wire
