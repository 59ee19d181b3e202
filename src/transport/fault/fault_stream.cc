// Drawing the faults of one stream and doing them.
#include "transport/fault/fault_stream.h"

#include <algorithm>
#include <cerrno>

namespace weft::transport {
namespace {

std::uint64_t octets_in(std::span<const iovec> pieces) {
  std::uint64_t octets = 0;
  for (const iovec& piece : pieces) {
    octets += piece.iov_len;
  }
  return octets;
}

constexpr IOResult kCut = {IOResult::Kind::Lost, 0, ECONNRESET};

}  // namespace

void Delay::start_until(Instant until) {
  until_ = until;
  state_.set_wake(this, until);
}

bool Delay::holds() {
  if (steps_left_ > 0) {
    passing_ = --steps_left_ == 0;
    return true;
  }
  if (until_) {
    if (state_.clock() < *until_) {
      return true;
    }
    until_.reset();
    state_.set_wake(this, {});
    return false;
  }
  passing_ = false;
  return false;
}

FaultStream::FaultStream(std::shared_ptr<FaultState> state, std::unique_ptr<Stream> inner)
    : state_(std::move(state)),
      inner_(std::move(inner)),
      random_(state_->take_number()),
      connect_delay_(*state_),
      send_delay_(*state_),
      receive_delay_(*state_) {
  const FaultConfig& config = state_->config;
  const bool cuts = random_.chance(config.cut);
  const std::uint64_t cut_at = random_.between(0, config.cut_octets_max);
  const bool fins = random_.chance(config.fin_early);
  const std::uint64_t fin_at = random_.between(0, config.fin_octets_max);
  cut_at_ = cuts ? cut_at : kNever;
  fin_at_ = fins ? fin_at : kNever;
  state_->count(&FaultCounters::streams);
}

bool FaultStream::held_back(Delay& delay, std::uint32_t per_million,
                            std::uint64_t FaultCounters::*what) {
  if (!delay.idle()) {
    return delay.holds();
  }
  if (!random_.chance(per_million)) {
    return false;
  }
  if (state_->clock) {
    const auto longest =
        static_cast<std::uint64_t>(std::max<std::int64_t>(state_->config.delay_max.count(), 1));
    const Duration wait{static_cast<std::int64_t>(random_.between(1, longest))};
    delay.start_until(state_->clock() + wait);
  } else {
    delay.start_steps(random_.between(1, state_->config.delay_steps_max));
  }
  state_->count(what);
  return delay.holds();
}

bool FaultStream::merging() {
  if (!receive_delay_.idle() || !random_.chance(state_->config.merge) ||
      state_->config.merge_steps == 0) {
    return false;
  }
  state_->count(&FaultCounters::receives_merged);
  receive_delay_.start_steps(state_->config.merge_steps);
  return receive_delay_.holds();
}

std::uint64_t FaultStream::part_of(std::uint64_t octets, std::uint32_t per_million,
                                   std::uint64_t FaultCounters::*what) {
  const bool splits = random_.chance(per_million);
  if (!splits || octets < 2) {
    return octets;
  }
  const std::uint64_t longest = state_->config.split_octets_max;
  const std::uint64_t limit = longest == 0 ? octets - 1 : std::min(octets - 1, longest);
  state_->count(what);
  return random_.between(1, limit);
}

std::span<const iovec> FaultStream::first_octets(std::span<const iovec> pieces,
                                                 std::uint64_t octets) {
  pieces_.clear();
  for (const iovec& piece : pieces) {
    const std::uint64_t taken = std::min<std::uint64_t>(piece.iov_len, octets);
    if (taken > 0) {
      pieces_.push_back({piece.iov_base, static_cast<std::size_t>(taken)});
    }
    octets -= taken;
  }
  return pieces_;
}

void FaultStream::corrupt(std::span<const iovec> pieces, std::size_t octets) {
  if (!random_.chance(state_->config.corrupt)) {
    return;
  }
  // What was just received was just written, so it may be written again.
  std::uint64_t at = random_.between(0, octets - 1);
  const auto bit = static_cast<std::uint8_t>(1u << random_.between(0, 7));
  for (const iovec& piece : pieces) {
    if (at < piece.iov_len) {
      static_cast<std::uint8_t*>(piece.iov_base)[at] ^= bit;
      break;
    }
    at -= piece.iov_len;
  }
  state_->count(&FaultCounters::octets_corrupted);
}

void FaultStream::cut_when_due() {
  if (!cut_ && !over_ && moved_ >= cut_at_) {
    cut_ = true;
    inner_->reset();
    state_->count(&FaultCounters::streams_cut);
  }
}

void FaultStream::fin_when_due() {
  if (!cut_ && !over_ && !fin_sent_ && sent_ >= fin_at_) {
    fin_sent_ = true;
    inner_->close_gracefully();
    state_->count(&FaultCounters::early_fins);
  }
}

Result<void> FaultStream::connected() {
  if (established_) {
    return {};
  }
  if (held_back(connect_delay_, state_->config.delay_connect, &FaultCounters::connects_delayed)) {
    return Error{EINPROGRESS, "the connection is being established"};
  }
  auto result = inner_->connected();
  established_ = result.ok();
  return result;
}

IOResult FaultStream::send(std::span<const iovec> pieces) {
  cut_when_due();
  if (cut_) {
    return kCut;
  }
  fin_when_due();
  if (over_ || fin_sent_) {
    return inner_->send(pieces);
  }
  if (held_back(send_delay_, state_->config.delay_send, &FaultCounters::sends_delayed)) {
    return {};
  }
  std::uint64_t octets = octets_in(pieces);
  octets = part_of(octets, state_->config.split_send, &FaultCounters::sends_split);
  octets = std::min({octets, cut_at_ - moved_, fin_at_ - sent_});
  const IOResult result = inner_->send(first_octets(pieces, octets));
  moved_ += result.octets;
  sent_ += result.octets;
  cut_when_due();
  fin_when_due();
  return result;
}

IOResult FaultStream::receive(std::span<const iovec> pieces) {
  cut_when_due();
  if (cut_) {
    return kCut;
  }
  if (over_) {
    return inner_->receive(pieces);
  }
  if (merging() ||
      held_back(receive_delay_, state_->config.delay_receive, &FaultCounters::receives_delayed)) {
    return {};
  }
  std::uint64_t octets = octets_in(pieces);
  octets = part_of(octets, state_->config.split_receive, &FaultCounters::receives_split);
  octets = std::min(octets, cut_at_ - moved_);
  const auto part = first_octets(pieces, octets);
  const IOResult result = inner_->receive(part);
  if (result.kind == IOResult::Kind::Moved) {
    moved_ += result.octets;
    corrupt(part, result.octets);
    cut_when_due();
  }
  return result;
}

void FaultStream::close_gracefully() {
  cut_when_due();
  if (!cut_) {
    fin_sent_ = true;
    inner_->close_gracefully();
  }
}

void FaultStream::reset() {
  over_ = true;
  cut_ = false;
  inner_->reset();
}

}  // namespace weft::transport
