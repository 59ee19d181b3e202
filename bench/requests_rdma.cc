// The same by Send and Receive over shared receive queues, one CQ at each end, both polled.
//
// A request is a head of the connection's own and a body that all have in common, gathered; the
// server has a receive posted for each connection, so that each may always ask.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "bench/end.h"
#include "bench/fleet.h"
#include "bench/requests.h"
#include "measure/verbs_calls.h"

namespace weft::bench {
namespace {

constexpr int kPollBatch = 64;
constexpr std::uint32_t kSendDepth = 16;
/// One send in so many of a QP is signalled, so that its queue can be reaped.
constexpr std::uint32_t kSignalEvery = 8;
constexpr std::uint64_t kSendMark = 1ull << 63;  // in a wr_id; else it is a receive's slot
constexpr std::size_t kBodyOctets = kRequestOctets - sizeof(Request);

/// A connection may ask again before the receive of its last request is posted again.
constexpr std::size_t slots_for(std::size_t connections) {
  return connections + kPollBatch;
}

FleetShape shape(std::size_t connections) {
  return {.connections_max = connections,
          .link = {.send_depth = kSendDepth, .inline_octets = kAnswerOctets, .sges_max = 2},
          .receive_depth = static_cast<std::uint32_t>(slots_for(connections))};
}

class RequestsRDMA final : public End {
 public:
  RequestsRDMA(const Place& place, std::size_t connections)
      : slot_octets_(place.role == Role::Follower ? kRequestOctets : kAnswerOctets),
        memory_octets_(kBodyOctets + connections * sizeof(Request) +
                       slots_for(connections) * slot_octets_),
        fleet_(place, shape(connections)),
        unsignalled_(connections, 0) {
    void* mapped =
        ::mmap(nullptr, memory_octets_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) fail_errno("cannot map the slots");
    memory_ = static_cast<std::byte*>(mapped);
    std::memset(memory_, 0x5A, memory_octets_);
    heads_ = memory_ + kBodyOctets;
    slots_ = heads_ + connections * sizeof(Request);
    fleet_.grow(connections);
    mr_ = ::ibv_reg_mr(fleet_.pd(), memory_, memory_octets_, IBV_ACCESS_LOCAL_WRITE);
    if (mr_ == nullptr) fail_errno("ibv_reg_mr");
    for (std::size_t i = 0; i < slots_for(connections); ++i) gather_receive(i);
    post_receives();
  }
  ~RequestsRDMA() override {
    if (mr_ != nullptr) ::ibv_dereg_mr(mr_);
    ::munmap(memory_, memory_octets_);
  }

  Sample lead(const Leg& leg) override {
    RequestBook book(leg);
    const std::uint64_t begin = now_ns();
    for (std::size_t i = 0; i < fleet_.size(); ++i) ask(i, book);
    while (book.left() > 0) {
      for_each_received([&](std::size_t i, const Request& answer) {
        if (book.take(i, answer)) ask(i, book);
      });
    }
    return {.seconds = static_cast<double>(now_ns() - begin) * 1e-9};
  }

  void follow(const Leg& leg) override {
    RequestBook book(leg);
    while (book.left() > 0) {
      for_each_received([&](std::size_t i, const Request& request) {
        book.take(i, request);
        ibv_sge whole{reinterpret_cast<std::uintptr_t>(&request), sizeof request, 0};
        send(i, &whole, 1, IBV_SEND_INLINE);
      });
    }
  }

 private:
  void ask(std::size_t i, const RequestBook& book) {
    const Request request = book.current(i);
    std::byte* const head = heads_ + i * sizeof request;
    std::memcpy(head, &request, sizeof request);
    ibv_sge pieces[] = {
        {reinterpret_cast<std::uintptr_t>(head), sizeof request, mr_->lkey},
        {reinterpret_cast<std::uintptr_t>(memory_), kBodyOctets, mr_->lkey},
    };
    send(i, pieces, 2, 0);
  }

  void send(std::size_t i, ibv_sge* pieces, int count, unsigned flags) {
    ibv_send_wr request{};
    request.wr_id = kSendMark;
    request.opcode = IBV_WR_SEND;
    request.sg_list = pieces;
    request.num_sge = count;
    request.send_flags = flags;
    if (++unsignalled_[i] == kSignalEvery) {
      request.send_flags |= IBV_SEND_SIGNALED;
      unsignalled_[i] = 0;
    }
    measure::post(fleet_.queue_pair(i), request);
  }

  template <typename Handle>
  void for_each_received(Handle handle) {
    measure::poll_cq<kPollBatch>(fleet_.cq(), [&](const ibv_wc& completion) {
      if ((completion.wr_id & kSendMark) != 0) return;
      if (completion.byte_len != slot_octets_) {
        fail("a message of {} octets instead of {}", completion.byte_len, slot_octets_);
      }
      Request request{};
      std::memcpy(&request, slots_ + completion.wr_id * slot_octets_, sizeof request);
      handle(fleet_.index_of(completion.qp_num), request);
      gather_receive(completion.wr_id);
    });
    post_receives();
  }

  /// Puts a slot's receive on the list that goes out next.
  void gather_receive(std::size_t slot) {
    places_[gathered_] = {reinterpret_cast<std::uintptr_t>(slots_ + slot * slot_octets_),
                          static_cast<std::uint32_t>(slot_octets_), mr_->lkey};
    receives_[gathered_] = {slot, nullptr, &places_[gathered_], 1};
    if (gathered_ > 0) receives_[gathered_ - 1].next = &receives_[gathered_];
    if (++gathered_ == receives_.size()) post_receives();
  }

  void post_receives() {
    if (gathered_ == 0) return;
    measure::post(fleet_.shared_receives(), receives_.front());
    gathered_ = 0;
  }

  std::size_t slot_octets_, memory_octets_;
  std::byte* memory_ = nullptr;
  std::byte *heads_ = nullptr, *slots_ = nullptr;
  Fleet fleet_;
  ibv_mr* mr_ = nullptr;
  std::vector<std::uint32_t> unsignalled_;
  std::array<ibv_recv_wr, kPollBatch> receives_;
  std::array<ibv_sge, kPollBatch> places_;
  std::size_t gathered_ = 0;
};

}  // namespace

std::unique_ptr<End> make_requests_rdma(const Place& place, std::uint64_t connections) {
  return std::make_unique<RequestsRDMA>(place, connections);
}

}  // namespace weft::bench
