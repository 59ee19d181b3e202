// A connection's receiving half: from the transport through staging into the core. What goes
// straight into its place has a file of its own beside this one.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "engine/connection.h"

namespace weft::engine {

using transport::IOResult;

namespace {
/// Octets received per readiness before other connections get their turn, and the receives that may
/// take: a peer can make each of them short.
constexpr std::size_t kOctetsPerTurn = 4 * kReceiveOctets;
constexpr int kReceivesPerTurn = 32;
/// Where Writes come with messages that tell of them, so many: their program then reads what was
/// written from the second-level cache. Else more at once saves system calls.
constexpr std::size_t kToldOctets = 128 * 1024;
/// So many small turns in a row make a connection brisk.
constexpr std::uint8_t kBriskTurns = 4;
/// Payload of which this much is still to come is received straight into its place.
constexpr std::size_t kLandingOctetsMin = 16 * 1024;
/// What is moved at once to where all room is behind it: a header, say.
constexpr std::size_t kLittleOctets = 64;
/// But not for so little room: behind each segment that landed there is a header.
constexpr std::size_t kLittleRoom = 4096;
/// So many small receives behind a landing look for the next one.
constexpr std::uint8_t kStagedInARowMax = 2;
/// While fewer buffers than this are lent, a connection keeps its one across waits.
constexpr std::size_t kBuffersLentFreely = 16;
/// While fewer, a connection of small messages keeps its one for the next.
constexpr std::size_t kBuffersKeptFreely = 4;
}  // namespace

void Connection::read_stream() {
  begin_turn();
  read_more();
  finish_reading();
}

void Connection::begin_turn() {
  turn_octets_ = 0;
  turn_began_at_ = {qp_->large_writes(), qp_->receive_cq().produced()};
}

bool Connection::turn_tells_of_writes() const {
  return qp_->large_writes() != turn_began_at_.large_writes &&
         qp_->receive_cq().produced() != turn_began_at_.produced;
}

/// The rest of a turn.
void Connection::read_more() {
  const std::size_t most = owner_.turn_is_short(*this) ? kOctetsPerShortTurn : kOctetsPerTurn;
  for (int i = 0; i < kReceivesPerTurn && turn_octets_ < most; ++i) {
    if (turn_octets_ >= kToldOctets && turn_tells_of_writes()) break;
    if (receive_once() != Got::More) break;
  }
}

/// Of a turn; behind it transmit() sends what it gave rise to, and settles.
void Connection::finish_reading() {
  if (state_ != ConnectionState::Streaming) return;
  note_turn();
  if (!drained_) ask_again();
  spill_received();
}

/// There may be something left of which no edge tells any more.
void Connection::ask_again() {
  if (interest == kReadsByEdges) tell_again = true;
}

void Connection::note_turn() {
  if (turn_octets_ == 0) return;
  tells_of_writes_ = turn_tells_of_writes();
  if (turn_octets_ > kMessagesOctets) {
    turns_since_bulk_ = 0;
  } else if (turns_since_bulk_ < kTurnsSinceBulk) {
    ++turns_since_bulk_;
  }
  const bool leaves_much = batch_ != nullptr && batch_->total > kSmallOctets;
  const bool sent_much = std::exchange(sent_much_, false) || leaves_much;
  if (turn_octets_ > kSmallOctets || sent_much) {
    small_turns_ = 0;
  } else if (small_turns_ == kBriskTurns) {
    owner_.handle_brisk(*this);
  } else {
    ++small_turns_;
  }
}

/// One receive. More: the transport may have more and the core takes more.
Connection::Got Connection::receive_once() {
  if (peer_closed_) return Got::Nothing;
  if (received_ == nullptr && !borrow_received()) return Got::Nothing;
  make_room();
  if (received_->begin == received_->end) return receive_staged();
  const bool begun = landing_head_ != 0;
  const auto landing =
      qp_->core().find_landing(front(), begun ? 1 : kLandingOctetsMin, owner_.now());
  if (begun && !landing) return lose_landing();
  return landing ? receive_large(*landing) : receive_staged();
}

Connection::Got Connection::receive_staged() {
  ReceiveBuffer& buffer = *received_;
  const std::size_t room = room_for_staging();
  const iovec vector{buffer.octets.data() + buffer.end, room};
  const IOResult r = stream_->receive({&vector, 1});
  if (r.kind != IOResult::Kind::Moved) return handle_no_octets(r);
  note_received(r.octets, room);
  buffer.end += r.octets;
  offer_received();
  return state_ == ConnectionState::Streaming && !held_back_ && r.octets == room ? Got::More
                                                                                 : Got::Some;
}

void Connection::note_received(std::size_t octets, std::size_t asked) {
  owner_.handle_arrival(octets);
  drained_ = octets < asked;
  turn_octets_ += octets;
  heard_ = true;
}

/// Among large messages only what cannot land is worth staging: the FPDU that has begun, and the
/// header of the next. Where that does not lead to a landing soon, the messages are small ones.
std::size_t Connection::room_for_staging() {
  const ReceiveBuffer& buffer = *received_;
  const std::size_t most = owner_.turn_is_short(*this) ? kOctetsPerShortTurn
                           : tells_of_writes_          ? kToldOctets
                                                       : kReceiveOctets;
  const std::size_t all = std::min(buffer.octets.size() - buffer.end, most);
  if (header_expected_ == 0 || staged_in_a_row_++ == kStagedInARowMax) {
    header_expected_ = 0;
    return all;
  }
  const std::size_t staged = buffer.end - buffer.begin;
  const std::size_t rest = staged == 0 || wanted_ <= staged ? 0 : wanted_ - staged;
  return std::min(all, rest + header_expected_);
}

void Connection::make_room() {
  ReceiveBuffer& buffer = *received_;
  if (qp_->keeps_writes()) {
    if (buffer.octets.size() - buffer.end >= kToldOctets) return;
    qp_->place_kept_writes();
  }
  if (buffer.begin == buffer.end) {
    buffer.begin = buffer.end = 0;
  } else if ((buffer.end - buffer.begin <= kLittleOctets && buffer.begin >= kLittleRoom) ||
             buffer.octets.size() - buffer.end < kReceiveOctets / 2) {
    std::memmove(buffer.octets.data(), buffer.octets.data() + buffer.begin,
                 buffer.end - buffer.begin);
    buffer.end -= buffer.begin;
    buffer.begin = 0;
  }
}

/// Nothing moved: for now, or the stream ended.
Connection::Got Connection::handle_no_octets(const IOResult& r) {
  drained_ = r.error == 0;
  if (r.kind == IOResult::Kind::WouldBlock) return Got::Nothing;
  if (r.kind != IOResult::Kind::Closed) {
    if (end_error_ == 0) end_error_ = r.error;
    lose_stream();
    return Got::Nothing;
  }
  peer_closed_ = true;
  ask_before_end();
  qp_->core().handle_peer_closed(owner_.now());
  if (fin_sent_) qp_->core().handle_llp_lost(owner_.now());
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
  ask_before_end();
  if (end_text_[0] == '\0') end_text_ = "the TCP connection was lost";
  qp_->core().handle_llp_lost(owner_.now());
  transmit();
}

/// Gives the core everything received and not consumed.
void Connection::offer_received() {
  if (received_ == nullptr && (tail_.empty() || !borrow_received())) return;
  core::QP& core = qp_->core();
  while (landing_head_ == 0 && received_->begin < received_->end) {
    const Octets octets(received_->octets.data() + received_->begin,
                        received_->end - received_->begin);
    const core::Received done = core.handle_octets({std::span(&octets, 1)}, owner_.now());
    received_->begin += done.consumed;
    wanted_ = done.wanted;
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
  const bool used = (left != 0 && !held_back_) || qp_->keeps_writes();
  const std::size_t lent = owner_.receive_buffers().borrowed();
  if (lent <= (used ? kBuffersLentFreely : kBuffersKeptFreely) &&
      (used || turn_octets_ <= kKeptForOctets)) {
    return;
  }
  if (left != 0) {
    const std::uint8_t* first = received_->octets.data() + received_->begin;
    try {
      tail_.assign(first, first + left);
    } catch (const std::bad_alloc&) {
      return;  // keeps the buffer that it has
    }
  }
  give_back_received();
}

void Connection::give_back_received() {
  if (qp_ != nullptr) qp_->place_kept_writes();
  owner_.receive_buffers().give_back(std::move(received_));
}

void Connection::drop_received() {
  if (received_ != nullptr) give_back_received();
  tail_.clear();
  landing_head_ = 0;
}

}  // namespace weft::engine
