// A connection's sending half: from the core's batches to the transport, and what the core then
// reports.
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "engine/connection.h"

namespace weft::engine {

using core::ReadBy;
using transport::IOResult;

namespace {
/// Batches per turn before other connections get theirs.
constexpr int kBatchesPerTurn = 8;
/// While more batches than this wait for their peers to read, new ones are small: a thousand peers
/// that never read hold 70 MB of staging, and no more than one longest FPDU each.
constexpr std::size_t kBatchesLentFreely = 16;
/// TCP's packets are a little longer than this at most, where nothing makes them shorter: within
/// a host.
constexpr std::size_t kPacketOctets = 65'000;
/// What has so many packets at most may leave in shares.
constexpr std::size_t kSharesMax = 3;
/// Less is copied: to splice it, and to ask whether it was read, costs as much.
constexpr std::size_t kSplicedOctetsMin = 100'000;
/// More is not spliced at once: it is to lie in the sender's second-level cache still when the
/// receiver copies it.
constexpr std::size_t kSplicedOctetsMax = 256 * 1024;
/// Who is told that nothing more was read does not ask again before.
constexpr Duration kLookPause = std::chrono::microseconds(4);
/// So long the peer may take to read what was spliced when our program ends the connection.
constexpr Duration kSplicePatience = std::chrono::milliseconds(10);
/// A short last share is this part of a message, as its last segment is; or more, where the others
/// would be longer than packets (80 KiB: another share instead, 1.04).
constexpr std::size_t kEndOf = core::QP::kShortEndOf;
/// The others are so much longer, so that of 64 KiB the FPDUs before the last one end in them, CRC
/// and all.
constexpr std::size_t kShareMore = 64;

/// But for headers and CRCs, which depend on how a message is cut.
bool are_alike(std::size_t octets, std::size_t others) {
  return std::max(octets, others) - std::min(octets, others) < kShareMore;
}

/// Ends the list where it has that many octets. Returns how many entries are left of it.
std::size_t shorten(std::span<iovec> list, std::size_t octets) {
  std::size_t i = 0;
  while (i < list.size() && list[i].iov_len < octets) octets -= list[i++].iov_len;
  if (i == list.size()) return i;
  list[i].iov_len = octets;
  return i + 1;
}
}  // namespace

/// Sends what the core has until the transport is full, the core is dry or the turn is over; then
/// acts on what the core asks of the stream and tells.
void Connection::transmit() {
  core::QP& core = qp_->core();
  const bool is_short = owner_.turn_is_short(*this);
  if (has_spliced()) release_spliced();
  // What is left of a batch is one.
  for (int i = batch_ != nullptr ? 1 : 0; !blocked_ && !send_lost_; ++i) {
    if (!send_control()) break;
    if (batch_ != nullptr && !send_pending()) break;
    if (!wants_batch()) break;
    // handle_spliced() goes on. What ends a stream does not wait.
    if (has_spliced() && spliced_->full() && core.state() == core::QPState::RTS) break;
    if (i == (is_short ? 1 : kBatchesPerTurn)) {
      blocked_ = true;  // the turn is over; the poller finds the stream writable and gives the next
      break;
    }
    if (!make_batch(is_short) || !send_pending()) break;
  }
  if (batch_ != nullptr && !keep_lent(ReadBy::ThisCore)) handle_lent_memory_gone();
  // A FIN waits for what is unsent; a reset (the core is in Error then) does not.
  if ((batch_ == nullptr && control_.empty()) || core.state() == core::QPState::Error) {
    handle_llp_action(core.poll_llp_action());
  }
  handle_notices();
  if (state_ == ConnectionState::Dead) return;
  if (qp_ != nullptr && qp_->take_drained()) {
    owner_.report_async(device::AsyncEventKind::SendsDrained, *qp_);
  }
  // An error of ours may have ended the stream: the peer's FIN is behind what is held back.
  if (held_back_ && core.state() != core::QPState::RTS) return go_on_receiving();
  settle();
}

/// Lets the core fill a batch. False: it has nothing, or there is no memory to do so.
bool Connection::make_batch(bool is_short) {
  core::QP& core = qp_->core();
  refresh_emss(is_short);
  const bool splices = !is_short && may_splice() && !spliced_->full();
  const bool bulk = splices && octets_last_ >= kSplicedOctetsMin;
  const bool may_stage = !is_short && !bulk && octets_last_ >= StagingHabit::kOctetsMin &&
                         spliced_ != nullptr && !spliced_->pace.times_other() &&
                         stream_->can_splice();
  const std::optional<Instant> began =
      may_stage ? std::optional(owner_.read_clock()) : std::nullopt;
  const bool stages = may_stage && spliced_->staging.stages();
  if (stages) batch_ = take_staging();
  const bool staged = batch_ != nullptr;
  if (!staged) batch_ = owner_.transmit_buffers().borrow();
  if (batch_ == nullptr) {
    end_error_ = ENOMEM;
    end_text_ = kNoStaging;
    static_cast<void>(core.fail(owner_.now()));  // any state but Error can
    return false;
  }
  const bool many = owner_.transmit_buffers().borrowed() > kBatchesLentFreely;
  const std::size_t room = std::min(kTransmitStagingOctets - batch_->begin,
                                    many ? kUnfinishedOctetsMax : kTransmitStagingOctets);
  core::TransmitBatch batch(MutableOctets(batch_->staging).subspan(batch_->begin, room),
                            batch_->pieces,
                            splices || staged   ? kSplicedOctetsMax
                            : core.stream().crc ? kSummedOctetsMax
                                                : kTransmitOctetsMax,
                            is_short ? kOctetsPerShortTurn : SIZE_MAX,
                            bulk || staged ? ReadBy::AnotherCore : ReadBy::ThisCore, staged);
  core.poll_transmit(batch, owner_.now());
  const std::size_t octets = batch.octets();
  batch_->sent = 0;
  batch_->total = octets;
  batch_->piece_count = batch.pieces().size();
  batch_->staged = staged;
  // What a Read is answered with has to be as it was before our program may write there again.
  batch_->spliced =
      staged ? octets >= StagingHabit::kOctetsMin
             : splices && octets >= kSplicedOctetsMin && keep_lent(ReadBy::AnotherCore);
  const bool counts =
      octets >= StagingHabit::kOctetsMin && staged == stages && staged == batch_->spliced;
  batch_->began = counts ? began : std::nullopt;
  if (spliced_ != nullptr) note_batch(octets, core.wants_transmit());
  batch_->share = share_of_batch();
  if (octets == 0) {
    put_back_batch();
    return false;
  }
  octets_last_ = octets;
  if (octets > kSmallOctets) sent_much_ = true;
  emss_weight_ += static_cast<std::uint32_t>(octets + kEmssBatchWeight);
  return true;
}

/// How much of the batch leaves at once. In shares, and not a packet and a short one behind it, the
/// one is received, checked and placed there while the other is sent here, if the peer has nothing
/// else to do: so it is where we answer and had waited for half as long as we send, unless one call
/// is the faster way (ShareHabit). Where the MSS makes packets, each begins with an FPDU, and stays
/// so.
std::size_t Connection::share_of_batch() {
  const bool heard = std::exchange(heard_, false);
  const std::size_t octets = batch_->total;
  const std::size_t octets_before = std::exchange(last_answer_.octets, 0);
  if (batch_->spliced) return octets;
  const std::size_t shares = (octets + kPacketOctets - 1) / kPacketOctets;
  if (shares < 2 || shares > kSharesMax || emss_ < kPacketOctets / 2) return octets;
  const Instant before = std::exchange(last_answer_.began, owner_.read_clock());
  const Duration waited = last_answer_.began - last_answer_.ended;
  if (!heard || waited <= last_answer_.took / 2) {
    qp_->core().set_lone_cut(core::QP::LoneCut::None);
    return octets;
  }
  last_answer_.octets = octets;
  const bool whole = share_habit_ != nullptr && share_habit_->sends_whole();
  if (are_alike(octets, octets_before)) note_trip(last_answer_.began - before);
  if (whole) return octets;
  return std::min((octets - octets / kEndOf) / (shares - 1), kPacketOctets) + kShareMore;
}

void Connection::note_trip(Duration took) {
  if (share_habit_ == nullptr) share_habit_.reset(new (std::nothrow) ShareHabit);
  if (share_habit_ == nullptr) return;
  share_habit_->note(took);
  qp_->core().set_lone_cut(share_habit_->sends_whole() ? core::QP::LoneCut::Long
                                                       : core::QP::LoneCut::ShortEnd);
}

/// A whole batch went; only of those that might leave in shares it matters when.
void Connection::note_sent() {
  if (last_answer_.began <= last_answer_.ended) return;
  last_answer_.ended = owner_.read_clock();
  last_answer_.took = last_answer_.ended - last_answer_.began;
  // Two calls take up to twice as long as one; whether the next answer is waited for is not for
  // that to decide.
  if (batch_->share < batch_->total) last_answer_.took /= 2;
}

bool Connection::wants_batch() const {
  return state_ == ConnectionState::Streaming && qp_->core().wants_transmit();
}

/// Tells the engine what the stream waits for from now on, unless that is what it knows.
void Connection::settle() {
  if (!is_told()) owner_.handle_interest(*this);
  if (deadline()) owner_.handle_deadline(*this);
}

bool Connection::is_told() const {
  const bool told = interest == kReads || interest == kReadsByPolls ||
                    (interest == kReadsByEdges && !tell_again);
  return told && only_reads() && direct_slot != kNotListed;
}

void Connection::read_emss() {
  emss_checked_ = owner_.now();
  emss_weight_ = 0;
  emss_ = stream_->emss();
}

void Connection::refresh_emss(bool is_short) {
  if (emss_is_old()) {
    read_emss();
    if (emss_doublings_ < kEmssDoublingsMax) ++emss_doublings_;
  } else if (is_short == short_fpdus_) {
    return;
  }
  short_fpdus_ = is_short;
  qp_->core().handle_emss(is_short ? std::min(emss_, kOctetsPerShortTurn) : emss_);
}

/// Sends the rest of the batch. True: all of it went, and the buffer is returned.
bool Connection::send_pending() {
  while (batch_->sent < batch_->total) {
    std::size_t skip = batch_->sent;
    std::size_t count = 0;
    for (const core::Piece& piece : std::span(batch_->pieces).first(batch_->piece_count)) {
      if (skip >= piece.octets) {
        skip -= piece.octets;
        continue;
      }
      batch_->vectors[count++] = {const_cast<std::uint8_t*>(piece.data) + skip,
                                  piece.octets - skip};
      skip = 0;
    }
    if (batch_->share < batch_->total) {
      count = shorten({batch_->vectors.data(), count}, batch_->share);
    }
    const auto vectors = std::span(batch_->vectors).first(count);
    const IOResult r = batch_->spliced ? stream_->splice(vectors) : stream_->send(vectors);
    switch (r.kind) {
      case IOResult::Kind::Moved:
        batch_->sent += r.octets;
        owner_.handle_departure(r.octets);
        count_sent(r.octets);
        continue;
      case IOResult::Kind::WouldBlock:
        blocked_ = true;
        batch_->began.reset();  // it waits, from now on
        return false;
      case IOResult::Kind::BadMemory:
        // Whose it is shows when what is lent has been copied.
        keep_lent(ReadBy::ThisCore) ? handle_memory_gone() : handle_lent_memory_gone();
        return false;
      case IOResult::Kind::Closed:
      case IOResult::Kind::Lost:
        // A Terminate that explains the loss may have arrived before it: the receiving side reads
        // what is left and then finds the same.
        send_lost_ = true;
        end_error_ = r.error;
        ask_before_end();
        drop_batches();
        return false;
    }
  }
  note_sent();
  if (batch_->began) {
    spliced_->staging.note(batch_->total, owner_.read_clock() - *batch_->began);
  }
  put_back_batch();
  return true;
}

/// Nothing of it is left to be sent.
void Connection::put_back_batch() {
  if (batch_->staged) {
    spliced_->keep_staged(std::move(batch_));
  } else if (batch_->spliced) {
    spliced_->keep(std::move(batch_));
  } else {
    owner_.transmit_buffers().give_back(std::move(batch_));
  }
}

/// May what comes be spliced, and would our program have it so?
bool Connection::may_splice() {
  if (!stream_->can_splice()) return false;
  if (spliced_ == nullptr && owner_.may_splice()) {
    spliced_.reset(new (std::nothrow)
                       SplicedBatches(owner_.splices_always(), owner_.stages_always()));
  }
  if (spliced_ == nullptr || !spliced_->habit.splices()) return false;
  return owner_.splices_always() || !spliced_->pace.takes_other();
}

/// For what it tells of how the next ones are best sent. `more`: something waits behind it.
void Connection::note_batch(std::size_t octets, bool more) {
  const std::uint32_t armings = qp_->send_cq().armings();
  const bool splices = spliced_->habit.splices();
  spliced_->habit.note_batch(more, armings, owner_.empty_polls());
  if (!splices) return spliced_->pace.note_neither();
  if (octets == 0) return;
  spliced_->pace.note(octets, batch_->spliced, [this] { return owner_.read_clock(); });
}

/// A buffer for a batch that is copied, to be spliced from there. Null: the peer has not read
/// enough of those before it, or there is no memory.
std::unique_ptr<TransmitBuffer> Connection::take_staging() {
  if (!spliced_->may_stage()) release_spliced();
  if (!spliced_->may_stage()) return nullptr;
  std::unique_ptr<TransmitBuffer> begun = spliced_->take_begun();
  return begun != nullptr ? std::move(begun) : owner_.transmit_buffers().borrow();
}

/// The transport took so much more of the batch: that completes WRs, at once or when the peer has
/// read what was spliced of it and before it.
void Connection::count_sent(std::size_t octets) {
  if (spliced_ != nullptr) {
    octets = spliced_->note_sent(octets, batch_->spliced && !batch_->staged);
    if (has_spliced()) owner_.note_spliced(*this);
  }
  if (octets != 0) qp_->core().handle_sent(octets, owner_.now());
}

/// The peer may be asked about what was spliced.
bool Connection::has_spliced() const {
  return spliced_ != nullptr && !spliced_->empty();
}

/// Asks, unless it is too soon to ask again. False: nothing more was read.
bool Connection::release_spliced() {
  return owner_.read_clock() >= spliced_->next_look && release_spliced_now();
}

bool Connection::release_spliced_now() {
  const std::size_t held = stream_->held();
  const Instant now = owner_.read_clock();
  spliced_->next_look = now + kLookPause;
  if (held != SIZE_MAX || !has_spliced()) spliced_->unknown_from.reset();
  else if (!spliced_->unknown_from) spliced_->unknown_from = now;
  const std::size_t octets = spliced_->release(held, owner_.transmit_buffers());
  if (octets == 0) return false;
  spliced_->habit.note_told();
  qp_->core().handle_sent(octets, owner_.now());
  return true;
}

/// For too long; else WRs would wait for ever.
bool Connection::knows_nothing() const {
  return spliced_->unknown_from &&
         owner_.read_clock() - *spliced_->unknown_from > owner_.close_timeout();
}

SplicedState Connection::handle_spliced() {
  const auto none = [this] { return state_ != ConnectionState::Streaming || !has_spliced(); };
  if (none()) return SplicedState::None;
  const bool some = release_spliced();
  if (some) transmit();
  if (!none() && knows_nothing()) {
    give_up(EIO, "the kernel does not tell any more what the peer has read");
  }
  return none() ? SplicedState::None : some ? SplicedState::SomeRead : SplicedState::NoneRead;
}

/// The stream may be about to end: WRs that the peer has read are complete, not flushed.
void Connection::ask_before_end() {
  if (has_spliced() || (spliced_ != nullptr && spliced_->keeps())) release_spliced_now();
}

/// Our program ends the connection: WRs that the peer is about to read are complete, and what was
/// posted behind them is sent.
void Connection::await_spliced() {
  if (!has_spliced()) return ask_before_end();
  const bool always = owner_.splices_always();  // tests wait for each other under load
  const Instant until = owner_.read_clock() + (always ? 100 * kSplicePatience : kSplicePatience);
  while (state_ == ConnectionState::Streaming && has_spliced() && owner_.read_clock() < until) {
    release_spliced_now() ? transmit() : static_cast<void>(::sched_yield());
  }
}

/// The stream sends no more.
void Connection::drop_batches() {
  if (spliced_ != nullptr) {
    if (batch_ != nullptr && (batch_->spliced || batch_->staged)) {
      spliced_->keep(std::move(batch_));
    }
    spliced_->abandon(owner_.transmit_buffers());
  }
  if (batch_ != nullptr) owner_.transmit_buffers().give_back(std::move(batch_));
}

/// Startup octets go before everything else. True: none are left.
bool Connection::send_control() {
  while (!control_.empty()) {
    const iovec vector{control_.data(), control_.size()};
    const IOResult r = stream_->send({&vector, 1});
    if (r.kind == IOResult::Kind::WouldBlock) return false;
    if (r.kind != IOResult::Kind::Moved) {
      control_.clear();  // the receiving side will find the same and report it
      return true;
    }
    control_.erase(control_.begin(), control_.begin() + static_cast<std::ptrdiff_t>(r.octets));
  }
  return true;
}

void Connection::handle_memory_gone() {
  end_batch();
  qp_->core().handle_send_fault(owner_.now());
}

void Connection::handle_lent_memory_gone() {
  end_batch();
  qp_->core().handle_lent_fault(owner_.now());
}

/// What it references was unmapped. What was sent before is not to blame, read or not.
void Connection::end_batch() {
  if (has_spliced()) qp_->core().handle_sent(spliced_->tell_all(), owner_.now());
  drop_batches();
  end_error_ = EFAULT;
  end_text_ = "registered memory was unmapped while it was being sent";
}

/// The program, or a peer that invalidates it, may take memory back that a Read is answered from
/// as soon as the progress lock is released; what is sent later has to be what was there before.
bool Connection::keep_lent(ReadBy read_by) {
  return core::keep_lent(std::span(batch_->pieces).first(batch_->piece_count), batch_->sent,
                         owner_.mover(), read_by);
}

bool Connection::misses(const core::RegionAttributes& gone, const core::MemoryTable& memory) const {
  if (batch_ == nullptr) return false;
  const auto first = reinterpret_cast<std::uintptr_t>(gone.address);
  std::size_t offset = 0;
  for (const core::Piece& piece : std::span(batch_->pieces).first(batch_->piece_count)) {
    offset += piece.octets;
    if (offset <= batch_->sent || !piece.registered) continue;
    const auto place = reinterpret_cast<std::uintptr_t>(piece.data);
    const bool touches = place < first ? first - place < piece.octets : place - first < gone.octets;
    // What is registered twice is there still.
    if (touches && !memory.holds(qp_->pd(), piece.data, piece.octets)) return true;
  }
  return false;
}

void Connection::handle_llp_action(core::LLPAction action) {
  if (stream_ == nullptr) return;
  switch (action) {
    case core::LLPAction::None:
      break;
    case core::LLPAction::CloseGracefully:
      fin_sent_ = true;
      stream_->close_gracefully();
      if (peer_closed_ && qp_ != nullptr) qp_->core().handle_llp_lost(owner_.now());
      break;
    case core::LLPAction::Reset:
      reset_stream();
      break;
  }
}

void Connection::act_on_notices() {
  while (qp_ != nullptr) {
    const std::optional<core::QPNotice> notice = qp_->core().poll_notice();
    if (!notice) return;
    switch (notice->kind) {
      case core::QPNotice::Kind::FirstFPDUArrived:
        if (awaits_first_fpdu_) {
          awaits_first_fpdu_ = false;
          established_ = true;
          deadline_.reset();
          device::ConnectionEvent event{.kind = device::ConnectionEventKind::Established,
                                        .has_depths = peer_depths_.told,
                                        .peer_ird = peer_depths_.ird,
                                        .peer_ord = peer_depths_.ord};
          set_addresses(event);
          report(event);
        }
        break;
      case core::QPNotice::Kind::TerminateSent: {
        // Who leaves while work is open breaks no rule of the protocol.
        const bool left = peer_closed_ && notice->error == wire::TermError::RDMAPStreamCatastrophic;
        end_error_ = left ? ECONNRESET : EPROTO;
        end_text_ = wire::text(notice->error);
        if (qp_->fatal_reported || qp_->core().peer_gone()) break;
        const bool above_mpa = wire::layer(notice->error) <= 1;
        const bool access = above_mpa && wire::etype(notice->error) == 1;
        const bool local = above_mpa && wire::etype(notice->error) == 0;
        owner_.report_async(access  ? device::AsyncEventKind::QPAccessError
                            : local ? device::AsyncEventKind::QPFatal
                                    : device::AsyncEventKind::QPRequestError,
                            *qp_);
        break;
      }
      case core::QPNotice::Kind::TerminateArrived:
        end_error_ = EREMOTEIO;
        end_text_ = wire::text(notice->error);
        break;
      case core::QPNotice::Kind::PeerClosed:
        break;
      case core::QPNotice::Kind::LLPLost:
        if (end_error_ == 0) {
          end_error_ = ECONNRESET;
          end_text_ = "the TCP connection was lost";
        }
        break;
      case core::QPNotice::Kind::Closed:
        finish_stream();
        return;
    }
  }
}

/// The core is done with this stream: report it, once, and let go of the QP.
void Connection::finish_stream() {
  //= DDP-16
  // A bad close is found while receiving: nobody else would ask for the reset that it wants.
  if (qp_->core().poll_llp_action() == core::LLPAction::Reset) reset_stream();
  QueuePair* qp = qp_;
  part_from_qp();
  // What is posted from now on is flushed as it comes; a shared RQ's receives serve others.
  if (qp->srq() == nullptr) qp->want_receive();
  if (qp->srq() != nullptr && !qp->last_receive_reported && !qp->core().peer_gone()) {
    qp->last_receive_reported = true;
    owner_.report_async(device::AsyncEventKind::LastReceive, *qp);
  }
  device::ConnectionEvent end = take_end();
  if (address(end)) disconnected_ ? owner_.report(end) : owner_.report_end(end, *qp);
  qp->core().flush(owner_.now());
  die();
}

}  // namespace weft::engine
