// RDMA Write: placed, and nobody is told (RFC 5040 §5.1).
#include "core/qp/faults.h"
#include "core/qp/qp.h"

namespace weft::core {

// Segments of one Write are not tied to each other: each is checked by itself, and their order is
// only a SHOULD (RFC 5041 §5.2).
void QP::handle_write(const ArrivedSegment& segment, UlpduCursor& payload, Instant now) {
  const std::size_t octets = payload.octets_left();
  // Counted for the Immediate Data that may follow.
  if (write_ended_) write_octets_ = 0;
  write_octets_ += static_cast<std::uint32_t>(octets);
  write_ended_ = segment.ddp.last;
  //= DDP-09
  if (octets == 0) return;
  //= DDP-20 DDP-24 DDP-25 SEC-01 SEC-02 SEC-03
  const auto place =
      check_remote(segment.ddp.stag, segment.ddp.to, octets, kRemoteWrite);
  if (!place) return protocol_error(tagged_fault(place.error()), &segment, now);
  std::uint8_t* target = *place;
  for (Octets run = payload.next(octets); !run.empty(); run = payload.next(octets)) {
    // Without a CRC most of it was received in its place.
    const bool kept = stream_.crc && queues_.keep_write(segment.ddp.stag, target, run);
    if (!kept && !put(target, run)) {
      return protocol_error(wire::TermError::DDPTaggedInvalidSTag, &segment, now);
    }
    target += run.size();
  }
  if (segment.ddp.last) queues_.handle_write_placed(octets);
}

}  // namespace weft::core
