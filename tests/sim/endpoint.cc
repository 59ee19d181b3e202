// Life, commands and checks of one end. The two directions have a file each.
#include "tests/sim/endpoint.h"

#include <cstring>
#include <string>

#include "base/crc32c.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"

namespace weft::sim {
namespace {

constexpr std::uint32_t kRegionsMax = 512;

/// 64-octet aligned memory inside `storage`, which it sizes.
MutableOctets aligned(std::vector<std::uint8_t>& storage, std::size_t octets) {
  storage.assign(octets + 64, 0);
  const auto at = reinterpret_cast<std::uintptr_t>(storage.data());
  return MutableOctets(storage).subspan((64 - at % 64) % 64, octets);
}

/// Has the FPDU whose payload this is, and which lies around it, the CRC that it should have?
/// `state`: up to there. Modulo four all DDP headers are as long.
bool ends_well(Octets payload, std::uint32_t state) {
  const std::uint8_t* const end = payload.data() + payload.size();
  const std::size_t pad = wire::pad_octets(payload.size() + wire::kTaggedHeaderOctets);
  return load_crc(end + pad) == crc32c_finish(crc32c_extend(state, Octets(end, pad)));
}

}  // namespace

// ArenaMover.

void ArenaMover::check(const char* what, const std::uint8_t* address, std::size_t octets,
                       bool write, std::uint32_t access) {
  if (octets == 0) return;
  if (write && verdict_.breaks_once("placement-astray")) address += 1'000'000;
  const Region* region = arena_->holder(address, octets);
  if (region == nullptr) {
    return verdict_.fail(Check::Placement, std::string(end_) + ": " + what +
                                               " touches octets that no valid region holds");
  }
  if (write && (region->access & core::kLocalWrite) == 0) {
    verdict_.fail(Check::Placement, std::string(end_) + ": " + what + " into read-only memory");
  }
  if (!region->windows_only) return;
  const bool astray = verdict_.breaks_once("window-astray");
  if (astray || !arena_->shows(*region, address, octets, access)) {
    verdict_.fail(Check::Placement,
                  std::string(end_) + ": " + what + " where no open window allows it");
  }
}

std::uint32_t ArenaMover::crc_extend(std::uint32_t state, Octets data) {
  return crc32c_extend(state, data);
}

bool ArenaMover::crc_registered(std::uint32_t* state, const std::uint8_t* source,
                                std::size_t octets) {
  check("a CRC", source, octets, false, core::kRemoteRead);
  *state = crc32c_extend(*state, Octets(source, octets));
  return true;
}

bool ArenaMover::fetch(std::uint8_t* target, const std::uint8_t* source, std::size_t octets,
                       std::uint32_t* state, core::ReadBy) {
  check("a fetch", source, octets, false, core::kRemoteRead);
  std::memcpy(target, source, octets);
  if (state != nullptr) *state = crc32c_extend(*state, Octets(target, octets));
  return true;
}

bool ArenaMover::place(std::uint8_t* target, Octets source, std::uint32_t* state) {
  check("a placement", target, source.size(), true, core::kRemoteWrite);
  if (state != nullptr) *state = crc32c_extend(*state, source);
  if (verdict_.failed()) return true;
  // The model does not know what a stream's end leaves in a receive or a sink that did not succeed.
  if (state != nullptr && !ends_well(source, *state)) return true;
  if (verdict_.breaks_once("placement-lost")) return true;
  std::memcpy(target, source.data(), source.size());
  if (!source.empty() && verdict_.breaks_once("octet-wrong")) target[0] ^= 0x10;
  return true;
}

bool ArenaMover::update(std::uint8_t* target, const core::AtomicChange& change,
                        std::uint64_t* original) {
  check("an atomic operation", target, sizeof *original, true, core::kRemoteAtomic);
  if (verdict_.failed()) return true;
  std::memcpy(original, target, sizeof *original);
  std::uint64_t changed = change.applied_to(*original);
  if (verdict_.breaks_once("atomic-wrong")) changed ^= 1;
  const bool torn = changed >> 32 != *original >> 32 && verdict_.breaks_once("atomic-torn");
  std::memcpy(target, &changed, torn ? sizeof changed / 2 : sizeof changed);
  if (verdict_.breaks_once("original-wrong")) *original ^= 1;
  return true;
}

// Endpoint.

Endpoint::Endpoint(const Settings& settings, std::size_t end, Verdict& verdict,
                   CompletionSink& sink, Random& random)
    : settings_(settings),
      own_(settings.ends[end]),
      end_(end),
      name_(end == 0 ? "initiator" : "responder"),
      verdict_(verdict),
      random_(random),
      mover_(verdict, name_),
      queues_(verdict, sink, name_, own_.shared_receives) {
  table_.emplace(aligned(table_storage_, core::MemoryTable::storage_octets(kRegionsMax)),
                 kRegionsMax);
  qp_.emplace(own_.qp, queues_, mover_, *table_,
              aligned(qp_storage_, core::QP::storage_octets(own_.qp)));
  scratch_.resize(own_.receive_octets_max);
  staging_.resize(own_.staging_octets);
  pieces_.resize(own_.pieces_max);
}

void Endpoint::begin_round(Arena& arena) {
  arena_ = &arena;
  mover_.use(arena);
  startup_config_ = own_.startup;
  queues_.begin_round();
  stream_.reset();
  startup_.reset();
  phase_ = Phase::Unconnected;
  established_ = wants_revision_1_ = llp_told_ = false;
  noticed_ = 0;
}

void Endpoint::use_stream(std::unique_ptr<transport::Stream> stream) {
  stream_ = std::move(stream);
  control_.clear();
  arrived_.clear();
  drop_batch();
  wanted_ = 0;
  held_back_ = fin_sent_ = peer_closed_ = wants_revision_1_ = llp_told_ = false;
  octets_sent_ = octets_consumed_ = 0;
  if (end_ == 0) {
    phase_ = Phase::Connecting;
    return;
  }
  phase_ = Phase::Startup;
  startup_.emplace(core::Role::Responder, startup_config_, verdict_.now);
}

bool Endpoint::turn() {
  bool moved = false;
  switch (phase_) {
    case Phase::Unconnected:
    case Phase::Over:
      return false;
    case Phase::Connecting:
    case Phase::Startup: {
      const Phase before = phase_;
      const std::uint64_t octets = octets_moved_;
      advance_startup();
      return phase_ != before || octets != octets_moved_;
    }
    case Phase::Streaming:
      break;
  }
  const std::optional<Instant> due = qp_->poll_timeout();
  if (due && *due <= verdict_.now) {
    qp_->handle_timeout(verdict_.now);
    moved = true;
  }
  moved |= transmit();
  if (phase_ == Phase::Streaming && held_back_ && queues_.receive_pending()) {
    held_back_ = false;
    offer();
    moved = true;
  }
  if (phase_ == Phase::Streaming && !verdict_.breaks("deaf-end")) moved |= receive_some();
  if (phase_ == Phase::Streaming) moved |= transmit();
  check_reads();
  return moved;
}

std::optional<Instant> Endpoint::deadline() const {
  if (phase_ == Phase::Startup && startup_) return startup_->poll_timeout();
  return phase_ == Phase::Streaming ? qp_->poll_timeout() : std::nullopt;
}

void Endpoint::handle_posted() {
  if (phase_ == Phase::Over || qp_->state() == core::QPState::Closing ||
      qp_->state() == core::QPState::Terminate || qp_->state() == core::QPState::Error) {
    qp_->flush(verdict_.now);
    drain();
  }
}

void Endpoint::deregister(std::size_t index) {
  Region& region = arena_->region(index);
  if (region.deregistered || !check_deregistration(index)) return;
  region.deregistered = true;
  verdict_.trace("%s: deregisters region %zu", name_, index);
  if (batch_references(arena_->address(index), region.octets)) {
    drop_batch();
    qp_->handle_send_fault(verdict_.now);
  }
  arena_->revoke(index);
  drain();
}

/// Deregisters, unless windows are bound to it. What is about to begin or to end may be either.
bool Endpoint::check_deregistration(std::size_t index) {
  bool open = false, unsure = false;
  for (std::size_t i = 0; i < arena_->window_count(); ++i) {
    const Window& window = arena_->window(i);
    if (window.region != index) continue;
    open |= window.state == Window::State::Open;
    unsure |= window.state == Window::State::Binding || window.state == Window::State::Closing;
  }
  const bool done = table_->deregister(arena_->region(index).stag).ok();
  if (!unsure && done == open) {
    verdict_.fail(Check::Interface, open ? "a region went under a bound window"
                                         : "a registered region could not be deregistered");
  }
  return done;
}

void Endpoint::check_windows_after_reset() {
  for (std::size_t i = 0; i < arena_->window_count(); ++i) {
    const Window& window = arena_->window(i);
    const Run first{window.region, window.offset, 1};
    const core::Requester own{own_.qp.pd, own_.qp.stream};
    bool open = table_->check(window.bound, arena_->to(first, i), 1, 0, own).ok();
    if (verdict_.breaks_once("window-survives")) open = !open;
    const bool tied = window.kind == core::WindowKind::Type2;
    const bool must = !tied && window.state == Window::State::Open;
    const bool may = must || (!tied && (window.state == Window::State::Binding ||
                                        window.state == Window::State::Closing));
    if ((open && !may) || (!open && must)) {
      verdict_.fail(Check::Interface,
                    std::string(name_) + ": a window did not end with what it is tied to");
    }
  }
}

void Endpoint::change_emss(std::size_t emss) {
  if (phase_ == Phase::Streaming) qp_->handle_emss(emss);
}

void Endpoint::act(Manner manner) {
  const core::QPState before = qp_->state();
  Result<void> done;
  const char* what = "closes";
  switch (manner) {
    case Manner::OneCloses:
    case Manner::BothClose:
    case Manner::CloseEarly:
      done = qp_->close(verdict_.now);
      break;
    case Manner::Terminate:
      what = "terminates", done = qp_->terminate(verdict_.now);
      break;
    case Manner::Fail:
      what = "goes to Error", done = qp_->fail(verdict_.now);
      break;
    case Manner::LocalError:
      what = "has an error of its own";
      qp_->handle_local_error(wire::TermError::RDMAPStreamCatastrophic, verdict_.now);
      break;
  }
  verdict_.trace("%s: %s (%s -> %s)", name_, what, core::name(before), core::name(qp_->state()));
  if (before == core::QPState::RTS && !done) {
    verdict_.fail(Check::Interface, std::string(name_) + ": refused in RTS: " + what);
  }
  if (phase_ == Phase::Streaming || phase_ == Phase::Over) drain();
}

void Endpoint::abandon() {
  if (phase_ == Phase::Over && qp_->state() == core::QPState::Error) return;
  verdict_.trace("%s: gives up in %s", name_, core::name(qp_->state()));
  if (!qp_->fail(verdict_.now)) {
    verdict_.fail(Check::Interface, std::string(name_) + ": modify Error was refused");
  }
  drain();
  end_stream();
}

bool Endpoint::quiet() const {
  return phase_ == Phase::Streaming && qp_->state() == core::QPState::RTS &&
         queues_.sends_left() == 0 && queues_.receives_open() == 0 && batch_octets_ == 0 &&
         arrived_.empty() && control_.empty() && !qp_->wants_transmit() &&
         qp_->inbound_reads_open() == 0 && qp_->reads_open() == 0;
}

void Endpoint::check_reads() {
  if (phase_ != Phase::Streaming) return;
  // The RTR may be a Read although the ULP wants none (RFC 6581 §9.1).
  const std::uint32_t rtr = qp_->stream().rtr == core::RTR::Read ? 1 : 0;
  const std::uint32_t ord = std::max<std::uint32_t>(qp_->stream().ord, rtr);
  const std::uint32_t open = qp_->reads_open() + (verdict_.breaks("reads-above-ord") ? 100'000 : 0);
  if (open > ord || (ord == wire::kDepthByULP && open > std::max(own_.qp.ord_max, uint16_t{1}))) {
    verdict_.fail(Check::Reads, std::string(name_) + ": more Reads open than ORD allows");
  }
  const std::uint32_t inbound =
      qp_->inbound_reads_open() + (verdict_.breaks("reads-above-ird") ? 100'000 : 0);
  if (inbound > qp_->stream().ird) {
    verdict_.fail(Check::Reads, std::string(name_) + ": more Reads of the peer's open than IRD");
  }
}

/// Actions and notices, in the order the core asks for.
void Endpoint::drain() {
  // A FIN goes behind the batch; a reset waits for nothing.
  if (batch_octets_ == 0 || qp_->state() == core::QPState::Error) {
    switch (qp_->poll_llp_action()) {
      case core::LLPAction::None:
        break;
      case core::LLPAction::CloseGracefully:
        verdict_.trace("%s: FIN", name_);
        fin_sent_ = true;
        if (stream_ != nullptr) stream_->close_gracefully();
        if (peer_closed_) qp_->handle_llp_lost(verdict_.now);
        break;
      case core::LLPAction::Reset:
        verdict_.trace("%s: reset", name_);
        if (stream_ != nullptr) stream_->reset();
        break;
    }
  }
  while (const auto notice = qp_->poll_notice()) {
    static const char* const kNames[] = {"the first FPDU arrived", "Terminate sent",
                                         "Terminate arrived",      "the peer closed",
                                         "the connection is lost", "the stream is over"};
    const auto kind = static_cast<unsigned>(notice->kind);
    verdict_.trace("%s: notice: %s%s%s", name_, kNames[kind], kind == 1 || kind == 2 ? ": " : "",
                   kind == 1 || kind == 2 ? wire::text(notice->error) : "");
    if ((noticed_ >> kind & 1u) != 0) {
      verdict_.fail(Check::Interface, std::string(name_) + ": a notice was given twice");
    }
    if (noticed(core::QPNotice::Kind::Closed)) {
      verdict_.fail(Check::Interface, std::string(name_) + ": a notice after Closed");
    }
    noticed_ |= 1u << kind;
    if (notice->kind == core::QPNotice::Kind::Closed) end_stream();
  }
}

void Endpoint::end_stream() {
  if (phase_ == Phase::Over) return;
  phase_ = Phase::Over;
  drop_batch();
  stream_.reset();
  arrived_.clear();
  held_back_ = false;
  // What was posted while the last octets were handled.
  qp_->flush(verdict_.now);
}

}  // namespace weft::sim
