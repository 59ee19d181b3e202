// What the poller watches of each stream, by levels or edges or not at all, and which polls ask.
#include <sys/epoll.h>

#include <utility>

#include "engine/rnic.h"
#include "engine/rnic_entry.h"

namespace weft::engine {

void Rnic::handle_interest(Connection& c) {
  list_direct(c, c.state() == ConnectionState::Streaming && c.wants_read());
  if (c.dead() && !std::exchange(c.to_bury, true)) dead_.push_back(c.number());
  if (!c.watched()) return unwatch(c);
  if (c.stream() == nullptr || c.stream()->fd() < 0) return;
  const std::uint32_t interest = interest_of(c);
  if (c.interest == interest && !c.tell_again) return;
  c.tell_again = false;
  // Before the first edge: who waits without the lock takes what it finds in the poller.
  if (interest == Connection::kReadsByEdges) watches_edges_.store(true, std::memory_order_seq_cst);
  const std::uint32_t events = interest & ~Connection::kRegistered;
  const bool is_new = c.interest == 0 || c.interest == Connection::kReadsByPolls;
  go_off_roll(c);
  const Result<void> told = is_new ? poller_.add(c.stream()->fd(), events, c.number())
                                   : poller_.modify(c.stream()->fd(), events, c.number());
  c.interest = interest;
  if (told) return;
  c.poller_error = told.error().code;  // dealt with later: the connection is in the middle of work
  has_unwatched_ = true;
}

std::uint32_t Rnic::interest_of(Connection& c) const {
  const std::uint32_t events = (c.wants_read() ? EPOLLIN : 0u) | (c.wants_write() ? EPOLLOUT : 0u) |
                               (c.wants_hang_up() ? EPOLLRDHUP : 0u) | Connection::kRegistered;
  const bool many = streaming_.size() > kLevelStreamsMax;
  const bool edges = many && c.state() == ConnectionState::Streaming &&
                     events == Connection::kReads && c.stream()->has_edges();
  return edges ? Connection::kReadsByEdges : events;
}

/// While the progress thread sleeps as long as the polls go on, and these ask the streams directly,
/// nobody waits in the poller. To tell it of each packet would take the kernel a twentieth of a
/// small message's way.
void Rnic::leave_to_polls() {
  if (streaming_.size() > kDirectStreamsMax) return;
  // Pairs with begin_sleep: one of the two sees what the other did.
  left_to_polls_.store(true, std::memory_order_seq_cst);
  if (place_.taken()) return;
  for (Connection* c : streaming_) {
    if (c->interest != Connection::kReads) continue;
    poller_.remove(c->stream()->fd());
    c->interest = Connection::kReadsByPolls;
  }
}

void Rnic::watch_again() {
  if (!has_left_to_polls()) return;
  Entry entry(*this);
  watch_left();
}

/// What came meanwhile is there to be told of.
void Rnic::watch_left() {
  if (!left_to_polls_.exchange(false, std::memory_order_seq_cst)) return;
  // By index: one may have stopped reading, and another one takes its place in the list.
  for (std::size_t i = 0; i < streaming_.size();) {
    Connection& c = *streaming_[i];
    if (c.interest == Connection::kReadsByPolls) handle_interest(c);
    if (i < streaming_.size() && streaming_[i] == &c) ++i;
  }
}

/// Of a stream that the poller does not watch nothing would be heard again.
void Rnic::end_unwatched() {
  if (!has_unwatched_) return;
  has_unwatched_ = false;
  for (auto& [number, connection] : connections_) {
    const int error = std::exchange(connection->poller_error, 0);
    if (error != 0) connection->give_up(error, "the poller cannot watch the TCP connection");
  }
}

void Rnic::list_direct(Connection& c, bool reads) {
  if (reads == (c.direct_slot != Connection::kNotListed)) return;
  if (reads) {
    c.direct_slot = static_cast<std::uint32_t>(streaming_.size());
    streaming_.push_back(&c);
    // Polls do not ask so many, unless they are on the roll.
    if (streaming_.size() == kDirectStreamsMax + 1) watch_left();
    return;
  }
  streaming_[c.direct_slot] = streaming_.back();
  streaming_[c.direct_slot]->direct_slot = c.direct_slot;
  streaming_.pop_back();
  c.direct_slot = Connection::kNotListed;
  // Who reads by edges is in the list.
  if (streaming_.empty()) watches_edges_.store(false, std::memory_order_relaxed);
}

void Rnic::swap_direct() {
  std::swap(streaming_[0], streaming_[1]);
  streaming_[0]->direct_slot = 0;
  streaming_[1]->direct_slot = 1;
}

void Rnic::unwatch(Connection& c) {
  const std::uint32_t interest = std::exchange(c.interest, 0);
  go_off_roll(c);
  if (interest == 0 || interest == Connection::kReadsByPolls) return;
  if (c.stream() != nullptr && c.stream()->fd() >= 0) poller_.remove(c.stream()->fd());
}

}  // namespace weft::engine
