// What a run is held against, completion by completion and at its end.
#include <algorithm>
#include <initializer_list>
#include <string>

#include "tests/sim/simulation.h"

namespace weft::sim {
namespace {

using core::Completion;
using core::QPNotice;
using core::WorkStatus;
using wire::TermError;

constexpr std::uint64_t kPostMortemID = 500'000;

/// Who notices an illegal request, hence who sends the Terminate and whose WR is guilty.
enum class FoundBy : std::uint8_t {
  Requester,  ///< before anything leaves: its WR
  Responder,  ///< from the headers: the requester's WR, if it is still open
  Receiver,   ///< while it fills a receive: that receive
};
struct Consequence {
  Illegal illegal;
  FoundBy found_by;
  WorkStatus status;
  TermError error, or_error;  ///< the second: a region that ends at 2^64
};
constexpr Consequence kConsequences[] = {
    {Illegal::WriteBadSTag, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::DDPTaggedInvalidSTag, TermError::DDPTaggedInvalidSTag},
    {Illegal::WriteBeyondEnd, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::DDPTaggedBounds, TermError::DDPTaggedTOWrap},
    {Illegal::WriteWithoutRight, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::DDPTaggedInvalidSTag, TermError::DDPTaggedInvalidSTag},
    {Illegal::WriteNotAssociated, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::DDPTaggedNotAssociated, TermError::DDPTaggedNotAssociated},
    {Illegal::ReadBadSTag, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::RDMAPInvalidSTag, TermError::RDMAPInvalidSTag},
    {Illegal::ReadBeyondEnd, FoundBy::Responder, WorkStatus::RemoteAccess, TermError::RDMAPBounds,
     TermError::RDMAPTOWrap},
    {Illegal::ReadWithoutRight, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::RDMAPAccess, TermError::RDMAPAccess},
    {Illegal::ReadNotAssociated, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::RDMAPNotAssociated, TermError::RDMAPNotAssociated},
    {Illegal::SendTooLong, FoundBy::Receiver, WorkStatus::LocalLength,
     TermError::DDPUntaggedTooLong, TermError::DDPUntaggedTooLong},
    {Illegal::InvalidateBadSTag, FoundBy::Receiver, WorkStatus::LocalProtection,
     TermError::RDMAPCannotInvalidate, TermError::RDMAPCannotInvalidate},
    {Illegal::LocalBadSTag, FoundBy::Requester, WorkStatus::LocalProtection,
     TermError::RDMAPLocalCatastrophic, TermError::RDMAPLocalCatastrophic},
    {Illegal::LocalBeyondEnd, FoundBy::Requester, WorkStatus::LocalProtection,
     TermError::RDMAPLocalCatastrophic, TermError::RDMAPLocalCatastrophic},
    {Illegal::LocalInvalidateBadSTag, FoundBy::Requester, WorkStatus::LocalProtection,
     TermError::RDMAPLocalCatastrophic, TermError::RDMAPLocalCatastrophic},
    {Illegal::ReadSinkReadOnly, FoundBy::Requester, WorkStatus::LocalProtection,
     TermError::RDMAPLocalCatastrophic, TermError::RDMAPLocalCatastrophic},
    {Illegal::ReadTwoSinks, FoundBy::Requester, WorkStatus::LocalQPOperation,
     TermError::RDMAPLocalCatastrophic, TermError::RDMAPLocalCatastrophic},
    {Illegal::AtomicBadSTag, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::RDMAPInvalidSTag, TermError::RDMAPInvalidSTag},
    {Illegal::AtomicBeyondEnd, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::RDMAPBounds, TermError::RDMAPTOWrap},
    {Illegal::AtomicWithoutRight, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::RDMAPAccess, TermError::RDMAPAccess},
    {Illegal::AtomicNotAssociated, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::RDMAPNotAssociated, TermError::RDMAPNotAssociated},
    {Illegal::AtomicMisaligned, FoundBy::Responder, WorkStatus::RemoteInvalidRequest,
     TermError::RDMAPStreamCatastrophic, TermError::RDMAPStreamCatastrophic},
    {Illegal::AtomicSinkReadOnly, FoundBy::Requester, WorkStatus::LocalProtection,
     TermError::RDMAPLocalCatastrophic, TermError::RDMAPLocalCatastrophic},
    {Illegal::WindowWriteBeyondEnd, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::DDPTaggedBounds, TermError::DDPTaggedTOWrap},
    {Illegal::WindowWriteWithoutRight, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::DDPTaggedInvalidSTag, TermError::DDPTaggedInvalidSTag},
    {Illegal::WindowReadBeyondEnd, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::RDMAPBounds, TermError::RDMAPTOWrap},
    {Illegal::WindowReadWithoutRight, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::RDMAPAccess, TermError::RDMAPAccess},
    {Illegal::WindowReadOldKey, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::RDMAPInvalidSTag, TermError::RDMAPInvalidSTag},
    {Illegal::WindowReadInvalidated, FoundBy::Responder, WorkStatus::RemoteAccess,
     TermError::RDMAPInvalidSTag, TermError::RDMAPInvalidSTag},
    {Illegal::WindowInvalidateType1, FoundBy::Receiver, WorkStatus::LocalProtection,
     TermError::RDMAPCannotInvalidate, TermError::RDMAPCannotInvalidate},
    {Illegal::WindowLocalInvalidateType1, FoundBy::Requester, WorkStatus::LocalProtection,
     TermError::RDMAPLocalCatastrophic, TermError::RDMAPLocalCatastrophic},
    {Illegal::WindowBindBeyondEnd, FoundBy::Requester, WorkStatus::WindowBind,
     TermError::RDMAPLocalCatastrophic, TermError::RDMAPLocalCatastrophic},
    {Illegal::WindowBindTwice, FoundBy::Requester, WorkStatus::WindowBind,
     TermError::RDMAPLocalCatastrophic, TermError::RDMAPLocalCatastrophic},
    {Illegal::WindowAsLocal, FoundBy::Requester, WorkStatus::LocalProtection,
     TermError::RDMAPLocalCatastrophic, TermError::RDMAPLocalCatastrophic},
};

const Consequence& consequence(Illegal illegal) {
  return *std::find_if(std::begin(kConsequences), std::end(kConsequences),
                       [illegal](const Consequence& row) { return row.illegal == illegal; });
}

std::string of(const Endpoint& end, const char* text) {
  return std::string(end.name()) + ": " + text;
}

bool is_one_of(std::optional<TermError> error, std::initializer_list<TermError> list) {
  return error && std::find(list.begin(), list.end(), *error) != list.end();
}

}  // namespace

/// The model needs to know what the startup settled: whether an RTR takes the first receive.
Effects& Simulation::effects(std::size_t end) {
  if (!effects_[end]) {
    const bool shifted =
        end == 0 && ends_[0]->established() && ends_[0]->qp().stream().rtr == core::RTR::Send;
    effects_[end] = std::make_unique<Effects>(*arenas_[end], *arenas_[1 - end], work_[end],
                                              work_[1 - end], shifted ? 1 : 0);
  }
  return *effects_[end];
}

void Simulation::handle_completion(std::size_t end, const Completion& completion) {
  const bool receive = completion.opcode == core::WorkOpcode::Receive;
  if (!receive) completed_[end].insert(completion.id);
  switch (completion.status) {
    case WorkStatus::Success:
      ++(receive ? tally_.receives : tally_.succeeded);
      break;
    case WorkStatus::Flushed:
      ++tally_.flushed;
      break;
    default:
      ++tally_.failed;
      guilty_[end] = Guilty{completion.id, completion.status};
  }
  if (!receive && completion.id < work_[end].operations.size()) {
    check_memory_released(end, completion.id);
  }
  if (completion.status != WorkStatus::Success) {
    const bool expected = receive && completion.status == WorkStatus::Flushed && ending_;
    const bool post_mortem = ends_[end]->phase() == Phase::Over;
    if (settings_.peaceful() && !expected && !post_mortem) {
      verdict_.fail(Check::Status,
                    of(*ends_[end], "did not succeed although nothing is wrong: WR ") +
                        std::to_string(completion.id) + ", " + name(completion.status));
    }
    return;
  }
  const std::uint64_t index = receive ? completion.id - Workload::kReceiveID : completion.id;
  if (ends_[end]->phase() == Phase::Over && index >= kPostMortemID) {
    return verdict_.fail(Check::Status, of(*ends_[end], "success without a stream"));
  }
  receive ? handle_received(end, completion) : handle_sent(end, completion);
}

/// A completed request's memory is the program's again: nothing may still be sent from it, unless a
/// later request uses the same octets. A reset, which Error brings, sends nothing any more.
void Simulation::check_memory_released(std::size_t end, std::size_t index) {
  Endpoint& here = *ends_[end];
  if (here.phase() != Phase::Streaming || here.qp().state() == core::QPState::Error) return;
  const std::vector<Operation>& operations = work_[end].operations;
  const auto shares = [](const Run& a, const Run& b) {
    return a.region == b.region && a.offset < b.offset + b.octets && b.offset < a.offset + a.octets;
  };
  for (const Run& run : operations[index].local) {
    if (run.octets == 0 ||
        !here.batch_references(arenas_[end]->address(run.region) + run.offset, run.octets)) {
      continue;
    }
    bool shared = operations[index].is_request();
    for (std::size_t later = index + 1; later < operations.size(); ++later) {
      for (const Run& other : operations[later].local) shared |= shares(run, other);
    }
    if (shared) continue;
    verdict_.fail(Check::Completions, of(here, "completed while its memory is still being sent"));
  }
}

void Simulation::handle_sent(std::size_t end, const Completion& completion) {
  const Operation& operation = work_[end].operations[completion.id];
  const Illegal illegal = operation.illegal;
  // What only the peer can find wrong may have been taken by the transport before it did.
  const bool may_succeed =
      illegal == Illegal::None ||
      (!operation.is_request() && illegal != Illegal::LocalBadSTag &&
       illegal != Illegal::LocalBeyondEnd && illegal != Illegal::LocalInvalidateBadSTag &&
       !is_about_own_window(illegal));
  if (!may_succeed) {
    verdict_.fail(Check::Status, of(*ends_[end], "succeeded although illegal: ") + name(illegal));
  }
  if (completion.octets != operation.octets) {
    verdict_.fail(Check::Completions, of(*ends_[end], "completed with another length"));
  }
  if (operation.is_request()) {
    const Effects::Position after = effects(end).after[completion.id];
    check_zone(effects(end).home, after.home, "a Read's data or an original value");
    // The request was answered, so all before it arrived, and an atomic was performed.
    check_zone(effects(end).front, after.front, "what was sent before a Read or by an atomic");
  }
  if (operation.invalidates && !operation.is_send()) revoke(end, *operation.invalidates);
  if (operation.is_local() && operation.window) handle_window(end, operation);
}

/// A bind or an end of our own window completed: from here on the peer is let in, or is not.
void Simulation::handle_window(std::size_t end, const Operation& operation) {
  const bool opens = operation.opcode == core::WorkOpcode::BindWindow && !operation.unbinds;
  if (!opens || verdict_.breaks_once("window-shut")) return arenas_[end]->shut(*operation.window);
  arenas_[end]->window(*operation.window).state = Window::State::Open;
  ++tally_.windows;
}

void Simulation::handle_received(std::size_t end, const Completion& completion) {
  Effects& effect = effects(1 - end);
  const std::size_t index = effect.fills[completion.id - Workload::kReceiveID];
  if (index == Effects::kNothing) {
    const bool rtr = completion.id == Workload::kReceiveID && end == 1 && completion.octets == 0;
    if (!rtr) verdict_.fail(Check::Completions, of(*ends_[end], "received what nobody sent"));
    return;
  }
  const Operation& send = work_[1 - end].operations[index];
  if (send.illegal != Illegal::None) {
    verdict_.fail(Check::Status,
                  of(*ends_[end], "received what is illegal: ") + name(send.illegal));
  }
  const bool of_window = send.opcode == core::WorkOpcode::SendInvalidate && send.window;
  const bool invalidates = send.invalidates || of_window;
  const STag closed = of_window     ? arenas_[end]->window(*send.window).bound
                      : invalidates ? arenas_[end]->region(*send.invalidates).stag
                                    : STag{};
  if (completion.octets != send.octets || completion.solicited != send.solicited ||
      completion.invalidated != invalidates || completion.invalidated_stag != closed) {
    verdict_.fail(Check::Completions, of(*ends_[end], "a receive does not describe its Send, WR ") +
                                          std::to_string(index));
  }
  check_immediate(end, completion, send);
  check_zone(effect.front, effect.after[index].front, "a received message");
  if (of_window) {
    arenas_[end]->shut(*send.window);
  } else if (invalidates) {
    revoke(end, *send.invalidates);
  }
  received_[end].insert(index);
}

void Simulation::check_immediate(std::size_t end, const Completion& completion,
                                 const Operation& send) {
  using With = Completion::With;
  const With with = send.opcode == core::WorkOpcode::WriteImmediate  ? With::Immediate
                    : send.opcode == core::WorkOpcode::SendImmediate ? With::SendImmediate
                                                                     : With::Nothing;
  const bool whole = with == With::Immediate;
  const bool same = with == With::Nothing ||
                    (whole ? completion.immediate == send.immediate
                           : completion.immediate.first() == send.immediate.first());
  if (completion.with != with || !same) {
    verdict_.fail(Check::Completions, of(*ends_[end], "came with other immediate data"));
  }
}

void Simulation::revoke(std::size_t end, std::size_t region) {
  arenas_[end]->revoke(region);
  if (verdict_.breaks_once("revoked-changes")) arenas_[end]->address(region)[0] ^= 4;
}

void Simulation::check_zone(Mirror& mirror, std::size_t steps, const char* what) {
  if (verdict_.failed()) return;
  for (const auto& arena : arenas_) {
    if (const Region* region = arena->changed_after_revocation()) {
      return verdict_.fail(Check::Revoked, "a region of " + std::to_string(region->octets) +
                                               " octets changed after it was taken back");
    }
  }
  switch (mirror.settle(steps)) {
    case Mirror::Match::Yes:
      return;
    case Mirror::Match::NotYet:
      return verdict_.fail(Check::Visible, std::string(what) + " is not there");
    case Mirror::Match::No:
      return verdict_.fail(Check::Memory, std::string(what) + ": octet " +
                                              std::to_string(mirror.difference()) +
                                              " of its zone is not as any order of events allows");
  }
}

/// Every octet of both ends, guards included.
void Simulation::check_memory() {
  for (std::size_t end : {0u, 1u}) {
    check_zone(effects(end).front, 0, end == 0 ? "the responder's front" : "the initiator's front");
    check_zone(effects(end).home, 0, end == 0 ? "the initiator's home" : "the responder's home");
  }
}

void Simulation::check_end() {
  check_memory();
  check_post_mortem();
  if (verdict_.failed()) return;
  for (const auto& end : ends_) {
    if (end->qp().state() != core::QPState::Error) {
      verdict_.fail(Check::Ending, of(*end, "over, but not in Error"));
    }
    if (end->established() && !end->noticed(QPNotice::Kind::Closed)) {
      verdict_.fail(Check::Ending, of(*end, "the stream is over without a notice"));
    }
  }
  if (settings_.peaceful()) check_peace();
  if (settings_.trouble == Trouble::Illegal) check_illegal();
  if (settings_.trouble == Trouble::Corruption && !startup_corrupted_) check_corruption();
}

/// What is posted to a QP whose stream is over is flushed at once; then nothing may be left.
void Simulation::check_post_mortem() {
  for (std::size_t end : {0u, 1u}) {
    Queues& queues = ends_[end]->queues();
    for (std::uint64_t id : {kPostMortemID, kPostMortemID + 1}) {
      queues.post_send({.id = id}, {}, {});
      queues.post_receive(Workload::kReceiveID + id, {});
    }
    ends_[end]->handle_posted();
    queues.check_all_completed();
  }
}

/// A run without trouble: every effect is there, and the stream ended without a word.
void Simulation::check_peace() {
  for (std::size_t end : {0u, 1u}) {
    Effects& effect = effects(end);
    check_zone(effect.front, effect.front.step_count(), "all that was sent");
    check_zone(effect.home, effect.home.step_count(), "all that was read");
    const Endpoint& here = *ends_[end];
    if (!ending_ || !here.established()) {
      verdict_.fail(Check::Ending, of(here, "the stream ended by itself"));
    }
    for (const QPNotice::Kind kind : {QPNotice::Kind::TerminateSent,
                                      QPNotice::Kind::TerminateArrived, QPNotice::Kind::LLPLost}) {
      if (here.noticed(kind)) verdict_.fail(Check::Ending, of(here, "no orderly end"));
    }
    if (!here.noticed(QPNotice::Kind::PeerClosed)) {
      verdict_.fail(Check::Ending, of(here, "ended without the peer's FIN"));
    }
    const core::StreamParameters& stream = here.qp().stream();
    const core::StartupConfig& own = settings_.ends[end].startup;
    const core::StartupConfig& peer = settings_.ends[1 - end].startup;
    const core::RTR rtr = end == 0 ? settings_.rtr() : core::RTR::None;
    if (stream.crc != (own.crc || peer.crc) || stream.transmit_markers != peer.markers ||
        stream.receive_markers != own.markers || stream.rtr != rtr ||
        stream.revision != settings_.ends[0].startup.revision) {
      verdict_.fail(Check::Ending, of(here, "the startup settled on something else"));
    }
  }
}

/// The illegal request must have ended the stream with the Terminate that RFC 5040 asks for, and
/// the guilty work request must be the right one.
void Simulation::check_illegal() {
  const std::size_t sinner = settings_.acting_end;
  const std::vector<Operation>& operations = work_[sinner].operations;
  const auto sin = std::find_if(operations.begin(), operations.end(),
                                [](const Operation& o) { return o.illegal != Illegal::None; });
  if (sin == operations.end()) return;
  const auto id = static_cast<std::uint64_t>(sin - operations.begin());
  const Endpoint& here = *ends_[sinner];
  const Endpoint& there = *ends_[1 - sinner];

  const bool no_reads =
      sin->is_request() && std::min(here.qp().stream().ord, settings_.ends[sinner].qp.ord_max) == 0;
  const Consequence& row = consequence(no_reads ? Illegal::ReadTwoSinks : sin->illegal);
  const bool told_by_peer = row.found_by != FoundBy::Requester;
  const auto is_told = [&](std::optional<TermError> error) {
    return !verdict_.breaks("other-terminate") && error &&
           (*error == row.error || *error == row.or_error);
  };
  const Endpoint& teller = told_by_peer ? there : here;
  const Endpoint& told = told_by_peer ? here : there;
  if (!is_told(teller.qp().terminate_sent()) || !is_told(told.qp().terminate_received())) {
    return verdict_.fail(Check::Ending, of(teller,
                                           "should have ended the stream with a certain "
                                           "Terminate because of: ") +
                                            name(sin->illegal));
  }
  // A Write or Send may have completed before the peer found it wrong: then nobody is guilty.
  const bool receive = row.found_by == FoundBy::Receiver;
  const std::optional<Guilty>& guilty = guilty_[receive ? 1 - sinner : sinner];
  const bool must = !told_by_peer || receive || sin->is_request();
  if (must && !guilty) {
    return verdict_.fail(Check::Status, of(here, "nobody is guilty of: ") + name(sin->illegal));
  }
  if (guilty && !receive && (guilty->id != id || guilty->status != row.status)) {
    return verdict_.fail(Check::Status,
                         of(here, "the wrong WR is guilty of: ") + name(sin->illegal));
  }
  if (receive && guilty->status != row.status) {
    verdict_.fail(Check::Status, of(there, "the receive ended for another reason"));
  }
}

/// Damaged octets are found by the CRC or by a marker, or they are never waited for to the end.
void Simulation::check_corruption() {
  for (const auto& end : ends_) {
    const std::optional<TermError> sent = end->qp().terminate_sent();
    if (sent && !is_one_of(sent, {TermError::MPACRC, TermError::MPAMarker,
                                  TermError::RDMAPStreamCatastrophic})) {
      verdict_.fail(Check::Ending,
                    of(*end, "corruption was taken for something else: ") + wire::text(*sent));
    }
  }
}

}  // namespace weft::sim
