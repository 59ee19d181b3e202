// A process that polls and sleeps at once: a thread streams, another one sleeps between its pings.
#include <atomic>
#include <exception>
#include <functional>
#include <thread>

#include "bench/beside.h"
#include "measure/histogram.h"

namespace weft::bench {
namespace {

/// A thread that does something again and again until it is told to end.
class Repeater {
 public:
  explicit Repeater(std::function<void()> work)
      : work_(std::move(work)), thread_([this] { repeat(); }) {}
  ~Repeater() { join(); }

  /// Throws what ended it before.
  void end() {
    join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void repeat() {
    try {
      while (!end_.load(std::memory_order_relaxed)) work_();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  void join() {
    end_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
  }

  std::function<void()> work_;
  std::atomic<bool> end_{false};
  std::exception_ptr failure_;
  std::thread thread_;
};

class Mixed final : public End {
 public:
  Mixed(std::unique_ptr<BesidePair> pair, Control& control)
      : pair_(std::move(pair)), control_(control) {}

  Sample lead(const Leg& leg) override {
    std::uint64_t fed = 0;
    Histogram halves;
    const std::uint64_t begin = now_ns();
    {
      Repeater stream([&] { fed += pair_->feed(); });
      std::uint64_t last = begin;
      for (std::uint64_t trip = 0; trip < leg.count; ++trip) {
        pair_->send_ping(trip_mark(leg, trip));
        await(trip_mark(leg, trip));
        const std::uint64_t now = now_ns();
        halves.add((now - last) / 2);
        last = now;
      }
      stream.end();
    }
    const std::uint64_t end = now_ns();
    control_.put(fed);
    pair_->end_feeding();
    return {.seconds = static_cast<double>(end - begin) * 1e-9,
            .value = halves.percentile(0.5) * 1e-3,
            .bulk = static_cast<double>(fed) / static_cast<double>(end - begin)};
  }

  void follow(const Leg& leg) override {
    std::uint64_t total = 0;
    {
      Repeater stream([&] { pair_->drain(); });
      for (std::uint64_t trip = 0; trip < leg.count; ++trip) {
        await(trip_mark(leg, trip));
        pair_->send_ping(trip_mark(leg, trip));
      }
      total = control_.get<std::uint64_t>();
      stream.end();
    }
    pair_->end_draining(total);
  }

 private:
  void await(std::uint64_t mark) {
    while (!pair_->has_ping(mark)) {
    }
  }

  std::unique_ptr<BesidePair> pair_;
  Control& control_;
};

}  // namespace

std::unique_ptr<End> make_mixed(std::unique_ptr<BesidePair> pair, Control& control) {
  return std::make_unique<Mixed>(std::move(pair), control);
}

}  // namespace weft::bench
