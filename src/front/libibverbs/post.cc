// Posting: work requests become ring entries.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"

namespace weft::front {
namespace {

static_assert(sizeof(ibv_sge) == sizeof(device::SGEntry) &&
              offsetof(ibv_sge, addr) == offsetof(device::SGEntry, address) &&
              offsetof(ibv_sge, length) == offsetof(device::SGEntry, octets) &&
              offsetof(ibv_sge, lkey) == offsetof(device::SGEntry, stag));

/// What a posted opcode is on the device, and what may come with it.
struct OpcodeTraits {
  bool supported = false;
  device::SendOpcode opcode = device::SendOpcode::Send;
  bool remote = false;      ///< wr.rdma is valid
  bool invalidates = false; ///< invalidate_rkey, or imm_data in the same place, is valid
  bool solicitable = false;
  bool inlinable = false;
  std::uint32_t sges_max = device::kSGECountMax;
  bool atomic = false;      ///< wr.atomic is valid; one SGE
};

constexpr std::size_t kOpcodeCount = IBV_WR_ATOMIC_WRITE + 1;
constexpr std::array<OpcodeTraits, kOpcodeCount> kOpcodes = [] {
  std::array<OpcodeTraits, kOpcodeCount> rows{};
  using Opcode = device::SendOpcode;
  //                                             remote invalidates solicitable inlinable sges
  rows[IBV_WR_SEND] = {true, Opcode::Send, false, false, true, true};
  rows[IBV_WR_SEND_WITH_INV] = {true, Opcode::SendInvalidate, false, true, true, true};
  rows[IBV_WR_RDMA_WRITE] = {true, Opcode::Write, true, false, false, true};
  rows[IBV_WR_RDMA_WRITE_WITH_IMM] = {true, Opcode::WriteImmediate, true, true, true, true};
  rows[IBV_WR_SEND_WITH_IMM] = {true, Opcode::SendImmediate, false, true, true, true};
  // RFC 5040 §5.2: a Read has one sink buffer.
  rows[IBV_WR_RDMA_READ] = {true, Opcode::Read, true, false, false, false, 1};
  for (auto [verb, opcode] : {std::pair{IBV_WR_ATOMIC_FETCH_AND_ADD, Opcode::FetchAdd},
                              std::pair{IBV_WR_ATOMIC_CMP_AND_SWP, Opcode::CompareSwap}}) {
    rows[verb] = {true, opcode, false, false, false, false, 1, true};
  }
  rows[IBV_WR_LOCAL_INV] = {true, Opcode::LocalInvalidate, false, true, false, false, 0};
  rows[IBV_WR_BIND_MW] = {true, Opcode::BindWindow, false, false, false, false, 0};
  return rows;
}();

int copy_inline(const ibv_send_wr& wr, std::uint32_t octets_max, device::SendEntry* entry) {
  std::uint8_t* target = entry->inline_data();
  std::uint64_t octets = 0;
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    if (octets + sge.length > octets_max) return EINVAL;
    if (sge.length == 0) continue;
    std::memcpy(target + octets, reinterpret_cast<const void*>(sge.addr), sge.length);
    octets += sge.length;
  }
  entry->inline_octets = static_cast<std::uint32_t>(octets);
  return 0;
}

std::uint8_t to_flags(const QPObject& qp, const OpcodeTraits& traits, unsigned send_flags) {
  std::uint8_t flags = 0;
  if ((send_flags & IBV_SEND_SIGNALED) != 0 || qp.qp.shape().signal_all) {
    flags |= device::kSignaled;
  }
  if ((send_flags & IBV_SEND_SOLICITED) != 0 && traits.solicitable) flags |= device::kSolicited;
  if ((send_flags & IBV_SEND_FENCE) != 0) {
    // What changes what peers may reach is fenced against everything before it, the others against
    // Reads.
    const bool local = traits.opcode == device::SendOpcode::LocalInvalidate ||
                       traits.opcode == device::SendOpcode::BindWindow;
    flags |= local ? device::kLocalFence : device::kReadFence;
  }
  return flags;
}

int fill_atomic(const ibv_send_wr& wr, device::SendEntry* entry) {
  if (wr.num_sge != 1) return EINVAL;
  entry->remote_to = wr.wr.atomic.remote_addr;
  entry->remote_stag = wr.wr.atomic.rkey;
  const bool swaps = wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  // The verbs call "compare_add" what is compared with, or added.
  *entry->atomic() = {swaps ? wr.wr.atomic.swap : wr.wr.atomic.compare_add,
                      swaps ? wr.wr.atomic.compare_add : 0};
  return 0;
}

/// Of type 1 only ibv_bind_mw binds.
int fill_bind(const ibv_send_wr& wr, device::SendEntry* entry) {
  if (wr.bind_mw.mw == nullptr || to_number(wr.bind_mw.mw->type) != IBV_MW_TYPE_2) return EINVAL;
  return front::fill_bind(*wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info, entry);
}

/// Fills the entry, or returns what is wrong with the work request.
int fill(const QPObject& qp, const ibv_send_wr& wr, device::SendEntry* entry) {
  const std::uint32_t opcode = to_number(wr.opcode);
  if (opcode >= kOpcodeCount) return EINVAL;
  const OpcodeTraits& traits = kOpcodes[opcode];
  if (!traits.supported) return EOPNOTSUPP;
  const std::uint32_t sges_max = std::min(qp.qp.shape().send_sges, traits.sges_max);
  if (wr.num_sge < 0 || (wr.num_sge > 0 && wr.sg_list == nullptr)) return EINVAL;
  const auto sge_count = static_cast<std::uint32_t>(wr.num_sge);

  entry->wr_id = wr.wr_id;
  entry->opcode = traits.opcode;
  entry->flags = to_flags(qp, traits, wr.send_flags);
  entry->remote_to = traits.remote ? wr.wr.rdma.remote_addr : 0;
  entry->remote_stag = traits.remote ? wr.wr.rdma.rkey : 0;
  entry->invalidate_stag = traits.invalidates ? wr.invalidate_rkey : 0;
  entry->inline_octets = 0;
  entry->sge_count = 0;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    if (!traits.inlinable) return EINVAL;
    entry->flags |= device::kInline;
    return copy_inline(wr, qp.qp.shape().inline_octets, entry);
  }
  if (sge_count > sges_max) return EINVAL;
  entry->sge_count = static_cast<std::uint16_t>(sge_count);
  if (sge_count > 0) std::memcpy(entry->sges(), wr.sg_list, sge_count * sizeof(ibv_sge));
  if (traits.opcode == device::SendOpcode::BindWindow) return fill_bind(wr, entry);
  return traits.atomic ? fill_atomic(wr, entry) : 0;
}

