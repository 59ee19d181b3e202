// One stream with faults.
#pragma once

#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "transport/fault/fault_transport.h"
#include "transport/fault/random.h"

namespace weft::transport {

/// What all streams of one FaultTransport share. Threads: any.
class FaultState {
 public:
  FaultState(const FaultConfig& with, FaultTransport::Clock from)
      : config(with), clock(std::move(from)) {}

  /// The number of a new stream or listener, which seeds it.
  std::uint64_t take_number();
  void count(std::uint64_t FaultCounters::*what);
  FaultCounters counters() const;

  /// `owner` waits until then; empty: it does not.
  void set_wake(const void* owner, std::optional<Instant> at);
  std::optional<Instant> next_wake() const;

  const FaultConfig config;
  const FaultTransport::Clock clock;

 private:
  mutable std::mutex lock_;
  FaultCounters counters_;
  std::uint64_t numbers_ = 0;
  std::map<const void*, Instant> wakes_;
};

/// One call's delays: idle, waiting (for calls or for a time), or passing the one call that is owed
/// after a wait, so that a probability of kAlways still lets the stream progress.
class Delay {
 public:
  explicit Delay(FaultState& state) : state_(state) {}
  ~Delay() { state_.set_wake(this, {}); }
  Delay(const Delay&) = delete;
  Delay& operator=(const Delay&) = delete;

  bool idle() const { return steps_left_ == 0 && !until_ && !passing_; }
  void start_steps(std::uint64_t steps) { steps_left_ = steps; }
  void start_until(Instant until);
  /// One call: true when it has to wait.
  bool holds();

 private:
  FaultState& state_;
  std::uint64_t steps_left_ = 0;
  std::optional<Instant> until_;
  bool passing_ = false;
};

/// Invariant: moved_ <= cut_at_ and sent_ <= fin_at_.
class FaultStream final : public Stream {
 public:
  FaultStream(std::shared_ptr<FaultState> state, std::unique_ptr<Stream> inner);

  Result<void> connected() override;
  IOResult send(std::span<const iovec> pieces) override;
  IOResult receive(std::span<const iovec> pieces) override;
  void close_gracefully() override;
  void reset() override;
  std::size_t emss() override { return inner_->emss(); }
  int fd() const override { return inner_->fd(); }
  Address local() const override { return inner_->local(); }
  Address peer() const override { return inner_->peer(); }

 private:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  /// True when this call has to say "not now".
  bool held_back(Delay& delay, std::uint32_t per_million, std::uint64_t FaultCounters::*what);
  bool merging();
  /// The first `octets` of `pieces`, in pieces_.
  std::span<const iovec> first_octets(std::span<const iovec> pieces, std::uint64_t octets);
  std::uint64_t part_of(std::uint64_t octets, std::uint32_t per_million,
                        std::uint64_t FaultCounters::*what);
  void corrupt(std::span<const iovec> pieces, std::size_t octets);
  void cut_when_due();
  void fin_when_due();

  std::shared_ptr<FaultState> state_;
  std::unique_ptr<Stream> inner_;
  Random random_;
  Delay connect_delay_, send_delay_, receive_delay_;
  std::uint64_t cut_at_ = kNever;
  std::uint64_t fin_at_ = kNever;
  std::uint64_t moved_ = 0;
  std::uint64_t sent_ = 0;
  bool established_ = false;
  bool cut_ = false;
  bool fin_sent_ = false;
  bool over_ = false;  ///< the owner reset it
  std::vector<iovec> pieces_;
};

}  // namespace weft::transport
