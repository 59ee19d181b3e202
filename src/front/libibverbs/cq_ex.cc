// Extended CQs: completions are walked over and asked for what is wanted.
#include <ctime>

#include "front/libibverbs/completion.h"
#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"

namespace weft::front {
namespace {

void show(CQObject* object, const device::CompletionEntry* entry) {
  object->entry = entry;
  object->wr_id = entry->wr_id;
  object->status = to_wc_status(entry->status);
}

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  if (attr->comp_mask != 0) return EINVAL;
  CQObject* object = to_object(cq);
  const device::CompletionEntry* entry = object->cq.begin_walk();
  if (entry == nullptr) return ENOENT;
  show(object, entry);
  return 0;
}

int next_poll(ibv_cq_ex* cq) {
  CQObject* object = to_object(cq);
  const device::CompletionEntry* entry = object->cq.advance();
  if (entry == nullptr) return ENOENT;
  show(object, entry);
  return 0;
}

void end_poll(ibv_cq_ex* cq) { to_object(cq)->cq.end_walk(); }

const device::CompletionEntry& entry_of(ibv_cq_ex* cq) { return *to_object(cq)->entry; }

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) { return to_wc_opcode(entry_of(cq)); }
std::uint32_t read_vendor_err(ibv_cq_ex* cq) { return to_vendor_error(entry_of(cq).status); }
std::uint32_t read_byte_len(ibv_cq_ex* cq) { return entry_of(cq).octets; }
/// The verbs read an invalidated STag here as well.
__be32 read_imm_data(ibv_cq_ex* cq) { return to_imm_data(entry_of(cq)); }
std::uint32_t read_qp_num(ibv_cq_ex* cq) { return entry_of(cq).qp_number; }
unsigned read_wc_flags(ibv_cq_ex* cq) { return to_wc_flags(entry_of(cq)); }
std::uint64_t read_completion_ts(ibv_cq_ex* cq) { return entry_of(cq).timestamp_ns; }

/// The entry's time on the wall clock, by what the two clocks say now.
std::uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) {
  const auto nanoseconds = [](clockid_t clock) {
    timespec now = {};
    clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
           static_cast<std::uint64_t>(now.tv_nsec);
  };
  const std::uint64_t age = nanoseconds(CLOCK_MONOTONIC) - entry_of(cq).timestamp_ns;
  return nanoseconds(CLOCK_REALTIME) - age;
}

// What only InfiniBand has reads as 0.
std::uint32_t read_src_qp(ibv_cq_ex*) { return 0; }
std::uint32_t read_slid(ibv_cq_ex*) { return 0; }
std::uint8_t read_sl(ibv_cq_ex*) { return 0; }
std::uint8_t read_dlid_path_bits(ibv_cq_ex*) { return 0; }
std::uint16_t read_cvlan(ibv_cq_ex*) { return 0; }
std::uint32_t read_flow_tag(ibv_cq_ex*) { return 0; }
void read_tm_info(ibv_cq_ex*, ibv_wc_tm_info* info) { *info = {}; }

}  // namespace

void set_cq_ex_operations(ibv_cq_ex* cq) {
  cq->start_poll = start_poll;
  cq->next_poll = next_poll;
  cq->end_poll = end_poll;
  cq->read_opcode = read_opcode;
  cq->read_vendor_err = read_vendor_err;
  cq->read_byte_len = read_byte_len;
  cq->read_imm_data = read_imm_data;
  cq->read_qp_num = read_qp_num;
  cq->read_src_qp = read_src_qp;
  cq->read_wc_flags = read_wc_flags;
  cq->read_slid = read_slid;
  cq->read_sl = read_sl;
  cq->read_dlid_path_bits = read_dlid_path_bits;
  cq->read_completion_ts = read_completion_ts;
  cq->read_cvlan = read_cvlan;
  cq->read_flow_tag = read_flow_tag;
  cq->read_tm_info = read_tm_info;
  cq->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

}  // namespace weft::front