/// Posts a list to either kind of receive queue. `*any`: ring the doorbell.
int post_receives(verbs::ReceiveQueue& queue, ibv_recv_wr* wr, ibv_recv_wr** bad_wr, bool* any) {
  verbs::ReceiveQueue::Batch batch(queue);
  int code = 0;
  for (; wr != nullptr; wr = wr->next) {
    device::ReceiveEntry* entry = batch.next();
    if (entry == nullptr) {
      code = ENOMEM;
      break;
    }
    const bool sensible = wr->num_sge >= 0 &&
                          static_cast<std::uint32_t>(wr->num_sge) <= queue.sges_max() &&
                          (wr->num_sge == 0 || wr->sg_list != nullptr);
    if (!sensible) {
      code = EINVAL;
      break;
    }
    entry->wr_id = wr->wr_id;
    entry->sge_count = static_cast<std::uint32_t>(wr->num_sge);
    entry->reserved = 0;
    if (wr->num_sge > 0) {
      std::memcpy(entry->sges(), wr->sg_list, entry->sge_count * sizeof(ibv_sge));
    }
    batch.commit();
  }
  if (code != 0) *bad_wr = wr;
  *any = batch.finish();
  return code;
}

}  // namespace

std::uint8_t bind_flags(const QPObject& qp, unsigned send_flags) {
  return to_flags(qp, kOpcodes[IBV_WR_BIND_MW], send_flags);
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  QPObject* object = to_object(qp);
  verbs::QP::SendBatch batch(object->qp);
  int code = 0;
  for (; wr != nullptr; wr = wr->next) {
    device::SendEntry* entry = batch.next();
    code = entry != nullptr ? fill(*object, *wr, entry) : ENOMEM;
    if (code != 0) {
      *bad_wr = wr;
      break;
    }
    batch.commit();
  }
  if (batch.finish()) object->qp.ring_send(batch.posted());
  return code;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  QPObject* object = to_object(qp);
  if (qp->srq != nullptr) {  // there is no queue of its own to post to
    *bad_wr = wr;
    return EINVAL;
  }
  bool any;
  const int code = post_receives(object->qp.receives(), wr, bad_wr, &any);
  if (any) object->qp.ring_receive();
  return code;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  SRQObject* object = to_object(srq);
  bool any;
  const int code = post_receives(object->srq.receives(), wr, bad_wr, &any);
  if (any) object->srq.ring();
  return code;
}

}  // namespace weft::front
