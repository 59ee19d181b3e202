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
    const bool sends = leg.work == Work::SendBandwidth;
    if (leg.work == Work::SendLatency || (sends && role == Role::Follower)) {
      receives_posted_ = std::min<std::uint64_t>(leg.count, kDepth);
      line_.post_receives(buffers_.target(), leg.octets,
                          static_cast<std::uint32_t>(receives_posted_));
    } else if (leg.work != Work::WriteLatency &&
               !(leg.work == Work::ReadBandwidth && role == Role::Leader)) {
      line_.post_receives(buffers_.control() + kMarkTargetAt, kMarkOctets, 1);
    }
  }

  Sample lead(const Leg& leg) override {
    if (is_latency(leg.work)) return ping(leg);
    const std::uint64_t begin = now_ns();
    stream(leg);
    if (leg.work == Work::ReadBandwidth) {
      line_.drain();  // a read is complete when its octets are here
    } else {
      if (leg.work != Work::SendBandwidth) send_mark();
      await_received(1);
    }
    const Sample sample{static_cast<double>(now_ns() - begin) * 1e-9, {}};
    if (leg.work == Work::ReadBandwidth) send_mark();
    line_.drain();
    return sample;
  }

  void follow(const Leg& leg) override {
    if (is_latency(leg.work)) {
      for (std::uint64_t trip = 0; trip < leg.count; ++trip) {
        receive_message(leg, trip);
        send_message(leg, trip);
      }
    } else if (leg.work == Work::SendBandwidth) {
      receive_stream(leg);
      send_mark();
    } else {
      await_received(1);
      if (leg.work != Work::ReadBandwidth) send_mark();
    }
    line_.drain();
  }

 private:
  Sample ping(const Leg& leg) {
    Sample sample;
    sample.half_trips_ns.reserve(leg.count);
    const std::uint64_t begin = now_ns();
    std::uint64_t last = begin;
    for (std::uint64_t trip = 0; trip < leg.count; ++trip) {
      send_message(leg, trip);
      receive_message(leg, trip);
      const std::uint64_t now = now_ns();
      sample.half_trips_ns.push_back(static_cast<std::uint32_t>((now - last) / 2));
      last = now;
    }
    sample.seconds = static_cast<double>(last - begin) * 1e-9;
    line_.drain();
    return sample;
  }

  void send_message(const Leg& leg, std::uint64_t trip) {
    const std::uint64_t mark = trip_mark(leg, trip);
    std::memcpy(buffers_.source() + leg.octets - sizeof mark, &mark, sizeof mark);
    while (line_.in_flight() >= kDepth) line_.poll();
    ibv_sge from = line_.local(buffers_.source(), leg.octets);
    ibv_send_wr request = leg.work == Work::SendLatency
                              ? make_request(leg, IBV_WR_SEND, from, 0)
                              : make_request(leg, IBV_WR_RDMA_WRITE, from,
                                             buffers_.target_offset());
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
    await_received(trip + 1);
    std::uint64_t seen = 0;
    std::memcpy(&seen, mark_at, sizeof seen);
    if (seen != mark) fail("wrong data in RDMA round trip {}", trip);
    repost(leg, trip + 1);
  }

  /// Posts leg.count messages, at most kDepth of them in flight.
  void stream(const Leg& leg) {
    const bool sends = leg.work == Work::SendBandwidth;
    const bool reads = leg.work == Work::ReadBandwidth;
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
    for (std::uint64_t posted = 0; posted < leg.count; posted += batch) {
      while (line_.in_flight() + batch > kDepth) line_.poll();
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
    line_.post_receives(buffers_.target(), leg.octets, static_cast<std::uint32_t>(more));
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
