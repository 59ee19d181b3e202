// Address handles and multicast: datagram services, which iWARP does not have.
#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"

using namespace weft::front;

WEFT_VERB(ibv_ah*, create_ah, (ibv_pd*, ibv_ah_attr*)) {
  return fail_null(EOPNOTSUPP);
}
WEFT_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd*, ibv_wc*, ibv_grh*, std::uint8_t) {
  return fail_null(EOPNOTSUPP);
}
WEFT_VERB(int, destroy_ah, (ibv_ah*)) {
  return fail(EOPNOTSUPP);
}
WEFT_VERB(int, attach_mcast, (ibv_qp*, const ibv_gid*, std::uint16_t)) {
  return fail(EOPNOTSUPP);
}
WEFT_VERB(int, detach_mcast, (ibv_qp*, const ibv_gid*, std::uint16_t)) {
  return fail(EOPNOTSUPP);
}
