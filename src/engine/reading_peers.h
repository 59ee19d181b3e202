// Which peers are known to read whatever they are sent.
#pragma once

#include "base/time.h"
#include "transport/transport.h"

namespace weft::engine {

/// Connections that one listener has accepted are alike: the kernel is asked of one of them, and
/// the answer holds for the others for a moment.
///
/// Threads: the progress lock.
class ReadingPeers {
 public:
  /// Short enough that another program has hardly taken the port meanwhile.
  static constexpr Duration kHolds = std::chrono::milliseconds(100);

  /// False: not known to.
  bool has(transport::Stream& stream, Instant now) {
    if (!stream.is_within_host()) return false;
    const transport::Address peer = stream.peer();
    if (now >= until_ || peer.port() != last_.port() || !peer.same_host(last_)) {
      reads_ = stream.peer_copies();
      last_ = peer;
      until_ = now + kHolds;
    }
    return reads_;
  }

 private:
  transport::Address last_;
  Instant until_;
  bool reads_ = false;
};

}  // namespace weft::engine
