// Two QPs of one process, each with its CQ; all by RDMA Write.
#include <atomic>
#include <cstring>

#include "bench/beside.h"
#include "bench/media.h"
#include "bench/rdma_connection.h"

namespace weft::bench {
namespace {

/// The octets of the bulk stream's Writes in flight at most.
constexpr std::uint64_t kBulkInFlight = 2u << 20;
static_assert(kBulkInFlight / kBulkOctets <= kDepth);

class BesideRDMA final : public BesidePair {
 public:
  BesideRDMA(Medium::Role role, const std::string& address, Control& control)
      : buffers_(kBulkOctets),
        ping_(role, address, control, buffers_),
        bulk_(role, address, control, buffers_) {}

  /// Pings go to and from the control page, which the bulk stream leaves alone.
  void send_ping(std::uint64_t mark) override {
    while (ping_.in_flight() >= kDepth) ping_.poll();
    std::memcpy(buffers_.control(), &mark, sizeof mark);
    ibv_sge place = ping_.local(buffers_.control(), sizeof mark);
    write(ping_, place, kPingAt);
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
    ibv_sge place = bulk_.local(buffers_.source(), kBulkOctets);
    write(bulk_, place, buffers_.target_offset());
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
    auto& at = *reinterpret_cast<std::uint64_t*>(buffers_.control() + kPingAt);
    return std::atomic_ref(at).load(std::memory_order_acquire) == mark;
  }

  static void write(RdmaConnection& line, ibv_sge& place, std::size_t to) {
    ibv_send_wr request{};
    request.wr_id = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    if (place.length <= line.inline_octets()) request.send_flags |= IBV_SEND_INLINE;
    request.sg_list = &place;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = line.peer_address(to);
    request.wr.rdma.rkey = line.peer_key();
    line.post_send(request, 1);
  }

  Buffers buffers_;
  RdmaConnection ping_, bulk_;
};

}  // namespace

std::unique_ptr<Medium> make_beside_rdma(Medium::Role role, const std::string& address,
                                         Control& control) {
  return make_beside(std::make_unique<BesideRDMA>(role, address, control), control);
}

}  // namespace weft::bench
