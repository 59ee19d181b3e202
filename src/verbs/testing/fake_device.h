// A device without a protocol, for tests of what stands above the host | device line: it keeps the
// rings, counts the calls, and completes what the test tells it to complete.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/ring_shape.h"

namespace weft::verbs::testing {

/// Threads: control calls and complete() from any; the rest as the test arranges it.
class FakeDevice final : public device::Device {
 public:
  explicit FakeDevice(device::Events& events) : events_(events) {}
  ~FakeDevice() override {
    if (progress_fd_ >= 0) ::close(progress_fd_);
  }

  // What the test does and looks at.

  /// Counts of calls by name ("ring_send", "poll", "destroy_qp" ...).
  int calls(const std::string& name) {
    std::lock_guard guard(lock_);
    return calls_[name];
  }
  /// The next call of that name fails with the code.
  void fail_next(const std::string& name, int code) { failures_[name] = code; }
  /// Runs inside poll(), as the protocol would.
  std::function<void()> on_poll;
  /// Runs inside progress().
  std::function<void()> on_progress;
  /// Runs inside sleep(), and its answer. While it runs, the sleeper will look.
  std::function<device::Slept()> on_sleep;
  device::Slept sleep(const std::atomic<std::uint32_t>&, const sigset_t&) override {
    if (!on_sleep) return device::Slept::NotHere;
    asleep_ = true;
    const device::Slept slept = on_sleep();
    asleep_ = false;
    return slept;
  }
  bool end_sleep(const std::atomic<std::uint32_t>&) override { return asleep_; }
  /// Engine inline: has a progress descriptor from now on.
  void become_inline() { progress_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }
  void signal_progress() {
    const std::uint64_t one = 1;
    if (write(progress_fd_, &one, sizeof one) < 0) std::abort();
  }

  /// As the last CQ was asked for.
  bool cq_timed = false;
  device::QPRequest qp_request(device::QPNumber qp) { return qps_.at(qp).request; }
  device::QPState& qp_state(device::QPNumber qp) { return qps_.at(qp).state; }
  device::RegionRequest region(std::uint32_t stag) { return regions_.at(stag); }
  device::WindowKind window(std::uint32_t stag) { return windows_.at(stag & ~0xffu); }
  std::size_t live_objects() const {
    return pds_.size() + regions_.size() + windows_.size() + cqs_.size() + srqs_.size() +
           qps_.size();
  }

  /// The oldest unread entry of a queue, or null. It stays the device's until consume_*.
  device::SendEntry* front_send(device::QPNumber qp) {
    return front<device::SendEntry>(qps_.at(qp).send);
  }
  device::ReceiveEntry* front_receive(device::QPNumber qp) {
    return front<device::ReceiveEntry>(qps_.at(qp).receive);
  }
  device::ReceiveEntry* front_shared(device::SRQNumber srq) {
    return front<device::ReceiveEntry>(srqs_.at(srq).receive);
  }
  void consume_send(device::QPNumber qp) { consume(qps_.at(qp).send); }
  void consume_receive(device::QPNumber qp) { consume(qps_.at(qp).receive); }
  /// Consumes the oldest entry of either and completes it.
  void finish_send(device::QPNumber qp) {
    finish(qps_.at(qp).send, qps_.at(qp).request, device::CompletionOpcode::Send);
  }
  void finish_receive(device::QPNumber qp) {
    finish(qps_.at(qp).receive, qps_.at(qp).request, device::CompletionOpcode::Receive);
  }
  std::uint32_t unread_sends(device::QPNumber qp) {
    const device::Ring& ring = qps_.at(qp).send.ring;
    return ring.produced_seen() - ring.consumed_own();
  }

