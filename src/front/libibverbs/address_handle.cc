// Address handles and multicast: datagram services, which iWARP does not have.
#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"

using namespace weft::front;

WEFT_VERB(ibv_ah*, create_ah, (ibv_pd * pd, ibv_ah_attr* attr)) {
  if (is_foreign(pd)) return behind().ibv_create_ah(pd, attr);
  return fail_null(EOPNOTSUPP);
}
WEFT_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh,
                                          std::uint8_t port_num) {
  if (is_foreign(pd)) return behind().ibv_create_ah_from_wc(pd, wc, grh, port_num);
  return fail_null(EOPNOTSUPP);
}
WEFT_VERB(int, destroy_ah, (ibv_ah * ah)) {
  if (is_foreign(ah)) return behind().ibv_destroy_ah(ah);
  return fail(EOPNOTSUPP);
}
WEFT_VERB(int, attach_mcast, (ibv_qp * qp, const ibv_gid* gid, std::uint16_t lid)) {
  if (is_foreign(qp)) return behind().ibv_attach_mcast(qp, gid, lid);
  return fail(EOPNOTSUPP);
}
WEFT_VERB(int, detach_mcast, (ibv_qp * qp, const ibv_gid* gid, std::uint16_t lid)) {
  if (is_foreign(qp)) return behind().ibv_detach_mcast(qp, gid, lid);
  return fail(EOPNOTSUPP);
}
