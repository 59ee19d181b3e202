// Any Transport, made worse: everything TCP may do to a stream, and what it should not, on purpose
// and repeatably.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/time.h"
#include "transport/transport.h"

namespace weft::transport {

/// Probabilities are per million: 0 never, kAlways each time. Everything is off by default.
inline constexpr std::uint32_t kAlways = 1'000'000;

struct FaultConfig {
  std::uint64_t seed = 1;

  // Splits, per call: it moves only a random part, 1 octet up to split_octets_max (0: any part).
  std::uint32_t split_send = 0;
  std::uint32_t split_receive = 0;
  std::size_t split_octets_max = 0;

  // Delays, per call: it and those that follow say WouldBlock (connected(): EINPROGRESS) until the
  // delay is over; the first call after that goes through. Lasts 1 to delay_steps_max calls, or,
  // with a clock, 1 ns to delay_max.
  std::uint32_t delay_connect = 0;
  std::uint32_t delay_send = 0;
  std::uint32_t delay_receive = 0;
  std::uint32_t delay_steps_max = 8;
  Duration delay_max = std::chrono::milliseconds(50);

  // Merges, per receive: like a delay of merge_steps calls, so that what arrives meanwhile comes in
  // one piece.
  std::uint32_t merge = 0;
  std::uint32_t merge_steps = 4;

  // Corruption, per receive that moved octets: one bit of one of them is turned over.
  std::uint32_t corrupt = 0;

  // Decided once for each stream. Cut: a reset when exactly 0 to cut_octets_max octets (drawn) have
  // moved, both directions counted. Early FIN: one after 0 to fin_octets_max octets (drawn) were
  // sent; what the owner sends after that is Lost (EPIPE).
  std::uint32_t cut = 0;
  std::uint64_t cut_octets_max = 64 * 1024;
  std::uint32_t fin_early = 0;
  std::uint64_t fin_octets_max = 64 * 1024;

  // Per accept: the connection is reset instead (ECONNABORTED).
  std::uint32_t abort_accept = 0;
};

/// What was done so far.
struct FaultCounters {
  std::uint64_t streams = 0;
  std::uint64_t sends_split = 0;
  std::uint64_t receives_split = 0;
  std::uint64_t connects_delayed = 0;
  std::uint64_t sends_delayed = 0;
  std::uint64_t receives_delayed = 0;
  std::uint64_t receives_merged = 0;
  std::uint64_t octets_corrupted = 0;
  std::uint64_t streams_cut = 0;
  std::uint64_t early_fins = 0;
  std::uint64_t accepts_aborted = 0;

  friend bool operator==(const FaultCounters&, const FaultCounters&) = default;
};

/// Wraps another Transport; every stream it makes is faulty at this end, in both directions.
///
/// Repeatable: each stream draws from a generator of its own, seeded by FaultConfig::seed and the
/// stream's number in order of making. The same seed and the same calls on a stream give the same
/// results, whatever happens on other streams.
///
/// Readiness: fd() is the inner one's and knows nothing of delays and merges: it may be ready while
/// the call says WouldBlock, so an epoll loop would spin until the delay is over. Delays and merges
/// are for simulation, which calls again by itself or at next_wake(). The other faults go with
/// anything.
///
/// Streams and listeners may outlive this object. Threads: as the inner transport; the counters and
/// next_wake() are for any.
class FaultTransport final : public Transport {
 public:
  using Clock = std::function<Instant()>;

  /// inner   outlives this object.
  /// clock   empty: delays count calls.
  FaultTransport(Transport& inner, const FaultConfig& config, Clock clock = {});
  ~FaultTransport() override;

  Result<std::unique_ptr<Stream>> connect(const Address& local, const Address& remote) override;
  Result<std::unique_ptr<Listener>> listen(const Address& local, const ListenOptions&) override;

  FaultCounters counters() const;
  /// When the first delay under way ends; empty without a clock or without delays. It stays until a
  /// call meets the end of the delay, so it may be past.
  std::optional<Instant> next_wake() const;

 private:
  Transport& inner_;
  std::shared_ptr<class FaultState> state_;
};

}  // namespace weft::transport
