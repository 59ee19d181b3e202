// Set-up and end, by rdma_cm. Resources are shared as a server with many clients shares them.
#include "bench/fleet.h"

#include <arpa/inet.h>

#include <algorithm>

#include "measure/address.h"

namespace weft::bench {
namespace {

constexpr int kPatienceMs = 5000;
constexpr int kBacklog = 1024;

rdma_conn_param parameters() {
  rdma_conn_param parameter{};
  parameter.responder_resources = parameter.initiator_depth = 1;
  parameter.retry_count = parameter.rnr_retry_count = 7;
  return parameter;
}

}  // namespace

Fleet::Fleet(Medium::Role role, const std::string& address, Control& control, FleetShape shape)
    : role_(role), address_(address), shape_(shape) {
  ids_.reserve(shape.connections_max);
  indices_.reserve(shape.connections_max);
  channel_ = ::rdma_create_event_channel();
  if (channel_ == nullptr) fail_errno("rdma_create_event_channel");
  try {
    if (role == Medium::Role::Follower) {
      listen();
      control.put(port_);
    } else {
      port_ = control.get<std::uint16_t>();
    }
  } catch (...) {
    release();
    throw;
  }
}

Fleet::~Fleet() {
  release();
}

void Fleet::release() {
  for (rdma_cm_id* id : ids_) {
    ::rdma_disconnect(id);
    if (id->qp != nullptr) ::rdma_destroy_qp(id);
    ::rdma_destroy_id(id);
  }
  ids_.clear();
  if (shared_receives_ != nullptr) ::ibv_destroy_srq(shared_receives_);
  if (cq_ != nullptr) ::ibv_destroy_cq(cq_);
  if (pd_ != nullptr) ::ibv_dealloc_pd(pd_);
  if (listener_ != nullptr) ::rdma_destroy_id(listener_);
  ::rdma_destroy_event_channel(channel_);
}

void Fleet::listen() {
  if (::rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP) != 0) {
    fail_errno("rdma_create_id");
  }
  Address where = parse_address(address_, 0);
  if (::rdma_bind_addr(listener_, where.get()) != 0) fail_errno("rdma_bind_addr " + address_);
  if (::rdma_listen(listener_, kBacklog) != 0) fail_errno("rdma_listen");
  port_ = ntohs(::rdma_get_src_port(listener_));
}

std::uint64_t Fleet::grow(std::size_t count) {
  if (role_ == Medium::Role::Follower) {
    accept(count);
    return 0;
  }
  std::uint64_t took = 0;
  for (std::size_t i = 0; i < count; ++i) took += connect();
  return took;
}

std::uint64_t Fleet::connect() {
  rdma_cm_id* id = nullptr;
  if (::rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) != 0) fail_errno("rdma_create_id");
  ids_.push_back(id);
  Address where = parse_address(address_, port_);
  if (::rdma_resolve_addr(id, nullptr, where.get(), kPatienceMs) != 0) {
    fail_errno("rdma_resolve_addr " + address_);
  }
  await(RDMA_CM_EVENT_ADDR_RESOLVED);
  if (::rdma_resolve_route(id, kPatienceMs) != 0) fail_errno("rdma_resolve_route " + address_);
  await(RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_queue_pair(id);
  rdma_conn_param parameter = parameters();
  const std::uint64_t begin = now_ns();
  if (::rdma_connect(id, &parameter) != 0) fail_errno("rdma_connect");
  await(RDMA_CM_EVENT_ESTABLISHED);
  return now_ns() - begin;
}

void Fleet::accept(std::size_t count) {
  rdma_conn_param parameter = parameters();
  for (std::size_t established = 0; established < count;) {
    const Event event = next_event();
    if (event.type == RDMA_CM_EVENT_ESTABLISHED) {
      ++established;
      continue;
    }
    if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) {
      fail("expected a connection and got {}", ::rdma_event_str(event.type));
    }
    ids_.push_back(event.id);
    make_queue_pair(event.id);
    if (::rdma_accept(event.id, &parameter) != 0) fail_errno("rdma_accept");
  }
}

void Fleet::disband() {
  if (role_ == Medium::Role::Leader) {
    for (rdma_cm_id* id : ids_) ::rdma_disconnect(id);
  }
  for (std::size_t ended = 0; ended < ids_.size();) {
    const Event event = next_event();
    if (event.type != RDMA_CM_EVENT_DISCONNECTED) continue;
    // What has ended already says so, and that is all it can do.
    if (role_ == Medium::Role::Follower) ::rdma_disconnect(event.id);
    ++ended;
  }
  for (rdma_cm_id* id : ids_) {
    ::rdma_destroy_qp(id);
    ::rdma_destroy_id(id);
  }
  ids_.clear();
  indices_.clear();
}

void Fleet::make_shared(ibv_context* verbs) {
  pd_ = ::ibv_alloc_pd(verbs);
  if (pd_ == nullptr) fail_errno("ibv_alloc_pd");
  // A completion for every receive, and for the sends that are signalled.
  const auto entries = shape_.receive_depth + 2 * shape_.connections_max;
  cq_ = ::ibv_create_cq(verbs, static_cast<int>(entries), nullptr, nullptr, 0);
  if (cq_ == nullptr) fail_errno("ibv_create_cq");
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = shape_.receive_depth;
  wanted.attr.max_sge = 1;
  shared_receives_ = ::ibv_create_srq(pd_, &wanted);
  if (shared_receives_ == nullptr) fail_errno("ibv_create_srq");
}

void Fleet::make_queue_pair(rdma_cm_id* id) {
  if (pd_ == nullptr) make_shared(id->verbs);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq_;
  wanted.srq = shared_receives_;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = shape_.send_depth;
  wanted.cap.max_send_sge = shape_.sges_max;
  wanted.cap.max_inline_data = shape_.inline_octets;
  if (::rdma_create_qp(id, pd_, &wanted) != 0) fail_errno("rdma_create_qp");
  indices_[id->qp->qp_num] = ids_.size() - 1;
}

Fleet::Event Fleet::next_event() {
  rdma_cm_event* event = nullptr;
  if (::rdma_get_cm_event(channel_, &event) != 0) fail_errno("rdma_get_cm_event");
  const Event seen{event->event, event->id};
  ::rdma_ack_cm_event(event);
  return seen;
}

void Fleet::await(rdma_cm_event_type expected) {
  const Event event = next_event();
  if (event.type != expected) {
    fail("expected {} and got {}", ::rdma_event_str(expected), ::rdma_event_str(event.type));
  }
}

}  // namespace weft::bench
