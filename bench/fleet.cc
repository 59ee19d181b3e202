// Connections are made one after the other: how long that takes is one of the figures.
#include "bench/fleet.h"

namespace weft::bench {

Fleet::Fleet(const Place& place, FleetShape shape)
    : role_(place.role), control_(place.control), address_(place.address), shape_(shape),
      indices_(shape.connections_max) {
  links_.reserve(shape.connections_max);
  queue_pairs_.reserve(shape.connections_max);
  if (role_ == Role::Follower) {
    listener_.emplace(events_, address_);
    place.control.put(listener_->port());
  } else {
    port_ = place.control.get<std::uint16_t>();
  }
}

Fleet::~Fleet() {
  links_.clear();
  if (shared_.srq != nullptr) ::ibv_destroy_srq(shared_.srq);
  if (shared_.cq != nullptr) ::ibv_destroy_cq(shared_.cq);
  if (shared_.pd != nullptr) ::ibv_dealloc_pd(shared_.pd);
}

std::uint64_t Fleet::grow(std::size_t count) {
  std::uint64_t took = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (role_ == Role::Leader) {
      took += connect();
    } else {
      accept();
    }
  }
  return took;
}

std::uint64_t Fleet::connect() {
  RdmaLink& link = add(std::make_unique<RdmaLink>(events_, address_, port_));
  const std::uint64_t begin = now_ns();
  link.connect({});
  return now_ns() - begin;
}

void Fleet::accept() {
  const auto request = events_.await(RDMA_CM_EVENT_CONNECT_REQUEST);
  add(std::make_unique<RdmaLink>(events_, request.id)).accept({});
}

RdmaLink& Fleet::add(std::unique_ptr<RdmaLink> link) {
  if (shared_.pd == nullptr) make_shared(link->verbs());
  link->make(shape_.link, shared_);
  indices_.put(link->qp()->qp_num, links_.size());
  queue_pairs_.push_back(link->qp());
  links_.push_back(std::move(link));
  return *links_.back();
}

void Fleet::disband() {
  // Who connects knows of its last connection sooner than who accepts, and would end the first one
  // while that is still waiting for the last.
  if (role_ == Role::Leader) {
    control_.get<char>();
    for (const auto& link : links_) link->disconnect();
  } else {
    control_.put('a');
  }
  // Each end's QPs are there until both know that all is over.
  for (std::size_t i = 0; i < links_.size(); ++i) events_.await(RDMA_CM_EVENT_DISCONNECTED);
  links_.clear();
  queue_pairs_.clear();
  indices_.clear();
}

void Fleet::make_shared(ibv_context* verbs) {
  shared_.pd = ::ibv_alloc_pd(verbs);
  if (shared_.pd == nullptr) fail_errno("ibv_alloc_pd");
  // A completion for every receive, and for the sends that are signalled.
  const auto entries = shape_.receive_depth + 2 * shape_.connections_max;
  shared_.cq = ::ibv_create_cq(verbs, static_cast<int>(entries), nullptr, nullptr, 0);
  if (shared_.cq == nullptr) fail_errno("ibv_create_cq");
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = shape_.receive_depth;
  wanted.attr.max_sge = 1;
  shared_.srq = ::ibv_create_srq(shared_.pd, &wanted);
  if (shared_.srq == nullptr) fail_errno("ibv_create_srq");
}

}  // namespace weft::bench
