// As many messages as may be outstanding, one way or both, by RDMA.
//
// iWARP has no receiver-not-ready retry, so what takes a receive may not outrun the posted ones:
// the receiver sends an empty Send, a credit, for every quarter of the posted receives that were
// taken. The last credit also tells that all has arrived. Behind RDMA Writes goes a small RDMA
// Read, which is answered after they were placed.
#include <algorithm>
#include <cstring>
#include <vector>

#include "measure/pattern.h"
#include "measure/rdma_runner.h"

namespace weft::measure {
namespace {

constexpr std::size_t kFlushAt = 64;
constexpr std::uint64_t kFlushOctets = 8;

class RdmaBlast final : public RdmaRunner {
 public:
  RdmaBlast(const Plan& plan, Side side, std::unique_ptr<RdmaLink> link,
            std::unique_ptr<Memory> memory)
      : RdmaRunner(plan, side, std::move(link), std::move(memory)),
        sends_(side == Side::Client || plan.both),
        takes_(plan.two_sided() && (side == Side::Server || plan.both)),
        buffers_(plan.buffer_count()),
        targets_(plan.target_count()),
        credit_every_(std::max(1u, plan.window() / 4)),
        requests_(plan.list),
        places_(plan.list) {}

  void prepare(const Leg& leg) override {
    leg_ = leg;
    posted_ = completed_ = received_ = told_ = credits_ = 0;
    receives_posted_ = receives_done_ = 0;
    in_flight_ = unsignalled_ = credits_in_flight_ = 0;
    flush_ = plan_.op == Op::Write && sends_ ? Flush::Wanted : Flush::Done;
    credits_total_ =
        sends_ && plan_.two_sided() ? (leg.count + credit_every_ - 1) / credit_every_ : 0;
    receives_total_ = credits_total_ + (takes_ ? leg.count : 0);
    if (plan_.verify) fill_and_poison();
    make_requests();
    post_more_receives();
  }

  bool step() override {
    bool moved = poll() > 0;
    if (receives_total_ > 0) post_more_receives();
    if (takes_) moved |= give_credits();
    if (sends_) moved |= post_messages();
    return moved;
  }

  bool done() const override {
    if (in_flight_ > 0 || credits_in_flight_ > 0) return false;
    if (takes_ && told_ < leg_.count) return false;
    return !sends_ ||
           (completed_ == leg_.count && credits_ == credits_total_ && flush_ == Flush::Done);
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
  enum class Flush { Wanted, Posted, Done };

  void fill_and_poison() {
    for (std::uint32_t b = 0; b < buffers_; ++b) {
      fill_pattern(memory_->source(b, leg_.octets), leg_.seed, b);
    }
    for (std::uint32_t t = 0; t < targets_; ++t) poison(t);
  }
  void poison(std::size_t target) {
    std::memset(memory_->target(target, leg_.octets).data(), 0x5A, leg_.octets);
  }

  void make_requests() {
    for (std::uint32_t i = 0; i < plan_.list; ++i) {
      requests_[i] = {};
      requests_[i].opcode = opcode();
      requests_[i].sg_list = &places_[i];
      requests_[i].num_sge = 1;
      aim(requests_[i], 0);
      places_[i] = local(0, leg_.octets);
    }
  }

  bool post_messages() {
    bool moved = false;
    while (posted_ < leg_.count) {
      const std::uint64_t allowed =
          plan_.two_sided() ? plan_.window() + credits_ * credit_every_ : leg_.count;
      auto list =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(plan_.list, leg_.count - posted_));
      if (in_flight_ + list > plan_.outstanding) break;
      if (posted_ + list > allowed) {
        // Credits come in portions that need not fit the lists; an idle sender takes what there is.
        if (in_flight_ > 0 || posted_ >= allowed) break;
        list = static_cast<std::uint32_t>(allowed - posted_);
      }
      post_list(list);
      moved = true;
    }
    if (flush_ == Flush::Wanted && posted_ == leg_.count) {
      post_flush();
      moved = true;
    }
    return moved;
  }

  void post_list(std::uint32_t list) {
    const bool reads = plan_.op == Op::Read;
    for (std::uint32_t i = 0; i < list; ++i) {
      const std::uint64_t number = posted_ + i;
      const std::size_t source = memory_->source_offset(number % buffers_, leg_.octets);
      const std::size_t target = memory_->target_offset(number % buffers_, leg_.octets);
      if (plan_.verify && !reads) {
        fill_pattern(memory_->source(number % buffers_, leg_.octets), leg_.seed, number);
      }
      ibv_send_wr& request = requests_[i];
      places_[i].addr =
          reinterpret_cast<std::uintptr_t>(memory_->base()) + (reads ? target : source);
      request.wr.rdma.remote_addr = peer_.base + (reads ? source : target);
      request.send_flags = plan_.inline_data ? unsigned{IBV_SEND_INLINE} : 0u;
      request.next = i + 1 < list ? &requests_[i + 1] : nullptr;
      ++unsignalled_;
      const bool last = number + 1 == leg_.count;
      const bool ends_list = i + 1 == list;
      // Periodic: at the end of a list, if the next one would leave too many without.
      if (plan_.signal == Signal::Full || last ||
          (ends_list && unsignalled_ + plan_.list > plan_.signal_every())) {
        request.send_flags |= IBV_SEND_SIGNALED;
        request.wr_id = unsignalled_;
        unsignalled_ = 0;
      }
    }
    in_flight_ += list;
    posted_ += list;
    post(requests_[0]);
  }

