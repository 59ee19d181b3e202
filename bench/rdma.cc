// The same work by RDMA. Both ends busy-poll their CQ, as the TCP ends poll their sockets.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "bench/medium.h"
#include "bench/rdma_connection.h"

namespace weft::bench {
namespace {

constexpr std::size_t kBatchMax = 64;
/// What marks carry; any octet would do.
constexpr std::size_t kMarkOctets = sizeof(std::uint64_t);
/// Offsets in the control page. Each has its own cache line, and one writer at a time.
constexpr std::size_t kMarkSourceAt = 0, kMarkTargetAt = 64, kCreditAt = 128, kCreditSourceAt = 192;

/// iWARP has no receiver-not-ready retry, so a sender may not outrun the posted receives: the
/// receiver writes how many messages it has taken into the sender's memory, every so many.
constexpr std::uint64_t kCreditEvery = kDepth / 4;
/// Receives are posted again in lists of kSignalEvery, so fewer than that many may be missing.
constexpr std::uint64_t kCreditWindow = kDepth - kSignalEvery;

/// Reads what the peer or our own engine writes behind the compiler's back. Acquire pairs with
/// whatever placed the octets: what came before the mark is there too.
std::uint64_t look(const std::byte* at) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at)))
      .load(std::memory_order_acquire);
}

/// Name, transport, and which library answered: what tells weft from hardware in a report.
std::string device_text(ibv_device* device) {
  Dl_info library{};
  // By name: the function's own address may be in this program's jump table.
  if (void* symbol = ::dlsym(RTLD_DEFAULT, "ibv_get_device_name"); symbol != nullptr) {
    ::dladdr(symbol, &library);
  }
  const bool iwarp = device->transport_type == IBV_TRANSPORT_IWARP;
  return fmt::format("{} ({}), by {}", ::ibv_get_device_name(device),
                     iwarp ? "iWARP" : "InfiniBand or RoCE",
                     library.dli_fname == nullptr ? "?" : library.dli_fname);
}

std::string last_device = "none";

class RdmaEnd final : public Medium {
 public:
  RdmaEnd(Role role, const std::string& address, Control& control, Buffers& buffers)
      : buffers_(buffers), line_(role, address, control, buffers) {
    last_device = device_text(line_.device());
  }

  void prepare(const Leg& leg, Role role) override {
    prepare_buffers(leg, buffers_);
    std::memset(buffers_.control() + kCreditAt, 0, kMarkOctets);
    line_.reset_received();
    receives_posted_ = 0;
    if (is_received_by_message(leg, role)) {
      repost(leg, 0);
    } else if (leg.work != Work::WriteLatency && !(is_read(leg.work) && role == Role::Leader)) {
      line_.post_receives(buffers_.control() + kMarkTargetAt, kMarkOctets, 1);
    }
  }

  Sample lead(const Leg& leg) override {
    if (leg.work == Work::ReadLatency) return read_one_by_one(leg);
    if (is_latency(leg.work)) return ping(leg);
    const std::uint64_t begin = now_ns();
    stream(leg);
    if (is_read(leg.work)) {
      line_.drain();  // a read is complete when its octets are here
    } else {
      if (leg.work != Work::SendBandwidth) send_mark();
      await_received(1);
    }
    const Sample sample{.seconds = static_cast<double>(now_ns() - begin) * 1e-9};
    if (is_read(leg.work)) send_mark();
    line_.drain();
    return sample;
  }

  void follow(const Leg& leg) override {
    if (is_ping(leg)) {
      for (std::uint64_t trip = 0; trip < leg.count; ++trip) {
        receive_message(leg, trip);
        send_message(leg, trip);
      }
    } else if (leg.work == Work::SendBandwidth) {
      receive_stream(leg);
      send_mark();
    } else {
      if (leg.work == Work::WritePassive) {
        line_.sleep_until_received(1);
      } else {
        await_received(1);
      }
      if (!is_read(leg.work)) send_mark();
    }
    line_.drain();
  }

 private:
  /// Whether every message takes a receive at this end.
  static bool is_received_by_message(const Leg& leg, Role role) {
    return leg.work == Work::SendLatency || leg.work == Work::WriteEvent ||
           (leg.work == Work::SendBandwidth && role == Role::Follower);
  }

