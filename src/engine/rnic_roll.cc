// The roll: streams among many that a busy program's polls ask in turn, out of the poller's sight.
//
// Which they are, and why: docs/adr/0031-busy-streams-among-many-are-asked-in-turn.md.
#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/rnic.h"

namespace weft::engine {

namespace {
/// A poll asks so many at most, and ends after so many messages: it is the program's turn.
constexpr std::uint32_t kFoundMost = 16;
constexpr std::size_t kAskedMost = 32;
/// The poll of a program that comes so seldom asks all, and ends later. It is longer than it takes
/// to answer what a poll brings: else polls that bring more would make those behind them seldom.
constexpr Duration kSeldom = std::chrono::milliseconds(1);
constexpr std::uint32_t kFoundMostSeldom = 48;
}  // namespace

void Rnic::come_on_roll(std::span<const epoll_event> served) {
  if (!may_roll()) return;
  if (!nap_.is_under_way()) return;  // the progress thread is about
  roll_budget_.earn(served.size());
  for (const epoll_event& event : served) {
    Connection* c = find_connection(event.data.u64);
    if (c == nullptr || !c->only_reads() || !c->brings_messages()) continue;
    if (c->interest != Connection::kReads && c->interest != Connection::kReadsByEdges) continue;
    // Pairs with watch_again: whoever takes the place sees this, or we see that it is taken.
    left_to_polls_.store(true, std::memory_order_seq_cst);
    if (place_.taken() || !roll_budget_.take()) return;
    poller_.remove(c->stream()->fd());
    c->interest = Connection::kReadsByPolls;
    c->tell_again = false;
    c->roll = {.slot = static_cast<std::uint32_t>(roll_.size())};
    roll_.push_back(c);
  }
}

/// Whatever it is to the poller from now on. Nothing if it is not on the roll.
void Rnic::go_off_roll(Connection& c) {
  const std::uint32_t slot = std::exchange(c.roll.slot, RollPlace::kNone);
  if (slot == RollPlace::kNone) return;
  Connection* last = roll_.back();
  roll_.pop_back();
  if (last == &c) return;
  roll_[slot] = last;
  last->roll.slot = slot;
}

/// Behind a poll's look at what the poller watches.
void Rnic::share_with_roll(std::span<const epoll_event> served) {
  const std::size_t on_roll = roll_.size(), off_roll = streaming_.size() - on_roll;
  if (presence_.last_gap() > kSeldom) {
    call_roll(on_roll, kFoundMostSeldom);
  } else if (served.size() < kManyReady) {
    call_roll(kAskedMost, kFoundMost);
  } else {
    call_roll(std::min(roll_share(served.size(), on_roll, off_roll), kAskedMost), kFoundMost);
  }
  if (served.size() >= kManyReady) come_on_roll(served);
}

void Rnic::call_roll(std::size_t most, std::uint32_t found_most) {
  const std::uint32_t before = arrivals_;
  const bool busy = roll_load_.is_busy(now_);
  std::uint32_t asked = 0;
  most = std::min(most, roll_.size());
  for (; asked < most && arrivals_ - before < found_most && !roll_.empty(); ++asked) {
    if (++roll_at_ >= roll_.size()) roll_at_ = 0;
    prefetch_ahead([&](std::size_t by) { return roll_[(roll_at_ + by) % roll_.size()]; });
    Connection& c = *roll_[roll_at_];
    const std::uint32_t arrived = arrivals_;
    c.handle_polled();
    if (c.roll.slot == RollPlace::kNone) continue;
    const bool stays = c.roll.note(arrivals_ != arrived, busy, roll_budget_);
    if (stays && c.brings_messages()) continue;
    handle_interest(c);
  }
  roll_load_.note(asked, arrivals_ - before, now_);
}

}  // namespace weft::engine
