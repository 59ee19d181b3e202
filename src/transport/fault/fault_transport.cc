// Wrapping what an inner Transport makes.
#include "transport/fault/fault_transport.h"

#include <algorithm>
#include <cerrno>

#include "transport/fault/fault_stream.h"

namespace weft::transport {

std::uint64_t FaultState::take_number() {
  const std::lock_guard lock(lock_);
  std::uint64_t mixed = config.seed;
  return split_mix(mixed) ^ ++numbers_;
}

void FaultState::count(std::uint64_t FaultCounters::*what) {
  const std::lock_guard lock(lock_);
  ++(counters_.*what);
}

FaultCounters FaultState::counters() const {
  const std::lock_guard lock(lock_);
  return counters_;
}

void FaultState::set_wake(const void* owner, std::optional<Instant> at) {
  const std::lock_guard lock(lock_);
  if (at) {
    wakes_[owner] = *at;
  } else {
    wakes_.erase(owner);
  }
}

std::optional<Instant> FaultState::next_wake() const {
  const std::lock_guard lock(lock_);
  std::optional<Instant> first;
  for (const auto& [owner, at] : wakes_) {
    first = first ? std::min(*first, at) : at;
  }
  return first;
}

namespace {

class FaultListener final : public Listener {
 public:
  FaultListener(std::shared_ptr<FaultState> state, std::unique_ptr<Listener> inner)
      : state_(std::move(state)), inner_(std::move(inner)), random_(state_->take_number()) {}

  Result<std::unique_ptr<Stream>> accept() override {
    auto accepted = inner_->accept();
    if (!accepted) {
      return accepted;
    }
    if (random_.chance(state_->config.abort_accept)) {
      (*accepted)->reset();
      state_->count(&FaultCounters::accepts_aborted);
      return Error{ECONNABORTED, "an incoming connection ended before it was accepted"};
    }
    return std::unique_ptr<Stream>(std::make_unique<FaultStream>(state_, std::move(*accepted)));
  }
  int fd() const override { return inner_->fd(); }
  Address local() const override { return inner_->local(); }

 private:
  std::shared_ptr<FaultState> state_;
  std::unique_ptr<Listener> inner_;
  Random random_;
};

}  // namespace

FaultTransport::FaultTransport(Transport& inner, const FaultConfig& config, Clock clock)
    : inner_(inner), state_(std::make_shared<FaultState>(config, std::move(clock))) {}

FaultTransport::~FaultTransport() = default;

Result<std::unique_ptr<Stream>> FaultTransport::connect(const Address& local,
                                                        const Address& remote) {
  auto stream = inner_.connect(local, remote);
  if (!stream) {
    return stream;
  }
  return std::unique_ptr<Stream>(std::make_unique<FaultStream>(state_, std::move(*stream)));
}

Result<std::unique_ptr<Listener>> FaultTransport::listen(const Address& local,
                                                         const ListenOptions& options) {
  auto listener = inner_.listen(local, options);
  if (!listener) {
    return listener;
  }
  return std::unique_ptr<Listener>(std::make_unique<FaultListener>(state_, std::move(*listener)));
}

FaultCounters FaultTransport::counters() const {
  return state_->counters();
}

std::optional<Instant> FaultTransport::next_wake() const {
  return state_->next_wake();
}

}  // namespace weft::transport
