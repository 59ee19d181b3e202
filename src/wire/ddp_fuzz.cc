// ULPDUs out of any octets: the DDP header, then the Read Request or Terminate that its opcode
// announces. Nothing may crash, and encode(parse(x)) must be x except for reserved bits.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "wire/ddp.h"
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
  // Both readers see every input, whatever the opcode: the bounds are theirs to keep.
  check_read_request(rest);
  check_terminate(rest);
  return 0;
}
