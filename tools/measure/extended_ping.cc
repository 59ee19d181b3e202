// One message at a time, to and fro, over sockets with registered memory.
#include <cstring>

#include "measure/extended_runner.h"
#include "measure/pattern.h"

namespace weft::measure {
namespace {

class ExtendedPing final : public ExtendedRunner {
 public:
  using ExtendedRunner::ExtendedRunner;

  void prepare(const Leg& leg) override {
    leg_ = leg;
    forget_trips();
    trip_ = received_ = reads_done_ = receives_posted_ = 0;
    begun_ = false;
    const auto target = memory_->target(0, leg.octets);
    fill_pattern(memory_->source(0, leg.octets), leg.seed, 0);
    std::memset(target.data(), 0, target.size());
    if (plan_.op == Op::Send) post_receive_ahead();
  }

  bool step() override {
    const bool took = take() > 0;
    const bool moved = side_ == Side::Client ? ask() : answer();
    if (!moved && open() == 0 && plan_.op == Op::Write && plan_.wait == Wait::Poll) {
      look_at_stream();
    }
    return moved || took;
  }

  bool done() const override { return trip_ == leg_.count && open() == 0; }
  std::uint64_t completed() const override { return trip_; }

 private:
  bool ask() {
    if (trip_ == leg_.count) return false;
    if (!begun_) {
      begun_ = true;
      last_ns_ = now_ns();
      send_message();
    }
    if (!arrived()) return false;
    if (plan_.verify) verify();
    const std::uint64_t now = now_ns();
    note_trip(now - last_ns_);
    last_ns_ = now;
    if (++trip_ < leg_.count) {
      if (plan_.op == Op::Send) post_receive_ahead();
      send_message();
    }
    return true;
  }

  bool answer() {
    if (trip_ == leg_.count || !arrived()) return false;
    if (plan_.verify) verify();
    if (plan_.op == Op::Send) post_receive_ahead();
    send_message();
    ++trip_;
    return true;
  }

  /// Never 0, and not what the trip before left.
  std::byte mark() const { return static_cast<std::byte>(trip_ % 255 + 1); }

  bool arrived() const {
    if (plan_.op == Op::Send) return received_ > trip_;
    if (plan_.op == Op::Write) return last_octet(memory_->target(0, leg_.octets)) == mark();
    return reads_done_ > trip_;
  }

  /// Pattern numbers: each message differs from that before and from its answer.
  std::uint64_t number(Side sender) const { return 2 * trip_ + (sender == Side::Client ? 1 : 2); }

  void verify() {
    const auto target = memory_->target(0, leg_.octets);
    if (plan_.op == Op::Read) return expect_pattern(target, leg_.seed, 0);
    if (plan_.op == Op::WriteRead) return expect_pattern(target, leg_.seed, number(side_));
    const Side sender = side_ == Side::Client ? Side::Server : Side::Client;
    if (plan_.op == Op::Send) return expect_pattern(target, leg_.seed, number(sender));
    expect_pattern_soon(target.first(target.size() - 1), leg_.seed, number(sender));
  }

  void send_message() {
    while (open() + 2 > plan_.operations()) take();
    const std::size_t own = memory_->source_offset(0, leg_.octets);
    const std::size_t target = memory_->target_offset(0, leg_.octets);
    if (plan_.op == Op::Read) {
      if (plan_.verify) std::memset(memory_->target(0, leg_.octets).data(), 0, leg_.octets);
      return post_read(target, leg_.octets, own);
    }
    const auto source = memory_->source(0, leg_.octets);
    if (plan_.verify) fill_pattern(source, leg_.seed, number(side_));
    if (plan_.op == Op::Write) source.back() = mark();
    if (plan_.op == Op::Send) return post_send(own, leg_.octets);
    post_write(own, leg_.octets, target);
    // Reads are answered behind what was written before them.
    if (plan_.op == Op::WriteRead) post_read(target, leg_.octets, target, Kind::Flush);
  }

  void post_receive_ahead() {
    if (receives_posted_ == leg_.count) return;
    post_receive(memory_->target_offset(0, leg_.octets), leg_.octets, Kind::Receive, 0);
    ++receives_posted_;
  }

  void on_done(Kind kind, std::uint32_t) override {
    if (kind == Kind::Receive) {
      ++received_;
    } else if (kind == Kind::Flush || plan_.op == Op::Read) {
      ++reads_done_;
    }
  }

  std::uint64_t trip_ = 0, received_ = 0, reads_done_ = 0, receives_posted_ = 0;
  std::uint64_t last_ns_ = 0;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<ExtendedRunner> make_extended_ping(const Plan& plan, Side side, int fd) {
  return std::make_unique<ExtendedPing>(plan, side, fd,
                                        std::make_unique<Memory>(plan.octets_max(), 1, 1));
}

}  // namespace weft::measure
