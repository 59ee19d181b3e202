// Copies between the kernel's structs and ours, field by field.
#include "front/libibverbs/marshall.h"

#include <cstring>

#include "front/libibverbs/export.h"

WEFT_EXPORT void ibv_copy_ah_attr_from_kern(ibv_ah_attr* target, const ib_uverbs_ah_attr* source) {
  std::memcpy(target->grh.dgid.raw, source->grh.dgid, sizeof target->grh.dgid.raw);
  target->grh.flow_label = source->grh.flow_label;
  target->grh.sgid_index = source->grh.sgid_index;
  target->grh.hop_limit = source->grh.hop_limit;
  target->grh.traffic_class = source->grh.traffic_class;
  target->dlid = source->dlid;
  target->sl = source->sl;
  target->src_path_bits = source->src_path_bits;
  target->static_rate = source->static_rate;
  target->is_global = source->is_global;
  target->port_num = source->port_num;
}

WEFT_EXPORT void ibv_copy_qp_attr_from_kern(ibv_qp_attr* target, const ib_uverbs_qp_attr* source) {
  // qp_state stays: it is the caller's question, the state it wants the attributes for.
  target->cur_qp_state = static_cast<ibv_qp_state>(source->cur_qp_state);
  target->path_mtu = static_cast<ibv_mtu>(source->path_mtu);
  target->path_mig_state = static_cast<ibv_mig_state>(source->path_mig_state);
  target->qkey = source->qkey;
  target->rq_psn = source->rq_psn;
  target->sq_psn = source->sq_psn;
  target->dest_qp_num = source->dest_qp_num;
  target->qp_access_flags = source->qp_access_flags;
  target->cap.max_send_wr = source->max_send_wr;
  target->cap.max_recv_wr = source->max_recv_wr;
  target->cap.max_send_sge = source->max_send_sge;
  target->cap.max_recv_sge = source->max_recv_sge;
  target->cap.max_inline_data = source->max_inline_data;
  ibv_copy_ah_attr_from_kern(&target->ah_attr, &source->ah_attr);
  ibv_copy_ah_attr_from_kern(&target->alt_ah_attr, &source->alt_ah_attr);
  target->pkey_index = source->pkey_index;
  target->alt_pkey_index = source->alt_pkey_index;
  target->en_sqd_async_notify = source->en_sqd_async_notify;
  target->sq_draining = source->sq_draining;
  target->max_rd_atomic = source->max_rd_atomic;
  target->max_dest_rd_atomic = source->max_dest_rd_atomic;
  target->min_rnr_timer = source->min_rnr_timer;
  target->port_num = source->port_num;
  target->timeout = source->timeout;
  target->retry_cnt = source->retry_cnt;
  target->rnr_retry = source->rnr_retry;
  target->alt_port_num = source->alt_port_num;
  target->alt_timeout = source->alt_timeout;
}

namespace {

/// The fields that both structs name alike, in whichever direction.
template <typename Target, typename Source>
void copy_path_fields(Target* target, const Source* source) {
  target->dlid = source->dlid;
  target->slid = source->slid;
  target->flow_label = source->flow_label;
  target->mtu = static_cast<decltype(target->mtu)>(source->mtu);
  target->pkey = source->pkey;
  target->hop_limit = source->hop_limit;
  target->traffic_class = source->traffic_class;
  target->numb_path = source->numb_path;
  target->sl = source->sl;
  target->mtu_selector = source->mtu_selector;
  target->rate_selector = source->rate_selector;
  target->rate = source->rate;
  target->packet_life_time_selector = source->packet_life_time_selector;
  target->packet_life_time = source->packet_life_time;
  target->preference = source->preference;
  target->raw_traffic = static_cast<decltype(target->raw_traffic)>(source->raw_traffic);
  target->reversible = static_cast<decltype(target->reversible)>(source->reversible);
}

}  // namespace

WEFT_EXPORT void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* target,
                                             const ib_user_path_rec* source) {
  std::memcpy(target->dgid.raw, source->dgid, sizeof target->dgid.raw);
  std::memcpy(target->sgid.raw, source->sgid, sizeof target->sgid.raw);
  copy_path_fields(target, source);
}

WEFT_EXPORT void ibv_copy_path_rec_to_kern(ib_user_path_rec* target,
                                           const ibv_sa_path_rec* source) {
  std::memcpy(target->dgid, source->dgid.raw, sizeof target->dgid);
  std::memcpy(target->sgid, source->sgid.raw, sizeof target->sgid);
  copy_path_fields(target, source);
}
