// A connection's receiving half: from the transport through staging into the core.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "engine/connection.h"

namespace weft::engine {

using transport::IOResult;

namespace {
/// Receives per readiness before other connections get their turn.
constexpr int kReceivesPerTurn = 4;
/// While fewer buffers than this are lent, a connection keeps its one across waits.
constexpr std::size_t kBuffersLentFreely = 16;
}  // namespace

void Connection::read_stream() {
  for (int i = 0; i < kReceivesPerTurn; ++i) {
    if (receive_once() != Got::More) break;
  }
  if (state_ != ConnectionState::Streaming) return;
  spill_received();
  owner_.handle_interest(*this);
  owner_.handle_deadline(*this);
}

/// One receive. More: the transport may have more and the core takes more.
Connection::Got Connection::receive_once() {
  if (peer_closed_) return Got::Nothing;
  if (received_ == nullptr && !borrow_received()) return Got::Nothing;
  ReceiveBuffer& buffer = *received_;
  if (buffer.begin == buffer.end) {
    buffer.begin = buffer.end = 0;
  } else if (buffer.octets.size() - buffer.end < kReceiveOctets / 2) {
    std::memmove(buffer.octets.data(), buffer.octets.data() + buffer.begin,
                 buffer.end - buffer.begin);
    buffer.end -= buffer.begin;
    buffer.begin = 0;
  }
  const std::size_t room = std::min(buffer.octets.size() - buffer.end, kReceiveOctets);
  const iovec vector{buffer.octets.data() + buffer.end, room};
  const IOResult r = stream_->receive({&vector, 1});
  core::QP& core = qp_->core();
  switch (r.kind) {
    case IOResult::Kind::WouldBlock:
      return Got::Nothing;
    case IOResult::Kind::Moved:
      owner_.refresh_now();
      buffer.end += r.octets;
      offer_received();
      return state_ == ConnectionState::Streaming && !held_back_ && r.octets == room ? Got::More
                                                                                  : Got::Some;
    case IOResult::Kind::Closed:
      peer_closed_ = true;
      core.handle_peer_closed(owner_.now());
      if (fin_sent_) core.handle_llp_lost(owner_.now());
      break;
    case IOResult::Kind::BadMemory:
    case IOResult::Kind::Lost:
      if (end_error_ == 0) end_error_ = r.error;
      lose_stream();
      return Got::Nothing;
  }
  transmit();
  return Got::Nothing;
}

/// Lends a buffer and puts the tail into it. False: there is none, and the stream has ended.
bool Connection::borrow_received() {
  received_ = owner_.receive_buffers().borrow();
  if (received_ == nullptr) {
    give_up(ENOMEM, kNoStaging);
    return false;
  }
  received_->begin = 0;
  received_->end = tail_.size();
  if (tail_.empty()) return true;
  std::memcpy(received_->octets.data(), tail_.data(), tail_.size());
  tail_.clear();
  tail_.shrink_to_fit();
  return true;
}

void Connection::lose_stream() {
  if (end_text_[0] == '\0') end_text_ = "the TCP connection was lost";
  qp_->core().handle_llp_lost(owner_.now());
  transmit();
}

/// Gives the core everything received and not consumed.
void Connection::offer_received() {
  if (received_ == nullptr && (tail_.empty() || !borrow_received())) return;
  core::QP& core = qp_->core();
  while (received_->begin < received_->end) {
    const Octets octets(received_->octets.data() + received_->begin,
                        received_->end - received_->begin);
    const core::Received done = core.handle_octets({std::span(&octets, 1)}, owner_.now());
    received_->begin += done.consumed;
    if (done.held_back) {
      held_back_ = true;
      if (!receive_posted()) break;
      resume_receiving();
      continue;
    }
    if (done.consumed == 0) break;
  }
  handle_notices();
}

/// Keeps an idle connection small: nothing, or the exact tail of one FPDU.
void Connection::spill_received() {
  if (received_ == nullptr) return;
  const std::size_t left = received_->end - received_->begin;
  if (left != 0 && !held_back_ && owner_.receive_buffers().borrowed() <= kBuffersLentFreely) return;
  if (left != 0) {
    const std::uint8_t* first = received_->octets.data() + received_->begin;
    try {
      tail_.assign(first, first + left);
    } catch (const std::bad_alloc&) {
      return;  // keeps the buffer that it has
    }
  }
  owner_.receive_buffers().give_back(std::move(received_));
}

void Connection::drop_received() {
  if (received_ != nullptr) owner_.receive_buffers().give_back(std::move(received_));
  tail_.clear();
}

}  // namespace weft::engine
