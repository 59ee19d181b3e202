// Two QPs of one process, each with its CQ; all by RDMA Write.
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

/// A QP that Writes to the same places of a peer's Memory as of its own.
class Writer {
 public:
  Writer(const Place& place, Memory& memory) : memory_(memory) {
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
    link_->make({.send_depth = kDepth, .receive_depth = 1, .inline_octets = kPingOctets},
                memory.base(), memory.octets());
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
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    if (octets <= link_->inline_octets()) request.send_flags |= IBV_SEND_INLINE;
    request.sg_list = &place;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = peer_.base + to;
    request.wr.rdma.rkey = peer_.key;
    measure::post(link_->qp(), request);
    ++in_flight_;
  }
  void poll() {
    in_flight_ -=
        static_cast<std::uint32_t>(measure::poll_cq<kPollBatch>(link_->cq(), [](const ibv_wc&) {}));
  }
  void drain() {
    while (in_flight_ > 0) poll();
  }
  std::uint32_t in_flight() const { return in_flight_; }

 private:
  Memory& memory_;
  LinkEvents events_;
  std::optional<RdmaLink> link_;
  Region peer_;
  std::uint32_t in_flight_ = 0;
};

class BesideRDMA final : public BesidePair {
 public:
  explicit BesideRDMA(const Place& place) : ping_(place, memory_), bulk_(place, memory_) {}

  /// Pings go to and from the control page, which the bulk stream leaves alone.
  void send_ping(std::uint64_t mark) override {
    while (ping_.in_flight() >= kDepth) ping_.poll();
    std::memcpy(memory_.control(), &mark, sizeof mark);
    ping_.write(0, kPingAt, sizeof mark);
  }
  bool has_ping(std::uint64_t mark) override {
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

  Memory memory_{kBulkOctets, 1, 1};
  Writer ping_, bulk_;
};

}  // namespace

std::unique_ptr<End> make_beside_rdma(const Place& place) {
  return make_beside(std::make_unique<BesideRDMA>(place), place.control);
}

}  // namespace weft::bench