  /// Writes a completion. False: the CQ is full.
  bool complete(device::CQNumber cq, const device::CompletionEntry& entry) {
    device::Ring& ring = cqs_.at(cq).queue.ring;
    if (ring.full()) return false;
    const std::uint32_t at = ring.produced_own();
    *static_cast<device::CompletionEntry*>(ring.entry(at)) = entry;
    ring.publish(at + 1);
    return true;
  }
  void report_completion(device::CQNumber cq) {
    events_.handle_completion_event(cqs_.at(cq).cookie);
  }
  void report_async(device::AsyncEventKind kind, std::uint64_t cookie) {
    events_.handle_async_event({kind, cookie});
  }
  std::uint64_t cq_cookie(device::CQNumber cq) { return cqs_.at(cq).cookie; }
  std::uint64_t srq_cookie(device::SRQNumber srq) { return srqs_.at(srq).cookie; }

  // device::Device

  Result<device::PDNumber> create_pd() override {
    if (int code = enter("create_pd")) return Error{code, "told to fail"};
    pds_[++last_number_] = true;
    return last_number_;
  }
  Result<void> destroy_pd(device::PDNumber pd) override {
    if (int code = enter("destroy_pd")) return Error{code, "told to fail"};
    return erase(pds_, pd);
  }
  Result<std::uint32_t> register_region(const device::RegionRequest& request) override {
    if (int code = enter("register_region")) return Error{code, "told to fail"};
    const std::uint32_t stag = ++last_number_ << 8;
    regions_[stag] = request;
    return stag;
  }
  Result<void> reregister_region(std::uint32_t stag,
                                 const device::RegionRequest& request) override {
    if (int code = enter("reregister_region")) return Error{code, "told to fail"};
    regions_.at(stag) = request;
    return {};
  }
  Result<void> deregister_region(std::uint32_t stag) override {
    if (int code = enter("deregister_region")) return Error{code, "told to fail"};
    return erase(regions_, stag);
  }
  Result<std::uint32_t> allocate_window(device::PDNumber, device::WindowKind kind) override {
    if (int code = enter("allocate_window")) return Error{code, "told to fail"};
    const std::uint32_t stag = ++last_number_ << 8;
    windows_[stag] = kind;
    return stag;
  }
  Result<void> deallocate_window(std::uint32_t stag) override {
    if (int code = enter("deallocate_window")) return Error{code, "told to fail"};
    return erase(windows_, stag & ~0xffu);
  }

