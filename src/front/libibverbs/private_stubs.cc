// IBVERBS_PRIVATE_34: what rdma-core's provider libraries import from libibverbs.
//
// perftest links libmlx5 and libefa directly, and those are bound at load: one missing symbol ends
// the process before main(). So every symbol is here. None of them does anything, because weft's
// devices are never driven by a provider library and a provider never gets a context from us: a
// command reports EOPNOTSUPP, an allocation yields null, and registering a driver is forgotten.
//
// Commands are declared without their parameters: they read none of them, and in the C calling
// conventions that we build for the caller owns the argument area.
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "front/libibverbs/export.h"

namespace {

int refuse_command() {
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}

}  // namespace

/// True would let a provider destroy its objects after the device went away; ours do not go away.
/// A program may hold a copy of this object in its own image, so its size is part of the ABI.
WEFT_EXPORT bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy = false;
static_assert(sizeof verbs_allow_disassociate_destroy == 1);

// Life of a driver and of its contexts.

/// verbs_device_ops* in the original.
WEFT_EXPORT void verbs_register_driver_34(const void*) {}

WEFT_EXPORT void* _verbs_init_and_alloc_context() {
  errno = EOPNOTSUPP;
  return nullptr;
}

WEFT_EXPORT void* verbs_open_device() {
  errno = EOPNOTSUPP;
  return nullptr;
}

WEFT_EXPORT void verbs_uninit_context(void*) {}
WEFT_EXPORT void verbs_set_ops(void*, const void*) {}
WEFT_EXPORT void verbs_init_cq(void*, void*, void*, void*) {}

/// Providers log through this; weft's own log is elsewhere and says nothing about foreign devices.
WEFT_EXPORT void __verbs_log(void*, std::uint32_t, const char*, ...) {}

/// A provider's device directory in sysfs. Returns -1: there is none.
WEFT_EXPORT int ibv_read_ibdev_sysfs_file(char*, std::size_t, void*, const char*, ...) {
  errno = EOPNOTSUPP;
  return -1;
}

// Commands to the kernel.

/// Counts the attributes of a chain of command buffers; ours is never sent, so the count of the
/// first one is as good as any and keeps the caller's allocation in bounds.
WEFT_EXPORT unsigned __ioctl_final_num_attrs(unsigned attribute_count, const void*) {
  return attribute_count;
}

WEFT_EXPORT int execute_ioctl() {
  return refuse_command();
}

/// Polling counts completions, so its failure is negative.
WEFT_EXPORT int ibv_cmd_poll_cq() {
  errno = EOPNOTSUPP;
  return -1;
}

#define WEFT_REFUSE_COMMAND(name) \
  WEFT_EXPORT int name() {        \
    return refuse_command();      \
  }

WEFT_REFUSE_COMMAND(ibv_cmd_advise_mr)
WEFT_REFUSE_COMMAND(ibv_cmd_alloc_dm)
WEFT_REFUSE_COMMAND(ibv_cmd_alloc_mw)
WEFT_REFUSE_COMMAND(ibv_cmd_alloc_pd)
WEFT_REFUSE_COMMAND(ibv_cmd_attach_mcast)
WEFT_REFUSE_COMMAND(ibv_cmd_close_xrcd)
WEFT_REFUSE_COMMAND(ibv_cmd_create_ah)
WEFT_REFUSE_COMMAND(ibv_cmd_create_counters)
WEFT_REFUSE_COMMAND(ibv_cmd_create_cq)
WEFT_REFUSE_COMMAND(ibv_cmd_create_cq_ex)
WEFT_REFUSE_COMMAND(ibv_cmd_create_flow)
WEFT_REFUSE_COMMAND(ibv_cmd_create_flow_action_esp)
WEFT_REFUSE_COMMAND(ibv_cmd_create_qp)
WEFT_REFUSE_COMMAND(ibv_cmd_create_qp_ex)
WEFT_REFUSE_COMMAND(ibv_cmd_create_qp_ex2)
WEFT_REFUSE_COMMAND(ibv_cmd_create_rwq_ind_table)
WEFT_REFUSE_COMMAND(ibv_cmd_create_srq)
WEFT_REFUSE_COMMAND(ibv_cmd_create_srq_ex)
WEFT_REFUSE_COMMAND(ibv_cmd_create_wq)
WEFT_REFUSE_COMMAND(ibv_cmd_dealloc_mw)
WEFT_REFUSE_COMMAND(ibv_cmd_dealloc_pd)
WEFT_REFUSE_COMMAND(ibv_cmd_dereg_mr)
WEFT_REFUSE_COMMAND(ibv_cmd_destroy_ah)
WEFT_REFUSE_COMMAND(ibv_cmd_destroy_counters)
WEFT_REFUSE_COMMAND(ibv_cmd_destroy_cq)
WEFT_REFUSE_COMMAND(ibv_cmd_destroy_flow)
WEFT_REFUSE_COMMAND(ibv_cmd_destroy_flow_action)
WEFT_REFUSE_COMMAND(ibv_cmd_destroy_qp)
WEFT_REFUSE_COMMAND(ibv_cmd_destroy_rwq_ind_table)
WEFT_REFUSE_COMMAND(ibv_cmd_destroy_srq)
WEFT_REFUSE_COMMAND(ibv_cmd_destroy_wq)
WEFT_REFUSE_COMMAND(ibv_cmd_detach_mcast)
WEFT_REFUSE_COMMAND(ibv_cmd_free_dm)
WEFT_REFUSE_COMMAND(ibv_cmd_get_context)
WEFT_REFUSE_COMMAND(ibv_cmd_modify_cq)
WEFT_REFUSE_COMMAND(ibv_cmd_modify_flow_action_esp)
WEFT_REFUSE_COMMAND(ibv_cmd_modify_qp)
WEFT_REFUSE_COMMAND(ibv_cmd_modify_qp_ex)
WEFT_REFUSE_COMMAND(ibv_cmd_modify_srq)
WEFT_REFUSE_COMMAND(ibv_cmd_modify_wq)
WEFT_REFUSE_COMMAND(ibv_cmd_open_qp)
WEFT_REFUSE_COMMAND(ibv_cmd_open_xrcd)
WEFT_REFUSE_COMMAND(ibv_cmd_post_recv)
WEFT_REFUSE_COMMAND(ibv_cmd_post_send)
WEFT_REFUSE_COMMAND(ibv_cmd_post_srq_recv)
WEFT_REFUSE_COMMAND(ibv_cmd_query_context)
WEFT_REFUSE_COMMAND(ibv_cmd_query_device_any)
WEFT_REFUSE_COMMAND(ibv_cmd_query_mr)
WEFT_REFUSE_COMMAND(ibv_cmd_query_port)
WEFT_REFUSE_COMMAND(ibv_cmd_query_qp)
WEFT_REFUSE_COMMAND(ibv_cmd_query_srq)
WEFT_REFUSE_COMMAND(ibv_cmd_read_counters)
WEFT_REFUSE_COMMAND(ibv_cmd_reg_dm_mr)
WEFT_REFUSE_COMMAND(ibv_cmd_reg_dmabuf_mr)
WEFT_REFUSE_COMMAND(ibv_cmd_reg_mr)
WEFT_REFUSE_COMMAND(ibv_cmd_req_notify_cq)
WEFT_REFUSE_COMMAND(ibv_cmd_rereg_mr)
WEFT_REFUSE_COMMAND(ibv_cmd_resize_cq)
