// Set-up by rdma_cm. Waiting is bounded, and a signal ends it.
#include "measure/rdma_link.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "measure/address.h"
#include "measure/line.h"

namespace weft::measure {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr int kReadsMax = 128;
constexpr unsigned kAcknowledgeEvery = 1024;

/// What an unexpected event says of the peer.
std::string event_text(rdma_cm_event_type event, int status) {
  switch (event) {
    case RDMA_CM_EVENT_REJECTED:
      return "the other side rejected the RDMA connection";
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return "no RDMA device leads to that address: weft devices lists those there are";
    case RDMA_CM_EVENT_UNREACHABLE:
      return "no RDMA listener can be reached there";
    default:
      return fmt::format("the RDMA connection came to {} (status {})", ::rdma_event_str(event),
                         status);
  }
}

}  // namespace

LinkEvents::LinkEvents(std::function<void()> look)
    : look_(std::move(look)), channel_(::rdma_create_event_channel()) {
  if (channel_ != nullptr) return;
  if (errno == ENODEV || errno == ENOENT) {
    fail("{} finds no RDMA device on this machine", verbs_library());
  }
  fail_errno("rdma_create_event_channel");
}

LinkEvents::~LinkEvents() {
  for (const Event& request : early_) ::rdma_destroy_id(request.id);
  ::rdma_destroy_event_channel(channel_);
}

LinkEvents::Event LinkEvents::await(rdma_cm_event_type expected) {
  if (expected == RDMA_CM_EVENT_CONNECT_REQUEST && !early_.empty()) {
    const Event request = early_.front();
    early_.pop_front();
    return request;
  }
  for (;;) {
    const Seen seen = next(expected);
    if (seen.type == expected) return seen.event;
    // Who connects may know of its connection sooner than who accepts, and begin the next one.
    if (seen.type != RDMA_CM_EVENT_CONNECT_REQUEST) {
      fail("{}", event_text(seen.type, seen.status));
    }
    early_.push_back(seen.event);
  }
}

void LinkEvents::wait_looking(rdma_cm_event_type expected) {
  constexpr int kSliceMs = 200;
  pollfd waiting{channel_->fd, POLLIN, 0};
  const std::uint64_t begin = now_ns();
  while (::poll(&waiting, 1, kSliceMs) <= 0) {
    if (interrupted()) throw Interrupted();
    look_();
    if (now_ns() - begin > std::uint64_t{kPatienceMs} * 1'000'000) {
      fail("waited {} s for {}", kPatienceMs / 1000, ::rdma_event_str(expected));
    }
  }
}

LinkEvents::Seen LinkEvents::next(rdma_cm_event_type expected) {
  if (look_) wait_looking(expected);
  rdma_cm_event* event = nullptr;
  if (::rdma_get_cm_event(channel_, &event) != 0) fail_errno("rdma_get_cm_event");
  Seen seen{event->event, event->status, {event->id, {}, 0}};
  if (event->param.conn.private_data != nullptr &&
      (seen.type == RDMA_CM_EVENT_CONNECT_REQUEST || seen.type == RDMA_CM_EVENT_ESTABLISHED)) {
    seen.event.private_octets =
        std::min<std::size_t>(event->param.conn.private_data_len, kPrivateOctetsMax);
    std::memcpy(seen.event.private_data.data(), event->param.conn.private_data,
                seen.event.private_octets);
  }
  ::rdma_ack_cm_event(event);
  return seen;
}

RdmaLink::RdmaLink(LinkEvents& events, const std::string& address, std::uint16_t port)
    : events_(events) {
  if (::rdma_create_id(events.get(), &id_, nullptr, RDMA_PS_TCP) != 0) {
    fail_errno("rdma_create_id");
  }
  try {
    Address where = parse_address(address, port);
    if (::rdma_resolve_addr(id_, nullptr, where.get(), kPatienceMs) != 0) {
      fail_errno("rdma_resolve_addr " + address);
    }
    events_.await(RDMA_CM_EVENT_ADDR_RESOLVED);
    if (::rdma_resolve_route(id_, kPatienceMs) != 0) fail_errno("rdma_resolve_route " + address);
    events_.await(RDMA_CM_EVENT_ROUTE_RESOLVED);
  } catch (...) {
    release();
    throw;
  }
}

RdmaLink::~RdmaLink() {
  release();
}

void RdmaLink::release() {
  if (id_ != nullptr) {
    ::rdma_disconnect(id_);
    if (id_->qp != nullptr) ::rdma_destroy_qp(id_);
  }
  if (mr_ != nullptr) ::ibv_dereg_mr(mr_);
  if (cq_events_ > 0) ::ibv_ack_cq_events(cq_, cq_events_);
  if (cq_ != nullptr) ::ibv_destroy_cq(cq_);
  if (completions_ != nullptr) ::ibv_destroy_comp_channel(completions_);
  if (pd_ != nullptr) ::ibv_dealloc_pd(pd_);
  if (id_ != nullptr) ::rdma_destroy_id(id_);
}

