// Set-up by rdma_cm, posting, polling.
#include "bench/rdma_connection.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "bench/address.h"

namespace weft::bench {
namespace {

constexpr int kPatienceMs = 5000;
constexpr std::uint32_t kInlineOctets = 64;
constexpr int kReadsMax = 128;
constexpr int kPollBatch = 16;

struct Region {
  std::uint64_t base;
  std::uint32_t key;
};

}  // namespace

RdmaConnection::RdmaConnection(Medium::Role role, const std::string& address, Control& control,
                               Buffers& buffers) {
  try {
    channel_ = ::rdma_create_event_channel();
    if (channel_ == nullptr) fail_errno("rdma_create_event_channel");
    if (role == Medium::Role::Follower) {
      listen(address, control);
    } else {
      connect(address, control);
    }
    make_queue_pair(buffers);
    rdma_conn_param parameter = parameters();
    if (role == Medium::Role::Follower) {
      if (::rdma_accept(id_, &parameter) != 0) fail_errno("rdma_accept");
    } else if (::rdma_connect(id_, &parameter) != 0) {
      fail_errno("rdma_connect");
    }
    await(RDMA_CM_EVENT_ESTABLISHED);
    control.put(Region{reinterpret_cast<std::uintptr_t>(buffers.base()), mr_->rkey});
    const auto peer = control.get<Region>();
    peer_base_ = peer.base;
    peer_key_ = peer.key;
  } catch (...) {
    release();
    throw;
  }
}

RdmaConnection::~RdmaConnection() { release(); }

void RdmaConnection::release() {
  if (id_ != nullptr) {
    ::rdma_disconnect(id_);
    if (id_->qp != nullptr) ::rdma_destroy_qp(id_);
  }
  if (mr_ != nullptr) ::ibv_dereg_mr(mr_);
  if (events_ > 0) ::ibv_ack_cq_events(cq_, events_);
  if (cq_ != nullptr) ::ibv_destroy_cq(cq_);
  if (completions_ != nullptr) ::ibv_destroy_comp_channel(completions_);
  if (pd_ != nullptr) ::ibv_dealloc_pd(pd_);
  if (id_ != nullptr) ::rdma_destroy_id(id_);
  if (listener_ != nullptr) ::rdma_destroy_id(listener_);
  if (channel_ != nullptr) ::rdma_destroy_event_channel(channel_);
}

void RdmaConnection::listen(const std::string& address, Control& control) {
  if (::rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP) != 0) {
    fail_errno("rdma_create_id");
  }
  Address where = parse_address(address, 0);
  if (::rdma_bind_addr(listener_, where.get()) != 0) {
    fail_errno("rdma_bind_addr " + address);
  }
  if (::rdma_listen(listener_, 1) != 0) fail_errno("rdma_listen");
  control.put(static_cast<std::uint16_t>(ntohs(::rdma_get_src_port(listener_))));
  id_ = await(RDMA_CM_EVENT_CONNECT_REQUEST);
}

