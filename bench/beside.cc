// Each leg has as many trips alone as beside the stream, so the rise is one of the same minute.
#include "bench/beside.h"

#include "measure/histogram.h"

namespace weft::bench {
namespace {

class Beside final : public End {
 public:
  Beside(std::unique_ptr<BesidePair> pair, Control& control)
      : pair_(std::move(pair)), control_(control) {}

  Sample lead(const Leg& leg) override {
    Sample sample;
    std::uint64_t fed = 0;
    const std::uint64_t begin = now_ns();
    const Histogram alone = pings(leg, 0, [] {});
    const std::uint64_t middle = now_ns();
    const Histogram beside = pings(leg, leg.count, [&] { fed += pair_->feed(); });
    const std::uint64_t end = now_ns();
    control_.put(fed);
    pair_->end_feeding();
    sample.seconds = static_cast<double>(end - begin) * 1e-9;
    sample.value = (beside.percentile(0.99) - alone.percentile(0.99)) * 1e-3;
    sample.bulk = static_cast<double>(fed) / static_cast<double>(end - middle);
    return sample;
  }

  void follow(const Leg& leg) override {
    for (std::uint64_t trip = 0; trip < 2 * leg.count; ++trip) {
      while (!pair_->has_ping(trip_mark(leg, trip))) pair_->drain();
      pair_->send_ping(trip_mark(leg, trip));
    }
    pair_->end_draining(control_.get<std::uint64_t>());
  }

 private:
  template <typename Meanwhile>
  Histogram pings(const Leg& leg, std::uint64_t first, Meanwhile meanwhile) {
    Histogram halves;
    std::uint64_t last = now_ns();
    for (std::uint64_t trip = first; trip < first + leg.count; ++trip) {
      pair_->send_ping(trip_mark(leg, trip));
      while (!pair_->has_ping(trip_mark(leg, trip))) meanwhile();
      const std::uint64_t now = now_ns();
      halves.add((now - last) / 2);
      last = now;
    }
    return halves;
  }

  std::unique_ptr<BesidePair> pair_;
  Control& control_;
};

}  // namespace

std::unique_ptr<End> make_beside(std::unique_ptr<BesidePair> pair, Control& control) {
  return std::make_unique<Beside>(std::move(pair), control);
}

}  // namespace weft::bench
