// The two CQ calls that programs make all the time.
#include "front/libibverbs/completion.h"
#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"

namespace weft::front {

int poll_cq(ibv_cq* cq, int count, ibv_wc* wc) {
  if (count <= 0) return count == 0 ? 0 : -1;
  const auto translate = [&wc](const device::CompletionEntry& entry) {
    wc->wr_id = entry.wr_id;
    wc->status = to_wc_status(entry.status);
    wc->opcode = to_wc_opcode(entry);
    wc->vendor_err = to_vendor_error(entry.status);
    wc->byte_len = entry.octets;
    wc->imm_data = to_imm_data(entry);
    wc->qp_num = entry.qp_number;
    wc->src_qp = 0;
    wc->wc_flags = to_wc_flags(entry);
    wc->pkey_index = 0;
    wc->slid = 0;
    wc->sl = 0;
    wc->dlid_path_bits = 0;
    ++wc;
  };
  return static_cast<int>(to_object(cq)->cq.poll(static_cast<std::uint32_t>(count), translate));
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  const auto armed = to_object(cq)->cq.arm(solicited_only != 0);
  return armed ? 0 : armed.error().code;
}

}  // namespace weft::front
