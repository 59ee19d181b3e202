// The fake runtime and device, and the public verbs over them.
#include "front/librdmacm/testing/fake_rnic.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <utility>

#include "front/librdmacm/address.h"
#include "front/librdmacm/find_runtime.h"

namespace weft::front::cm::testing {
namespace {

using device::ConnectionEvent;
using device::ConnectionEventKind;
using device::ConnectionNumber;

const sockaddr& plain(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr&>(address);
}
sockaddr& plain(sockaddr_storage& address) {
  return reinterpret_cast<sockaddr&>(address);
}
sockaddr_storage mapped(const sockaddr_storage& v4) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port_of(plain(v4)));
  const ibv_gid gid = gid_of(plain(v4));
  std::memcpy(&v6.sin6_addr, gid.raw, sizeof gid.raw);
  sockaddr_storage address{};
  copy_address(address, reinterpret_cast<const sockaddr&>(v6));
  return address;
}

}  // namespace

FakeDevice::FakeDevice(bool run_inline)
    : progress_fd_(run_inline ? eventfd(0, EFD_NONBLOCK) : -1) {}

FakeDevice::~FakeDevice() {
  if (progress_fd_ >= 0) close(progress_fd_);
}

void FakeDevice::report(ConnectionEvent event) {
  std::lock_guard lock(progress_lock_);
  if (progress_fd_ < 0) return sink->handle_connection_event(event);
  Queued queued{event, {event.private_data.begin(), event.private_data.end()}};
  queued_.push_back(std::move(queued));
  eventfd_write(progress_fd_, 1);
}

void FakeDevice::progress() {
  std::lock_guard lock(progress_lock_);
  eventfd_t ignored;
  eventfd_read(progress_fd_, &ignored);
  while (!queued_.empty()) {
    Queued next = std::move(queued_.front());
    queued_.pop_front();
    next.event.private_data = next.data;
    sink->handle_connection_event(next.event);
  }
}

Result<device::ListenerNumber> FakeDevice::listen(const sockaddr* local, int, bool,
                                                  std::uint64_t cookie) {
  std::lock_guard lock(progress_lock_);
  Listener listener{cookie, {}};
  copy_address(listener.local, *local);
  if (port_of(*local) == 0) set_port(plain(listener.local), next_port_++);
  for (const auto& [number, other] : listeners_) {
    if (port_of(plain(other.local)) == port_of(plain(listener.local)) &&
        other.local.ss_family == local->sa_family) {
      return Error{EADDRINUSE, "listening"};
    }
  }
  listeners_.emplace(++last_number_, listener);
  return last_number_;
}

Result<void> FakeDevice::listener_address(device::ListenerNumber number, sockaddr_storage* local) {
  std::lock_guard lock(progress_lock_);
  *local = listeners_.at(number).local;
  return {};
}

Result<void> FakeDevice::close_listener(device::ListenerNumber number) {
  std::lock_guard lock(progress_lock_);
  if (listeners_.erase(number) == 0) return Error{EINVAL, "no listener"};
  return {};
}

Result<ConnectionNumber> FakeDevice::connect(const sockaddr* local, const sockaddr* remote,
                                             const device::ConnectRequest& request,
                                             std::uint64_t cookie) {
  std::lock_guard lock(progress_lock_);
  if (request.qp == 0) return Error{EINVAL, "no QP"};
  Connection active{0, cookie, request.qp, request.ird, request.ord, {}, {}, false};
  copy_address(active.local, *local);
  if (port_of(*local) == 0) set_port(plain(active.local), next_port_++);
  copy_address(active.remote, *remote);
  const ConnectionNumber number = ++last_number_;
  auto& stored = connections.emplace(number, active).first->second;
  if (hold_requests) return number;
  const Listener* listener = nullptr;
  for (const auto& [ignored, at] : listeners_) {
    if (port_of(plain(at.local)) == port_of(*remote) && at.local.ss_family == remote->sa_family) {
      listener = &at;
    }
  }
  if (connect_fails_with != 0 || listener == nullptr) {
    ConnectionEvent failed{ConnectionEventKind::Failed, number, cookie,
                           connect_fails_with != 0 ? connect_fails_with : ECONNREFUSED};
    report(failed);
    run_before_return();
    return number;
  }
  const ConnectionNumber passive = ++last_number_;
  stored.peer = passive;
  connections[passive] = {number, 0, 0, 0, 0, stored.remote, stored.local, false};
  ConnectionEvent requested{ConnectionEventKind::Requested, passive, listener->cookie};
  requested.has_depths = tell_depths;
  requested.peer_ird = request.ird;
  requested.peer_ord = request.ord;
  requested.private_data = request.private_data;
  requested.local = show_mapped ? mapped(stored.remote) : stored.remote;
  requested.peer = show_mapped ? mapped(stored.local) : stored.local;
  report(requested);
  run_before_return();
  return number;
}

