// Immediate Data, Atomic Request and Atomic Response both ways (RFC 7306).
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/hex.h"
#include "wire/atomic.h"
#include "wire/ddp.h"
#include "wire/immediate.h"
#include "wire/rdmap.h"

namespace weft::wire {
namespace {

using test::hex;
using test::to_hex;

DDPHeader untagged(Opcode opcode, std::uint32_t qn, std::uint32_t msn) {
  DDPHeader header;
  header.rdmap_control = rdmap_control(opcode);
  header.qn = qn;
  header.msn = {msn};
  return header;
}

/// A whole ULPDU: the DDP header and the header behind it.
template <typename Header>
std::vector<std::uint8_t> ulpdu(const DDPHeader& ddp, const Header& header) {
  std::vector<std::uint8_t> out(kUntaggedHeaderOctets + Header::kOctets);
  ddp.encode(out);
  header.encode(MutableOctets(out).subspan(kUntaggedHeaderOctets));
  return out;
}

//= EXT-01 EXT-10
TEST(Immediate, WorkedExampleB5) {
  const auto octets = hex("4148 00000000 00000000 00000001 00000000 01020304 05060708");
  const Immediate immediate{0x0102030405060708};
  EXPECT_EQ(to_hex(ulpdu(untagged(Opcode::Immediate, kSendQueue, 1), immediate)), to_hex(octets));
  EXPECT_EQ(Immediate::parse(Octets(octets).subspan(kUntaggedHeaderOctets)), immediate);
}

TEST(Immediate, TheVerbsFourOctetsComeFirst) {
  constexpr Immediate immediate{0xa1b2c3d400000000};
  EXPECT_EQ(immediate.first(), 0xa1b2c3d4u);
  EXPECT_FALSE(immediate.is_of_next_send());
  constexpr Immediate marked = Immediate{0xa1b2c3d4ffffffff}.of_next_send();
  EXPECT_TRUE(marked.is_of_next_send());
  EXPECT_EQ(marked.first(), 0xa1b2c3d4u);
  std::vector<std::uint8_t> out(Immediate::kOctets);
  marked.encode(out);
  EXPECT_EQ(to_hex(out), to_hex(hex("a1b2c3d4 53656e64")));
}

//= EXT-01 EXT-02 EXT-03
TEST(AtomicRequest, WorkedExampleB6) {
  const auto octets =
      hex("414a 00000000 00000001 00000002 00000000 00000000 c0ffee01 0000bb02 00007f00 00001008"
          "00000000 00000005 00000000 00000000 00000000 00000000 ffffffff ffffffff");
  AtomicRequest request;
  request.opcode = AtomicOpcode::FetchAdd;
  request.id = 0xc0ffee01;
  request.stag = {0xbb02};
  request.to = 0x7f0000001008;
  request.operands.data = 5;
  EXPECT_EQ(to_hex(ulpdu(untagged(Opcode::AtomicRequest, kReadRequestQueue, 2), request)),
            to_hex(octets));
  EXPECT_EQ(AtomicRequest::parse(Octets(octets).subspan(kUntaggedHeaderOctets)), request);
}

TEST(AtomicRequest, EveryFieldHasItsOwnOctetsAndReservedBitsNobodys) {
  const auto octets =
      hex("00000002 01020304 05060708 090a0b0c 0d0e0f10 11121314 15161718 191a1b1c 1d1e1f20 "
          "21222324 25262728 292a2b2c 2d2e2f30");
  const AtomicRequest request = AtomicRequest::parse(octets);
  EXPECT_EQ(request.opcode, AtomicOpcode::CmpSwap);
  EXPECT_EQ(request.id, 0x01020304u);
  EXPECT_EQ(request.stag.value, 0x05060708u);
  EXPECT_EQ(request.to, 0x090a0b0c0d0e0f10u);
  EXPECT_EQ(request.operands.data, 0x1112131415161718u);
  EXPECT_EQ(request.operands.data_mask, 0x191a1b1c1d1e1f20u);
  EXPECT_EQ(request.operands.compare, 0x2122232425262728u);
  EXPECT_EQ(request.operands.compare_mask, 0x292a2b2c2d2e2f30u);
  std::vector<std::uint8_t> out(AtomicRequest::kOctets + 1, 0xee);
  request.encode(out);
  EXPECT_EQ(to_hex(out), to_hex(octets) + " ee");

  auto noisy = octets;
  noisy[0] = noisy[1] = noisy[2] = 0xff;
  noisy[3] |= 0xf0;
  EXPECT_EQ(AtomicRequest::parse(noisy), request);
  noisy[3] = 0xff;  // an operation that does not exist is the core's to refuse
  EXPECT_EQ(static_cast<int>(AtomicRequest::parse(noisy).opcode), 0x0f);
}

//= EXT-03
TEST(AtomicResponse, WorkedExampleB7) {
  const auto octets = hex("414b 00000000 00000003 00000001 00000000 c0ffee01 00000000 00000025");
  const AtomicResponse response{0xc0ffee01, 0x25};
  EXPECT_EQ(to_hex(ulpdu(untagged(Opcode::AtomicResponse, kAtomicResponseQueue, 1), response)),
            to_hex(octets));
  EXPECT_EQ(AtomicResponse::parse(Octets(octets).subspan(kUntaggedHeaderOctets)), response);
}

TEST(AtomicHeaders, AreAsLongAsTheOpcodeTableSays) {
  EXPECT_EQ(traits(Opcode::Immediate).fixed_octets, Immediate::kOctets);
  EXPECT_EQ(traits(Opcode::ImmediateSolicited).fixed_octets, Immediate::kOctets);
  EXPECT_EQ(traits(Opcode::AtomicRequest).fixed_octets, AtomicRequest::kOctets);
  EXPECT_EQ(traits(Opcode::AtomicResponse).fixed_octets, AtomicResponse::kOctets);
}

TEST(AtomicHeadersDeathTest, ABufferThatIsTooSmallIsOurBug) {
  std::vector<std::uint8_t> small(AtomicRequest::kOctets - 1);
  EXPECT_DEATH(AtomicRequest{}.encode(small), "out.size\\(\\) >= kOctets");
  EXPECT_DEATH(AtomicRequest::parse(small), "in.size\\(\\) >= kOctets");
  small.resize(AtomicResponse::kOctets - 1);
  EXPECT_DEATH(AtomicResponse{}.encode(small), "out.size\\(\\) >= kOctets");
  EXPECT_DEATH(AtomicResponse::parse(small), "in.size\\(\\) >= kOctets");
}

}  // namespace
}  // namespace weft::wire
