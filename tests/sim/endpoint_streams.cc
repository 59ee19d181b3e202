// An end's startup, its receiving half and its sending half.
#include <algorithm>
#include <cerrno>
#include <string>

#include "tests/sim/endpoint.h"

namespace weft::sim {

using transport::IOResult;

void Endpoint::advance_startup() {
  if (phase_ == Phase::Connecting) {
    const Result<void> connected = stream_->connected();
    if (!connected && connected.error().code == EINPROGRESS) return;
    if (!connected) return abandon();
    phase_ = Phase::Startup;
    startup_.emplace(core::Role::Initiator, startup_config_, verdict_.now);
    const Bytes private_data(random_.between(0, 508), 0x70);
    if (!startup_->connect(private_data, verdict_.now)) {
      return verdict_.fail(Check::Interface, "the initiator may not connect");
    }
  }
  const std::optional<Instant> due = startup_->poll_timeout();
  if (due && *due <= verdict_.now) startup_->handle_timeout(verdict_.now);
  handle_startup_events();
  if (phase_ != Phase::Startup) return;
  const iovec vector{scratch_.data(), scratch_.size()};
  const IOResult result = stream_->receive({&vector, 1});
  if (result.kind == IOResult::Kind::Moved) {
    octets_moved_ += result.octets;
    arrived_.insert(arrived_.end(), scratch_.data(), scratch_.data() + result.octets);
    const std::size_t taken = startup_->handle_octets(arrived_, verdict_.now);
    arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<std::ptrdiff_t>(taken));
  } else if (result.kind != IOResult::Kind::WouldBlock) {
    startup_->handle_closed(verdict_.now);
  }
  handle_startup_events();
}

void Endpoint::handle_startup_events() {
  for (;;) {
    const Octets out = startup_->poll_transmit();
    control_.insert(control_.end(), out.begin(), out.end());
    send_control();
    const std::optional<core::StartupEvent> event = startup_->poll_event();
    if (!event) return;
    if (std::get_if<core::RequestArrived>(&*event) != nullptr) {
      const Bytes private_data(random_.between(0, 508), 0x71);
      (void)startup_->accept(own_.startup.ird, own_.startup.ord, private_data, verdict_.now).ok();
    } else if (const auto* accepted = std::get_if<core::StartupAccepted>(&*event)) {
      verdict_.trace(
          "%s: streaming; CRC %d, markers out %d in %d, revision %d, ird %d, ord %d, "
          "RTR %d",
          name_, accepted->stream.crc, accepted->stream.transmit_markers,
          accepted->stream.receive_markers, accepted->stream.revision, accepted->stream.ird,
          accepted->stream.ord, static_cast<int>(accepted->stream.rtr));
      if (!qp_->bind_stream(accepted->stream, own_.emss, verdict_.now)) {
        verdict_.fail(Check::Interface, std::string(name_) + ": an Idle QP refused a stream");
      }
      phase_ = Phase::Streaming;
      established_ = true;
      transmit();
      if (phase_ == Phase::Streaming) offer();
      return;
    } else if (const auto* failed = std::get_if<core::StartupFailed>(&*event)) {
      verdict_.trace("%s: startup failed: %s", name_, core::text(failed->why));
      if (failed->retry_revision_1 && settings_.retries_revision_1 &&
          startup_config_.revision > 1) {
        phase_ = Phase::Unconnected;
        wants_revision_1_ = true;
        stream_.reset();
        return;
      }
      if (stream_ != nullptr) stream_->reset();
      if (failed->why == core::StartupFailure::Revision && settings_.retries_revision_1) {
        // Nobody's QP yet: the listener waits for another try.
        phase_ = Phase::Unconnected;
        stream_.reset();
        return;
      }
      return abandon();
    } else {
      // Nobody rejects: a bit of the Reply was turned over. A run in peace fails by this.
      verdict_.trace("%s: rejected", name_);
      stream_->reset();
      return abandon();
    }
  }
}

/// Startup octets go first. True: none are left.
bool Endpoint::send_control() {
  while (!control_.empty()) {
    const iovec vector{control_.data(), control_.size()};
    const IOResult result = stream_->send({&vector, 1});
    if (result.kind == IOResult::Kind::WouldBlock) return false;
    if (result.kind != IOResult::Kind::Moved) return control_.clear(), true;
    octets_moved_ += result.octets;
    control_.erase(control_.begin(), control_.begin() + static_cast<std::ptrdiff_t>(result.octets));
  }
  return true;
}

bool Endpoint::receive_some() {
  if (held_back_ || peer_closed_) return false;
  const iovec vector{scratch_.data(), scratch_.size()};
  const IOResult result = stream_->receive({&vector, 1});
  switch (result.kind) {
    case IOResult::Kind::WouldBlock:
      return false;
    case IOResult::Kind::Moved: {
      std::size_t octets = result.octets;
      if (verdict_.breaks_once("octet-lost")) --octets;
      arrived_.insert(arrived_.end(), scratch_.data(), scratch_.data() + octets);
      offer();
      return true;
    }
    case IOResult::Kind::Closed:
      peer_closed_ = true;
      qp_->handle_peer_closed(verdict_.now);
      if (fin_sent_) qp_->handle_llp_lost(verdict_.now);
      break;
    case IOResult::Kind::Lost:
    case IOResult::Kind::BadMemory:
      qp_->handle_llp_lost(verdict_.now);
      break;
  }
  drain();
  return true;
}

