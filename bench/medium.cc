// Verification that all media share.
#include "bench/medium.h"

#include <cstring>

namespace weft::bench {

void prepare_buffers(const Leg& leg, Buffers& buffers) {
  buffers.prepare(leg.seed, leg.span());
}

void verify_buffers(const Leg& leg, Medium::Role role, const Buffers& buffers) {
  const bool leader = role == Medium::Role::Leader;
  const bool reads = is_read(leg.work) && !is_ping(leg);
  if (is_ping(leg)) {
    // Both ends received; the last octets hold the number of the last trip.
    const std::size_t body = leg.octets - sizeof(std::uint64_t);
    buffers.verify(leg.seed, body);
    std::uint64_t mark = 0;
    std::memcpy(&mark, buffers.target() + body, sizeof mark);
    if (mark != trip_mark(leg, leg.count - 1)) fail("wrong data: the last mark is {:#x}", mark);
  } else if (leader == reads) {
    buffers.verify(leg.seed, leg.span());
  }
}

}  // namespace weft::bench