  Sample ping(const Leg& leg) {
    Sample sample;
    sample.trips_ns.reserve(leg.count);
    const std::uint64_t begin = now_ns();
    std::uint64_t last = begin;
    for (std::uint64_t trip = 0; trip < leg.count; ++trip) {
      send_message(leg, trip);
      receive_message(leg, trip);
      const std::uint64_t now = now_ns();
      sample.trips_ns.push_back(static_cast<std::uint32_t>((now - last) / 2));
      last = now;
    }
    sample.seconds = static_cast<double>(last - begin) * 1e-9;
    line_.drain();
    return sample;
  }

  /// One Read after the other. The target is poisoned before each, so that a completion which comes
  /// before its octets shows.
  Sample read_one_by_one(const Leg& leg) {
    Sample sample;
    sample.trips_ns.reserve(leg.count);
    ibv_sge into = line_.local(buffers_.target(), leg.octets);
    ibv_send_wr request = make_request(leg, IBV_WR_RDMA_READ, into, buffers_.source_offset());
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr_id = 1;
    std::byte* const last = buffers_.target() + leg.octets - kMarkOctets;
    const std::byte* const same = buffers_.source() + leg.octets - kMarkOctets;
    const std::uint64_t begin = now_ns();
    for (std::uint64_t trip = 0; trip < leg.count; ++trip) {
      std::memset(last, 0, kMarkOctets);
      const std::uint64_t now = now_ns();
      line_.post_send(request, 1);
      line_.drain();
      sample.trips_ns.push_back(static_cast<std::uint32_t>(now_ns() - now));
      // Both ends' sources hold the pattern of the leg.
      if (std::memcmp(last, same, kMarkOctets) != 0) fail("wrong data in RDMA Read {}", trip);
    }
    sample.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
    send_mark();
    line_.drain();
    return sample;
  }

  void send_message(const Leg& leg, std::uint64_t trip) {
    const std::uint64_t mark = trip_mark(leg, trip);
    std::memcpy(buffers_.source() + leg.octets - sizeof mark, &mark, sizeof mark);
    while (line_.in_flight() >= kDepth) line_.poll();
    ibv_sge from = line_.local(buffers_.source(), leg.octets);
    // Only a completion ends a sleep, and the peer of a plain Write gets none.
    const ibv_wr_opcode opcode = leg.work == Work::SendLatency  ? IBV_WR_SEND
                                 : leg.work == Work::WriteEvent ? IBV_WR_RDMA_WRITE_WITH_IMM
                                                                : IBV_WR_RDMA_WRITE;
    ibv_send_wr request = make_request(leg, opcode, from, buffers_.target_offset());
    // The last one too, so that drain() ends.
    signal_now_and_then(request, trip + 1 == leg.count);
    line_.post_send(request, 1);
  }

  void receive_message(const Leg& leg, std::uint64_t trip) {
    const std::byte* mark_at = buffers_.target() + leg.octets - sizeof(std::uint64_t);
    const std::uint64_t mark = trip_mark(leg, trip);
    if (leg.work == Work::WriteLatency) {
      while (look(mark_at) != mark) line_.poll();
      return;
    }
    if (leg.work == Work::WriteEvent) {
      line_.sleep_until_received(trip + 1);
    } else {
      await_received(trip + 1);
    }
    std::uint64_t seen = 0;
    std::memcpy(&seen, mark_at, sizeof seen);
    if (seen != mark) fail("wrong data in RDMA round trip {}", trip);
    repost(leg, trip + 1);
  }

  /// Posts leg.count messages, so many of them in flight at most.
  void stream(const Leg& leg) {
    const bool sends = leg.work == Work::SendBandwidth;
    const bool reads = is_read(leg.work);
    const std::uint32_t depth = leg.work == Work::WriteRate ? kSmallDepth : kDepth;
    const ibv_wr_opcode opcode = sends   ? IBV_WR_SEND
                                 : reads ? IBV_WR_RDMA_READ
                                         : IBV_WR_RDMA_WRITE;
    const auto batch = static_cast<std::uint32_t>(leg.batch);
    std::array<ibv_sge, kBatchMax> places;
    std::array<ibv_send_wr, kBatchMax> list;
    for (std::uint32_t i = 0; i < batch; ++i) {
      const std::size_t at = i * leg.octets;
      places[i] = line_.local((reads ? buffers_.target() : buffers_.source()) + at, leg.octets);
      list[i] = make_request(
          leg, opcode, places[i],
          (reads ? buffers_.source_offset() : buffers_.target_offset()) + at);
      list[i].next = i + 1 < batch ? &list[i + 1] : nullptr;
    }
    const ibv_sge place = places[0];
    const std::uint64_t peer = list[0].wr.rdma.remote_addr;
    for (std::uint64_t posted = 0; posted < leg.count; posted += batch) {
      const std::uint64_t at = posted * leg.octets % leg.span();
      places[0].addr = place.addr + at;
      list[0].wr.rdma.remote_addr = peer + at;
      while (line_.in_flight() + batch > depth) line_.poll();
      if (sends) {
        while (posted >= look(buffers_.control() + kCreditAt) + kCreditWindow) line_.poll();
      }
      if (batch == 1) {
        signal_now_and_then(list[0], posted + 1 == leg.count);
      } else {
        list[batch - 1].send_flags |= IBV_SEND_SIGNALED;
        list[batch - 1].wr_id = batch;
      }
      line_.post_send(list[0], batch);
    }
  }

