// The opcode table and the Read Request header.
#include "wire/rdmap.h"

#include "base/assert.h"
#include "base/byte_order.h"
#include "wire/ddp.h"

namespace weft::wire {
namespace {

constexpr std::uint32_t kNoQueue = 0;
constexpr bool kYes = true;
constexpr bool kNo = false;

}  // namespace

// clang-format off
// Terminate has a header of varying length, so its row says 0 like the messages with payload.
constexpr std::array<OpcodeTraits, 16> kOpcodes{{
  // model          queue              fixed supported solicited invalidates
  {Model::Tagged,   kNoQueue,              0, kYes, kNo,  kNo,  "RDMA Write"},
  {Model::Untagged, kReadRequestQueue,    28, kYes, kNo,  kNo,  "RDMA Read Request"},
  {Model::Tagged,   kNoQueue,              0, kYes, kNo,  kNo,  "RDMA Read Response"},
  {Model::Untagged, kSendQueue,            0, kYes, kNo,  kNo,  "Send"},
  {Model::Untagged, kSendQueue,            0, kYes, kNo,  kYes, "Send with Invalidate"},
  {Model::Untagged, kSendQueue,            0, kYes, kYes, kNo,  "Send with Solicited Event"},
  {Model::Untagged, kSendQueue,            0, kYes, kYes, kYes, "Send with Solicited Event and "
                                                                "Invalidate"},
  {Model::Untagged, kTerminateQueue,       0, kYes, kNo,  kNo,  "Terminate"},
  {Model::Untagged, kSendQueue,            8, kYes, kNo,  kNo,  "Immediate Data"},
  {Model::Untagged, kSendQueue,            8, kYes, kYes, kNo,  "Immediate Data with Solicited "
                                                                "Event"},
  {Model::Untagged, kReadRequestQueue,    52, kYes, kNo,  kNo,  "Atomic Request"},
  {Model::Untagged, kAtomicResponseQueue, 12, kYes, kNo,  kNo,  "Atomic Response"},
  {Model::None,     kNoQueue,              0, kNo,  kNo,  kNo,  "unassigned opcode 0xc"},
  {Model::None,     kNoQueue,              0, kNo,  kNo,  kNo,  "unassigned opcode 0xd"},
  {Model::None,     kNoQueue,              0, kNo,  kNo,  kNo,  "unassigned opcode 0xe"},
  {Model::None,     kNoQueue,              0, kNo,  kNo,  kNo,  "experimental opcode"},
}};
// clang-format on

namespace {

constexpr const OpcodeTraits& row(Opcode op) {
  return kOpcodes[static_cast<std::uint8_t>(op)];
}

// Row i is opcode i: enough of each row to notice one that slipped.
static_assert(row(Opcode::Write).name[5] == 'W' && row(Opcode::Write).model == Model::Tagged);
static_assert(row(Opcode::ReadRequest).fixed_octets == ReadRequest::kOctets);
static_assert(row(Opcode::ReadRequest).queue == kReadRequestQueue);
static_assert(row(Opcode::ReadResponse).name[5] == 'R');
static_assert(row(Opcode::ReadResponse).model == Model::Tagged);
static_assert(row(Opcode::Send).name[4] == '\0' && row(Opcode::Send).queue == kSendQueue);
static_assert(row(Opcode::SendInvalidate).invalidates && !row(Opcode::SendInvalidate).solicited);
static_assert(row(Opcode::SendSolicited).solicited && !row(Opcode::SendSolicited).invalidates);
static_assert(row(Opcode::SendSolicitedInvalidate).solicited);
static_assert(row(Opcode::SendSolicitedInvalidate).invalidates);
static_assert(row(Opcode::Terminate).queue == kTerminateQueue);
static_assert(row(Opcode::Immediate).fixed_octets == 8 && !row(Opcode::Immediate).solicited);
static_assert(row(Opcode::ImmediateSolicited).fixed_octets == 8);
static_assert(row(Opcode::ImmediateSolicited).solicited);
static_assert(row(Opcode::AtomicRequest).fixed_octets == 52);
static_assert(row(Opcode::AtomicResponse).queue == kAtomicResponseQueue);
static_assert(kOpcodes[11].model != Model::None && kOpcodes[12].model == Model::None);

}  // namespace

const OpcodeTraits& traits(std::uint8_t control) {
  return kOpcodes[control & 0x0f];
}

void ReadRequest::encode(MutableOctets out) const {
  weft_assert(out.size() >= kOctets);
  if (out.size() < kOctets) return;  // the freestanding hook comes back
  std::uint8_t* p = out.data();
  store_be32(p, sink_stag.value);
  store_be64(p + 4, sink_to);
  store_be32(p + 12, octets);
  store_be32(p + 16, source_stag.value);
  store_be64(p + 20, source_to);
}

ReadRequest ReadRequest::parse(Octets in) {
  weft_assert(in.size() >= kOctets);
  if (in.size() < kOctets) return {};
  const std::uint8_t* p = in.data();
  ReadRequest request;
  request.sink_stag = {load_be32(p)};
  request.sink_to = load_be64(p + 4);
  request.octets = load_be32(p + 12);
  request.source_stag = {load_be32(p + 16)};
  request.source_to = load_be64(p + 20);
  return request;
}

}  // namespace weft::wire
