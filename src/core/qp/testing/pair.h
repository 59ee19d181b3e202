// Two QPs and the stream between them.
#pragma once

#include "core/qp/testing/end.h"

namespace weft::core::testing {

/// Both ends bound, nothing under way. run() moves octets until neither end has any to give.
struct Pair {
  explicit Pair(QPConfig config = {}, StreamParameters parameters = End::stream(Role::Initiator),
                std::size_t emss = 1460)
      : a(config), b(config) {
    parameters.role = Role::Initiator;
    a.bind(parameters, emss);
    parameters.role = Role::Responder;
    parameters.rtr = RTR::None;
    std::swap(parameters.transmit_markers, parameters.receive_markers);
    std::swap(parameters.ird, parameters.ord);
    b.bind(parameters, emss);
  }

  void run() {
    for (bool moved = true; moved;) {
      const Bytes there = a.transmit(), back = b.transmit();
      b.deliver(there);
      a.deliver(back);
      moved = !there.empty() || !back.empty();
    }
  }
  /// The responder may speak once it has heard the initiator.
  void open() {
    b.receive();
    a.send(std::vector<SGE>{});
    run();
    a.queues.sent.clear();
    b.queues.received.clear();
    a.notices.clear();
    b.notices.clear();
  }
  /// Both FINs, and their ends.
  void close() {
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

  End a, b;
};

}  // namespace weft::core::testing