  void receive_stream(const Leg& leg) {
    std::uint64_t told = 0;
    while (line_.received() < leg.count) {
      line_.poll();
      repost(leg, line_.received());
      if (line_.received() - told >= kCreditEvery && line_.received() < leg.count) {
        told = line_.received();
        tell_credit(told);
      }
    }
  }

  /// Keeps kDepth receives posted, in lists, and in the end exactly as many as messages come.
  void repost(const Leg& leg, std::uint64_t received) {
    const std::uint64_t wanted = std::min(leg.count, received + kDepth);
    const std::uint64_t more = wanted - receives_posted_;
    if (more == 0 || (more < kSignalEvery && wanted < leg.count)) return;
    const auto count = static_cast<std::uint32_t>(more);
    if (leg.work == Work::WriteEvent) {
      line_.post_empty_receives(count);
    } else {
      line_.post_receives(buffers_.target(), leg.octets, count);
    }
    receives_posted_ = wanted;
  }

  void tell_credit(std::uint64_t taken) {
    // The credit before may still be on its way out; its place is free when it completed.
    line_.drain();
    put_and_post(IBV_WR_RDMA_WRITE, kCreditSourceAt, kCreditAt, taken);
  }

  void send_mark() {
    put_and_post(IBV_WR_SEND, kMarkSourceAt, 0, 1);
  }

  void put_and_post(ibv_wr_opcode opcode, std::size_t from, std::size_t to, std::uint64_t value) {
    std::memcpy(buffers_.control() + from, &value, sizeof value);
    ibv_sge place = line_.local(buffers_.control() + from, sizeof value);
    Leg small;
    small.octets = sizeof value;
    ibv_send_wr request = make_request(small, opcode, place, to);
    request.send_flags |= IBV_SEND_SIGNALED;
    request.wr_id = 1;
    line_.post_send(request, 1);
  }

  void await_received(std::uint64_t count) {
    while (line_.received() < count) line_.poll();
  }

  ibv_send_wr make_request(const Leg& leg, ibv_wr_opcode opcode, ibv_sge& place,
                           std::size_t peer_offset) const {
    ibv_send_wr request{};
    request.opcode = opcode;
    request.sg_list = &place;
    request.num_sge = 1;
    if (opcode != IBV_WR_RDMA_READ && leg.octets <= line_.inline_octets()) {
      request.send_flags = IBV_SEND_INLINE;
    }
    request.wr.rdma.remote_addr = line_.peer_address(peer_offset);
    request.wr.rdma.rkey = line_.peer_key();
    return request;
  }

  void signal_now_and_then(ibv_send_wr& request, bool last) {
    ++unsignalled_;
    if (last || unsignalled_ == kSignalEvery) {
      request.send_flags |= IBV_SEND_SIGNALED;
      request.wr_id = unsignalled_;
      unsignalled_ = 0;
    } else {
      request.send_flags &= ~static_cast<unsigned>(IBV_SEND_SIGNALED);
    }
  }

  Buffers& buffers_;
  RdmaConnection line_;
  std::uint64_t receives_posted_ = 0;
  std::uint32_t unsignalled_ = 0;
};

}  // namespace

std::unique_ptr<Medium> make_rdma(Medium::Role role, const std::string& address, Control& control,
                                  Buffers& buffers) {
  return std::make_unique<RdmaEnd>(role, address, control, buffers);
}

std::string rdma_device_text() { return last_device; }

}  // namespace weft::bench
