// Connecting, posting, polling.
#include "measure/rdma_runner.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "measure/verbs_calls.h"

namespace weft::measure {
namespace {

constexpr char kMagic[] = {'W', 'F', 'T', 'R'};
constexpr int kPollBatch = 32;

}  // namespace

std::array<std::byte, kRegionOctets> encode_region(const Region& region) {
  std::array<std::byte, kRegionOctets> octets;
  std::memcpy(octets.data(), kMagic, sizeof kMagic);
  const auto put = [&](std::size_t at, std::uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i) {
      octets[at + i] = static_cast<std::byte>(value >> 8 * (bytes - 1 - i));
    }
  };
  put(4, region.connection, 4);
  put(8, region.base, 8);
  put(16, region.key, 4);
  return octets;
}

Region parse_region(std::span<const std::byte> octets) {
  if (octets.size() < kRegionOctets || std::memcmp(octets.data(), kMagic, sizeof kMagic) != 0) {
    fail("an RDMA connection came that is none of weft ping or blast");
  }
  const auto get = [&](std::size_t at, unsigned bytes) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) {
      value = value << 8 | std::to_integer<std::uint64_t>(octets[at + i]);
    }
    return value;
  };
  return {static_cast<std::uint32_t>(get(4, 4)), get(8, 8), static_cast<std::uint32_t>(get(16, 4))};
}

std::unique_ptr<RdmaRunner> RdmaRunner::make(const Plan& plan, Side side,
                                             std::unique_ptr<RdmaLink> link) {
  return plan.tool == Tool::Ping ? make_rdma_ping(plan, side, std::move(link))
                                 : make_rdma_blast(plan, side, std::move(link));
}

void RdmaRunner::establish(std::uint32_t connection, const LinkEvents::Event* request) {
  // Waiting for an event is done in poll(2), where a wish to stop is seen.
  const int fd = link_->completions()->fd;
  if (plan_.wait != Wait::Block && ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) {
    fail_errno("fcntl");
  }
  const auto own = encode_region(
      {connection, reinterpret_cast<std::uintptr_t>(memory_->base()), link_->mr()->rkey});
  if (request != nullptr) {
    peer_ = parse_region(std::span(request->private_data).first(request->private_octets));
    if (peer_.connection != connection) {
      fail("RDMA connection {} came in the place of {}", peer_.connection, connection);
    }
    return link_->accept(own);
  }
  const auto answer = link_->connect(own);
  peer_ = parse_region(std::span(answer.private_data).first(answer.private_octets));
}

void RdmaRunner::arm() {
  measure::arm(link_->cq());
}

short RdmaRunner::events() const {
  return POLLIN;
}

int RdmaRunner::poll() {
  return poll_cq<kPollBatch>(link_->cq(), [this](const ibv_wc& completion) {
    if ((completion.opcode & IBV_WC_RECV) != 0) {
      on_received(completion);
    } else {
      on_sent(completion.wr_id);
    }
  });
}

void RdmaRunner::post(ibv_send_wr& first) {
  if (const int error = try_post(link_->qp(), first); error != 0) {
    if (error == EOPNOTSUPP) fail_unable();
    fail_error(error, "ibv_post_send");
  }
}

void RdmaRunner::post_receives(ibv_recv_wr& first) {
  if (const int error = try_post(link_->qp(), first); error != 0) {
    // A device without immediate data need not take the receives for it, which have no memory.
    if (plan_.op == Op::WriteImm && first.num_sge == 0) fail_unable();
    fail_error(error, "ibv_post_recv");
  }
}

void RdmaRunner::fail_unable() const {
  fail("this device cannot do --op {}", name_of(plan_.op));
}

ibv_wr_opcode RdmaRunner::opcode() const {
  switch (plan_.op) {
    case Op::Send:
      return IBV_WR_SEND;
    case Op::WriteImm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Op::Read:
      return IBV_WR_RDMA_READ;
    default:
      return IBV_WR_RDMA_WRITE;
  }
}

}  // namespace weft::measure
