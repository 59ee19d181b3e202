// As many messages as may be outstanding, one way or both, over sockets with registered memory.
//
// Behind writes goes a small read, which is answered after they were placed. Messages that are sent
// are octets of the stream, which has its own credits; who has received them all sends one octet.
#include <algorithm>
#include <cstring>

#include "measure/extended_runner.h"
#include "measure/pattern.h"

namespace weft::measure {
namespace {

constexpr std::size_t kFlushAt = 64, kMarkAt = 128, kPeersMarkAt = 192;
constexpr std::uint64_t kFlushOctets = 8;

class ExtendedBlast final : public ExtendedRunner {
 public:
  ExtendedBlast(const Plan& plan, Side side, int fd, std::unique_ptr<Memory> memory)
      : ExtendedRunner(plan, side, fd, std::move(memory)),
        sends_(side == Side::Client || plan.both),
        takes_(plan.op == Op::Send && (side == Side::Server || plan.both)),
        buffers_(plan.buffer_count()),
        targets_(plan.target_count()) {}

  void prepare(const Leg& leg) override {
    leg_ = leg;
    posted_ = completed_ = received_ = receives_posted_ = 0;
    const bool asks = plan_.op == Op::Send && sends_;
    peers_mark_ = asks ? Last::Wanted : Last::Done;
    own_mark_ = takes_ ? Last::Wanted : Last::Done;
    flush_ = plan_.op == Op::Write && sends_ ? Last::Wanted : Last::Done;
    if (plan_.verify) fill_and_poison();
    post_receives();
  }

  bool step() override {
    bool moved = take() > 0;
    post_receives();
    if (sends_) moved |= post_messages();
    moved |= post_own_mark();
    return moved;
  }

  bool done() const override {
    const bool sent = !sends_ || completed_ == leg_.count;
    const bool taken = !takes_ || received_ == leg_.count;
    return sent && taken && flush_ == Last::Done && own_mark_ == Last::Done &&
           peers_mark_ == Last::Done;
  }
  std::uint64_t completed() const override { return sends_ ? completed_ : received_; }

  void check() override {
    const bool written = plan_.op == Op::Write && (side_ == Side::Server || plan_.both);
    if (!plan_.verify || !written) return;
    for (std::uint64_t b = 0; b < std::min<std::uint64_t>(buffers_, leg_.count); ++b) {
      const std::uint64_t last = (leg_.count - 1 - b) / buffers_ * buffers_ + b;
      expect_pattern(memory_->target(b, leg_.octets), leg_.seed, last);
    }
  }

 private:
  enum class Last { Wanted, Posted, Done };

  void fill_and_poison() {
    for (std::uint32_t b = 0; b < buffers_; ++b) {
      fill_pattern(memory_->source(b, leg_.octets), leg_.seed, b);
    }
    for (std::uint32_t t = 0; t < targets_; ++t) poison(t);
  }
  void poison(std::size_t target) {
    std::memset(memory_->target(target, leg_.octets).data(), 0x5A, leg_.octets);
  }

  bool post_messages() {
    bool moved = false;
    for (; posted_ < leg_.count && posted_ - completed_ < plan_.outstanding; moved = true) {
      post_message();
    }
    if (flush_ == Last::Wanted && posted_ == leg_.count) {
      post_read(kFlushAt, kFlushOctets, 0, Kind::Flush);
      flush_ = Last::Posted;
      moved = true;
    }
    return moved;
  }

  void post_message() {
    const std::size_t source = memory_->source_offset(posted_ % buffers_, leg_.octets);
    const std::size_t target = memory_->target_offset(posted_ % buffers_, leg_.octets);
    if (plan_.verify && plan_.op != Op::Read) {
      fill_pattern(memory_->source(posted_ % buffers_, leg_.octets), leg_.seed, posted_);
    }
    if (plan_.op == Op::Write) {
      post_write(source, leg_.octets, target);
    } else if (plan_.op == Op::Read) {
      post_read(target, leg_.octets, source);
    } else {
      post_send(source, leg_.octets);
    }
    ++posted_;
  }

  /// Exactly as many as come in this leg, and behind them the peer's mark.
  void post_receives() {
    const std::uint64_t count = takes_ ? leg_.count : 0;
    for (; receives_posted_ < std::min(count, received_ + plan_.window()); ++receives_posted_) {
      const std::size_t slot = receives_posted_ % plan_.receive_count() % targets_;
      post_receive(memory_->target_offset(slot, leg_.octets), leg_.octets, Kind::Receive,
                   static_cast<std::uint32_t>(slot));
    }
    if (peers_mark_ == Last::Wanted && receives_posted_ == count) {
      post_receive(kPeersMarkAt, 1, Kind::MarkReceive, 0);
      peers_mark_ = Last::Posted;
    }
  }

  bool post_own_mark() {
    // Behind our own messages, which the peer counts.
    const bool sent = !sends_ || posted_ == leg_.count;
    if (own_mark_ != Last::Wanted || received_ < leg_.count || !sent) return false;
    post_send(kMarkAt, 1, Kind::Mark);
    own_mark_ = Last::Posted;
    return true;
  }

  void on_done(Kind kind, std::uint32_t number) override {
    switch (kind) {
      case Kind::Flush:
        flush_ = Last::Done;
        return;
      case Kind::Mark:
        own_mark_ = Last::Done;
        return;
      case Kind::MarkReceive:
        peers_mark_ = Last::Done;
        return;
      case Kind::Receive:
        if (plan_.verify) look_at(number, received_);
        ++received_;
        return;
      case Kind::Message:
        if (plan_.verify && plan_.op == Op::Read) {
          look_at(completed_ % buffers_, completed_ % buffers_);
        }
        ++completed_;
        return;
    }
  }

  void look_at(std::size_t target, std::uint64_t number) {
    expect_pattern(memory_->target(target, leg_.octets), leg_.seed, number);
    poison(target);
  }

  const bool sends_, takes_;
  const std::uint32_t buffers_, targets_;
  std::uint64_t posted_ = 0, completed_ = 0;          // our messages
  std::uint64_t receives_posted_ = 0, received_ = 0;  // the peer's
  Last flush_ = Last::Done, own_mark_ = Last::Done, peers_mark_ = Last::Done;
};

}  // namespace

std::unique_ptr<ExtendedRunner> make_extended_blast(const Plan& plan, Side side, int fd) {
  return std::make_unique<ExtendedBlast>(
      plan, side, fd,
      std::make_unique<Memory>(plan.octets_max(), plan.buffer_count(), plan.target_count(),
                               buffers_used(plan, side)));
}

}  // namespace weft::measure