  Result<device::CQFace> create_cq(std::uint32_t depth, std::uint64_t cookie, void* place,
                                   bool timed) override {
    if (int code = enter("create_cq")) return Error{code, "told to fail"};
    Owner& cq = cqs_[++last_number_];
    cq.queue = Queue(device::completion_ring(depth), place);
    cq.cookie = cookie;
    cq_timed = timed;
    return device::CQFace{last_number_, cq.queue.ring};
  }
  Result<void> destroy_cq(device::CQNumber cq) override {
    if (int code = enter("destroy_cq")) return Error{code, "told to fail"};
    return erase(cqs_, cq);
  }
  Result<device::CQFace> resize_cq(device::CQNumber number, std::uint32_t depth,
                                   void* place) override {
    if (int code = enter("resize_cq")) return Error{code, "told to fail"};
    Owner& cq = cqs_.at(number);
    Queue larger(device::completion_ring(depth), place);
    const device::Ring& old = cq.queue.ring;
    std::uint32_t at = 0;
    for (std::uint32_t i = old.consumed_own(); i != old.produced_own(); ++i, ++at) {
      if (at == larger.ring.capacity()) return Error{ENOSPC, "unread entries do not fit"};
      *static_cast<device::CompletionEntry*>(larger.ring.entry(at)) =
          *static_cast<device::CompletionEntry*>(old.entry(i));
    }
    larger.ring.publish(at);
    cq.queue = std::move(larger);
    return device::CQFace{number, cq.queue.ring};
  }
  Result<void> moderate_cq(device::CQNumber, const device::CQModeration&) override {
    if (int code = enter("moderate_cq")) return Error{code, "told to fail"};
    return {};
  }
  Result<device::SRQFace> create_srq(device::PDNumber, std::uint32_t depth, std::uint32_t sges,
                                     std::uint64_t cookie, void* place) override {
    if (int code = enter("create_srq")) return Error{code, "told to fail"};
    SRQ& srq = srqs_[++last_number_];
    srq.receive = Queue(device::receive_ring(depth, sges), place);
    srq.cookie = cookie;
    return device::SRQFace{last_number_, srq.receive.ring, sges};
  }
  Result<void> destroy_srq(device::SRQNumber srq) override {
    if (int code = enter("destroy_srq")) return Error{code, "told to fail"};
    return erase(srqs_, srq);
  }
  Result<void> set_srq_limit(device::SRQNumber, std::uint32_t) override {
    if (int code = enter("set_srq_limit")) return Error{code, "told to fail"};
    return {};
  }
  Result<device::QPFace> create_qp(const device::QPRequest& request) override {
    if (int code = enter("create_qp")) return Error{code, "told to fail"};
    QP& qp = qps_[++last_number_];
    qp.request = request;
    qp.send = Queue(device::send_ring(request), request.send_place);
    device::QPFace face;
    face.number = last_number_;
    face.send = qp.send.ring;
    face.send_sges = request.send_sges;
    face.inline_octets = request.inline_octets;
    if (request.srq == 0) {
      qp.receive = Queue(device::receive_ring(request.receive_depth, request.receive_sges),
                         request.receive_place);
      face.receive = qp.receive.ring;
      face.receive_sges = request.receive_sges;
    }
    return face;
  }
  Result<void> destroy_qp(device::QPNumber qp) override {
    if (int code = enter("destroy_qp")) return Error{code, "told to fail"};
    return erase(qps_, qp);
  }
  device::QPAttributes modified;  ///< what the last modify_qp was given
  Result<void> modify_qp(device::QPNumber, const device::QPAttributes& attributes) override {
    if (int code = enter("modify_qp")) return Error{code, "told to fail"};
    modified = attributes;
    return {};
  }
  Result<void> command_qp(device::QPNumber qp, device::QPCommand command) override {
    if (int code = enter("command_qp")) return Error{code, "told to fail"};
    using device::QPCommand, device::QPState;
    QPState& state = qps_.at(qp).state;
    switch (command) {
      case QPCommand::Close: state = QPState::Closing; break;
      case QPCommand::Terminate: state = QPState::Terminate; break;
      case QPCommand::Fail: state = QPState::Error; break;
      case QPCommand::Reset: state = QPState::Idle; break;
    }
    return {};
  }
  Result<device::QPStatus> query_qp(device::QPNumber qp) override {
    if (int code = enter("query_qp")) return Error{code, "told to fail"};
    device::QPStatus status;
    status.state = qps_.at(qp).state;
    return status;
  }

  Result<device::ListenerNumber> listen(const sockaddr*, int, bool, std::uint64_t) override {
    return unsupported();
  }
  Result<void> listener_address(device::ListenerNumber, sockaddr_storage*) override {
    return unsupported();
  }
  Result<void> close_listener(device::ListenerNumber) override { return unsupported(); }
  Result<device::ConnectionNumber> connect(const sockaddr*, const sockaddr*,
                                           const device::ConnectRequest&, std::uint64_t) override {
    return unsupported();
  }
  Result<void> accept(device::ConnectionNumber, const device::ConnectRequest&,
                      std::uint64_t) override {
    return unsupported();
  }
  Result<void> reject(device::ConnectionNumber, Octets) override { return unsupported(); }
  Result<void> disconnect(device::ConnectionNumber) override { return unsupported(); }
  Result<void> release(device::ConnectionNumber) override { return unsupported(); }
  Result<std::uint32_t> name_qp(device::QPNumber) override { return unsupported(); }
  Result<void> pair_qp(const device::PairRequest&) override { return unsupported(); }

