// The layout of the public structs that weft fills and programs read: sizes and offsets as compiled
// into every existing binary for x86-64 Linux. A header that differs must fail here and not in a
// program's memory. There is nothing to run: this test passes by compiling.
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>

// The numbers are those of x86-64: elsewhere a mutex has another size and moves what follows it.
#if defined(__x86_64__)

#define WEFT_SIZE(type, octets) static_assert(sizeof(type) == (octets))
#define WEFT_OFFSET(type, member, octets) static_assert(offsetof(type, member) == (octets))

// Devices and contexts.
WEFT_SIZE(ibv_device, 664);
WEFT_OFFSET(ibv_device, node_type, 16);
WEFT_OFFSET(ibv_device, transport_type, 20);
WEFT_OFFSET(ibv_device, name, 24);
WEFT_OFFSET(ibv_device, dev_name, 88);
WEFT_OFFSET(ibv_device, dev_path, 152);
WEFT_OFFSET(ibv_device, ibdev_path, 408);
WEFT_SIZE(ibv_context_ops, 256);
WEFT_OFFSET(ibv_context_ops, alloc_mw, 56);
WEFT_OFFSET(ibv_context_ops, bind_mw, 64);
WEFT_OFFSET(ibv_context_ops, dealloc_mw, 72);
WEFT_OFFSET(ibv_context_ops, poll_cq, 88);
WEFT_OFFSET(ibv_context_ops, req_notify_cq, 96);
WEFT_OFFSET(ibv_context_ops, post_srq_recv, 160);
WEFT_OFFSET(ibv_context_ops, post_send, 200);
WEFT_OFFSET(ibv_context_ops, post_recv, 208);
WEFT_SIZE(ibv_context, 328);
WEFT_OFFSET(ibv_context, device, 0);
WEFT_OFFSET(ibv_context, ops, 8);
WEFT_OFFSET(ibv_context, cmd_fd, 264);
WEFT_OFFSET(ibv_context, async_fd, 268);
WEFT_OFFSET(ibv_context, num_comp_vectors, 272);
WEFT_OFFSET(ibv_context, mutex, 280);
WEFT_OFFSET(ibv_context, abi_compat, 320);
WEFT_SIZE(ibv_device_attr, 232);
WEFT_SIZE(ibv_device_attr_ex, 400);
WEFT_SIZE(ibv_port_attr, 52);
WEFT_OFFSET(ibv_port_attr, link_layer, 46);
WEFT_OFFSET(ibv_port_attr, flags, 47);
WEFT_OFFSET(ibv_port_attr, port_cap_flags2, 48);
WEFT_OFFSET(ibv_port_attr, active_speed, 44);
WEFT_SIZE(ibv_gid, 16);
WEFT_SIZE(ibv_gid_entry, 32);
WEFT_SIZE(ibv_values_ex, 24);

// verbs_context grows upward: what programs measure is the distance of an operation from its end.
WEFT_SIZE(verbs_context, 648);
WEFT_OFFSET(verbs_context, query_port, 0);
WEFT_OFFSET(verbs_context, advise_mr, 8);
WEFT_OFFSET(verbs_context, alloc_null_mr, 16);
WEFT_OFFSET(verbs_context, reg_dm_mr, 56);
WEFT_OFFSET(verbs_context, alloc_dm, 64);
WEFT_OFFSET(verbs_context, alloc_parent_domain, 112);
WEFT_OFFSET(verbs_context, alloc_td, 128);
WEFT_OFFSET(verbs_context, modify_cq, 136);
WEFT_OFFSET(verbs_context, post_srq_ops, 144);
WEFT_OFFSET(verbs_context, create_wq, 184);
WEFT_OFFSET(verbs_context, query_rt_values, 192);
WEFT_OFFSET(verbs_context, create_cq_ex, 200);
WEFT_OFFSET(verbs_context, priv, 208);
WEFT_OFFSET(verbs_context, query_device_ex, 216);
WEFT_OFFSET(verbs_context, open_qp, 256);
WEFT_OFFSET(verbs_context, create_qp_ex, 264);
WEFT_OFFSET(verbs_context, get_srq_num, 272);
WEFT_OFFSET(verbs_context, create_srq_ex, 280);
WEFT_OFFSET(verbs_context, open_xrcd, 288);
WEFT_OFFSET(verbs_context, close_xrcd, 296);
WEFT_OFFSET(verbs_context, sz, 312);
WEFT_OFFSET(verbs_context, context, 320);
static_assert(offsetof(verbs_context, sz) + sizeof(size_t) == offsetof(verbs_context, context));
static_assert(offsetof(verbs_context, context) + sizeof(ibv_context) == sizeof(verbs_context));

