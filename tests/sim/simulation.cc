// The course of a run: setting up, the loop under the virtual clock, the ways to its end.
#include "tests/sim/simulation.h"

#include <netinet/in.h>

#include <algorithm>
#include <string>

#include "tests/sim/work_request.h"

namespace weft::sim {
namespace {

constexpr std::uint64_t kTurnsMax = 300'000;
constexpr std::uint16_t kPort = 7174;

transport::Address address() {
  sockaddr_in raw = {};
  raw.sin_family = AF_INET;
  raw.sin_port = htons(kPort);
  raw.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return transport::Address(reinterpret_cast<const sockaddr*>(&raw));
}

}  // namespace

Simulation::Simulation(std::uint64_t seed, Verdict& verdict, Tally& tally)
    : verdict_(verdict),
      tally_(tally),
      random_(seed),
      settings_(draw_settings(seed, random_)),
      sinks_{Sink(*this, 0), Sink(*this, 1)} {
  if (verdict.breaks("corrupt-without-crc")) {
    settings_.faults.corrupt = 200'000;
    for (EndSettings& end : settings_.ends) end.startup.crc = end.startup.markers = false;
  }
  for (std::size_t end : {0u, 1u}) {
    ends_[end] = std::make_unique<Endpoint>(settings_, end, verdict, sinks_[end], random_);
  }
}

void Simulation::run() {
  ++tally_.seeds;
  tally_.peaceful += settings_.peaceful();
  trace_settings();
  for (std::uint32_t round = 0; round < settings_.rounds && !verdict_.failed(); ++round) {
    if (round > 0) verdict_.trace("---- another stream on the same QPs");
    run_round();
  }
}

void Simulation::run_round() {
  set_up_round();
  loop();
  if (!verdict_.failed()) check_end();
  const transport::FaultCounters faults = transport_->counters();
  tally_.cuts += faults.streams_cut;
  tally_.early_fins += faults.early_fins;
  tally_.corruptions += faults.octets_corrupted;
  tally_.delays += faults.sends_delayed + faults.receives_delayed + faults.receives_merged;
  tally_.splits += faults.sends_split + faults.receives_split;
  for (std::size_t end : {0u, 1u}) {
    tally_.operations += work_[end].operations.size();
    tally_.streams += ends_[end]->established();
    tally_.startups_failed += !ends_[end]->established();
    tally_.terminates += ends_[end]->noticed(core::QPNotice::Kind::TerminateSent);
    if (!ends_[end]->qp().reset(verdict_.now) && !verdict_.failed()) {
      verdict_.fail(Check::Interface, "an ended QP could not be reset");
    }
    if (!verdict_.failed()) ends_[end]->check_windows_after_reset();
    arenas_[end]->deregister_all(ends_[end]->table());
  }
}

void Simulation::set_up_round() {
  ending_ = startup_corrupted_ = gave_up_ = false;
  for (std::size_t end : {0u, 1u}) {
    effects_[end].reset();
    guilty_[end].reset();
    arenas_[end] = std::make_unique<Arena>(random_);
  }
  work_ = draw_work(settings_, random_, {arenas_[0].get(), arenas_[1].get()});
  for (std::size_t end : {0u, 1u}) {
    arenas_[end]->seal(ends_[end]->table());
    ends_[end]->begin_round(*arenas_[end]);
  }
  listener_.reset();
  transport_.reset();
  network_ = std::make_unique<transport::LoopbackNetwork>(
      transport::LoopbackOptions{.buffer_octets = settings_.buffer_octets, .readiness = false});
  settings_.faults.seed += 0x9e3779b9;
  transport_ = std::make_unique<transport::FaultTransport>(*network_, settings_.faults,
                                                           [this] { return verdict_.now; });
  auto listener = transport_->listen(address(), {});
  weft_assert(listener.ok());
  listener_ = std::move(*listener);
  set_up_script();
  connect();
}

void Simulation::connect() {
  auto stream = transport_->connect({}, address());
  weft_assert(stream.ok());
  ends_[0]->use_stream(std::move(*stream));
  auto accepted = listener_->accept();
  weft_assert(accepted.ok());
  ends_[1]->use_stream(std::move(*accepted));
}

void Simulation::set_up_script() {
  script_.clear();
  script_at_ = 0;
  for (std::size_t end : {0u, 1u}) {
    waiting_[end].clear();
    completed_[end].clear();
    received_[end].clear();
  }
  const auto add = [this](Event::Kind kind, std::size_t end, std::size_t index, Duration at) {
    script_.push_back({kind, end, index, verdict_.now + at});
  };
  for (std::size_t end : {0u, 1u}) {
    const Workload& work = work_[end];
    for (std::size_t i = 0; i < work.receives.size(); ++i) {
      add(Event::Kind::Receive, end, i, work.receives[i].at);
    }
    for (std::size_t i = 0; i < work.operations.size(); ++i) {
      add(Event::Kind::Send, end, i, work.operations[i].at);
    }
    for (std::size_t i = 0; i < work.deregistrations.size(); ++i) {
      add(Event::Kind::Deregister, end, i, work.deregistrations[i].at);
    }
    if (settings_.emss_changes) {
      add(Event::Kind::Emss, end, random_.between(128, 9000),
          Duration(static_cast<std::int64_t>(random_.between(0, 1'000'000))));
    }
  }
  if (settings_.manner_at_random_time) {
    const auto latest = static_cast<std::uint64_t>(settings_.script_span.count()) + 300'000;
    add(Event::Kind::Act, settings_.acting_end, 0,
        Duration(static_cast<std::int64_t>(random_.between(0, latest))));
  }
  std::stable_sort(script_.begin(), script_.end(),
                   [](const Event& a, const Event& b) { return a.at < b.at; });
}

void Simulation::loop() {
  // A merge waits for calls, not for time.
  const std::uint32_t idle_max = settings_.faults.merge > 0 ? settings_.faults.merge_steps + 1 : 0;
  std::uint32_t idle = 0;
  for (std::uint64_t turns = 0; !verdict_.failed(); ++turns) {
    if (turns == kTurnsMax) {
      return verdict_.fail(Check::Progress, "the run does not come to an end");
    }
    while (script_at_ < script_.size() && script_[script_at_].at <= verdict_.now) {
      play(script_[script_at_++]);
      idle = 0;
    }
    if (post_waiting() || turn() || post_waiting()) {
      idle = 0;
      continue;
    }
    const bool all_posted =
        script_at_ == script_.size() && waiting_[0].empty() && waiting_[1].empty();
    if (ends_[0]->phase() == Phase::Over && ends_[1]->phase() == Phase::Over && all_posted) {
      return;
    }
    if (idle++ < idle_max) continue;
    idle = 0;
    if (all_posted && all_quiet()) {
      end_in_peace();
    } else if (!advance_clock()) {
      handle_stall();
    }
  }
}

bool Simulation::turn() {
  const std::size_t first = random_.between(0, 1);
  const bool starting = !ends_[0]->established() || !ends_[1]->established();
  bool moved = false;
  for (std::size_t end : {first, 1 - first}) {
    moved |= ends_[end]->turn();
    // Nothing was placed yet: the initiator has only just learnt what the startup settled.
    if (ends_[0]->established()) effects(0), effects(1);
  }
  if (ends_[0]->wants_revision_1() && !ends_[1]->connected() &&
      ends_[1]->phase() == Phase::Unconnected) {
    ++tally_.retries;
    ends_[0]->downgrade();
    connect();
    moved = true;
  }
  // The startup has no CRC: what is damaged before its last octet arrived may mean anything.
  if (starting) startup_corrupted_ = transport_->counters().octets_corrupted > 0;
  return moved;
}

/// To the next moment at which something can happen. False: there is none.
bool Simulation::advance_clock() {
  std::optional<Instant> next;
  const auto consider = [&](std::optional<Instant> at) {
    // What is past and made no difference will make none.
    if (at && *at > verdict_.now && (!next || *at < *next)) next = at;
  };
  consider(transport_->next_wake());
  for (const auto& end : ends_) consider(end->deadline());
  if (script_at_ < script_.size()) consider(script_[script_at_].at);
  if (!next) return false;
  verdict_.now = *next;
  return true;
}

void Simulation::play(const Event& event) {
  Endpoint& end = *ends_[event.end];
  switch (event.kind) {
    case Event::Kind::Receive:
      return post_receive(event.end, event.index);
    case Event::Kind::Send:
      return waiting_[event.end].push_back(event.index);
    case Event::Kind::Deregister:
      return end.deregister(work_[event.end].deregistrations[event.index].region);
    case Event::Kind::Emss:
      return end.change_emss(event.index);
    case Event::Kind::Act:
      if (end.phase() != Phase::Streaming) return;
      ending_ = true;
      return end.act(settings_.manner);
  }
}

/// Has the peer done what this operation needs? Without a stream it will not any more.
bool Simulation::may_post(std::size_t end, const Operation& operation) const {
  if (!operation.after || ends_[end]->phase() == Phase::Over) return true;
  const std::size_t needed = operation.after->operation;
  return operation.after->received ? received_[end].count(needed) > 0
                                   : completed_[1 - end].count(needed) > 0;
}

bool Simulation::post_waiting() {
  bool any = false;
  for (std::size_t end : {0u, 1u}) {
    std::deque<std::size_t>& waiting = waiting_[end];
    for (; !waiting.empty() && may_post(end, work_[end].operations[waiting.front()]); any = true) {
      const std::size_t index = waiting.front();
      waiting.pop_front();
      post_send(end, index);
    }
  }
  return any;
}

void Simulation::post_send(std::size_t end, std::size_t index) {
  const Operation& operation = work_[end].operations[index];
  std::vector<core::SGE> sges;
  core::WindowBinding binding;
  const core::SendWR wr =
      make_wr(operation, index, *arenas_[end], *arenas_[1 - end], sges, binding);
  if (operation.is_local() && operation.window && operation.illegal == Illegal::None) {
    const bool opens = operation.opcode == core::WorkOpcode::BindWindow && !operation.unbinds;
    arenas_[end]->window(*operation.window).state =
        opens ? Window::State::Binding : Window::State::Closing;
  }
  verdict_.trace(
      "%s: posts WR %zu: %s, %u octets%s%s%s%s%s", ends_[end]->name(), index,
      name(operation.opcode), operation.octets, operation.inline_data.empty() ? "" : ", inline",
      operation.read_fence ? ", read fence" : "", operation.local_fence ? ", local fence" : "",
      operation.illegal != Illegal::None ? ", ILLEGAL: " : "",
      operation.illegal != Illegal::None ? name(operation.illegal) : "");
  ends_[end]->queues().post_send(wr, std::move(sges), operation.inline_data);
  ends_[end]->handle_posted();
}

void Simulation::post_receive(std::size_t end, std::size_t index) {
  const Receive& receive = work_[end].receives[index];
  verdict_.trace("%s: posts receive %zu", ends_[end]->name(), index);
  ends_[end]->queues().post_receive(Workload::kReceiveID + index,
                                    make_sges(receive.sges, *arenas_[end]));
  ends_[end]->handle_posted();
}

bool Simulation::all_quiet() const {
  return ends_[0]->quiet() && ends_[1]->quiet() &&
         ends_[0]->octets_sent() == ends_[1]->octets_consumed() &&
         ends_[1]->octets_sent() == ends_[0]->octets_consumed();
}

void Simulation::end_in_peace() {
  check_memory();
  if (verdict_.breaks_once("octet-outside")) arenas_[0]->memory(Zone::Front)[0] ^= 1;
  ending_ = true;
  ends_[settings_.acting_end]->act(settings_.manner);
  if (settings_.manner == Manner::BothClose) ends_[1 - settings_.acting_end]->act(settings_.manner);
}

/// Nothing moves and no time will change that.
void Simulation::handle_stall() {
  // Corruption may turn a length or the startup's flags into a reason to wait for ever; so may two
  // ends that do not fit. There the programs lose patience. Everywhere else it is a bug.
  const bool explained = transport_->counters().octets_corrupted > 0 ||
                         settings_.trouble == Trouble::Startup ||
                         (settings_.trouble == Trouble::Many && !ends_[0]->established());
  if (explained && !gave_up_) {
    gave_up_ = ending_ = true;
    for (const auto& end : ends_) end->abandon();
    return;
  }
  std::string text = "nothing can happen any more, but";
  for (const auto& end : ends_) {
    text += std::string(" the ") + end->name() + " is in " + core::name(end->qp().state()) +
            " (phase " + std::to_string(static_cast<int>(end->phase())) + ") with " +
            std::to_string(end->queues().sends_left()) + " sends open" +
            (end->held_back() ? ", held back" : "") + ";";
  }
  verdict_.fail(Check::Progress, text);
}

void Simulation::trace_settings() const {
  static const char* const kTroubles[] = {
      "none",    "an illegal request", "an abrupt end", "the connection", "corruption",
      "startup", "deregistrations",    "many"};
  verdict_.trace("seed %llu; trouble: %s; regions of %zu octets",
                 static_cast<unsigned long long>(settings_.seed),
                 kTroubles[static_cast<int>(settings_.trouble)], settings_.region_octets);
  for (const EndSettings& end : settings_.ends) {
    verdict_.trace(
        "  revision %d, CRC %d, markers %d, ird %d, ord %d, p2p %d (send %d write %d "
        "read %d), emss %zu, SQ %u, gather from %zu, %s%s%s",
        end.startup.revision, end.startup.crc, end.startup.markers, end.startup.ird,
        end.startup.ord, end.startup.peer_to_peer, end.startup.rtr_send, end.startup.rtr_write,
        end.startup.rtr_read, end.emss, end.qp.send_depth, end.qp.gather_octets_min,
        end.shared_receives ? "shared RQ" : "own RQ", end.qp.strict_receive ? ", strict" : "",
        end.qp.complete_placed ? ", done when placed" : "");
  }
}

}  // namespace weft::sim
