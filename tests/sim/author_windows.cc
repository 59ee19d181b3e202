// Windows: bound, used and closed in an order that both ends keep to.
#include "tests/sim/author.h"

#include <algorithm>

namespace weft::sim {

using core::WorkOpcode;

void Author::draw_window() {
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

void Author::add_window(Window window) {
  window.key = static_cast<std::uint8_t>(random_.next());
  windows_.push_back({own_.add_window(window)});
}

void Author::mean_window(Operation& operation, BoundWindow& window) {
  operation.window = window.index;
  operation.after = {window.bind, false};
  window.used = true;
}

Run Author::draw_run_in(const Window& window, std::uint32_t octets) {
  const auto offset = static_cast<std::uint32_t>(random_.between(0, window.octets - octets));
  return {window.region, window.offset + offset, octets};
}

bool Author::draw_window_use() {
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

void Author::draw_window_end(BoundWindow& bound) {
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

void Author::draw_send_invalidate() {
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

void Author::draw_local_invalidate() {
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

void Author::draw_read_invalidate() {
  const std::uint32_t octets = special_octets();
  Operation operation;
  operation.opcode = WorkOpcode::ReadInvalidate;
  operation.octets = octets;
  operation.invalidates = own_.add(Zone::Home, octets, core::kLocalWrite, pd_);
  operation.local = {{*operation.invalidates, 0, octets}};
  operation.remote = draw_run(peer_, offered_[1], octets);
  finish(std::move(operation));
}

}  // namespace weft::sim
