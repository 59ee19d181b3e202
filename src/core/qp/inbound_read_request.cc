// RDMA Read Request: checked, then queued for its response (RFC 5040 §5.2.1).
#include "core/qp/faults.h"
#include "core/qp/qp.h"

namespace weft::core {

void QP::handle_read_request(ArrivedSegment& segment, UlpduCursor& payload, Instant now) {
  const std::size_t octets = payload.octets_left();
  if (octets < wire::ReadRequest::kOctets) {
    return protocol_error(wire::TermError::DDPLocalCatastrophic, &segment, now);
  }
  payload.copy(MutableOctets(segment.raw).subspan(segment.raw_octets, wire::ReadRequest::kOctets));
  segment.raw_octets += wire::ReadRequest::kOctets;
  if (octets > wire::ReadRequest::kOctets) {
    return protocol_error(wire::TermError::DDPUntaggedTooLong, &segment, now);
  }
  // It fits into any segment, so it has to be one (verbs draft fig. 24: L missing).
  if (!segment.ddp.last) {
    return protocol_error(wire::TermError::RDMAPStreamCatastrophic, &segment, now);
  }
  //= RDM-11 RDM-23 SEC-08
  if (inbound_reads_.size() >= ird_) {
    return protocol_error(wire::TermError::DDPUntaggedNoBuffer, &segment, now);
  }
  const auto request = wire::ReadRequest::parse(
      Octets(segment.raw).subspan(wire::kUntaggedHeaderOctets, wire::ReadRequest::kOctets));
  //= RDM-08 RDM-09 SEC-10
  if (request.octets > 0) {
    const auto source =
        check_remote(request.source_stag, request.source_to, request.octets, kRemoteRead);
    if (!source) return protocol_error(read_fault(source.error()), &segment, now);
  }
  //= RDM-07 RDM-17
  // All that arrived before it was placed before this call, so its data may be fetched from now on.
  InboundRead& read = inbound_reads_.push();
  read.request = request;
  read.msn = segment.ddp.msn;
  expected_read_msn_ = expected_read_msn_.next();
}

}  // namespace weft::core
