// Many reliable RDMA connections over one PD, one CQ and one shared receive queue.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/control.h"
#include "bench/medium.h"

namespace weft::bench {

/// The sizes of a fleet's queues.
struct FleetShape {
  std::uint32_t connections_max = 1;
  std::uint32_t send_depth = 1;     ///< of each QP
  std::uint32_t receive_depth = 1;  ///< of the shared receive queue
  std::uint32_t sges_max = 1;
  std::uint32_t inline_octets = 0;
};

/// The follower listens, the leader connects, one connection after the other; both sleep for their
/// events. Calls are the same at both ends, in the same order, and throw Failure. Single-threaded.
class Fleet {
 public:
  Fleet(Medium::Role role, const std::string& address, Control& control, FleetShape shape);
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  /// Adds `count` connections. The leader gets the nanoseconds from rdma_connect to ESTABLISHED of
  /// all together, the follower 0.
  std::uint64_t grow(std::size_t count);
  /// Ends all connections.
  void disband();

  std::size_t size() const { return ids_.size(); }
  ibv_qp* queue_pair(std::size_t index) const { return ids_[index]->qp; }
  /// Which connection a completion is about; the ends number them alike.
  std::size_t index_of(std::uint32_t qp_num) const { return indices_.at(qp_num); }

  /// Of the first connection on.
  ibv_pd* pd() const { return pd_; }
  ibv_cq* cq() const { return cq_; }
  ibv_srq* shared_receives() const { return shared_receives_; }

 private:
  void listen();
  std::uint64_t connect();
  void accept(std::size_t count);
  void make_queue_pair(rdma_cm_id* id);
  void make_shared(ibv_context* verbs);
  struct Event {
    rdma_cm_event_type type;
    rdma_cm_id* id;
  };
  Event next_event();
  void await(rdma_cm_event_type expected);
  void release();

  Medium::Role role_;
  std::string address_;
  FleetShape shape_;
  std::uint16_t port_ = 0;
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_srq* shared_receives_ = nullptr;
  std::vector<rdma_cm_id*> ids_;
  std::unordered_map<std::uint32_t, std::size_t> indices_;  // by QP number
};

}  // namespace weft::bench
