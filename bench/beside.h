// A ping-pong on one connection, alone and then beside a bulk stream on another, of one process.
#pragma once

#include <memory>

#include "bench/end.h"

namespace weft::bench {

inline constexpr std::uint32_t kBulkOctets = 64 * 1024;  ///< of one message of the bulk stream
inline constexpr std::uint32_t kPingOctets = sizeof(std::uint64_t);

/// One end of both connections over some medium. Only the ends of feeding and of draining wait.
class BesidePair {
 public:
  virtual ~BesidePair() = default;

  virtual void send_ping(std::uint64_t mark) = 0;
  /// Whether the peer's ping with this mark has come.
  virtual bool has_ping(std::uint64_t mark) = 0;

  /// The leader: hands more of the bulk stream over, if it is taken. Returns the octets taken.
  virtual std::uint64_t feed() = 0;
  virtual void end_feeding() = 0;
  /// The follower: receives what has come of the bulk stream.
  virtual void drain() = 0;
  /// ... until `total` octets have come in this leg.
  virtual void end_draining(std::uint64_t total) = 0;
};

/// The loop around it, which is the same for all media.
std::unique_ptr<End> make_beside(std::unique_ptr<BesidePair> pair, Control& control);

}  // namespace weft::bench
