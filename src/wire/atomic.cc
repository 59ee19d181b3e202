// Atomic headers to octets and back.
#include "wire/atomic.h"

#include "base/assert.h"
#include "base/byte_order.h"

namespace weft::wire {

void AtomicRequest::encode(MutableOctets out) const {
  weft_assert(out.size() >= kOctets);
  if (out.size() < kOctets) return;  // the freestanding hook comes back
  std::uint8_t* p = out.data();
  store_be32(p, static_cast<std::uint32_t>(opcode) & 0x0f);
  store_be32(p + 4, id);
  store_be32(p + 8, stag.value);
  store_be64(p + 12, to);
  store_be64(p + 20, operands.data);
  store_be64(p + 28, operands.data_mask);
  store_be64(p + 36, operands.compare);
  store_be64(p + 44, operands.compare_mask);
}

AtomicRequest AtomicRequest::parse(Octets in) {
  weft_assert(in.size() >= kOctets);
  if (in.size() < kOctets) return {};
  const std::uint8_t* p = in.data();
  AtomicRequest request;
  request.opcode = static_cast<AtomicOpcode>(load_be32(p) & 0x0f);
  request.id = load_be32(p + 4);
  request.stag = {load_be32(p + 8)};
  request.to = load_be64(p + 12);
  request.operands.data = load_be64(p + 20);
  request.operands.data_mask = load_be64(p + 28);
  request.operands.compare = load_be64(p + 36);
  request.operands.compare_mask = load_be64(p + 44);
  return request;
}

void AtomicResponse::encode(MutableOctets out) const {
  weft_assert(out.size() >= kOctets);
  if (out.size() < kOctets) return;
  store_be32(out.data(), id);
  store_be64(out.data() + 4, original);
}

AtomicResponse AtomicResponse::parse(Octets in) {
  weft_assert(in.size() >= kOctets);
  if (in.size() < kOctets) return {};
  return {load_be32(in.data()), load_be64(in.data() + 4)};
}

}  // namespace weft::wire
