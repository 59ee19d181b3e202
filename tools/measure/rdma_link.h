// One reliable RDMA connection, by the public CM and verbs interfaces alone.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "measure/basics.h"

namespace weft::measure {

/// What a program gets events of connections from, and how long it waits for one.
class LinkEvents {
 public:
  /// look: called now and then while waiting; what it throws ends the wait. Without one the wait
  /// is in rdma_get_cm_event itself, and nothing but an event ends it.
  explicit LinkEvents(std::function<void()> look = {});
  ~LinkEvents();
  LinkEvents(const LinkEvents&) = delete;
  LinkEvents& operator=(const LinkEvents&) = delete;

  static constexpr std::size_t kPrivateOctetsMax = 56;
  struct Event {
    rdma_cm_id* id = nullptr;
    std::array<std::byte, kPrivateOctetsMax> private_data{};
    std::size_t private_octets = 0;  ///< at least what the peer gave; some transports add zeros
  };
  /// The next event, which has to be `expected`; another one fails with what it means. Only
  /// requests of further connections may come before it: they wait until they are expected.
  Event await(rdma_cm_event_type expected);
  rdma_event_channel* get() const { return channel_; }

 private:
  struct Seen {
    rdma_cm_event_type type;
    int status;
    Event event;
  };
  Seen next(rdma_cm_event_type expected);
  void wait_looking(rdma_cm_event_type expected);

  std::function<void()> look_;
  rdma_event_channel* channel_;
  std::deque<Event> early_;  ///< requests that came while something else was expected
};

/// How large the queues of a connection are.
struct LinkShape {
  std::uint32_t send_depth = 1;
  std::uint32_t receive_depth = 1;
  std::uint32_t inline_octets = 0;
  bool inline_needed = false;  ///< else it may be less
  std::uint32_t sges_max = 1;  ///< of a send
};

/// What the QPs of several connections may share; whoever made them destroys them, after these.
struct SharedQueues {
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
};

/// One QP whose queues complete into one CQ, and one region. Whoever uses it posts and polls on the
/// verbs' objects directly. Calls throw Failure. Single-threaded.
class RdmaLink {
 public:
  /// Resolves `address` and makes the objects; connect() follows.
  RdmaLink(LinkEvents& events, const std::string& address, std::uint16_t port);
  /// What a listener got; accept() follows.
  RdmaLink(LinkEvents& events, rdma_cm_id* requested) : events_(events), id_(requested) {}
  ~RdmaLink();
  RdmaLink(const RdmaLink&) = delete;
  RdmaLink& operator=(const RdmaLink&) = delete;

  /// PD, CQ, QP, and a region that a peer may read and write.
  void make(const LinkShape& shape, std::byte* memory, std::size_t octets);
  /// A QP on what is there already, with no region and no receive queue of its own.
  void make(const LinkShape& shape, const SharedQueues& shared);
  /// Both end when the connection is established; connect() returns the server's private data.
  LinkEvents::Event connect(std::span<const std::byte> private_data);
  void accept(std::span<const std::byte> private_data);

  /// The peer gets to know it, and both get RDMA_CM_EVENT_DISCONNECTED.
  void disconnect() { ::rdma_disconnect(id_); }

  ibv_context* verbs() const { return id_->verbs; }
  ibv_qp* qp() const { return id_->qp; }
  ibv_cq* cq() const { return cq_; }
  ibv_comp_channel* completions() const { return completions_; }
  ibv_mr* mr() const { return mr_; }
  ibv_device* device() const { return id_->verbs->device; }
  std::uint32_t inline_octets() const { return inline_octets_; }
  /// Takes one event of the completion channel; sleeps for it, unless the channel is not blocking.
  void take_cq_event();

 private:
  void make_queue_pair(const LinkShape& shape, const SharedQueues& on);
  rdma_conn_param parameters(std::span<const std::byte> private_data) const;
  void release();

  LinkEvents& events_;
  rdma_cm_id* id_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* completions_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  unsigned cq_events_ = 0;
  std::uint8_t reads_max_ = 1;
  std::uint32_t inline_octets_ = 0;
};

class RdmaListener {
 public:
  /// On a free port, unless one is given.
  RdmaListener(LinkEvents& events, const std::string& address, std::uint16_t port = 0);
  ~RdmaListener();
  RdmaListener(const RdmaListener&) = delete;
  RdmaListener& operator=(const RdmaListener&) = delete;
  std::uint16_t port() const;

 private:
  rdma_cm_id* id_ = nullptr;
};

/// "weft_lo (iWARP)"
std::string device_text(ibv_device* device);
/// The file of the libibverbs that answers: what tells weft from others in a report.
std::string verbs_library();

}  // namespace weft::measure
