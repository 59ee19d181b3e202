// Two QPs and the stream between them.
#pragma once

#include "core/qp/testing/end.h"

namespace weft::core::testing {

/// Both ends bound, nothing under way. run() moves octets until neither end has any to give.
struct Pair {
  explicit Pair(QPConfig config = {}, StreamParameters parameters = End::stream(Role::Initiator),
                std::size_t emss = 1460);

  void run();
  /// The responder may speak once it has heard the initiator.
  void open();
  /// Both FINs, and their ends.
  void close();

  End a, b;
};

}  // namespace weft::core::testing
