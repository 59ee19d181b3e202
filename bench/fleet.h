// Many connections of one end that share a PD, a CQ and a receive queue, as a server's do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bench/end.h"
#include "bench/qp_index.h"
#include "measure/rdma_link.h"

namespace weft::bench {

/// The sizes of a fleet's queues.
struct FleetShape {
  std::uint64_t connections_max = 1;
  LinkShape link;  ///< of each QP; it has no receive queue of its own
  std::uint32_t receive_depth = 1;
};

/// The follower listens, the leader connects, one connection after the other; both sleep for their
/// events. Calls are the same at both ends, in the same order, and throw Failure. Single-threaded.
class Fleet {
 public:
  Fleet(const Place& place, FleetShape shape);
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  /// Adds `count` connections. The leader gets the nanoseconds from rdma_connect to ESTABLISHED of
  /// all together, the follower 0.
  std::uint64_t grow(std::size_t count);
  /// Ends all connections.
  void disband();

  std::size_t size() const { return links_.size(); }
  ibv_qp* queue_pair(std::size_t index) const { return queue_pairs_[index]; }
  /// Which connection a completion is about; the ends number them alike.
  std::size_t index_of(std::uint32_t qp_num) const { return indices_.at(qp_num); }

  /// Of the first connection on.
  ibv_pd* pd() const { return shared_.pd; }
  ibv_cq* cq() const { return shared_.cq; }
  ibv_srq* shared_receives() const { return shared_.srq; }

 private:
  std::uint64_t connect();
  void accept();
  RdmaLink& add(std::unique_ptr<RdmaLink> link);
  void make_shared(ibv_context* verbs);

  Role role_;
  Control& control_;
  std::string address_;
  FleetShape shape_;
  std::uint16_t port_ = 0;
  LinkEvents events_;
  std::optional<RdmaListener> listener_;
  SharedQueues shared_{};
  std::vector<std::unique_ptr<RdmaLink>> links_;
  std::vector<ibv_qp*> queue_pairs_;  // of links_
  QPIndex indices_;
};

}  // namespace weft::bench
