// QP states of persona ib: InfiniBand's, and connections made by ibv_modify_qp.
#pragma once

#include "front/libibverbs/objects.h"

namespace weft::front {

/// What IBV_QP_ACCESS_FLAGS leave the peer, as device::RegionAccess bits.
constexpr std::uint32_t remote_access(unsigned flags) {
  return flags & (unsigned{device::kRemoteWrite} | device::kRemoteRead | device::kRemoteAtomic);
}

/// What ibv_modify_qp does to a QP of persona ib: 0 or the errno. EINVAL: no such transition, or
/// an attribute that it needs is missing, or one that it does not take is there.
int modify_ib(QPObject* object, const ibv_qp_attr& attr, int mask);
/// RDMA CM connects a QP, and fails one that it could not connect, behind ibv_modify_qp: from then
/// on the QP is as if it had been asked for that. Before anything that depends on the state.
void note_connection(QPObject* object, const device::QPStatus& status);
/// The state that ibv_query_qp shows, after note_connection.
ibv_qp_state shown_ib_state(const QPObject& object, const device::QPStatus& status);

}  // namespace weft::front
