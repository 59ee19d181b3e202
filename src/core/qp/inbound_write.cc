// RDMA Write: placed, and nobody is told (RFC 5040 §5.1).
#include "base/byte_order.h"
#include "core/qp/faults.h"
#include "core/qp/qp.h"

namespace weft::core {

// Segments of one Write are not tied to each other: each is checked by itself, and their order is
// only a SHOULD (RFC 5041 §5.2).
void QP::handle_write(const ArrivedSegment& segment, UlpduCursor& payload, Instant now) {
  const std::size_t octets = payload.octets_left();
  count_write(octets, segment.ddp.last);
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

// What handle_segment() and handle_write() do, where one whole Write arrived and nothing else: most
// messages that somebody waits for. Returns its octets; 0: it is something else, or something is
// wrong with it, which is found, and told of, by who looks at each part of it.
std::size_t QP::handle_lone_write(const OctetList& arrived) {
  constexpr std::size_t kDDP = wire::kUlpduLengthOctets;
  constexpr std::size_t kHead = kDDP + wire::kTaggedHeaderOctets;
  const Octets fpdu = arrived.parts.empty() ? Octets() : arrived.parts.front();
  const bool plain = arrived.parts.size() == 1 && state_ == QPState::RTS && first_fpdu_arrived_ &&
                     landed_.octets == 0 && !deframer_.has_markers();
  if (!plain || fpdu.size() <= kHead) return 0;
  const std::size_t ulpdu = load_be16(fpdu.data());
  if (wire::fpdu_octets(ulpdu) != fpdu.size() || ulpdu <= wire::kTaggedHeaderOctets) return 0;
  //= DDP-02 DDP-03 RDM-03 RDM-29
  if (!wire::is_last_of_write(fpdu[kDDP], fpdu[kDDP + 1])) return 0;
  //= MPA-16
  if (!deframer_.agrees(fpdu)) return 0;
  const STag stag{load_be32(fpdu.data() + kDDP + 2)};
  const std::uint64_t to = load_be64(fpdu.data() + kDDP + 6);
  const Octets payload = fpdu.subspan(kHead, ulpdu - wire::kTaggedHeaderOctets);
  //= DDP-20 DDP-24 DDP-25 SEC-01 SEC-02 SEC-03
  const auto place = check_remote(stag, to, payload.size(), kRemoteWrite);
  if (!place) return 0;
  const bool kept = stream_.crc && queues_.keep_write(stag, *place, payload);
  if (!kept && !put(*place, payload)) return 0;
  count_write(payload.size(), true);
  deframer_.consume(fpdu.size());
  queues_.handle_write_placed(payload.size());
  return fpdu.size();
}

}  // namespace weft::core
