// Set-up, posting, polling.
#include "bench/rdma_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace weft::bench {
namespace {

constexpr std::uint32_t kInlineOctets = 64;
constexpr int kPollBatch = 16;

struct Region {
  std::uint64_t base;
  std::uint32_t key;
};

}  // namespace

RdmaConnection::RdmaConnection(Medium::Role role, const std::string& address, Control& control,
                               Buffers& buffers) {
  const bool follows = role == Medium::Role::Follower;
  if (follows) {
    listener_.emplace(events_, address);
    control.put(listener_->port());
    link_.emplace(events_, events_.await(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  } else {
    link_.emplace(events_, address, control.get<std::uint16_t>());
  }
  // Marks and credits go beside the messages.
  link_->make({.send_depth = kSmallDepth + kDepth,
               .receive_depth = 2 * kDepth,
               .inline_octets = kInlineOctets},
              buffers.base(), buffers.octets());
  if (follows) {
    link_->accept({});
  } else {
    link_->connect({});
  }
  control.put(Region{reinterpret_cast<std::uintptr_t>(buffers.base()), link_->mr()->rkey});
  const auto peer = control.get<Region>();
  peer_base_ = peer.base;
  peer_key_ = peer.key;
}

void RdmaConnection::post_send(ibv_send_wr& first, std::uint32_t count) {
  ibv_send_wr* bad = nullptr;
  if (const int error = ::ibv_post_send(link_->qp(), &first, &bad); error != 0) {
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
    if (const int error = ::ibv_post_recv(link_->qp(), list.data(), &bad); error != 0) {
      errno = error;
      fail_errno("ibv_post_recv");
    }
    count -= part;
  }
}

int RdmaConnection::poll() {
  std::array<ibv_wc, kPollBatch> found;
  const int count = ::ibv_poll_cq(link_->cq(), kPollBatch, found.data());
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
  while (received_ < count) {
    if (poll() > 0) continue;
    if (::ibv_req_notify_cq(link_->cq(), 0) != 0) fail_errno("ibv_req_notify_cq");
    // What completed before the CQ was armed brings no event.
    if (poll() > 0) continue;
    link_->take_cq_event();
  }
}

ibv_sge RdmaConnection::local(const std::byte* at, std::uint64_t octets) const {
  return {reinterpret_cast<std::uintptr_t>(at), static_cast<std::uint32_t>(octets),
          link_->mr()->lkey};
}

}  // namespace weft::bench