void RdmaConnection::connect(const std::string& address, Control& control) {
  if (::rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP) != 0) fail_errno("rdma_create_id");
  Address where = parse_address(address, control.get<std::uint16_t>());
  if (::rdma_resolve_addr(id_, nullptr, where.get(), kPatienceMs) != 0) {
    fail_errno("rdma_resolve_addr " + address);
  }
  await(RDMA_CM_EVENT_ADDR_RESOLVED);
  if (::rdma_resolve_route(id_, kPatienceMs) != 0) fail_errno("rdma_resolve_route " + address);
  await(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void RdmaConnection::make_queue_pair(Buffers& buffers) {
  ibv_device_attr attributes{};
  if (::ibv_query_device(id_->verbs, &attributes) != 0) fail_errno("ibv_query_device");
  const int reads = std::min(attributes.max_qp_rd_atom, attributes.max_qp_init_rd_atom);
  reads_max_ = static_cast<std::uint8_t>(std::clamp(reads, 1, kReadsMax));
  pd_ = ::ibv_alloc_pd(id_->verbs);
  if (pd_ == nullptr) fail_errno("ibv_alloc_pd");
  completions_ = ::ibv_create_comp_channel(id_->verbs);
  if (completions_ == nullptr) fail_errno("ibv_create_comp_channel");
  cq_ = ::ibv_create_cq(id_->verbs, static_cast<int>(4 * kSmallDepth), nullptr, completions_, 0);
  if (cq_ == nullptr) fail_errno("ibv_create_cq");
  // Remote write too: over iWARP the sink of a read has to allow it.
  mr_ = ::ibv_reg_mr(pd_, buffers.base(), buffers.octets(),
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  if (mr_ == nullptr) fail_errno("ibv_reg_mr");

  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq_;
  wanted.qp_type = IBV_QPT_RC;
  // Marks and credits go beside the messages.
  wanted.cap.max_send_wr = kSmallDepth + kDepth;
  wanted.cap.max_recv_wr = 2 * kDepth;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = kInlineOctets;
  if (::rdma_create_qp(id_, pd_, &wanted) != 0) {
    wanted.cap.max_inline_data = 0;  // not every device can
    if (::rdma_create_qp(id_, pd_, &wanted) != 0) fail_errno("rdma_create_qp");
  }
  inline_octets_ = wanted.cap.max_inline_data;
}

rdma_conn_param RdmaConnection::parameters() const {
  rdma_conn_param parameter{};
  parameter.responder_resources = reads_max_;
  parameter.initiator_depth = reads_max_;
  parameter.retry_count = 7;
  parameter.rnr_retry_count = 7;
  return parameter;
}

rdma_cm_id* RdmaConnection::await(rdma_cm_event_type expected) {
  rdma_cm_event* event = nullptr;
  if (::rdma_get_cm_event(channel_, &event) != 0) fail_errno("rdma_get_cm_event");
  const rdma_cm_event_type seen = event->event;
  const int status = event->status;
  rdma_cm_id* id = event->id;
  ::rdma_ack_cm_event(event);
  if (seen != expected) {
    fail("expected {} and got {} (status {})", ::rdma_event_str(expected), ::rdma_event_str(seen),
         status);
  }
  return id;
}

void RdmaConnection::post_send(ibv_send_wr& first, std::uint32_t count) {
  ibv_send_wr* bad = nullptr;
  if (const int error = ::ibv_post_send(id_->qp, &first, &bad); error != 0) {
    errno = error;
    fail_errno("ibv_post_send");
  }
  in_flight_ += count;
}

void RdmaConnection::post_receives(std::byte* at, std::uint64_t octets, std::uint32_t count) {
  ibv_sge place = local(at, octets);
  post_receive_list(&place, count);
}

void RdmaConnection::post_empty_receives(std::uint32_t count) {
  post_receive_list(nullptr, count);
}

void RdmaConnection::post_receive_list(ibv_sge* place, std::uint32_t count) {
  std::array<ibv_recv_wr, kSignalEvery> list{};
  while (count > 0) {
    const std::uint32_t part = std::min<std::uint32_t>(count, list.size());
    for (std::uint32_t i = 0; i < part; ++i) {
      list[i] = {};
      list[i].sg_list = place;
      list[i].num_sge = place == nullptr ? 0 : 1;
      list[i].next = i + 1 < part ? &list[i + 1] : nullptr;
    }
    ibv_recv_wr* bad = nullptr;
    if (const int error = ::ibv_post_recv(id_->qp, list.data(), &bad); error != 0) {
      errno = error;
      fail_errno("ibv_post_recv");
    }
    count -= part;
  }
}

int RdmaConnection::poll() {
  std::array<ibv_wc, kPollBatch> found;
  const int count = ::ibv_poll_cq(cq_, kPollBatch, found.data());
  if (count < 0) fail("ibv_poll_cq failed ({})", count);
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = found[static_cast<std::size_t>(i)];
    if (completion.status != IBV_WC_SUCCESS) {
      fail("a work request completed with \"{}\" (vendor code {:#x})",
           ::ibv_wc_status_str(completion.status), completion.vendor_err);
    }
    if ((completion.opcode & IBV_WC_RECV) != 0) {
      ++received_;
    } else {
      in_flight_ -= static_cast<std::uint32_t>(completion.wr_id);
    }
  }
  return count;
}

void RdmaConnection::drain() {
  while (in_flight_ > 0) poll();
}

void RdmaConnection::sleep_until_received(std::uint64_t count) {
  // Acknowledging takes a lock, so it is done for many events at once.
  constexpr unsigned kAcknowledgeEvery = 1024;
  while (received_ < count) {
    if (poll() > 0) continue;
    if (::ibv_req_notify_cq(cq_, 0) != 0) fail_errno("ibv_req_notify_cq");
    // What completed before the CQ was armed brings no event.
    if (poll() > 0) continue;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (::ibv_get_cq_event(completions_, &cq, &context) != 0) fail_errno("ibv_get_cq_event");
    if (++events_ == kAcknowledgeEvery) {
      ::ibv_ack_cq_events(cq_, events_);
      events_ = 0;
    }
  }
}

ibv_sge RdmaConnection::local(const std::byte* at, std::uint64_t octets) const {
  return {reinterpret_cast<std::uintptr_t>(at), static_cast<std::uint32_t>(octets), mr_->lkey};
}

}  // namespace weft::bench
