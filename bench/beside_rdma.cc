// Two QPs of one process, each with its CQ; all by RDMA Write. A ping for a thread that sleeps has
// an immediate, since a plain Write completes nothing at its target.
#include <atomic>
#include <cstring>
#include <optional>

#include "bench/beside.h"
#include "measure/memory.h"
#include "measure/rdma_link.h"
#include "measure/rdma_runner.h"
#include "measure/verbs_calls.h"

namespace weft::bench {
namespace {

/// The octets of the bulk stream's Writes in flight at most.
constexpr std::uint64_t kBulkInFlight = 2u << 20;
constexpr std::uint32_t kDepth = 128;
static_assert(kBulkInFlight / kBulkOctets <= kDepth);
constexpr int kPollBatch = 16;
/// Of a thread that sleeps: its arrivals' receives, and one of so many pings is signalled.
constexpr std::uint32_t kReceives = 4;
constexpr std::uint32_t kSignalEvery = 64;

/// A QP that Writes to the same places of a peer's Memory as of its own.
class Writer {
 public:
  Writer(const Place& place, Memory& memory, PingWait wait) : memory_(memory), wait_(wait) {
    const bool follows = place.role == Role::Follower;
    LinkEvents::Event met;
    if (follows) {
      const RdmaListener listener(events_, place.address);
      place.control.put(listener.port());
      met = events_.await(RDMA_CM_EVENT_CONNECT_REQUEST);
      link_.emplace(events_, met.id);
    } else {
      link_.emplace(events_, place.address, place.control.get<std::uint16_t>());
    }
    link_->make({.send_depth = kDepth, .receive_depth = kReceives, .inline_octets = kPingOctets},
                memory.base(), memory.octets());
    if (wait_ == PingWait::Sleeping) {
      for (std::uint32_t i = 0; i < kReceives; ++i) post_receive();
      measure::arm(link_->cq());
    }
    const auto own =
        encode_region({0, reinterpret_cast<std::uintptr_t>(memory.base()), link_->mr()->rkey});
    if (follows) {
      link_->accept(own);
    } else {
      met = link_->connect(own);
    }
    peer_ = parse_region(std::span(met.private_data).first(met.private_octets));
  }

  void write(std::size_t from, std::size_t to, std::uint32_t octets) {
    ibv_sge place{reinterpret_cast<std::uintptr_t>(memory_.base() + from), octets,
                  link_->mr()->lkey};
    ibv_send_wr request{};
    request.opcode =
        wait_ == PingWait::Sleeping ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    const bool signalled = wait_ == PingWait::Polling || ++writes_ % kSignalEvery == 0;
    if (signalled) request.send_flags = IBV_SEND_SIGNALED;
    if (octets <= link_->inline_octets()) request.send_flags |= IBV_SEND_INLINE;
    request.sg_list = &place;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = peer_.base + to;
    request.wr.rdma.rkey = peer_.key;
    measure::post(link_->qp(), request);
    if (signalled) ++in_flight_;
  }
  void poll() {
    measure::poll_cq<kPollBatch>(link_->cq(), [this](const ibv_wc& completion) {
      if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        post_receive();
      } else {
        --in_flight_;
      }
    });
  }
  /// Sleeps until there is something to poll: who is woken for an event arms before he polls.
  void sleep() {
    link_->take_cq_event();
    measure::arm(link_->cq());
  }
  void drain() {
    while (in_flight_ > 0) poll();
  }
  std::uint32_t in_flight() const { return in_flight_; }

 private:
  void post_receive() {
    ibv_recv_wr receive{};
    measure::post(link_->qp(), receive);
  }

  Memory& memory_;
  PingWait wait_;
  LinkEvents events_;
  std::optional<RdmaLink> link_;
  Region peer_;
  std::uint32_t in_flight_ = 0, writes_ = 0;
};

class BesideRDMA final : public BesidePair {
 public:
  BesideRDMA(const Place& place, PingWait wait)
      : wait_(wait), ping_(place, memory_, wait), bulk_(place, memory_, PingWait::Polling) {}

  /// Pings go to and from the control page, which the bulk stream leaves alone.
  void send_ping(std::uint64_t mark) override {
    while (ping_.in_flight() >= kDepth) ping_.poll();
    std::memcpy(memory_.control(), &mark, sizeof mark);
    ping_.write(0, kPingAt, sizeof mark);
  }
  bool has_ping(std::uint64_t mark) override {
    if (wait_ == PingWait::Sleeping) {
      // Each arrival has taken a receive, which a poll gives back.
      ping_.poll();
      if (is_there(mark)) return true;
      ping_.sleep();
      return false;
    }
    // Any poll may have brought it.
    if (is_there(mark)) return true;
    ping_.poll();
    return is_there(mark);
  }

  std::uint64_t feed() override {
    bulk_.poll();
    if (bulk_.in_flight() >= kBulkInFlight / kBulkOctets) return 0;
    bulk_.write(memory_.source_offset(0, kBulkOctets), memory_.target_offset(0, kBulkOctets),
                kBulkOctets);
    return kBulkOctets;
  }
  void end_feeding() override {
    bulk_.drain();
    ping_.drain();
  }

  void drain() override { bulk_.poll(); }
  /// Nothing is left to do for what is written here: the next leg's octets come behind it.
  void end_draining(std::uint64_t) override { ping_.drain(); }

 private:
  static constexpr std::size_t kPingAt = 64;

  bool is_there(std::uint64_t mark) {
    auto& at = *reinterpret_cast<std::uint64_t*>(memory_.control() + kPingAt);
    return std::atomic_ref(at).load(std::memory_order_acquire) == mark;
  }

  PingWait wait_;
  Memory memory_{kBulkOctets, 1, 1};
  Writer ping_, bulk_;
};

}  // namespace

std::unique_ptr<End> make_beside_rdma(const Place& place) {
  return make_beside(std::make_unique<BesideRDMA>(place, PingWait::Polling), place.control);
}

std::unique_ptr<End> make_mixed_rdma(const Place& place) {
  return make_mixed(std::make_unique<BesideRDMA>(place, PingWait::Sleeping), place.control);
}

}  // namespace weft::bench
