// One message at a time, to and fro, by RDMA.
#include <cstring>

#include "measure/pattern.h"
#include "measure/rdma_runner.h"

namespace weft::measure {
namespace {

/// Entries of the send queue: enough for what is unsignalled, and for a Write with its Read.
constexpr std::uint32_t kSendDepth = 256;
/// Receives for the next messages are posted before this one is answered. The peer waits for the
/// answer: the next receive is posted behind it.
constexpr std::uint32_t kReceivesAhead = 4;

class RdmaPing final : public RdmaRunner {
 public:
  using RdmaRunner::RdmaRunner;

  void prepare(const Leg& leg) override {
    leg_ = leg;
    forget_trips();
    trip_ = received_ = reads_done_ = receives_posted_ = 0;
    in_flight_ = unsignalled_ = 0;
    begun_ = false;
    lay_out_requests();
    const auto source = memory_->source(0, leg.octets);
    const auto target = memory_->target(0, leg.octets);
    fill_pattern(source, leg.seed, 0);
    std::memset(target.data(), 0, target.size());
    if (plan_.two_sided()) post_receives_ahead();
  }

  bool step() override {
    // Looking at memory alone means that: completions are taken when some are due, and not after.
    const bool looks_only = plan_.wait == Wait::Memory && in_flight_ == unsignalled_;
    const bool polled = !looks_only && poll() > 0;
    return (side_ == Side::Client ? ask() : answer()) || polled;
  }

  bool done() const override { return trip_ == leg_.count && in_flight_ == 0; }
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
    // The next one goes at once: to poll in between would be time of this program's own, and in it.
    if (++trip_ < leg_.count) send_message();
    return true;
  }

  bool answer() {
    if (trip_ == leg_.count || !arrived()) return false;
    if (plan_.verify) verify();
    send_message();
    ++trip_;
    return true;
  }

  /// Never 0, and not what the trip before left.
  std::byte mark() const { return static_cast<std::byte>(trip_ % 255 + 1); }

  bool arrived() const {
    switch (plan_.op) {
      case Op::Send:
      case Op::WriteImm:
        return received_ > trip_;
      case Op::Write:
        return last_octet(memory_->target(0, leg_.octets)) == mark();
      default:
        return reads_done_ > trip_;
    }
  }

  /// Pattern numbers: each message differs from that before and from its answer.
  std::uint64_t number(Side sender) const { return 2 * trip_ + (sender == Side::Client ? 1 : 2); }

  void verify() {
    const auto target = memory_->target(0, leg_.octets);
    if (plan_.op == Op::Read) return expect_pattern(target, leg_.seed, 0);
    if (plan_.op == Op::WriteRead) return expect_pattern(target, leg_.seed, number(side_));
    const Side sender = side_ == Side::Client ? Side::Server : Side::Client;
    if (plan_.op != Op::Write) return expect_pattern(target, leg_.seed, number(sender));
    expect_pattern_soon(target.first(target.size() - 1), leg_.seed, number(sender));
  }

  /// The work requests of every trip, so that a trip costs no more than it has to.
  void lay_out_requests() {
    const bool reads = plan_.op == Op::Read;
    const std::size_t source = memory_->source_offset(0, leg_.octets);
    const std::size_t target = memory_->target_offset(0, leg_.octets);
    place_ = local(reads ? target : source, leg_.octets);
    message_ = {};
    message_.wr_id = reads ? kRead : 0;
    message_.opcode = opcode();
    message_.sg_list = &place_;
    message_.num_sge = 1;
    message_.send_flags = plan_.inline_data ? IBV_SEND_INLINE : 0;
    aim(message_, reads ? source : target);

    back_ = local(target, leg_.octets);
    read_back_ = {};
    read_back_.wr_id = kRead;
    read_back_.opcode = IBV_WR_RDMA_READ;
    read_back_.sg_list = &back_;
    read_back_.num_sge = 1;
    aim(read_back_, target);
    signal_every_ = plan_.signal_every();
  }

  void send_message() {
    send_one();
    if (plan_.two_sided()) post_receives_ahead();
  }

  void send_one() {
    while (in_flight_ + 2 > kSendDepth) poll();
    const auto source = memory_->source(0, leg_.octets);
    if (plan_.verify && plan_.op != Op::Read) fill_pattern(source, leg_.seed, number(side_));
    if (plan_.op == Op::Write) source.back() = mark();
    if (plan_.verify && plan_.op == Op::Read) {
      std::memset(memory_->target(0, leg_.octets).data(), 0, leg_.octets);
    }
    ++in_flight_;
    ++unsignalled_;
    if (plan_.op == Op::WriteRead) return write_and_read_back();
    if (unsignalled_ < signal_every_ && trip_ + 1 != leg_.count) return post(message_);
    ibv_send_wr last = message_;
    signal(last);
    post(last);
  }

  /// The peer answers a Read after it has placed the Writes that came before it on the stream.
  void write_and_read_back() {
    ibv_send_wr message = message_, read_back = read_back_;
    signal(message);
    ++in_flight_;
    ++unsignalled_;
    signal(read_back);
    message.next = &read_back;
    post(message);
  }

  void signal(ibv_send_wr& request) {
    request.send_flags |= IBV_SEND_SIGNALED;
    request.wr_id |= unsignalled_;
    unsignalled_ = 0;
  }

  void post_receives_ahead() {
    while (receives_posted_ < leg_.count && receives_posted_ < received_ + kReceivesAhead) {
      ibv_sge place = local(memory_->target_offset(0, leg_.octets), leg_.octets);
      ibv_recv_wr receive{};
      receive.sg_list = &place;
      receive.num_sge = plan_.op == Op::Send ? 1 : 0;  // immediate data brings no octets
      post_receives(receive);
      ++receives_posted_;
    }
  }

  void on_received(const ibv_wc& completion) override {
    if (completion.byte_len != leg_.octets) {
      fail("a message of {} octets came instead of {}", completion.byte_len, leg_.octets);
    }
    ++received_;
  }
  void on_sent(std::uint64_t wr_id) override {
    in_flight_ -= static_cast<std::uint32_t>(wr_id & kFreed);
    if ((wr_id & kRead) != 0) ++reads_done_;
  }

  std::uint64_t trip_ = 0, received_ = 0, reads_done_ = 0, receives_posted_ = 0;
  std::uint32_t in_flight_ = 0, unsignalled_ = 0;
  std::uint64_t last_ns_ = 0;
  bool begun_ = false;
  ibv_sge place_{}, back_{};
  ibv_send_wr message_{}, read_back_{};
  std::uint32_t signal_every_ = 1;
};

}  // namespace

std::unique_ptr<RdmaRunner> make_rdma_ping(const Plan& plan, Side side,
                                           std::unique_ptr<RdmaLink> link) {
  auto memory = std::make_unique<Memory>(plan.octets_max(), 1, 1);
  const LinkShape shape{
      .send_depth = kSendDepth,
      .receive_depth = 2 * kReceivesAhead,
      .inline_octets = plan.inline_data ? static_cast<std::uint32_t>(plan.octets_max()) : 0,
      .inline_needed = plan.inline_data};
  link->make(shape, memory->base(), memory->octets());
  return std::make_unique<RdmaPing>(plan, side, std::move(link), std::move(memory));
}

}  // namespace weft::measure