// Protection domains, memory and address handles.
WEFT_SIZE(ibv_pd, 16);
WEFT_OFFSET(ibv_pd, context, 0);
WEFT_SIZE(ibv_mr, 48);
WEFT_OFFSET(ibv_mr, context, 0);
WEFT_OFFSET(ibv_mr, addr, 16);
WEFT_OFFSET(ibv_mr, length, 24);
WEFT_OFFSET(ibv_mr, lkey, 36);
WEFT_OFFSET(ibv_mr, rkey, 40);
WEFT_SIZE(ibv_mw, 32);
WEFT_OFFSET(ibv_mw, rkey, 16);
WEFT_OFFSET(ibv_mw, type, 24);
WEFT_SIZE(ibv_mw_bind, 48);
WEFT_SIZE(ibv_ah, 24);
WEFT_SIZE(ibv_ah_attr, 32);
WEFT_SIZE(ibv_global_route, 24);
WEFT_SIZE(ibv_grh, 40);

// Work requests and completions.
WEFT_SIZE(ibv_sge, 16);
WEFT_OFFSET(ibv_sge, length, 8);
WEFT_OFFSET(ibv_sge, lkey, 12);
WEFT_SIZE(ibv_data_buf, 16);
WEFT_SIZE(ibv_send_wr, 128);
WEFT_OFFSET(ibv_send_wr, wr_id, 0);
WEFT_OFFSET(ibv_send_wr, next, 8);
WEFT_OFFSET(ibv_send_wr, sg_list, 16);
WEFT_OFFSET(ibv_send_wr, num_sge, 24);
WEFT_OFFSET(ibv_send_wr, opcode, 28);
WEFT_OFFSET(ibv_send_wr, send_flags, 32);
WEFT_OFFSET(ibv_send_wr, imm_data, 36);
WEFT_OFFSET(ibv_send_wr, wr, 40);
WEFT_OFFSET(ibv_send_wr, qp_type, 72);
WEFT_OFFSET(ibv_send_wr, bind_mw, 80);
WEFT_SIZE(ibv_recv_wr, 32);
WEFT_OFFSET(ibv_recv_wr, sg_list, 16);
WEFT_OFFSET(ibv_recv_wr, num_sge, 24);
WEFT_SIZE(ibv_wc, 48);
WEFT_OFFSET(ibv_wc, wr_id, 0);
WEFT_OFFSET(ibv_wc, status, 8);
WEFT_OFFSET(ibv_wc, opcode, 12);
WEFT_OFFSET(ibv_wc, vendor_err, 16);
WEFT_OFFSET(ibv_wc, byte_len, 20);
WEFT_OFFSET(ibv_wc, imm_data, 24);
WEFT_OFFSET(ibv_wc, qp_num, 28);
WEFT_OFFSET(ibv_wc, src_qp, 32);
WEFT_OFFSET(ibv_wc, wc_flags, 36);
WEFT_OFFSET(ibv_wc, pkey_index, 40);
WEFT_OFFSET(ibv_wc, slid, 42);
WEFT_OFFSET(ibv_wc, sl, 44);
WEFT_OFFSET(ibv_wc, dlid_path_bits, 45);

