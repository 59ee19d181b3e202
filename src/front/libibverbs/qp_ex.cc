// Work requests built by calls: wr_start, then for each an operation and its data, then
// wr_complete.
//
// A request is written straight into the ring; it counts when the next one begins or the batch is
// completed. After a mistake the rest of the batch is ignored, wr_complete tells, and nothing of
// the batch is posted.
#include <cstring>

#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"
#include "front/libibverbs/unsupported.h"

namespace weft::front {
namespace {

void wr_start(ibv_qp_ex* qp) {
  QPObject* object = to_object(qp);
  object->batch.emplace(object->qp);
  object->entry = nullptr;
  object->batch_error = 0;
}

/// Counts the request that was being built.
void commit_entry(QPObject* object) {
  if (object->entry != nullptr) object->batch->commit();
  object->entry = nullptr;
}

int wr_complete(ibv_qp_ex* qp) {
  QPObject* object = to_object(qp);
  commit_entry(object);
  const int code = object->batch_error;
  if (code != 0) object->batch->abort();
  const bool any = object->batch->finish();
  const device::Posted posted = object->batch->posted();
  object->batch.reset();
  if (any) object->qp.ring_send(posted);
  return code;
}

void wr_abort(ibv_qp_ex* qp) {
  QPObject* object = to_object(qp);
  object->entry = nullptr;
  object->batch->abort();
  object->batch->finish();
  object->batch.reset();
}

std::uint8_t to_flags(const QPObject& object, device::SendOpcode opcode) {
  const unsigned wanted = object.wr_flags;
  using Opcode = device::SendOpcode;
  const bool send = opcode == Opcode::Send || opcode == Opcode::SendInvalidate ||
                    opcode == Opcode::SendImmediate || opcode == Opcode::WriteImmediate;
  std::uint8_t flags = 0;
  if ((wanted & IBV_SEND_SIGNALED) != 0 || object.qp.shape().signal_all) {
    flags |= device::kSignaled;
  }
  if ((wanted & IBV_SEND_SOLICITED) != 0 && send) flags |= device::kSolicited;
  if ((wanted & IBV_SEND_FENCE) != 0) {
    const bool local = opcode == Opcode::LocalInvalidate || opcode == Opcode::BindWindow;
    flags |= local ? device::kLocalFence : device::kReadFence;
  }
  return flags;
}

/// Begins a request; null after a mistake in this batch.
device::SendEntry* begin(ibv_qp_ex* qp, device::SendOpcode opcode) {
  QPObject* object = to_object(qp);
  if (object->batch_error != 0) return nullptr;
  commit_entry(object);
  object->entry = object->batch->next();
  if (object->entry == nullptr) {
    object->batch_error = ENOMEM;
    return nullptr;
  }
  *object->entry = {};
  object->entry->wr_id = qp->wr_id;
  object->entry->opcode = opcode;
  object->entry->flags = to_flags(*object, opcode);
  return object->entry;
}

void wr_send(ibv_qp_ex* qp) { begin(qp, device::SendOpcode::Send); }

void wr_send_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
  if (auto* entry = begin(qp, device::SendOpcode::SendInvalidate)) entry->invalidate_stag = rkey;
}

void wr_local_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
  if (auto* entry = begin(qp, device::SendOpcode::LocalInvalidate)) entry->invalidate_stag = rkey;
}

void wr_send_imm(ibv_qp_ex* qp, __be32 imm_data) {
  if (auto* entry = begin(qp, device::SendOpcode::SendImmediate)) entry->immediate = imm_data;
}

device::SendEntry* begin_remote(ibv_qp_ex* qp, device::SendOpcode opcode, std::uint32_t rkey,
                                std::uint64_t address) {
  device::SendEntry* entry = begin(qp, opcode);
  if (entry != nullptr) {
    entry->remote_stag = rkey;
    entry->remote_to = address;
  }
  return entry;
}
void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
  begin_remote(qp, device::SendOpcode::Write, rkey, address);
}
void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                       __be32 imm_data) {
  auto* entry = begin_remote(qp, device::SendOpcode::WriteImmediate, rkey, address);
  if (entry != nullptr) entry->immediate = imm_data;
}
void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
  begin_remote(qp, device::SendOpcode::Read, rkey, address);
}

void begin_atomic(ibv_qp_ex* qp, device::SendOpcode opcode, std::uint32_t rkey,
                  std::uint64_t address, device::AtomicEntry operands) {
  if (auto* entry = begin_remote(qp, opcode, rkey, address)) *entry->atomic() = operands;
}
void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                       std::uint64_t compare, std::uint64_t swap) {
  begin_atomic(qp, device::SendOpcode::CompareSwap, rkey, address, {swap, compare});
}
void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                         std::uint64_t add) {
  begin_atomic(qp, device::SendOpcode::FetchAdd, rkey, address, {add, 0});
}

