// ULPDUs out of any octets: the DDP header, then the header that its opcode announces. Nothing may
// crash, and encode(parse(x)) must be x except for reserved bits.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "wire/atomic.h"
#include "wire/ddp.h"
#include "wire/immediate.h"
#include "wire/rdmap.h"
#include "wire/terminate.h"

namespace {

using namespace weft;
using namespace weft::wire;

void require(bool held) {
  if (!held) std::abort();
}

bool same(Octets a, Octets b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

void check_read_request(Octets in) {
  if (in.size() < ReadRequest::kOctets) return;
  std::array<std::uint8_t, ReadRequest::kOctets> out;
  ReadRequest::parse(in).encode(out);
  require(same(out, in.first(out.size())));
}

/// The reserved bits of an Atomic Request are the only ones that do not come back.
void check_extensions(Octets in) {
  std::array<std::uint8_t, AtomicRequest::kOctets> out;
  if (in.size() >= AtomicRequest::kOctets) {
    AtomicRequest::parse(in).encode(out);
    require(out[0] == 0 && out[1] == 0 && out[2] == 0 && out[3] == (in[3] & 0x0f));
    require(same(Octets(out).subspan(4), in.subspan(4, out.size() - 4)));
  }
  if (in.size() >= AtomicResponse::kOctets) {
    AtomicResponse::parse(in).encode(out);
    require(same(Octets(out).first(AtomicResponse::kOctets), in.first(AtomicResponse::kOctets)));
  }
  if (in.size() >= Immediate::kOctets) {
    const Immediate immediate = Immediate::parse(in);
    immediate.encode(out);
    require(same(Octets(out).first(Immediate::kOctets), in.first(Immediate::kOctets)));
    require(immediate.of_next_send().first() == immediate.first());
  }
}

/// Terminate drops what is reserved, trailing or cut short, so the value, not the octets, returns.
void check_terminate(Octets in) {
  const auto terminate = Terminate::parse(in);
  require(terminate.has_value() == (in.size() >= 2));
  if (!terminate) return;
  require(text(terminate->error)[0] != '\0');
  require(terminate->ddp_header.empty() || DDPHeader::parse(terminate->ddp_header).has_value());

  std::array<std::uint8_t, kTerminateOctetsMax> out;
  const std::size_t octets = terminate->encode(out);
  require(octets == terminate->octets() && octets <= kTerminateOctetsMax - kUntaggedHeaderOctets);
  const auto again = Terminate::parse(Octets(out).first(octets));
  require(again.has_value() && again->error == terminate->error);
  require(again->ddp_segment_octets == terminate->ddp_segment_octets);
  require(same(again->ddp_header, terminate->ddp_header));
  require(same(again->read_request, terminate->read_request));
  check_read_request(terminate->read_request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Octets in(data, size);
  const auto header = DDPHeader::parse(in);
  if (!header) {
    require(size < kTaggedHeaderOctets || (!(data[0] & 0x80) && size < kUntaggedHeaderOctets));
    return 0;
  }
  std::array<std::uint8_t, kDDPHeaderOctetsMax> out;
  const std::size_t octets = header->encode(out);
  require(octets == header->octets() && octets <= size);
  require(out[0] == (data[0] & 0xc3));
  require(same(Octets(out).subspan(1, octets - 1), in.subspan(1, octets - 1)));

  const Octets rest = in.subspan(octets);
  require(traits(header->rdmap_control).name != nullptr);
  // All readers see every input, whatever the opcode: the bounds are theirs to keep.
  check_read_request(rest);
  check_extensions(rest);
  check_terminate(rest);
  return 0;
}