// Completion queues. ibv_cq and ibv_cq_ex are one object: same prefix.
WEFT_SIZE(ibv_comp_channel, 16);
WEFT_OFFSET(ibv_comp_channel, context, 0);
WEFT_OFFSET(ibv_comp_channel, fd, 8);
WEFT_OFFSET(ibv_comp_channel, refcnt, 12);
WEFT_SIZE(ibv_cq, 128);
WEFT_OFFSET(ibv_cq, context, 0);
WEFT_OFFSET(ibv_cq, channel, 8);
WEFT_OFFSET(ibv_cq, cq_context, 16);
WEFT_OFFSET(ibv_cq, cqe, 28);
WEFT_OFFSET(ibv_cq, mutex, 32);
WEFT_OFFSET(ibv_cq, cond, 72);
WEFT_OFFSET(ibv_cq, comp_events_completed, 120);
WEFT_OFFSET(ibv_cq, async_events_completed, 124);
WEFT_SIZE(ibv_cq_ex, 288);
WEFT_OFFSET(ibv_cq_ex, async_events_completed, 124);
WEFT_OFFSET(ibv_cq_ex, comp_mask, 128);
WEFT_OFFSET(ibv_cq_ex, status, 132);
WEFT_OFFSET(ibv_cq_ex, wr_id, 136);
WEFT_OFFSET(ibv_cq_ex, start_poll, 144);
WEFT_OFFSET(ibv_cq_ex, next_poll, 152);
WEFT_OFFSET(ibv_cq_ex, end_poll, 160);
WEFT_OFFSET(ibv_cq_ex, read_opcode, 168);
WEFT_OFFSET(ibv_cq_ex, read_completion_wallclock_ns, 280);
WEFT_SIZE(ibv_cq_init_attr_ex, 56);
WEFT_SIZE(ibv_modify_cq_attr, 8);
WEFT_SIZE(ibv_async_event, 16);
WEFT_OFFSET(ibv_async_event, event_type, 8);

// Queue pairs. ibv_qp is the first member of ibv_qp_ex.
WEFT_SIZE(ibv_qp_cap, 20);
WEFT_SIZE(ibv_qp_init_attr, 64);
WEFT_OFFSET(ibv_qp_init_attr, cap, 32);
WEFT_OFFSET(ibv_qp_init_attr, qp_type, 52);
WEFT_OFFSET(ibv_qp_init_attr, sq_sig_all, 56);
WEFT_SIZE(ibv_qp_init_attr_ex, 136);
WEFT_OFFSET(ibv_qp_init_attr_ex, comp_mask, 60);
WEFT_OFFSET(ibv_qp_init_attr_ex, pd, 64);
WEFT_OFFSET(ibv_qp_init_attr_ex, send_ops_flags, 128);
WEFT_SIZE(ibv_qp_attr, 144);
WEFT_SIZE(ibv_ece, 12);
WEFT_SIZE(ibv_qp, 160);
WEFT_OFFSET(ibv_qp, context, 0);
WEFT_OFFSET(ibv_qp, qp_context, 8);
WEFT_OFFSET(ibv_qp, pd, 16);
WEFT_OFFSET(ibv_qp, send_cq, 24);
WEFT_OFFSET(ibv_qp, recv_cq, 32);
WEFT_OFFSET(ibv_qp, srq, 40);
WEFT_OFFSET(ibv_qp, handle, 48);
WEFT_OFFSET(ibv_qp, qp_num, 52);
WEFT_OFFSET(ibv_qp, state, 56);
WEFT_OFFSET(ibv_qp, qp_type, 60);
WEFT_OFFSET(ibv_qp, mutex, 64);
WEFT_OFFSET(ibv_qp, cond, 104);
WEFT_OFFSET(ibv_qp, events_completed, 152);
WEFT_SIZE(ibv_qp_ex, 352);
WEFT_OFFSET(ibv_qp_ex, qp_base, 0);
WEFT_OFFSET(ibv_qp_ex, comp_mask, 160);
WEFT_OFFSET(ibv_qp_ex, wr_id, 168);
WEFT_OFFSET(ibv_qp_ex, wr_flags, 176);
WEFT_OFFSET(ibv_qp_ex, wr_atomic_cmp_swp, 184);
WEFT_OFFSET(ibv_qp_ex, wr_start, 320);
WEFT_OFFSET(ibv_qp_ex, wr_complete, 328);
WEFT_OFFSET(ibv_qp_ex, wr_abort, 336);

