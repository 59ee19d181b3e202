// A ping-pong on one connection beside a bulk stream on another, of one process: by one thread that
// polls for both, or by a thread that sleeps for its pings beside one that polls for its stream.
#pragma once

#include <memory>

#include "bench/end.h"

namespace weft::bench {

inline constexpr std::uint32_t kBulkOctets = 64 * 1024;  ///< of one message of the bulk stream
inline constexpr std::uint32_t kPingOctets = sizeof(std::uint64_t);

/// How an end waits for a ping; a bulk stream is polled for in either case.
enum class PingWait { Polling, Sleeping };

/// One end of both connections over some medium. Only the ends of feeding and of draining wait, and
/// has_ping when the end sleeps. A thread may have the pings and another one the stream.
class BesidePair {
 public:
  virtual ~BesidePair() = default;

  virtual void send_ping(std::uint64_t mark) = 0;
  /// Whether the peer's ping with this mark has come. Who sleeps may return before it has, but not
  /// at once.
  virtual bool has_ping(std::uint64_t mark) = 0;

  /// The leader: hands more of the bulk stream over, if it is taken. Returns the octets taken.
  virtual std::uint64_t feed() = 0;
  virtual void end_feeding() = 0;
  /// The follower: receives what has come of the bulk stream.
  virtual void drain() = 0;
  /// ... until `total` octets have come in this leg.
  virtual void end_draining(std::uint64_t total) = 0;
};

/// The loops around it, which are the same for all media. Beside: the pings alone, then beside the
/// stream, both by one thread that polls. Mixed: a thread sleeps for the pings and one polls.
std::unique_ptr<End> make_beside(std::unique_ptr<BesidePair> pair, Control& control);
std::unique_ptr<End> make_mixed(std::unique_ptr<BesidePair> pair, Control& control);

}  // namespace weft::bench
