// Options of an id.
#include <cstring>

#include "front/libibverbs/export.h"
#include "front/librdmacm/error.h"
#include "front/librdmacm/id.h"

namespace weft::front::cm {
namespace {

/// [::] beside 0.0.0.0, or for both families: IPV6_V6ONLY. Decided before the id listens.
int set_v6_only(Id& id, bool value) {
  const IdState state = id.current_state();
  if (state != IdState::Idle && state != IdState::Bound) return fail(EINVAL);
  id.v6_only = value;
  return 0;
}

/// TCP times its acknowledgements itself; but a program finds the number again at its QP.
int set_ack_timeout(Id& id, std::uint8_t exponent) {
  id.ack_timeout = exponent;
  // As in the kernel, it is for the next connection: a QP that has one keeps the number it had.
  const IdState state = id.current_state();
  const bool begun = state == IdState::Connecting || state == IdState::Accepting ||
                     state == IdState::Established || state == IdState::Disconnected ||
                     state == IdState::Failed;
  if (id.qp == nullptr || begun) return 0;
  ibv_qp_attr attributes{};
  attributes.timeout = exponent;
  const int code = ibv_modify_qp(id.qp, &attributes, IBV_QP_TIMEOUT);
  return code == 0 ? 0 : fail(code);
}

int set_id_option(Id& id, int name, const void* value, std::size_t octets) {
  const std::size_t expected =
      name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT ? 1 : sizeof(int);
  if (name < RDMA_OPTION_ID_TOS || name > RDMA_OPTION_ID_ACK_TIMEOUT) return fail(ENOSYS);
  if (value == nullptr || octets != expected) return fail(EINVAL);
  int number = 0;
  std::memcpy(&number, value, octets);
  switch (name) {
    case RDMA_OPTION_ID_AFONLY:
      return set_v6_only(id, number != 0);
    case RDMA_OPTION_ID_REUSEADDR:
      // A TCP port in TIME_WAIT is never in our way, and two listeners on one port always are.
      return id.current_state() == IdState::Listening ? fail(EINVAL) : 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      return set_ack_timeout(id, static_cast<std::uint8_t>(number));
    default:
      return 0;  // without effect: the type of service is the operator's business
  }
}

}  // namespace
}  // namespace weft::front::cm

using namespace weft::front::cm;

WEFT_EXPORT int rdma_set_option(rdma_cm_id* id, int level, int name, void* value, size_t octets) {
  if (id == nullptr) return fail(EINVAL);
  // The other level sets InfiniBand paths.
  return level == RDMA_OPTION_ID ? set_id_option(Id::of(id), name, value, octets) : fail(ENOSYS);
}

// Enhanced connection establishment negotiates vendors' transport features. iWARP has no place for
// it: what a program offers is checked and kept, and the peer never offers anything.

WEFT_EXPORT int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id == nullptr || id->qp != nullptr || ece == nullptr || ece->vendor_id == 0 ||
      ece->comp_mask != 0) {
    return fail(EINVAL);
  }
  Id::of(id).local_ece = *ece;
  return 0;
}

WEFT_EXPORT int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id == nullptr || id->qp != nullptr || ece == nullptr || ece->comp_mask != 0) {
    return fail(EINVAL);
  }
  *ece = {};
  return 0;
}
