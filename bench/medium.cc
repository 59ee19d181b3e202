// Verification that all media share.
#include "bench/medium.h"

#include <cstring>

namespace weft::bench {

void prepare_buffers(const Leg& leg, Buffers& buffers) {
  buffers.prepare(leg.seed, leg.octets * leg.batch);
}

void verify_buffers(const Leg& leg, Medium::Role role, const Buffers& buffers) {
  const bool leader = role == Medium::Role::Leader;
  if (is_latency(leg.work)) {
    // Both ends received; the last octets hold the number of the last trip.
    const std::size_t body = leg.octets - sizeof(std::uint64_t);
    buffers.verify(leg.seed, body);
    std::uint64_t mark = 0;
    std::memcpy(&mark, buffers.target() + body, sizeof mark);
    if (mark != trip_mark(leg, leg.count - 1)) fail("wrong data: the last mark is {:#x}", mark);
  } else if (leader == (leg.work == Work::ReadBandwidth)) {
    buffers.verify(leg.seed, leg.octets * leg.batch);
  }
}

}  // namespace weft::bench
