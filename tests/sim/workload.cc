// Drawing work whose effects are known beforehand: what both ends post and receive, and when.
#include "tests/sim/workload.h"

#include <algorithm>

#include "tests/sim/author.h"

namespace weft::sim {
namespace {

/// Receives for what the peer sends, in order; a few too many.
std::vector<Receive> draw_receives(const Settings& settings, std::size_t end, Random& random,
                                   Arena& own, const std::vector<Operation>& sends) {
  const core::QPConfig& config = settings.ends[end].qp;
  std::vector<Receive> receives;
  const auto add = [&](std::uint32_t capacity) {
    Receive receive;
    std::uint64_t left = random.between(1, config.receive_sges);
    for (std::uint32_t octets = capacity; left > 0 && (octets > 0 || percent(random, 30)); --left) {
      const auto part = static_cast<std::uint32_t>(left == 1 ? octets : random.between(0, octets));
      const std::size_t region =
          own.add(Zone::Front, std::max(part, 1u), core::kLocalWrite, config.receive_pd);
      receive.sges.push_back({region, 0, part});
      octets -= part;
    }
    receives.push_back(std::move(receive));
  };
  // A Send as RTR takes a receive like any other.
  if (end == 1 && settings.rtr() == core::RTR::Send) add(0);
  for (const Operation& send : sends) {
    if (!send.takes_receive()) continue;
    if (!send.is_send()) {  // immediate data alone: the receive's memory stays as it is
      add(static_cast<std::uint32_t>(random.between(0, 64)));
      continue;
    }
    if (send.illegal == Illegal::SendTooLong) {
      add(static_cast<std::uint32_t>(random.between(0, send.octets - 1)));
    } else {
      const bool exact = percent(random, 50);
      add(send.octets + static_cast<std::uint32_t>(exact ? 0 : random.between(0, 64)));
    }
  }
  for (std::uint64_t extra = random.between(0, 2); extra > 0; --extra) add(16);
  return receives;
}

/// Sorted random times, several at once now and then.
class Schedule {
 public:
  Schedule(Duration span, Random& random) : span_(span), random_(random) {}
  template <typename Posts>
  void spread(Posts& posts) {
    std::vector<Duration> times;
    for (std::size_t i = 0; i < posts.size(); ++i) {
      times.push_back(i > 0 && percent(random_, 40) ? times.back() : draw());
    }
    std::sort(times.begin(), times.end());
    for (std::size_t i = 0; i < posts.size(); ++i) posts[i].at = times[i];
  }
  Duration draw() {
    return Duration(
        static_cast<std::int64_t>(random_.between(0, static_cast<std::uint64_t>(span_.count()))));
  }

 private:
  Duration span_;
  Random& random_;
};

}  // namespace

std::array<Workload, 2> draw_work(const Settings& settings, Random& random,
                                  std::array<Arena*, 2> arenas) {
  std::array<Workload, 2> work;
  Author initiator(settings, 0, random, *arenas[0], *arenas[1]);
  Author responder(settings, 1, random, *arenas[1], *arenas[0]);
  initiator.write_head();
  responder.write_head();
  initiator.write_body(responder);
  responder.write_body(initiator);
  work[0].operations = initiator.write_tail();
  work[1].operations = responder.write_tail();
  Schedule schedule(settings.script_span, random);
  for (std::size_t end : {0u, 1u}) {
    work[end].receives =
        draw_receives(settings, end, random, *arenas[end], work[1 - end].operations);
    schedule.spread(work[end].operations);
    if (!settings.ends[end].receives_in_time) schedule.spread(work[end].receives);
    if (!settings.deregisters) continue;
    for (std::uint64_t n = random.between(1, 3); n > 0; --n) {
      work[end].deregistrations.push_back(
          {random.between(0, arenas[end]->region_count() - 1), schedule.draw()});
    }
    schedule.spread(work[end].deregistrations);
  }
  return work;
}

}  // namespace weft::sim
