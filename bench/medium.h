// What a measurement runs over: plain TCP, or RDMA by the public verbs.
#pragma once

#include <memory>
#include <string>

#include "bench/buffers.h"
#include "bench/control.h"
#include "bench/leg.h"

namespace weft::bench {

/// One end of one connection. Calls match `(prepare (lead | follow) verify)*`, with the same leg at
/// both ends, one leading and one following; what says "by control" talks over the Control given
/// when the end was made. Every call throws Failure. Single-threaded.
class Medium {
 public:
  virtual ~Medium() = default;

  enum class Role { Leader, Follower };

  /// Before either end starts: fills and poisons the buffers, posts the first receives.
  virtual void prepare(const Leg& leg, Role role) = 0;
  /// The measured side. Time runs until the last octet is known to have arrived at the other end.
  virtual Sample lead(const Leg& leg) = 0;
  virtual void follow(const Leg& leg) = 0;
};

/// The socket buffer sizes that plain TCP tries for its streams; 0 leaves it to the system.
inline constexpr std::uint32_t kTCPChoices[] = {0, 512u << 10, 1u << 20, 2u << 20, 4u << 20};

/// Makes one end of a connection over `address` (numeric IPv4 or IPv6, without a port). The
/// follower listens on a free port and tells it by control; the leader connects. Both block. TCP
/// makes one connection for each of kTCPChoices; `congestion` is their control, or empty.
std::unique_ptr<Medium> make_tcp(Medium::Role role, const std::string& address, Control& control,
                                 Buffers& buffers, const std::string& congestion);
std::unique_ptr<Medium> make_rdma(Medium::Role role, const std::string& address, Control& control,
                                  Buffers& buffers);

/// "weft_lo (iWARP), by lib/libibverbs.so.1": the device of the connection make_rdma made last.
std::string rdma_device_text();

/// The part of verification that does not depend on the medium: see Buffers::verify.
void prepare_buffers(const Leg& leg, Buffers& buffers);
void verify_buffers(const Leg& leg, Medium::Role role, const Buffers& buffers);

/// Whether messages go to and fro. Reads are asked for by one side, but TCP has nothing like them.
inline bool is_ping(const Leg& leg) {
  return is_latency(leg.work) && !(leg.work == Work::ReadLatency && leg.medium == MediumKind::RDMA);
}

/// Latency messages end in this: the number of the round trip, which the waiter polls for. It never
/// repeats a value that the place may hold from before.
inline std::uint64_t trip_mark(const Leg& leg, std::uint64_t trip) {
  return (leg.seed << 32) + trip + 1;
}

}  // namespace weft::bench