/// Gives the core all that arrived and was not consumed.
void Endpoint::offer() {
  while (!arrived_.empty() && !held_back_ && phase_ == Phase::Streaming) {
    if (own_.waits_for_wanted && arrived_.size() < wanted_) break;
    core::Received done = offer_parts();
    if (verdict_.breaks("consumed-too-much")) done.consumed = arrived_.size() + 1;
    if (done.consumed > arrived_.size()) {
      return verdict_.fail(Check::Interface, std::string(name_) + ": consumed more than offered");
    }
    const bool open = qp_->state() == core::QPState::RTS;
    if (open && done.consumed == 0 && !done.held_back && done.wanted <= arrived_.size()) {
      verdict_.fail(Check::Interface, std::string(name_) + ": took nothing and wants no more");
    }
    arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<std::ptrdiff_t>(done.consumed));
    octets_consumed_ += done.consumed;
    wanted_ = done.wanted;
    held_back_ = done.held_back && !queues_.receive_pending();
    if (held_back_) verdict_.trace("%s: held back", name_);
    check_reads();
    if (done.consumed == 0 && !done.held_back) break;
  }
  drain();
}

/// One call into the core, with the octets cut into as many spans as the seed likes.
core::Received Endpoint::offer_parts() {
  if (own_.lands) {
    if (const auto done = offer_landed()) return *done;
  }
  std::vector<Octets> parts;
  Octets rest(arrived_);
  for (std::uint64_t count = random_.between(1, own_.parts_max); count > 1 && !rest.empty();
       --count) {
    const std::size_t octets = random_.between(0, std::min<std::size_t>(rest.size(), 200));
    parts.push_back(rest.first(octets));
    rest = rest.subspan(octets);
  }
  parts.push_back(rest);
  return qp_->handle_octets({parts}, verdict_.now);
}

/// As if the payload of the front FPDU, which is whole, had been received straight into its place,
/// from any octet on. Empty: it has none.
std::optional<core::Received> Endpoint::offer_landed() {
  const Octets arrived(arrived_);
  const Octets head = arrived.first(random_.between(0, std::min<std::size_t>(arrived.size(), 60)));
  const Octets rest = arrived.subspan(head.size());
  const auto landing = qp_->find_landing(head, 1, verdict_.now);
  if (!landing || landing->octets + landing->trailer > rest.size()) return {};
  const Bytes before(landing->place, landing->place + landing->octets);
  mover_.place(landing->place, rest.first(landing->octets), nullptr);
  if (!qp_->handle_landed(head, *landing, landing->octets)) {
    verdict_.fail(Check::Placement, std::string(name_) + ": what landed is not there");
  }
  const Octets parts[] = {head, Octets(landing->place, landing->octets),
                          rest.subspan(landing->octets, landing->trailer)};
  const core::QPState state = qp_->state();
  const core::Received done = qp_->handle_octets({parts}, verdict_.now);
  // The model does not know what a stream's end leaves in a receive or a sink that did not succeed.
  if (qp_->state() != state) std::copy(before.begin(), before.end(), landing->place);
  return done;
}

bool Endpoint::transmit() {
  const std::uint64_t before = octets_moved_;
  for (int batches = 0; batches < 8 && phase_ == Phase::Streaming; ++batches) {
    if (!send_control()) break;
    if (batch_octets_ > 0 && !send_batch()) break;
    if (phase_ != Phase::Streaming) break;
    const bool wants = qp_->wants_transmit();
    core::TransmitBatch batch(staging_, pieces_, own_.batch_octets_max);
    const bool added = qp_->poll_transmit(batch, verdict_.now);
    if (added != (batch.octets() > 0) || (added && !wants)) {
      verdict_.fail(Check::Interface, std::string(name_) +
                                          ": poll_transmit says one thing and "
                                          "does another");
    }
    piece_count_ = batch.pieces().size();
    batch_octets_ = batch.octets();
    batch_sent_ = 0;
    if (batch_octets_ == 0) break;
  }
  if (!core::keep_lent(std::span(pieces_).first(piece_count_), batch_sent_, mover_,
                       core::ReadBy::ThisCore)) {
    verdict_.fail(Check::Interface, "what a batch was lent is not there");
  }
  if (phase_ == Phase::Streaming) drain();
  return octets_moved_ != before;
}

/// True: the whole batch went.
bool Endpoint::send_batch() {
  std::vector<iovec> vectors;
  std::size_t skip = batch_sent_;
  for (const core::Piece& piece : std::span(pieces_).first(piece_count_)) {
    if (skip >= piece.octets) {
      skip -= piece.octets;
      continue;
    }
    vectors.push_back({const_cast<std::uint8_t*>(piece.data) + skip, piece.octets - skip});
    skip = 0;
  }
  const IOResult result = stream_->send(vectors);
  if (result.kind == IOResult::Kind::WouldBlock) return false;
  if (result.kind != IOResult::Kind::Moved) {
    drop_batch();
    qp_->handle_llp_lost(verdict_.now);
    drain();
    return false;
  }
  const std::size_t told = !verdict_.breaks("sent-too-early") ? result.octets
                           : batch_sent_ == 0                 ? batch_octets_
                                                              : 0;
  batch_sent_ += result.octets;
  octets_sent_ += result.octets;
  octets_moved_ += result.octets;
  qp_->handle_sent(told, verdict_.now);
  if (batch_sent_ < batch_octets_) return false;
  drop_batch();
  return true;
}

bool Endpoint::batch_references(const std::uint8_t* address, std::size_t octets) const {
  std::size_t end = 0;
  for (const core::Piece& piece : std::span(pieces_).first(piece_count_)) {
    end += piece.octets;
    if (end > batch_sent_ && piece.registered && piece.data < address + octets &&
        address < piece.data + piece.octets) {
      return true;
    }
  }
  return false;
}

void Endpoint::drop_batch() {
  piece_count_ = 0;
  batch_octets_ = batch_sent_ = 0;
}

}  // namespace weft::sim
