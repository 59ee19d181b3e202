// Transfers over the verbs: a lane's reads and writes of the peer's memory.
#include <algorithm>
#include <array>
#include <cerrno>

#include "front/sockets/verbs_lane.h"

namespace weft::sockets {
namespace {

static_assert(sizeof(Piece) == sizeof(ibv_sge) &&
              offsetof(Piece, address) == offsetof(ibv_sge, addr) &&
              offsetof(Piece, octets) == offsetof(ibv_sge, length) &&
              offsetof(Piece, key) == offsetof(ibv_sge, lkey));

int errno_of(const ibv_wc& completion) {
  switch (completion.status) {
    case IBV_WC_SUCCESS:
      return 0;
    case IBV_WC_REM_ACCESS_ERR:
      return EACCES;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return EFAULT;
    default:
      return ECONNRESET;
  }
}

}  // namespace

int VerbsLane::transfer(bool reads, std::span<const Piece> pieces, std::uint64_t address,
                        std::uint32_t key, Name name) {
  const std::size_t each = reads ? 1 : kGather;
  const unsigned told = name.told ? IBV_SEND_SIGNALED : 0;
  const auto fill = [&](ibv_send_wr& request, std::span<const Piece> part, bool last) {
    request.wr_id = kTransfer | name.id;
    request.next = last ? nullptr : &request + 1;
    // The verbs only read them.
    request.sg_list = reinterpret_cast<ibv_sge*>(const_cast<Piece*>(part.data()));
    request.num_sge = static_cast<int>(part.size());
    request.opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request.send_flags = last ? told : 0;
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = key;
  };
  ibv_send_wr* bad = nullptr;
  if (pieces.size() <= each) {
    ibv_send_wr request;
    fill(request, pieces, true);
    return post(request, bad);
  }
  // Longest: a Read into IWARP_IOV_MAX pieces, each its own.
  std::array<ibv_send_wr, IWARP_IOV_MAX> requests;
  for (std::size_t i = 0; !pieces.empty(); ++i) {
    const auto part = pieces.first(std::min(each, pieces.size()));
    pieces = pieces.subspan(part.size());
    fill(requests[i], part, pieces.empty());
    for (const Piece& piece : part) address += piece.octets;
  }
  const int code = post(requests.front(), bad);
  if (code == 0 || bad == requests.data()) return code;
  // Some of it is posted: it has to end, and only the end of the queue pair ends it.
  abort();
  return 0;
}

/// Nothing is written where the peer reads what it is granted: the one place of its memory that
/// stays ours to write, and devices need not look at it for nothing (RFC 5040 §5.1).
int VerbsLane::mark(std::uint64_t id) {
  ibv_send_wr request{}, *bad = nullptr;
  request.wr_id = kTransfer | kTransferMark | id;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = stream_->peer_sgl().address;
  request.wr.rdma.rkey = stream_->peer_sgl().key;
  const int code = post(request, bad);
  if (code == 0) return 0;
  // A connection that is about to end; ended, it is flushed.
  abort();
  return post(request, bad);
}

void VerbsLane::handle_transfer(const ibv_wc& completion) {
  if (operations_ == nullptr) return;
  const std::uint64_t id = completion.wr_id & ~(kTransfer | kTransferMark);
  if ((completion.wr_id & kTransferMark) != 0) return operations_->handle_mark(id);
  operations_->handle_done(id, errno_of(completion));
}

void VerbsLane::abort() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(id_.qp, &attributes, IBV_QP_STATE);
}

}  // namespace weft::sockets