void FakeDevice::run_before_return() {
  if (const auto run = std::exchange(before_return, nullptr)) run();
}

Result<void> FakeDevice::accept(ConnectionNumber number, const device::ConnectRequest& request,
                                std::uint64_t cookie) {
  std::lock_guard lock(progress_lock_);
  const auto at = connections.find(number);
  if (at == connections.end() || !connections.contains(at->second.peer)) {
    return Error{ECONNRESET, "the peer left"};
  }
  Connection& passive = at->second;
  Connection& active = connections[passive.peer];
  passive.cookie = cookie;
  passive.qp = request.qp;
  passive.ird = request.ird;
  passive.ord = request.ord;
  passive.established = active.established = true;
  ConnectionEvent here{ConnectionEventKind::Established, number, cookie};
  here.has_depths = tell_depths;
  here.peer_ird = active.ird;
  here.peer_ord = active.ord;
  here.local = passive.local;
  here.peer = passive.remote;
  ConnectionEvent there{ConnectionEventKind::Established, passive.peer, active.cookie};
  there.has_depths = tell_depths;
  there.peer_ird = request.ird;
  there.peer_ord = request.ord;
  there.private_data = request.private_data;
  there.local = active.local;
  there.peer = active.remote;
  report(there);
  report(here);
  run_before_return();
  return {};
}

Result<void> FakeDevice::reject(ConnectionNumber number, Octets private_data) {
  std::lock_guard lock(progress_lock_);
  const auto at = connections.find(number);
  if (at == connections.end()) return Error{EINVAL, "no connection"};
  ++rejects;
  last_reject_data.assign(private_data.begin(), private_data.end());
  const ConnectionNumber peer = at->second.peer;
  connections.erase(at);
  if (!connections.contains(peer)) return {};
  ConnectionEvent rejected{ConnectionEventKind::Rejected, peer, connections[peer].cookie,
                           ECONNREFUSED};
  rejected.private_data = private_data;
  report(rejected);
  return {};
}

void FakeDevice::end(ConnectionNumber number) {
  const auto at = connections.find(number);
  if (at == connections.end() || !at->second.established) return;
  at->second.established = false;
  report({ConnectionEventKind::Disconnected, number, at->second.cookie, ends_with});
}

Result<void> FakeDevice::disconnect(ConnectionNumber number) {
  std::lock_guard lock(progress_lock_);
  const auto at = connections.find(number);
  if (at == connections.end()) return Error{EINVAL, "no connection"};
  if (!at->second.established) return Error{ENOTCONN, "over"};
  const ConnectionNumber peer = at->second.peer;
  end(number);
  end(peer);
  return {};
}

Result<void> FakeDevice::release(ConnectionNumber number) {
  std::lock_guard lock(progress_lock_);
  return connections.erase(number) == 1 ? Result<void>{} : Error{EINVAL, "no connection"};
}

Result<void> FakeDevice::command_qp(device::QPNumber qp, device::QPCommand command) {
  std::lock_guard lock(progress_lock_);
  commands.emplace_back(qp, command);
  return {};
}

void FakeDevice::qp_destroyed(device::QPNumber qp) {
  std::lock_guard lock(progress_lock_);
  for (const auto& [number, connection] : connections) {
    if (connection.qp == qp && connection.established) {
      static_cast<void>(disconnect(number));
      return;
    }
  }
}

namespace {

const verbs::Interface kLoopback{"weft_lo", "lo", 1, 65536, true, 7, {}, 0};
const verbs::Interface* const kInterfaces[] = {&kLoopback};

VerbsCounts counts;
int next_qp_error = 0;
std::uint32_t last_qp_number = 100;
std::set<device::QPNumber> qp_numbers;
int timeout_set = 0;
ibv_device the_device{};
ibv_context the_context{};

}  // namespace

std::span<const verbs::Interface* const> FakeRuntime::interfaces() {
  return kInterfaces;
}