// Shared receive queues.
WEFT_SIZE(ibv_srq, 128);
WEFT_OFFSET(ibv_srq, context, 0);
WEFT_OFFSET(ibv_srq, events_completed, 120);
WEFT_SIZE(ibv_srq_attr, 12);
WEFT_SIZE(ibv_srq_init_attr, 24);
WEFT_SIZE(ibv_srq_init_attr_ex, 64);

// Connection manager.
WEFT_SIZE(rdma_event_channel, 4);
WEFT_SIZE(rdma_cm_id, 416);
WEFT_OFFSET(rdma_cm_id, verbs, 0);
WEFT_OFFSET(rdma_cm_id, channel, 8);
WEFT_OFFSET(rdma_cm_id, context, 16);
WEFT_OFFSET(rdma_cm_id, qp, 24);
WEFT_OFFSET(rdma_cm_id, route, 32);
WEFT_OFFSET(rdma_cm_id, ps, 344);
WEFT_OFFSET(rdma_cm_id, port_num, 348);
WEFT_OFFSET(rdma_cm_id, event, 352);
WEFT_OFFSET(rdma_cm_id, send_cq_channel, 360);
WEFT_OFFSET(rdma_cm_id, send_cq, 368);
WEFT_OFFSET(rdma_cm_id, recv_cq_channel, 376);
WEFT_OFFSET(rdma_cm_id, recv_cq, 384);
WEFT_OFFSET(rdma_cm_id, srq, 392);
WEFT_OFFSET(rdma_cm_id, pd, 400);
WEFT_OFFSET(rdma_cm_id, qp_type, 408);
WEFT_SIZE(rdma_cm_event, 80);
WEFT_OFFSET(rdma_cm_event, id, 0);
WEFT_OFFSET(rdma_cm_event, listen_id, 8);
WEFT_OFFSET(rdma_cm_event, event, 16);
WEFT_OFFSET(rdma_cm_event, status, 20);
WEFT_OFFSET(rdma_cm_event, param, 24);
WEFT_SIZE(rdma_conn_param, 24);
WEFT_OFFSET(rdma_conn_param, private_data, 0);
WEFT_OFFSET(rdma_conn_param, private_data_len, 8);
WEFT_OFFSET(rdma_conn_param, responder_resources, 9);
WEFT_OFFSET(rdma_conn_param, qp_num, 16);
WEFT_SIZE(rdma_ud_param, 56);
WEFT_SIZE(rdma_ib_addr, 40);
WEFT_SIZE(rdma_addr, 296);
WEFT_OFFSET(rdma_addr, src_addr, 0);
WEFT_OFFSET(rdma_addr, dst_addr, 128);
WEFT_OFFSET(rdma_addr, addr, 256);
WEFT_SIZE(rdma_route, 312);
WEFT_OFFSET(rdma_route, addr, 0);
WEFT_OFFSET(rdma_route, path_rec, 296);
WEFT_OFFSET(rdma_route, num_paths, 304);
WEFT_SIZE(rdma_addrinfo, 96);
WEFT_OFFSET(rdma_addrinfo, ai_src_addr, 24);
WEFT_OFFSET(rdma_addrinfo, ai_route, 64);
WEFT_OFFSET(rdma_addrinfo, ai_next, 88);
WEFT_SIZE(ibv_sa_path_rec, 64);

#endif

// An object library would do, but a ctest entry says that somebody looked.
int main() {
  return 0;
}
