// The one request that is to be refused.
#include "tests/sim/author.h"

#include <algorithm>

namespace weft::sim {

using core::WorkOpcode;

void Author::draw_victim() {
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

Author::BoundWindow& Author::victim(std::vector<BoundWindow>& windows) {
  return *std::find_if(windows.begin(), windows.end(),
                       [](const BoundWindow& window) { return window.victim; });
}

std::uint32_t Author::special_octets() {
  return static_cast<std::uint32_t>(random_.between(1, settings_.region_octets / 8 + 1));
}

void Author::draw_illegal() {
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
      operation.opcode =
          settings_.illegal == Illegal::SendTooLong ? WorkOpcode::Send : WorkOpcode::SendInvalidate;
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
      const std::size_t region = settings_.illegal == Illegal::AtomicWithoutRight    ? write_only_
                                 : settings_.illegal == Illegal::AtomicNotAssociated ? foreign_
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

void Author::draw_illegal_use(Operation& operation, const Run& local) {
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

void Author::draw_illegal_window(Operation& operation) {
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

}  // namespace weft::sim
