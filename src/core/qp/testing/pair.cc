// Octets between two ends.
#include "core/qp/testing/pair.h"

#include <utility>

namespace weft::core::testing {

Pair::Pair(QPConfig config, StreamParameters parameters, std::size_t emss)
    : a(config), b(config) {
  parameters.role = Role::Initiator;
  a.bind(parameters, emss);
  parameters.role = Role::Responder;
  parameters.rtr = RTR::None;
  std::swap(parameters.transmit_markers, parameters.receive_markers);
  std::swap(parameters.ird, parameters.ord);
  b.bind(parameters, emss);
}

void Pair::run() {
  for (bool moved = true; moved;) {
    const Bytes there = a.transmit(), back = b.transmit();
    b.deliver(there);
    a.deliver(back);
    moved = !there.empty() || !back.empty();
  }
}

void Pair::open() {
  b.receive();
  a.send(std::vector<SGE>{});
  run();
  a.queues.sent.clear();
  b.queues.received.clear();
  a.notices.clear();
  b.notices.clear();
}

void Pair::close() {
  const bool a_first = a.action == LLPAction::CloseGracefully;
  End& first = a_first ? a : b;
  End& second = a_first ? b : a;
  second.qp->handle_peer_closed(second.now);
  second.drain();
  run();
  first.qp->handle_peer_closed(first.now);
  first.qp->handle_llp_lost(first.now);
  second.qp->handle_llp_lost(second.now);
  first.drain();
  second.drain();
}

}  // namespace weft::core::testing
