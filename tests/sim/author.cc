// Operations that are legal, in posting order.
#include "tests/sim/author.h"

#include <algorithm>

namespace weft::sim {

using core::WorkOpcode;

namespace {

constexpr std::uint64_t kAllBits = ~std::uint64_t{0};
constexpr core::PD kOtherPD{77};
constexpr core::StreamId kOtherStream{78};

bool overlap(const Run& a, const Run& b) {
  return a.region == b.region && a.offset < b.offset + b.octets && b.offset < a.offset + a.octets;
}

}  // namespace

bool percent(Random& random, std::uint32_t of_hundred) {
  return random.chance(of_hundred * 10'000);
}

Author::Author(const Settings& settings, std::size_t end, Random& random, Arena& own, Arena& peer)
    : settings_(settings), end_(end), random_(random), own_(own), peer_(peer) {
  pd_ = settings.ends[end].qp.pd;
  peer_pd_ = settings.ends[1 - end].qp.pd;
  const auto size = static_cast<std::uint32_t>(settings.region_octets);
  for (int i = 0; i < 2; ++i) home_.push_back(own.add(Zone::Home, size, core::kLocalWrite, pd_));
  for (int i = 0; i < 2; ++i) offered_.push_back(peer.add(Zone::Front, size, kOffered, peer_pd_));
  source_only_ = own.add(Zone::Home, size / 2 + 1, 0, pd_);
  read_only_ = peer.add(Zone::Front, size / 2 + 1, core::kRemoteRead, peer_pd_);
  write_only_ =
      peer.add(Zone::Front, size / 2 + 1, core::kLocalWrite | core::kRemoteWrite, peer_pd_);
  const bool other_stream = percent(random, 50);
  foreign_ = peer.add(Zone::Front, 64, kOffered, other_stream ? peer_pd_ : kOtherPD);
  if (other_stream) peer.region(foreign_).stream = kOtherStream;
  for (std::uint64_t n = percent(random, 50) ? random.between(1, 3) : 0; n > 0; --n) {
    draw_window();
  }
  const bool sinned_against = settings.acting_end != end;
  if (sinned_against ? is_about_peers_window(settings.illegal)
                     : is_about_own_window(settings.illegal)) {
    draw_victim();
  }
}

void Author::write_head() {
  // Something must leave the initiator, or the responder may never speak (CON-15).
  if (end_ == 0) draw_write();
  for (BoundWindow& window : windows_) {
    if (percent(random_, 20)) draw_write();
    Operation bind;
    bind.opcode = WorkOpcode::BindWindow;
    bind.window = window.index;
    finish(std::move(bind));
    window.bind = operations_.size() - 1;
  }
}

void Author::write_body(Author& peer) {
  peer_windows_ = &peer.windows_;
  const std::size_t count = random_.between(end_ == 0 ? 1 : 0, settings_.sends_max);
  const bool sins = settings_.illegal != Illegal::None && settings_.acting_end == end_;
  const std::size_t sin_at = sins ? random_.between(1, count) : count + 1;
  for (std::size_t i = 0; i < count; ++i) {
    draw_legal();
    if (i + 1 == sin_at) draw_illegal();
  }
  if (sins && count == 0) draw_illegal();
  for (BoundWindow& window : peer.windows_) {
    if (!window.victim && window.used && percent(random_, 60)) draw_window_end(window);
  }
}

std::vector<Operation> Author::write_tail() {
  for (const BoundWindow& window : windows_) {
    if (!window.released_by) continue;
    Operation end;
    end.window = window.index;
    end.unbinds = own_.window(window.index).kind == core::WindowKind::Type1;
    end.opcode = end.unbinds ? WorkOpcode::BindWindow : WorkOpcode::LocalInvalidate;
    end.after = {*window.released_by, true};
    finish(std::move(end));
  }
  return std::move(operations_);
}

std::uint32_t Author::draw_octets(std::uint32_t max) {
  if (percent(random_, 10) || max == 0) return 0;
  if (percent(random_, 50)) max = std::max(max / 8, 1u);
  return static_cast<std::uint32_t>(random_.between(1, max));
}

std::uint32_t Author::message_max() const {
  return static_cast<std::uint32_t>(settings_.region_octets / 2);
}

Run Author::draw_run(const Arena& arena, std::size_t region, std::uint32_t octets) {
  const std::uint32_t room = arena.region(region).octets - octets;
  return {region, static_cast<std::uint32_t>(random_.between(0, room)), octets};
}

void Author::draw_payload(Operation& operation, std::uint32_t octets) {
  operation.octets = octets;
  if (octets > 0 && octets <= 512 && percent(random_, 25)) {
    operation.inline_data.resize(octets);
    for (std::uint8_t& octet : operation.inline_data) {
      octet = static_cast<std::uint8_t>(random_.next());
    }
    return;
  }
  const std::uint64_t runs = random_.between(1, settings_.ends[end_].qp.send_sges);
  for (std::uint64_t left = runs; left > 0 && (octets > 0 || percent(random_, 50)); --left) {
    const auto part = static_cast<std::uint32_t>(left == 1 ? octets : random_.between(0, octets));
    const std::size_t region = percent(random_, 25) && part <= own_.region(source_only_).octets
                                   ? source_only_
                                   : home_[random_.between(0, 1)];
    operation.local.push_back(draw_run(own_, region, part));
    octets -= part;
  }
}

void Author::finish(Operation operation) {
  bool needed = false;
  for (const OpenRead& read : open_reads_) {
    // A request's own sink is filled in its turn. But an atomic does not wait for the Reads
    // before it to be answered.
    needed |= operation.is_atomic() && overlap(*operation.remote, read.source);
    if (!operation.is_request()) {
      for (const Run& run : operation.local) needed |= overlap(run, read.sink);
      needed |= operation.remote && overlap(*operation.remote, read.source);
    }
  }
  operation.read_fence = needed || percent(random_, 5);
  operation.local_fence |= percent(random_, 3);
  operation.signaled = percent(random_, 70);
  if (operation.read_fence || operation.local_fence) open_reads_.clear();
  if (operation.is_request() && !operation.local.empty()) {
    // What an atomic does at its target is done in order with the Writes.
    const Run source = operation.is_atomic() ? Run{} : *operation.remote;
    open_reads_.push_back({source, operation.local[0]});
  }
  operations_.push_back(std::move(operation));
}

void Author::draw_write() {
  Operation operation;
  operation.opcode = WorkOpcode::Write;
  draw_payload(operation, draw_octets(message_max()));
  const std::size_t region = percent(random_, 20) && operation.octets <= message_max()
                                 ? write_only_
                                 : offered_[random_.between(0, 1)];
  operation.remote = draw_run(peer_, region, operation.octets);
  finish(std::move(operation));
}

void Author::draw_send() {
  Operation operation;
  operation.opcode = WorkOpcode::Send;
  operation.solicited = percent(random_, 40);
  draw_payload(operation, draw_octets(message_max()));
  finish(std::move(operation));
}

void Author::draw_read() {
  Operation operation;
  operation.opcode = WorkOpcode::Read;
  operation.octets = draw_octets(message_max());
  const std::size_t region = percent(random_, 20) ? read_only_ : offered_[random_.between(0, 1)];
  operation.remote = draw_run(peer_, region, operation.octets);
  if (operation.octets > 0 || percent(random_, 50)) {
    operation.local = {draw_run(own_, home_[random_.between(0, 1)], operation.octets)};
  }
  finish(std::move(operation));
}

Run Author::draw_target(std::size_t region, std::uint32_t off) {
  Run run = draw_run(peer_, region, 16);
  const std::size_t at = peer_.place(run) % 8;
  run.offset += static_cast<std::uint32_t>((8 - at) % 8) + off;
  run.octets = 8;
  return run;
}

std::uint64_t Author::draw_bits() {
  const std::uint64_t fields[] = {0, kAllBits, 0x8080808080808080, 0xff};
  return percent(random_, 50) ? fields[random_.between(0, 3)] : random_.next();
}

void Author::draw_operands(Operation& operation) {
  operation.opcode = percent(random_, 50) ? WorkOpcode::FetchAdd : WorkOpcode::CompareSwap;
  operation.octets = 8;
  operation.operands.data = draw_bits();
  operation.operands.data_mask = draw_bits();
  if (operation.opcode == WorkOpcode::FetchAdd) return;
  operation.operands.compare = draw_bits();
  // Of few bits are some equal.
  operation.operands.compare_mask =
      percent(random_, 70) ? random_.next() & random_.next() & random_.next() & random_.next()
                           : draw_bits();
}

void Author::draw_atomic() {
  Operation operation;
  draw_operands(operation);
  operation.remote = draw_target(offered_[random_.between(0, 1)]);
  operation.local = {draw_run(own_, home_[random_.between(0, 1)], 8)};
  finish(std::move(operation));
}

void Author::draw_write_immediate() {
  draw_write();
  operations_.back().opcode = WorkOpcode::WriteImmediate;
  operations_.back().solicited = percent(random_, 40);
  draw_immediate();
}

void Author::draw_send_immediate() {
  draw_send();
  operations_.back().opcode = WorkOpcode::SendImmediate;
  draw_immediate();
}

void Author::draw_immediate() {
  wire::Immediate& immediate = operations_.back().immediate;
  immediate.value = draw_bits();
  // Marked as a Send's it would be one.
  if (immediate.is_of_next_send()) immediate.value = 0;
}

void Author::draw_legal() {
  if (percent(random_, 30) && draw_window_use()) return;
  const std::uint64_t kind = random_.between(0, 99);
  const bool reads = settings_.reads_allowed(end_) > 0;
  if (kind < 28) return draw_write();
  if (kind < 35) return draw_write_immediate();
  if (kind < 58) return draw_send();
  if (kind < 65) return draw_send_immediate();
  if (kind < 80) return reads ? draw_read() : draw_send();
  if (kind < 90) return reads ? draw_atomic() : draw_send();
  if (kind < 94) return draw_send_invalidate();
  if (kind < 97) return draw_local_invalidate();
  return reads ? draw_read_invalidate() : draw_write();
}

}  // namespace weft::sim
