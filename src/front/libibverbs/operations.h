// The functions that programs reach through the operation tables instead of by symbol.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "device/entries.h"

namespace weft::front {

struct QPObject;

// context.cc
/// Once in a process; more calls do nothing.
void register_fork_handlers();
// mr.cc
ibv_mr* alloc_null_mr(ibv_pd* pd);
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count);
// pd.cc
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);
// poll.cc
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
// post.cc
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
/// SendFlag bits of a bind.
std::uint8_t bind_flags(const QPObject& qp, unsigned send_flags);
// mw.cc
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
/// Makes the entry a bind of this window, or tells what is wrong with it: EINVAL, EPERM.
int fill_bind(const ibv_mw& mw, std::uint32_t rkey, const ibv_mw_bind_info& info,
              device::SendEntry* entry);
// query.cc
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t octets);
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr, std::size_t octets);
int query_rt_values(ibv_context* context, ibv_values_ex* values);
// cq.cc
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr);
// qp.cc
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);
// cq_ex.cc: the walk over completions
void set_cq_ex_operations(ibv_cq_ex* cq);
// qp_ex.cc: building work requests by calls
void set_qp_ex_operations(ibv_qp_ex* qp);

/// The rights a set of flags asks for, as device::RegionAccess bits; false with the code to fail
/// with: EINVAL for unknown flags.
bool region_access(unsigned flags, std::uint32_t* access, int* code);

}  // namespace weft::front
