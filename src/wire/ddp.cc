// DDP headers to octets and back.
#include "wire/ddp.h"

#include "base/assert.h"
#include "base/byte_order.h"

namespace weft::wire {

std::size_t DDPHeader::encode(MutableOctets out) const {
  weft_assert(out.size() >= octets());
  if (out.size() < octets()) return 0;  // the freestanding hook comes back
  std::uint8_t* p = out.data();
  p[0] = static_cast<std::uint8_t>((tagged ? kTaggedBit : 0) | (last ? kLastBit : 0) |
                                   (version & kVersionMask));
  p[1] = rdmap_control;
  if (tagged) {
    store_be32(p + 2, stag.value);
    store_be64(p + 6, to);
  } else {
    store_be32(p + 2, invalidate_stag.value);
    store_be32(p + 6, qn);
    store_be32(p + 10, msn.value);
    store_be32(p + 14, mo);
  }
  return octets();
}

std::optional<DDPHeader> DDPHeader::parse(Octets ulpdu) {
  if (ulpdu.empty()) return {};
  const std::uint8_t* p = ulpdu.data();
  DDPHeader header;
  header.tagged = (p[0] & kTaggedBit) != 0;
  if (ulpdu.size() < header.octets()) return {};
  header.last = (p[0] & kLastBit) != 0;
  header.version = p[0] & kVersionMask;
  header.rdmap_control = p[1];
  if (header.tagged) {
    header.stag = {load_be32(p + 2)};
    header.to = load_be64(p + 6);
  } else {
    header.invalidate_stag = {load_be32(p + 2)};
    header.qn = load_be32(p + 6);
    header.msn = {load_be32(p + 10)};
    header.mo = load_be32(p + 14);
  }
  return header;
}

}  // namespace weft::wire
