// Drawing work whose effects are known beforehand.
#include "tests/sim/workload.h"

#include <algorithm>

namespace weft::sim {
namespace {

using core::WorkOpcode;

constexpr std::uint32_t kOffered =
    core::kLocalWrite | core::kRemoteWrite | core::kRemoteRead | core::kRemoteAtomic;
constexpr std::uint64_t kAllBits = ~std::uint64_t{0};
constexpr core::PD kOtherPD{77};
constexpr core::StreamId kOtherStream{78};

bool percent(Random& random, std::uint32_t of_hundred) {
  return random.chance(of_hundred * 10'000);
}

bool overlap(const Run& a, const Run& b) {
  return a.region == b.region && a.offset < b.offset + b.octets && b.offset < a.offset + a.octets;
}

/// Draws the operations of one end, in posting order.
///
/// The result is predictable because of RDMAP's ordering rules alone: messages of one direction
/// take effect in order, and Reads fetch what earlier Writes wrote. Where those rules promise
/// nothing (a Write over what an earlier Read may not have fetched yet, a Send from what an earlier
/// Read may not have filled yet), a read fence goes in.
///
/// Windows make the ends wait for each other: who uses one has to know that it is bound, and who
/// closes one that it is not used any more. Each end therefore binds its windows in its head, uses
/// the peer's in its body, and closes what is left in its tail: nobody waits in a circle.
///
/// Calls match `write_head write_body write_tail`, each for both ends before the next.
class Author {
 public:
  Author(const Settings& settings, std::size_t end, Random& random, Arena& own, Arena& peer)
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

  void write_head() {
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

  void write_body(Author& peer) {
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

  std::vector<Operation> write_tail() {
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

 private:
  /// A window of ours as both authors see it.
  struct BoundWindow {
    std::size_t index;     ///< in our arena
    std::size_t bind = 0;  ///< the operation that binds it
    bool victim = false;   ///< kept for the illegal request
    bool used = false;
    bool closed = false;                     ///< by the peer, or promised to be used no more
    std::optional<std::size_t> released_by;  ///< the peer's Send behind its last use
  };

  struct OpenRead {
    Run source, sink;
  };

  std::uint32_t draw_octets(std::uint32_t max) {
    if (percent(random_, 10) || max == 0) return 0;
    if (percent(random_, 50)) max = std::max(max / 8, 1u);
    return static_cast<std::uint32_t>(random_.between(1, max));
  }
  std::uint32_t message_max() const {
    return static_cast<std::uint32_t>(settings_.region_octets / 2);
  }
  Run draw_run(const Arena& arena, std::size_t region, std::uint32_t octets) {
    const std::uint32_t room = arena.region(region).octets - octets;
    return {region, static_cast<std::uint32_t>(random_.between(0, room)), octets};
  }

  /// The payload: inline, or gathered from 0 to send_sges runs.
  void draw_payload(Operation& operation, std::uint32_t octets) {
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

  /// Adds the fence that the ordering rules make necessary, or for no reason at all.
  void finish(Operation operation) {
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

  void draw_write() {
    Operation operation;
    operation.opcode = WorkOpcode::Write;
    draw_payload(operation, draw_octets(message_max()));
    const std::size_t region = percent(random_, 20) && operation.octets <= message_max()
                                   ? write_only_
                                   : offered_[random_.between(0, 1)];
    operation.remote = draw_run(peer_, region, operation.octets);
    finish(std::move(operation));
  }

  void draw_send() {
    Operation operation;
    operation.opcode = WorkOpcode::Send;
    operation.solicited = percent(random_, 40);
    draw_payload(operation, draw_octets(message_max()));
    finish(std::move(operation));
  }

  void draw_read() {
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

  /// The address has to be a multiple of 8, plus `off`.
  Run draw_target(std::size_t region, std::uint32_t off = 0) {
    Run run = draw_run(peer_, region, 16);
    const std::size_t at = peer_.place(run) % 8;
    run.offset += static_cast<std::uint32_t>((8 - at) % 8) + off;
    run.octets = 8;
    return run;
  }
  std::uint64_t draw_bits() {
    const std::uint64_t fields[] = {0, kAllBits, 0x8080808080808080, 0xff};
    return percent(random_, 50) ? fields[random_.between(0, 3)] : random_.next();
  }
  void draw_operands(Operation& operation) {
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
  void draw_atomic() {
    Operation operation;
    draw_operands(operation);
    operation.remote = draw_target(offered_[random_.between(0, 1)]);
    operation.local = {draw_run(own_, home_[random_.between(0, 1)], 8)};
    finish(std::move(operation));
  }

  void draw_write_immediate() {
    draw_write();
    operations_.back().opcode = WorkOpcode::WriteImmediate;
    operations_.back().solicited = percent(random_, 40);
    draw_immediate();
  }
  void draw_send_immediate() {
    draw_send();
    operations_.back().opcode = WorkOpcode::SendImmediate;
    draw_immediate();
  }
  void draw_immediate() {
    wire::Immediate& immediate = operations_.back().immediate;
    immediate.value = draw_bits();
    // Marked as a Send's it would be one.
    if (immediate.is_of_next_send()) immediate.value = 0;
  }

  /// Onto a region of its own, or the one before it.
  void draw_window() {
    Window window;
    const bool again = !windows_.empty() && percent(random_, 30);
    window.region = again ? own_.window(windows_.back().index).region
                          : own_.add(Zone::Front, special_octets() + 32, kOffered, pd_);
    const std::uint32_t octets = own_.region(window.region).octets;
    window.octets = static_cast<std::uint32_t>(random_.between(1, octets));
    window.offset = static_cast<std::uint32_t>(random_.between(0, octets - window.octets));
    window.kind = percent(random_, 50) ? core::WindowKind::Type1 : core::WindowKind::Type2;
    window.access = core::kRemoteRead | core::kRemoteWrite | core::kRemoteAtomic;
    if (percent(random_, 40)) {
      window.access = static_cast<std::uint32_t>(random_.between(0, 7)) << 1;
    }
    if (percent(random_, 30)) window.access |= core::kZeroBased;
    add_window(window);
  }
  void add_window(Window window) {
    window.key = static_cast<std::uint8_t>(random_.next());
    windows_.push_back({own_.add_window(window)});
  }
  /// The one that the illegal request is about: smaller than its region at both ends.
  void draw_victim() {
    using enum Illegal;
    Window window;
    const std::uint32_t octets = special_octets() + 32;
    window.region = own_.add(Zone::Front, octets, kOffered, pd_);
    window.offset = 8;
    window.octets = octets - 16;
    const Illegal illegal = settings_.illegal;
    const bool first = illegal == WindowInvalidateType1 || illegal == WindowLocalInvalidateType1 ||
                       illegal == WindowBindBeyondEnd;
    window.kind = first ? core::WindowKind::Type1 : core::WindowKind::Type2;
    window.access = core::kRemoteRead | core::kRemoteWrite;
    if (illegal == WindowWriteWithoutRight) window.access = core::kRemoteRead;
    if (illegal == WindowReadWithoutRight) window.access = core::kRemoteWrite;
    if (percent(random_, 30)) window.access |= core::kZeroBased;
    add_window(window);
    windows_.back().victim = true;
  }
  BoundWindow& victim(std::vector<BoundWindow>& windows) {
    return *std::find_if(windows.begin(), windows.end(),
                         [](const BoundWindow& window) { return window.victim; });
  }
  void mean_window(Operation& operation, BoundWindow& window) {
    operation.window = window.index;
    operation.after = {window.bind, false};
    window.used = true;
  }
  Run draw_run_in(const Window& window, std::uint32_t octets) {
    const auto offset = static_cast<std::uint32_t>(random_.between(0, window.octets - octets));
    return {window.region, window.offset + offset, octets};
  }

  /// A Write, Read or atomic through a window of the peer's, or its end. False: there is none.
  bool draw_window_use() {
    if (peer_windows_->empty()) return false;
    BoundWindow& bound = (*peer_windows_)[random_.between(0, peer_windows_->size() - 1)];
    if (bound.victim || bound.closed) return false;
    if (bound.used && percent(random_, 15)) return draw_window_end(bound), true;
    const Window& window = peer_.window(bound.index);
    Operation operation;
    const bool reads = settings_.reads_allowed(end_) > 0;
    const std::uint32_t rights = window.access & (reads ? ~0u : +core::kRemoteWrite);
    const std::uint32_t octets = std::min(draw_octets(message_max()), window.octets);
    switch (random_.between(0, 2)) {
      case 0:
        if ((rights & core::kRemoteWrite) == 0) return false;
        operation.opcode = WorkOpcode::Write;
        draw_payload(operation, octets);
        operation.remote = draw_run_in(window, octets);
        break;
      case 1:
        if ((rights & core::kRemoteRead) == 0) return false;
        operation.opcode = WorkOpcode::Read;
        operation.octets = octets;
        operation.remote = draw_run_in(window, octets);
        operation.local = {draw_run(own_, home_[random_.between(0, 1)], octets)};
        break;
      default: {
        if ((rights & core::kRemoteAtomic) == 0 || window.octets < 16) return false;
        draw_operands(operation);
        Run target = draw_run_in(window, 16);
        const std::size_t at = peer_.place(target) % 8;
        target.offset += static_cast<std::uint32_t>((8 - at) % 8);
        target.octets = 8;
        operation.remote = target;
        operation.local = {draw_run(own_, home_[random_.between(0, 1)], 8)};
      }
    }
    mean_window(operation, bound);
    finish(std::move(operation));
    return true;
  }

  /// Behind all uses: the window is invalidated, or its owner is told that it may close it.
  void draw_window_end(BoundWindow& bound) {
    if (bound.closed) return;
    bound.closed = true;
    const bool invalidates =
        peer_.window(bound.index).kind == core::WindowKind::Type2 && percent(random_, 50);
    Operation send;
    send.opcode = invalidates ? WorkOpcode::SendInvalidate : WorkOpcode::Send;
    send.solicited = percent(random_, 40);
    draw_payload(send, draw_octets(message_max()));
    if (invalidates) mean_window(send, bound);
    finish(std::move(send));
    operations_.back().read_fence = true;
    open_reads_.clear();
    if (!invalidates) bound.released_by = operations_.size() - 1;
  }

  std::uint32_t special_octets() {
    return static_cast<std::uint32_t>(random_.between(1, settings_.region_octets / 8 + 1));
  }

  /// A Write to a region of the peer's, then a Send that invalidates it.
  void draw_send_invalidate() {
    const std::uint32_t octets = special_octets();
    const std::size_t region = peer_.add(Zone::Front, octets, kOffered, peer_pd_);
    peer_.region(region).stream = settings_.ends[1 - end_].qp.stream;
    Operation write;
    write.opcode = WorkOpcode::Write;
    draw_payload(write, static_cast<std::uint32_t>(random_.between(1, octets)));
    write.remote = draw_run(peer_, region, write.octets);
    finish(std::move(write));
    Operation send;
    send.opcode = WorkOpcode::SendInvalidate;
    send.solicited = percent(random_, 40);
    draw_payload(send, draw_octets(message_max()));
    send.invalidates = region;
    finish(std::move(send));
  }

  /// A Write from a region of ours, which is invalidated once all before it is done.
  void draw_local_invalidate() {
    const std::uint32_t octets = special_octets();
    const std::size_t region = own_.add(Zone::Home, octets, core::kLocalWrite, pd_);
    Operation write;
    write.opcode = WorkOpcode::Write;
    write.octets = octets;
    write.local = {{region, 0, octets}};
    write.remote = draw_run(peer_, offered_[0], octets);
    finish(std::move(write));
    Operation invalidate;
    invalidate.opcode = WorkOpcode::LocalInvalidate;
    invalidate.invalidates = region;
    invalidate.local_fence = true;
    finish(std::move(invalidate));
  }

  /// A Read that invalidates its sink.
  void draw_read_invalidate() {
    const std::uint32_t octets = special_octets();
    Operation operation;
    operation.opcode = WorkOpcode::ReadInvalidate;
    operation.octets = octets;
    operation.invalidates = own_.add(Zone::Home, octets, core::kLocalWrite, pd_);
    operation.local = {{*operation.invalidates, 0, octets}};
    operation.remote = draw_run(peer_, offered_[1], octets);
    finish(std::move(operation));
  }

  void draw_legal() {
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

  void draw_illegal() {
    Operation operation;
    operation.illegal = settings_.illegal;
    operation.wrong_stag = {static_cast<std::uint32_t>(random_.next())};
    const auto octets = static_cast<std::uint32_t>(random_.between(1, message_max()));
    const Run local = draw_run(own_, home_[0], octets);
    operation.octets = octets;
    const auto remote = [&](WorkOpcode opcode, std::size_t region) {
      operation.opcode = opcode;
      operation.local = {local};
      operation.octets = operation.local[0].octets = std::min(octets, peer_.region(region).octets);
      operation.remote = draw_run(peer_, region, operation.octets);
    };
    switch (settings_.illegal) {
      case Illegal::None:
        return;
      case Illegal::WriteBadSTag:
        remote(WorkOpcode::Write, offered_[0]);
        break;
      case Illegal::WriteWithoutRight:
        remote(WorkOpcode::Write, read_only_);
        break;
      case Illegal::WriteNotAssociated:
        remote(WorkOpcode::Write, foreign_);
        break;
      case Illegal::ReadBadSTag:
        remote(WorkOpcode::Read, offered_[0]);
        break;
      case Illegal::ReadWithoutRight:
        remote(WorkOpcode::Read, write_only_);
        break;
      case Illegal::ReadNotAssociated:
        remote(WorkOpcode::Read, foreign_);
        break;
      case Illegal::WriteBeyondEnd:
      case Illegal::ReadBeyondEnd: {
        remote(settings_.illegal == Illegal::WriteBeyondEnd ? WorkOpcode::Write : WorkOpcode::Read,
               offered_[0]);
        const std::uint32_t inside = static_cast<std::uint32_t>(random_.between(0, octets - 1));
        operation.remote->offset = peer_.region(offered_[0]).octets - inside;
        break;
      }
      case Illegal::SendTooLong:
      case Illegal::InvalidateBadSTag:
        operation.opcode = settings_.illegal == Illegal::SendTooLong ? WorkOpcode::Send
                                                                     : WorkOpcode::SendInvalidate;
        operation.local = {local};
        break;
      case Illegal::LocalBadSTag:
        remote(percent(random_, 50) ? WorkOpcode::Write : WorkOpcode::Send, offered_[0]);
        break;
      case Illegal::LocalBeyondEnd:
        remote(WorkOpcode::Write, offered_[0]);
        operation.local[0].offset = own_.region(home_[0]).octets - operation.octets + 1;
        break;
      case Illegal::LocalInvalidateBadSTag:
        operation.opcode = WorkOpcode::LocalInvalidate;
        operation.octets = 0;
        break;
      case Illegal::ReadSinkReadOnly:
        remote(WorkOpcode::Read, offered_[0]);
        operation.local = {draw_run(own_, source_only_, operation.octets)};
        break;
      case Illegal::ReadTwoSinks:
        remote(WorkOpcode::Read, offered_[0]);
        operation.local.push_back(operation.local[0]);
        break;
      case Illegal::AtomicBadSTag:
      case Illegal::AtomicBeyondEnd:
      case Illegal::AtomicWithoutRight:
      case Illegal::AtomicNotAssociated:
      case Illegal::AtomicMisaligned:
      case Illegal::AtomicSinkReadOnly: {
        const std::size_t region = settings_.illegal == Illegal::AtomicWithoutRight ? write_only_
                                   : settings_.illegal == Illegal::AtomicNotAssociated
                                       ? foreign_
                                       : offered_[0];
        const bool off = settings_.illegal == Illegal::AtomicMisaligned;
        const auto octets_off = static_cast<std::uint32_t>(off ? random_.between(1, 7) : 0);
        draw_operands(operation);
        operation.remote = draw_target(region, octets_off);
        if (settings_.illegal == Illegal::AtomicBeyondEnd) {
          operation.remote->offset =
              peer_.region(region).octets - static_cast<std::uint32_t>(random_.between(0, 7));
        }
        const bool read_only = settings_.illegal == Illegal::AtomicSinkReadOnly;
        operation.local = {draw_run(own_, read_only ? source_only_ : home_[0], 8)};
        break;
      }
      case Illegal::WindowWriteBeyondEnd:
      case Illegal::WindowWriteWithoutRight:
      case Illegal::WindowReadBeyondEnd:
      case Illegal::WindowReadWithoutRight:
      case Illegal::WindowReadOldKey:
      case Illegal::WindowReadInvalidated:
      case Illegal::WindowInvalidateType1:
        draw_illegal_use(operation, local);
        break;
      case Illegal::WindowLocalInvalidateType1:
      case Illegal::WindowBindBeyondEnd:
      case Illegal::WindowBindTwice:
      case Illegal::WindowAsLocal:
        draw_illegal_window(operation);
        break;
    }
    if (operation.is_local()) {
      operation.remote.reset();
    }
    if (operation.is_send()) operation.remote.reset();
    // Whatever of it does take effect must be predictable too.
    operation.read_fence = true;
    open_reads_.clear();
    operations_.push_back(std::move(operation));
  }

  void draw_illegal_use(Operation& operation, const Run& local) {
    BoundWindow& bound = victim(*peer_windows_);
    const Window& window = peer_.window(bound.index);
    if (settings_.illegal == Illegal::WindowInvalidateType1) {
      operation.opcode = WorkOpcode::SendInvalidate;
      operation.local = {local};
      return mean_window(operation, bound);
    }
    if (settings_.illegal == Illegal::WindowReadInvalidated) {
      Operation send;
      send.opcode = WorkOpcode::SendInvalidate;
      mean_window(send, bound);
      finish(std::move(send));
    }
    const bool writes = settings_.illegal == Illegal::WindowWriteBeyondEnd ||
                        settings_.illegal == Illegal::WindowWriteWithoutRight;
    operation.opcode = writes ? WorkOpcode::Write : WorkOpcode::Read;
    operation.octets = std::min(operation.octets, window.octets);
    operation.local = {draw_run(own_, home_[0], operation.octets)};
    operation.remote = draw_run_in(window, operation.octets);
    if (settings_.illegal == Illegal::WindowWriteBeyondEnd ||
        settings_.illegal == Illegal::WindowReadBeyondEnd) {
      // By up to eight octets: the region goes on that far.
      const auto beyond = static_cast<std::uint32_t>(
          random_.between(1, std::min<std::uint32_t>(operation.octets, 8)));
      operation.remote->offset = window.offset + window.octets - operation.octets + beyond;
    }
    mean_window(operation, bound);
  }

  void draw_illegal_window(Operation& operation) {
    const BoundWindow& bound = victim(windows_);
    operation.window = bound.index;
    operation.octets = 0;
    operation.opcode = WorkOpcode::BindWindow;
    if (settings_.illegal == Illegal::WindowLocalInvalidateType1) {
      operation.opcode = WorkOpcode::LocalInvalidate;
    } else if (settings_.illegal == Illegal::WindowAsLocal) {
      const Window& window = own_.window(bound.index);
      operation.opcode = WorkOpcode::Send;
      operation.octets = window.octets;
      operation.local = {draw_run_in(window, window.octets)};
    }
  }

  const Settings& settings_;
  std::size_t end_;
  Random& random_;
  Arena& own_;
  Arena& peer_;
  core::PD pd_, peer_pd_;
  std::vector<std::size_t> home_, offered_;
  std::size_t source_only_, read_only_, write_only_, foreign_;
  std::vector<BoundWindow> windows_;
  std::vector<BoundWindow>* peer_windows_ = nullptr;
  std::vector<OpenRead> open_reads_;
  std::vector<Operation> operations_;
};

/// Receives for what the peer sends, in order; a few too many.
std::vector<Receive> draw_receives(const Settings& settings, std::size_t end, Random& random,
                                   Arena& own, const std::vector<Operation>& sends) {
  const core::QPConfig& config = settings.ends[end].qp;
  std::vector<Receive> receives;
  const auto add = [&](std::uint32_t capacity) {
    Receive receive;
    std::uint64_t left = random.between(1, config.receive_sges);
    for (std::uint32_t octets = capacity; left > 0 && (octets > 0 || percent(random, 30)); --left) {
      const auto part = static_cast<std::uint32_t>(left == 1 ? octets : random.between(0, octets));
      const std::size_t region =
          own.add(Zone::Front, std::max(part, 1u), core::kLocalWrite, config.receive_pd);
      receive.sges.push_back({region, 0, part});
      octets -= part;
    }
    receives.push_back(std::move(receive));
  };
  // A Send as RTR takes a receive like any other.
  if (end == 1 && settings.rtr() == core::RTR::Send) add(0);
  for (const Operation& send : sends) {
    if (!send.takes_receive()) continue;
    if (!send.is_send()) {  // immediate data alone: the receive's memory stays as it is
      add(static_cast<std::uint32_t>(random.between(0, 64)));
      continue;
    }
    if (send.illegal == Illegal::SendTooLong) {
      add(static_cast<std::uint32_t>(random.between(0, send.octets - 1)));
    } else {
      const bool exact = percent(random, 50);
      add(send.octets + static_cast<std::uint32_t>(exact ? 0 : random.between(0, 64)));
    }
  }
  for (std::uint64_t extra = random.between(0, 2); extra > 0; --extra) add(16);
  return receives;
}

/// Sorted random times, several at once now and then.
class Schedule {
 public:
  Schedule(Duration span, Random& random) : span_(span), random_(random) {}
  template <typename Posts>
  void spread(Posts& posts) {
    std::vector<Duration> times;
    for (std::size_t i = 0; i < posts.size(); ++i) {
      times.push_back(i > 0 && percent(random_, 40) ? times.back() : draw());
    }
    std::sort(times.begin(), times.end());
    for (std::size_t i = 0; i < posts.size(); ++i) posts[i].at = times[i];
  }
  Duration draw() {
    return Duration(
        static_cast<std::int64_t>(random_.between(0, static_cast<std::uint64_t>(span_.count()))));
  }

 private:
  Duration span_;
  Random& random_;
};

}  // namespace

std::array<Workload, 2> draw_work(const Settings& settings, Random& random,
                                  std::array<Arena*, 2> arenas) {
  std::array<Workload, 2> work;
  Author initiator(settings, 0, random, *arenas[0], *arenas[1]);
  Author responder(settings, 1, random, *arenas[1], *arenas[0]);
  initiator.write_head();
  responder.write_head();
  initiator.write_body(responder);
  responder.write_body(initiator);
  work[0].operations = initiator.write_tail();
  work[1].operations = responder.write_tail();
  Schedule schedule(settings.script_span, random);
  for (std::size_t end : {0u, 1u}) {
    work[end].receives =
        draw_receives(settings, end, random, *arenas[end], work[1 - end].operations);
    schedule.spread(work[end].operations);
    if (!settings.ends[end].receives_in_time) schedule.spread(work[end].receives);
    if (!settings.deregisters) continue;
    for (std::uint64_t n = random.between(1, 3); n > 0; --n) {
      work[end].deregistrations.push_back(
          {random.between(0, arenas[end]->region_count() - 1), schedule.draw()});
    }
    schedule.spread(work[end].deregistrations);
  }
  return work;
}

}  // namespace weft::sim
