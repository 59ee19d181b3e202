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
                        std::uint32_t key, std::uint64_t id) {
  // Longest: a Read into IWARP_IOV_MAX pieces, each its own.
  std::array<ibv_send_wr, IWARP_IOV_MAX> requests;
  const std::size_t each = reads ? 1 : kGather;
  const std::size_t entries = entries_of(reads, pieces.size());
  for (std::size_t i = 0; i < entries; ++i) {
    const auto part = pieces.subspan(i * each, std::min(each, pieces.size() - i * each));
    ibv_send_wr& request = requests[i];
    request.wr_id = kTransfer | id;
    request.next = i + 1 < entries ? &requests[i + 1] : nullptr;
    // The verbs only read them.
    request.sg_list = reinterpret_cast<ibv_sge*>(const_cast<Piece*>(part.data()));
    request.num_sge = static_cast<int>(part.size());
    request.opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request.send_flags = i + 1 < entries ? 0 : IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = key;
    for (const Piece& piece : part) address += piece.octets;
  }
  ibv_send_wr* bad = nullptr;
  const int code = post(requests.front(), bad);
  if (code == 0 || bad == requests.data()) return code;
  // Some of it is posted: it has to end, and only the end of the queue pair ends it.
  abort();
  return 0;
}

void VerbsLane::handle_transfer(const ibv_wc& completion) {
  if (operations_ == nullptr) return;
  operations_->handle_done(completion.wr_id & ~kTransfer, errno_of(completion));
}

void VerbsLane::abort() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(id_.qp, &attributes, IBV_QP_STATE);
}

}  // namespace weft::sockets
