// A short message, where nothing else is under way: most of those that somebody waits for. It goes
// without a batch of the engine's, and what is left to do behind it, mostly nothing, is looked for
// all at once.
#include <array>
#include <cerrno>
#include <cstring>

#include "engine/connection.h"

namespace weft::engine {

using transport::IOResult;

/// What transmit() does where one short message was posted, or a Read is to be answered by one, and
/// nothing else is under way, as mostly where somebody waits for it. True: all of it.
bool Connection::transmit_short() {
  core::QP& core = qp_->core();
  const bool alone = batch_ == nullptr && !has_spliced() && only_reads() && !send_lost_ &&
                     !emss_is_old() && qp_->sends_pending() + core.inbound_reads_open() <= 1;
  if (!alone) return false;
  std::array<std::uint8_t, core::QP::kShortStagingOctets> staging;
  core::Piece piece;
  core::TransmitBatch batch(staging, {&piece, 1}, staging.size());
  if (!core.poll_short(batch, owner_.now())) return false;
  heard_ = false;
  emss_weight_ += static_cast<std::uint32_t>(piece.octets + kEmssBatchWeight);
  const iovec vector{staging.data(), piece.octets};
  const IOResult r = stream_->send({&vector, 1});
  if (r.octets != 0) {
    owner_.handle_departure(r.octets);
    core.handle_sent(r.octets, owner_.now());
  }
  if (r.octets != piece.octets) return keep_unsent({staging.data(), piece.octets}, r.octets), false;
  return is_quiet();
}

/// As a batch that was begun: what kept the transport from taking it shows when it is asked again.
void Connection::keep_unsent(Octets octets, std::size_t sent) {
  batch_ = owner_.transmit_buffers().borrow();
  if (batch_ == nullptr) {
    end_error_ = ENOMEM;
    end_text_ = kNoStaging;
    static_cast<void>(qp_->core().fail(owner_.now()));  // any state but Error can
    return;
  }
  std::memcpy(batch_->staging.data(), octets.data(), octets.size());
  batch_->pieces[0] = {batch_->staging.data(), octets.size()};
  batch_->piece_count = 1;
  batch_->sent = sent;
  batch_->total = batch_->share = octets.size();
  batch_->spliced = batch_->staged = false;
  batch_->began.reset();
}

/// Nothing is left of what transmit() does, mostly.
bool Connection::is_quiet() const {
  return batch_ == nullptr && !has_spliced() && is_told() && !deadline_ &&
         !qp_->drain_awaited && qp_->core().is_quiet() && qp_->sends_pending() == 0;
}

}  // namespace weft::engine
