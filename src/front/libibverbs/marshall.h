// Between the kernel's structs for CM and verbs and the API's. No installed header declares these
// four any more, but they stay exported: programs that speak to a kernel CM device call them.
#pragma once

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

extern "C" {

/// Each fills `target` from `source`, field by field. Pure; the two may not overlap.
void ibv_copy_ah_attr_from_kern(ibv_ah_attr* target, const ib_uverbs_ah_attr* source);
void ibv_copy_qp_attr_from_kern(ibv_qp_attr* target, const ib_uverbs_qp_attr* source);
void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* target, const ib_user_path_rec* source);
void ibv_copy_path_rec_to_kern(ib_user_path_rec* target, const ibv_sa_path_rec* source);
}
