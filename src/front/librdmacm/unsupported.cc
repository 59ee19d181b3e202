// What iWARP does not have: multicast.
#include <rdma/rdma_cma.h>

#include "front/libibverbs/export.h"
#include "front/librdmacm/error.h"

using weft::front::cm::fail;

WEFT_EXPORT int rdma_join_multicast(rdma_cm_id*, sockaddr*, void*) {
  return fail(EOPNOTSUPP);
}

WEFT_EXPORT int rdma_join_multicast_ex(rdma_cm_id*, rdma_cm_join_mc_attr_ex*, void*) {
  return fail(EOPNOTSUPP);
}

WEFT_EXPORT int rdma_leave_multicast(rdma_cm_id*, sockaddr*) {
  return fail(EOPNOTSUPP);
}