const verbs::Interface* FakeRuntime::interface_of(const sockaddr* local) {
  sockaddr_storage loopback{};
  copy_address(loopback, *local);
  set_loopback(plain(loopback));
  const socklen_t octets = address_octets(*local);
  return std::memcmp(&loopback, local, octets) == 0 ? &kLoopback : nullptr;
}

device::QPNumber FakeRuntime::qp_number(const void* ibv_qp) {
  return static_cast<const struct ibv_qp*>(ibv_qp)->qp_num;
}

Result<device::QPStatus> FakeDevice::query_qp(device::QPNumber qp) {
  if (!qp_numbers.contains(qp)) return Error{EINVAL, "no QP"};
  return device::QPStatus{.state = device::QPState::RTS};
}

FakeRuntime& fake_runtime() {
  static FakeRuntime runtime;
  return runtime;
}

VerbsCounts& verbs_counts() {
  return counts;
}

void set_persona_ib(bool ib) {
  the_device.transport_type = ib ? IBV_TRANSPORT_IB : IBV_TRANSPORT_IWARP;
}

int last_timeout() {
  return timeout_set;
}

void fail_next_qp(int code) {
  next_qp_error = code;
}

}  // namespace weft::front::cm::testing

weft::verbs::Runtime* weft::front::cm::find_runtime() {
  return &testing::fake_runtime();
}

using namespace weft::front::cm::testing;
#undef ibv_get_device_list

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  std::memcpy(the_device.name, "weft_lo", sizeof "weft_lo");
  if (the_device.transport_type == 0) set_persona_ib(false);
  if (count != nullptr) *count = 1;
  return new ibv_device*[2]{&the_device, nullptr};
}
void ibv_free_device_list(ibv_device** list) {
  delete[] list;
}
const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}
ibv_context* ibv_open_device(ibv_device* device) {
  the_context.device = device;
  return &the_context;
}
int ibv_close_device(ibv_context*) {
  return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->max_qp_rd_atom = 128;
  attributes->max_qp_init_rd_atom = 64;
  return 0;
}
ibv_pd* ibv_alloc_pd(ibv_context* context) {
  ++counts.pds;
  return new ibv_pd{context, 0};
}
int ibv_dealloc_pd(ibv_pd* pd) {
  --counts.pds;
  delete pd;
  return 0;
}
ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  ++counts.channels;
  auto* channel = new ibv_comp_channel{};
  channel->context = context;
  return channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  --counts.channels;
  delete channel;
  return 0;
}
ibv_cq* ibv_create_cq(ibv_context* context, int depth, void* cq_context, ibv_comp_channel* channel,
                      int) {
  ++counts.cqs;
  auto* cq = new ibv_cq{};
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = depth;
  return cq;
}
int ibv_destroy_cq(ibv_cq* cq) {
  --counts.cqs;
  delete cq;
  return 0;
}
ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  if (next_qp_error != 0) {
    errno = next_qp_error;
    next_qp_error = 0;
    return nullptr;
  }
  ++counts.qps;
  auto* qp = new ibv_qp{};
  qp->context = pd->context;
  qp->pd = pd;
  qp->send_cq = attributes->send_cq;
  qp->recv_cq = attributes->recv_cq;
  qp->srq = attributes->srq;
  qp->qp_num = ++last_qp_number;
  qp_numbers.insert(qp->qp_num);
  qp->state = IBV_QPS_RESET;
  attributes->cap.max_inline_data = 64;
  return qp;
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  if ((mask & IBV_QP_STATE) != 0) qp->state = attributes->qp_state;
  if ((mask & IBV_QP_TIMEOUT) != 0) timeout_set = attributes->timeout;
  return 0;
}
int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int, ibv_qp_init_attr*) {
  qp->state = attributes->qp_state = IBV_QPS_RTS;
  return 0;
}
int ibv_destroy_qp(ibv_qp* qp) {
  --counts.qps;
  qp_numbers.erase(qp->qp_num);
  fake_runtime().fake->qp_destroyed(qp->qp_num);
  delete qp;
  return 0;
}
ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr*) {
  ++counts.srqs;
  auto* srq = new ibv_srq{};
  srq->context = pd->context;
  srq->pd = pd;
  return srq;
}
int ibv_destroy_srq(ibv_srq* srq) {
  --counts.srqs;
  delete srq;
  return 0;
}

}  // extern "C"