  void ring_send(device::QPNumber, const device::Posted&) override { enter("ring_send"); }
  void ring_receive(device::QPNumber) override { enter("ring_receive"); }
  void ring_shared_receive(device::SRQNumber) override { enter("ring_shared_receive"); }
  Result<void> arm_cq(device::CQNumber, bool solicited_only) override {
    if (int code = enter(solicited_only ? "arm_cq_solicited" : "arm_cq")) {
      return Error{code, "told to fail"};
    }
    return {};
  }

  void poll(device::CQNumber) override {
    enter("poll");
    if (on_poll) on_poll();
  }
  int progress_fd() const override { return progress_fd_; }
  void progress() override {
    enter("progress");
    std::uint64_t count;
    while (progress_fd_ >= 0 && read(progress_fd_, &count, sizeof count) > 0) {
    }
    if (on_progress) on_progress();
  }
  int timeout_ms() override { return -1; }

 private:
  std::atomic<bool> asleep_{false};
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  /// A ring and its memory; `ring` is the device's view of it.
  struct Queue {
    Queue() = default;
    Queue(const device::RingShape& shape, void* place) {
      if (place == nullptr) {
        storage.reset(std::aligned_alloc(device::kRingAlignment, shape.octets()));
        // Tests commit entries that they did not fill.
        std::memset(storage.get(), 0, shape.octets());
        place = storage.get();
      }
      ring = device::Ring::format(place, shape.capacity, shape.stride);
    }
    std::unique_ptr<void, Free> storage;
    device::Ring ring;
  };
  struct Owner {
    Queue queue;
    std::uint64_t cookie = 0;
  };
  struct SRQ {
    Queue receive;
    std::uint64_t cookie = 0;
  };
  struct QP {
    device::QPRequest request;
    device::QPState state = device::QPState::Idle;
    Queue send, receive;
  };

  int enter(const std::string& name) {
    std::lock_guard guard(lock_);
    ++calls_[name];
    const auto failure = failures_.find(name);
    if (failure == failures_.end()) return 0;
    const int code = failure->second;
    failures_.erase(failure);
    return code;
  }
  template <typename Map>
  Result<void> erase(Map& map, std::uint32_t number) {
    if (map.erase(number) == 0) return Error{EINVAL, "no such number"};
    return {};
  }
  template <typename Entry>
  Entry* front(Queue& queue) {
    if (queue.ring.empty()) return nullptr;
    return static_cast<Entry*>(queue.ring.entry(queue.ring.consumed_own()));
  }
  void consume(Queue& queue) {
    queue.ring.release(queue.ring.consumed_own() + 1);
    queue.ring.count_silent();
  }
  void finish(Queue& queue, const device::QPRequest& request, device::CompletionOpcode opcode) {
    device::CompletionEntry entry = {};
    entry.qp_cookie = request.cookie;
    entry.opcode = opcode;
    queue.ring.release(queue.ring.consumed_own() + 1);
    const bool receive = opcode == device::CompletionOpcode::Receive;
    complete(receive ? request.receive_cq : request.send_cq, entry);
  }
  static Error unsupported() { return {EOPNOTSUPP, "the fake has no connections"}; }

  device::Events& events_;
  std::mutex lock_;
  std::map<std::string, int> calls_;
  std::map<std::string, int> failures_;
  std::uint32_t last_number_ = 0;
  std::map<std::uint32_t, bool> pds_;
  std::map<std::uint32_t, device::RegionRequest> regions_;
  std::map<std::uint32_t, device::WindowKind> windows_;
  std::map<std::uint32_t, Owner> cqs_;
  std::map<std::uint32_t, SRQ> srqs_;
  std::map<std::uint32_t, QP> qps_;
  int progress_fd_ = -1;
};

}  // namespace weft::verbs::testing