  void post_flush() {
    ibv_sge place = local(kFlushAt, kFlushOctets);
    ibv_send_wr request{};
    request.wr_id = kRead;
    request.opcode = IBV_WR_RDMA_READ;
    request.sg_list = &place;
    request.num_sge = 1;
    request.send_flags = IBV_SEND_SIGNALED;
    aim(request, 0);
    post(request);
    flush_ = Flush::Posted;
  }

  bool give_credits() {
    const bool all = received_ == leg_.count;
    if (told_ == received_ || (received_ - told_ < credit_every_ && !all)) return false;
    if (credits_in_flight_ == kCreditsMax) return false;
    ibv_send_wr request{};
    request.wr_id = kControl;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    post(request);
    ++credits_in_flight_;
    told_ = std::min(told_ + credit_every_, received_);
    return true;
  }

  std::uint32_t slots() const { return plan_.receive_count(); }

  /// Exactly as many as come in this leg: none is left for the next one, whose size may differ.
  void post_more_receives() {
    const std::uint64_t wanted = std::min(receives_total_, receives_done_ + slots());
    const std::uint64_t more = wanted - receives_posted_;
    if (more == 0 || (more < credit_every_ && more < kReceiveList && wanted < receives_total_)) {
      return;
    }
    std::array<ibv_recv_wr, kReceiveList> list;
    std::array<ibv_sge, kReceiveList> places;
    while (receives_posted_ < wanted) {
      const auto part =
          static_cast<std::size_t>(std::min<std::uint64_t>(wanted - receives_posted_, list.size()));
      for (std::size_t i = 0; i < part; ++i) {
        // Receives are used in order, so the number of the receive is its slot.
        const std::size_t target = (receives_posted_ + i) % slots() % targets_;
        places[i] = local(memory_->target_offset(target, leg_.octets), leg_.octets);
        list[i] = {target, i + 1 < part ? &list[i + 1] : nullptr, &places[i],
                   plan_.op == Op::Send ? 1 : 0};
      }
      post_receives(list[0]);
      receives_posted_ += part;
    }
  }

  void on_received(const ibv_wc& completion) override {
    ++receives_done_;
    if (completion.opcode == IBV_WC_RECV && completion.byte_len == 0) {
      if (++credits_ > credits_total_) fail("a credit too many came");
      return;
    }
    if (completion.byte_len != leg_.octets || !takes_) {
      fail("a message of {} octets came instead of {}", completion.byte_len, leg_.octets);
    }
    if (plan_.verify) {
      const std::size_t target = plan_.op == Op::Send ? completion.wr_id : received_ % buffers_;
      expect_pattern(memory_->target(target, leg_.octets), leg_.seed, received_);
      poison(target);
    }
    ++received_;
  }

  void on_sent(std::uint64_t wr_id) override {
    if ((wr_id & kRead) != 0) {
      flush_ = Flush::Done;
    } else if ((wr_id & kControl) != 0) {
      --credits_in_flight_;
    } else {
      if (plan_.verify && plan_.op == Op::Read) {
        const std::size_t target = completed_ % buffers_;
        expect_pattern(memory_->target(target, leg_.octets), leg_.seed, target);
        poison(target);
      }
      in_flight_ -= static_cast<std::uint32_t>(wr_id & kFreed);
      completed_ += wr_id & kFreed;
    }
  }

  const bool sends_, takes_;
  const std::uint32_t buffers_, targets_, credit_every_;
  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> places_;
  std::uint64_t posted_ = 0, completed_ = 0;       // our messages
  std::uint64_t received_ = 0, told_ = 0;          // the peer's, and how many credited
  std::uint64_t credits_ = 0, credits_total_ = 0;  // that came, for ours
  std::uint64_t receives_posted_ = 0, receives_done_ = 0, receives_total_ = 0;
  std::uint32_t in_flight_ = 0, unsignalled_ = 0, credits_in_flight_ = 0;
  Flush flush_ = Flush::Done;
};

}  // namespace

std::unique_ptr<RdmaRunner> make_rdma_blast(const Plan& plan, Side side,
                                            std::unique_ptr<RdmaLink> link) {
  auto memory = std::make_unique<Memory>(plan.octets_max(), plan.buffer_count(),
                                         plan.target_count(), buffers_used(plan, side));
  const LinkShape shape{
      .send_depth = plan.outstanding + kCreditsMax + 1,
      .receive_depth = plan.receive_count(),
      .inline_octets = plan.inline_data ? static_cast<std::uint32_t>(plan.octets_max()) : 0,
      .inline_needed = plan.inline_data};
  link->make(shape, memory->base(), memory->octets());
  return std::make_unique<RdmaBlast>(plan, side, std::move(link), std::move(memory));
}

}  // namespace weft::measure