/// Of type 1 only ibv_bind_mw binds.
void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) {
  auto* entry = begin(qp, device::SendOpcode::BindWindow);
  if (entry == nullptr) return;
  const bool second = to_number(mw->type) == IBV_MW_TYPE_2;
  to_object(qp)->batch_error = second ? fill_bind(*mw, rkey, *info, entry) : EINVAL;
}

/// SGEs that a request may have; an answer goes to one place.
std::size_t sges_max(const QPObject& object) {
  using Opcode = device::SendOpcode;
  switch (object.entry->opcode) {
    case Opcode::Read:
    case Opcode::FetchAdd:
    case Opcode::CompareSwap: return 1;
    case Opcode::LocalInvalidate:
    case Opcode::BindWindow: return 0;
    default: return object.qp.shape().send_sges;
  }
}

void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) {
  QPObject* object = to_object(qp);
  if (object->entry == nullptr) return;
  if (count > sges_max(*object)) {
    object->batch_error = EINVAL;
    return;
  }
  object->entry->sge_count = static_cast<std::uint16_t>(count);
  if (count > 0) std::memcpy(object->entry->sges(), list, count * sizeof(ibv_sge));
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t octets) {
  const ibv_sge sge = {address, octets, lkey};
  wr_set_sge_list(qp, 1, &sge);
}

void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) {
  QPObject* object = to_object(qp);
  if (object->entry == nullptr) return;
  device::SendEntry& entry = *object->entry;
  const bool inlinable = entry.opcode != device::SendOpcode::Read &&
                         entry.opcode != device::SendOpcode::FetchAdd &&
                         entry.opcode != device::SendOpcode::CompareSwap &&
                         entry.opcode != device::SendOpcode::LocalInvalidate &&
                         entry.opcode != device::SendOpcode::BindWindow;
  std::size_t octets = 0;
  for (std::size_t i = 0; inlinable && i < count; ++i) {
    const std::size_t room = object->qp.shape().inline_octets - octets;
    if (list[i].length > room) {
      object->batch_error = EINVAL;
      return;
    }
    if (list[i].length == 0) continue;
    std::memcpy(entry.inline_data() + octets, list[i].addr, list[i].length);
    octets += list[i].length;
  }
  if (!inlinable) {
    object->batch_error = EINVAL;
    return;
  }
  entry.flags |= device::kInline;
  entry.inline_octets = static_cast<std::uint32_t>(octets);
}

void wr_set_inline_data(ibv_qp_ex* qp, void* address, std::size_t octets) {
  const ibv_data_buf buffer = {address, octets};
  wr_set_inline_data_list(qp, 1, &buffer);
}

/// In the slots of what create_qp refused: a program that calls one all the same must not crash,
/// and must not believe that it posted.
template <typename Function>
struct Refused;
template <typename... Arguments>
struct Refused<void (*)(ibv_qp_ex*, Arguments...)> {
  static void call(ibv_qp_ex* qp, Arguments...) { to_object(qp)->batch_error = EOPNOTSUPP; }
};
template <typename Function>
void refuse_request(Function& slot) {
  slot = &Refused<Function>::call;
}

}  // namespace

void set_qp_ex_operations(ibv_qp_ex* qp) {
  qp->wr_start = wr_start;
  qp->wr_complete = wr_complete;
  qp->wr_abort = wr_abort;
  qp->wr_send = wr_send;
  qp->wr_send_inv = wr_send_inv;
  qp->wr_send_imm = wr_send_imm;
  qp->wr_local_inv = wr_local_inv;
  qp->wr_bind_mw = wr_bind_mw;
  qp->wr_rdma_write = wr_rdma_write;
  qp->wr_rdma_write_imm = wr_rdma_write_imm;
  qp->wr_rdma_read = wr_rdma_read;
  qp->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  qp->wr_atomic_fetch_add = wr_atomic_fetch_add;
  qp->wr_set_sge = wr_set_sge;
  qp->wr_set_sge_list = wr_set_sge_list;
  qp->wr_set_inline_data = wr_set_inline_data;
  qp->wr_set_inline_data_list = wr_set_inline_data_list;

  refuse_request(qp->wr_send_tso);
  refuse_request(qp->wr_set_ud_addr);
  refuse_request(qp->wr_set_xrc_srqn);
  refuse_request(qp->wr_atomic_write);
}

}  // namespace weft::front