void RdmaLink::make(const LinkShape& shape, std::byte* memory, std::size_t octets) {
  ibv_device_attr attributes{};
  if (::ibv_query_device(id_->verbs, &attributes) != 0) fail_errno("ibv_query_device");
  const int reads = std::min(attributes.max_qp_rd_atom, attributes.max_qp_init_rd_atom);
  reads_max_ = static_cast<std::uint8_t>(std::clamp(reads, 1, kReadsMax));
  pd_ = ::ibv_alloc_pd(id_->verbs);
  if (pd_ == nullptr) fail_errno("ibv_alloc_pd");
  completions_ = ::ibv_create_comp_channel(id_->verbs);
  if (completions_ == nullptr) fail_errno("ibv_create_comp_channel");
  cq_ = ::ibv_create_cq(id_->verbs, static_cast<int>(shape.send_depth + shape.receive_depth),
                        nullptr, completions_, 0);
  if (cq_ == nullptr) fail_errno("ibv_create_cq");
  // Remote write too: over iWARP the sink of a Read has to allow it.
  mr_ = ::ibv_reg_mr(pd_, memory, octets,
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  if (mr_ == nullptr) fail_errno("ibv_reg_mr");
  make_queue_pair(shape, {pd_, cq_, nullptr});
}

void RdmaLink::make(const LinkShape& shape, const SharedQueues& shared) {
  make_queue_pair(shape, shared);
}

void RdmaLink::make_queue_pair(const LinkShape& shape, const SharedQueues& on) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = on.cq;
  wanted.srq = on.srq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = shape.send_depth;
  wanted.cap.max_send_sge = shape.sges_max;
  if (on.srq == nullptr) {
    wanted.cap.max_recv_wr = shape.receive_depth;
    wanted.cap.max_recv_sge = 1;
  }
  wanted.cap.max_inline_data = shape.inline_octets;
  if (::rdma_create_qp(id_, on.pd, &wanted) != 0) {
    if (shape.inline_needed) {
      fail("this device cannot take {} octets --inline", shape.inline_octets);
    }
    wanted.cap.max_inline_data = 0;  // not every device can
    if (::rdma_create_qp(id_, on.pd, &wanted) != 0) fail_errno("rdma_create_qp");
  }
  inline_octets_ = wanted.cap.max_inline_data;
}

rdma_conn_param RdmaLink::parameters(std::span<const std::byte> private_data) const {
  rdma_conn_param parameter{};
  parameter.private_data = private_data.data();
  parameter.private_data_len = static_cast<std::uint8_t>(private_data.size());
  parameter.responder_resources = reads_max_;
  parameter.initiator_depth = reads_max_;
  parameter.retry_count = 7;
  parameter.rnr_retry_count = 7;
  return parameter;
}

LinkEvents::Event RdmaLink::connect(std::span<const std::byte> private_data) {
  rdma_conn_param parameter = parameters(private_data);
  if (::rdma_connect(id_, &parameter) != 0) fail_errno("rdma_connect");
  return events_.await(RDMA_CM_EVENT_ESTABLISHED);
}

void RdmaLink::accept(std::span<const std::byte> private_data) {
  rdma_conn_param parameter = parameters(private_data);
  if (::rdma_accept(id_, &parameter) != 0) fail_errno("rdma_accept");
  events_.await(RDMA_CM_EVENT_ESTABLISHED);
}

void RdmaLink::take_cq_event() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (::ibv_get_cq_event(completions_, &cq, &context) != 0) {
    if (errno == EAGAIN || errno == EINTR) return;
    fail_errno("ibv_get_cq_event");
  }
  // Acknowledging takes a lock, so it is done for many events at once.
  if (++cq_events_ == kAcknowledgeEvery) {
    ::ibv_ack_cq_events(cq_, cq_events_);
    cq_events_ = 0;
  }
}

RdmaListener::RdmaListener(LinkEvents& events, const std::string& address, std::uint16_t port) {
  if (::rdma_create_id(events.get(), &id_, nullptr, RDMA_PS_TCP) != 0) {
    fail_errno("rdma_create_id");
  }
  try {
    Address where = parse_address(address, port);
    if (::rdma_bind_addr(id_, where.get()) != 0) {
      const int error = errno;
      if (error == ENODEV || error == EADDRNOTAVAIL) {
        fail("no RDMA device has the address {}: see weft devices", address);
      }
      errno = error;
      fail_errno("rdma_bind_addr " + address);
    }
    if (::rdma_listen(id_, 64) != 0) fail_errno("rdma_listen");
  } catch (...) {
    ::rdma_destroy_id(id_);
    throw;
  }
}

RdmaListener::~RdmaListener() {
  ::rdma_destroy_id(id_);
}

std::uint16_t RdmaListener::port() const {
  return ntohs(::rdma_get_src_port(id_));
}

std::string device_text(ibv_device* device) {
  const bool iwarp = device->transport_type == IBV_TRANSPORT_IWARP;
  return fmt::format("{} ({})", ::ibv_get_device_name(device),
                     iwarp ? "iWARP" : "InfiniBand or RoCE");
}

std::string verbs_library() {
  Dl_info library{};
  // By name: the function's own address may be in this program's jump table.
  if (void* symbol = ::dlsym(RTLD_DEFAULT, "ibv_get_device_name"); symbol != nullptr) {
    ::dladdr(symbol, &library);
  }
  return library.dli_fname == nullptr ? "?" : library.dli_fname;
}

}  // namespace weft::measure
