// Completions that wait for the peer (QPConfig::complete_placed).
//
// On InfiniBand a Send or a Write completes when the other end has it, and what the other end
// refuses comes back on the work request. iWARP completes both when the transport took their
// octets, and of a refusal the QP tells. Programs written for the former get it by what every peer
// has to do anyway: it takes messages in order, and answers a Read when everything before it is
// placed (RFC 5040 §5.5). So a Read of no octets behind a Send or a Write, a probe, is answered
// when that is placed, or a Terminate comes that quotes it. The answers to Reads and atomics of the
// program prove as much: only what has no request behind it is probed, and only when no work is to
// be sent.
#include "core/qp/qp.h"

#include <algorithm>

namespace weft::core {

//= RDM-19
bool QP::is_handed_over(const OpenWork& work) const {
  if (work.phase != WorkPhase::Sent || work.is_request()) return false;
  if (work.end_position > accepted_) return false;
  return !config_.complete_placed || stream_ord_ == 0 || work.end_position <= placed_;
}

// The newest Send or Write tells: what proves it proves those before it.
bool QP::wants_probe() const {
  if (!config_.complete_placed || open_reads_.size() >= stream_ord_) return false;
  const std::uint32_t reads = open_reads_.size();
  const std::uint64_t proven = reads == 0 ? placed_ : open_reads_[reads - 1].position;
  for (std::uint32_t i = open_work_.size(); i-- > 0;) {
    const OpenWork& work = open_work_[i];
    if (work.phase == WorkPhase::Sent && !work.is_request()) return work.end_position > proven;
  }
  return false;
}

bool QP::transmit_probe(TransmitBatch& batch) {
  const RTR kept = rtr_;
  rtr_ = RTR::Read;
  const bool sent = transmit_rtr(batch);
  rtr_ = kept;
  if (sent) work_turn_ = false;
  return sent;
}

// The peer has answered this request, behind everything that was produced before it.
void QP::confirm(const OpenRead& read) { placed_ = std::max(placed_, read.position); }

// The peer has named the first message that it refused: the ones before it were placed.
void QP::confirm_before(std::uint32_t index) {
  while (index-- > 0) {
    const OpenWork& work = open_work_[index];
    if (work.phase != WorkPhase::Sent || work.is_request()) continue;
    placed_ = std::max(placed_, work.end_position);
    return;
  }
}

}  // namespace weft::core
