// QP states and attributes.
//
// iWARP knows the states Idle, RTS, Closing, Terminate and Error, and only the connection manager
// takes a QP from Idle to RTS. InfiniBand's states map to them as kernel iWARP devices do it:
//
//   asked for      does                          | is            shows as
//   RESET          drops everything, Idle        | Idle          INIT
//   INIT           nothing; must be Idle         | RTS           RTS
//   RTR, RTS       nothing; must be connected    | Closing       SQD
//   SQD            graceful close                | Terminate     SQE
//   SQE            Terminate message, close      | Error         ERR
//   ERR            abortive close                |
//
// Persona ib has InfiniBand's own states instead: qp_state_ib.cc.
#include <algorithm>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"
#include "front/libibverbs/qp_state_ib.h"

namespace weft::front {
namespace {

using device::QPCommand;
using device::QPState;

ibv_qp_state to_ibv_state(QPState state) {
  switch (state) {
    case QPState::Idle: return IBV_QPS_INIT;
    case QPState::RTS: return IBV_QPS_RTS;
    case QPState::Closing: return IBV_QPS_SQD;
    case QPState::Terminate: return IBV_QPS_SQE;
    case QPState::Error: return IBV_QPS_ERR;
  }
  return IBV_QPS_UNKNOWN;
}

ibv_qp_state shown_state(const QPObject& object, const device::QPStatus& status) {
  return object.qp.shape().named ? shown_ib_state(object, status) : to_ibv_state(status.state);
}

/// Moves the QP; 0 or the errno.
int move_to(verbs::QP& qp, QPState now, std::uint32_t target) {
  const auto command = [&](QPCommand what) {
    const auto done = qp.command(what);
    return done ? 0 : done.error().code;
  };
  switch (target) {
    case IBV_QPS_RESET:
      // The device goes to Idle from Error only; what is posted on an Idle QP has to go as well.
      if (now == QPState::Idle) {
        if (const int code = command(QPCommand::Fail); code != 0) return code;
      }
      return command(QPCommand::Reset);
    case IBV_QPS_INIT: return now == QPState::Idle ? 0 : EINVAL;
    case IBV_QPS_RTR:
    case IBV_QPS_RTS: return now == QPState::RTS ? 0 : EINVAL;
    case IBV_QPS_SQD: return now == QPState::Closing ? 0 : command(QPCommand::Close);
    case IBV_QPS_SQE: return now == QPState::Terminate ? 0 : command(QPCommand::Terminate);
    case IBV_QPS_ERR:
      // A stream that already ends flushes what is posted all the same, and its state may not be
      // modified any more (verbs draft §6.2): what the program wants is under way.
      if (now != QPState::Idle && now != QPState::RTS) return 0;
      return command(QPCommand::Fail);
  }
  return EINVAL;
}

constexpr int kKnownMask = (IBV_QP_DEST_QPN << 1) - 1;

/// Keeps what programs written for InfiniBand set and later ask for.
void remember(ibv_qp_attr* kept, const ibv_qp_attr& given, int mask) {
  const auto keep = [&](int bit, auto member) {
    // By octets: some are enums, with whatever a C program put there.
    if ((mask & bit) == 0) return;
    std::memcpy(&(kept->*member), &(given.*member), sizeof(kept->*member));
  };
  keep(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
  keep(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
  keep(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
  keep(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
  keep(IBV_QP_PORT, &ibv_qp_attr::port_num);
  keep(IBV_QP_AV, &ibv_qp_attr::ah_attr);
  keep(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
  keep(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
  keep(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
  keep(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
  keep(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
  keep(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
  keep(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
  keep(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
}

ibv_qp_cap to_cap(const verbs::QPShape& shape) {
  return {shape.send_depth, shape.receive_depth, shape.send_sges, shape.receive_sges,
          shape.inline_octets};
}

}  // namespace
}  // namespace weft::front

using namespace weft::front;

WEFT_VERB(int, modify_qp, (ibv_qp * qp, ibv_qp_attr* attr, int attr_mask)) {
  if (is_foreign(qp)) return behind().ibv_modify_qp(qp, attr, attr_mask);
  if (!to_object(qp->context)->alive()) return fail(EIO);
  if ((attr_mask & IBV_QP_RATE_LIMIT) != 0) return fail(EOPNOTSUPP);
  if ((attr_mask & ~kKnownMask) != 0) return fail(EINVAL);
  if ((attr_mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP)) != 0) {
    return fail(EOPNOTSUPP);  // no path migration; queues keep their size
  }
  if ((attr_mask & IBV_QP_PORT) != 0 && attr->port_num != 1) return fail(EINVAL);
  QPObject* object = to_object(qp);
  const auto status = object->qp.status();
  if (!status) return fail(status.error().code);
  if (object->qp.shape().named) note_connection(object, *status);
  // The device's: it connects, and ends, without a word to qp->state. Where it is Idle, the program
  // has called it RESET or INIT.
  const ibv_qp_state now =
      status->state == QPState::Idle ? qp->state : shown_state(*object, *status);
  if ((attr_mask & IBV_QP_CUR_STATE) != 0 && to_number(attr->cur_qp_state) != now) {
    return fail(EINVAL);
  }
  if (object->qp.shape().named) {
    if (const int code = modify_ib(object, *attr, attr_mask); code != 0) return fail(code);
    remember(&object->attributes, *attr, attr_mask);
    return 0;
  }
  if ((attr_mask & IBV_QP_STATE) != 0) {
    const int code = move_to(object->qp, status->state, to_number(attr->qp_state));
    if (code != 0) return fail(code);
    qp->state = attr->qp_state;
  }
  if ((attr_mask & IBV_QP_ACCESS_FLAGS) != 0) {
    const auto done = object->qp.modify({.remote_access = remote_access(attr->qp_access_flags)});
    if (!done) return finish(done);
  }
  remember(&object->attributes, *attr, attr_mask);
  return 0;
}

WEFT_VERB(int, query_qp,
          (ibv_qp * qp, ibv_qp_attr* attr, int attr_mask /* ours gives all, whatever is asked */,
           ibv_qp_init_attr* init_attr)) {
  if (is_foreign(qp)) return behind().ibv_query_qp(qp, attr, attr_mask, init_attr);
  if (!to_object(qp->context)->alive()) return fail(EIO);
  QPObject* object = to_object(qp);
  const auto status = object->qp.status();
  if (!status) return fail(status.error().code);
  const auto& shape = object->qp.shape();
  if (shape.named) note_connection(object, *status);

  std::memcpy(attr, &object->attributes, sizeof *attr);
  attr->qp_state = attr->cur_qp_state = shown_state(*object, *status);
  attr->cap = to_cap(shape);
  // Persona ib tells what was asked for, or what RDMA CM settled in its place.
  if (object->ib_state < IBV_QPS_RTR) {
    attr->max_rd_atomic = static_cast<std::uint8_t>(std::min<unsigned>(status->ord, 255));
    attr->max_dest_rd_atomic = static_cast<std::uint8_t>(std::min<unsigned>(status->ird, 255));
  }
  attr->sq_draining = attr->qp_state == IBV_QPS_SQD && !status->sends_drained ? 1 : 0;
  if (attr->port_num == 0) attr->port_num = 1;
  if (to_number(attr->path_mtu) == 0) attr->path_mtu = IBV_MTU_1024;
  qp->state = attr->qp_state;

  *init_attr = {};
  init_attr->qp_context = qp->qp_context;
  init_attr->send_cq = qp->send_cq;
  init_attr->recv_cq = qp->recv_cq;
  init_attr->srq = qp->srq;
  init_attr->cap = attr->cap;
  init_attr->qp_type = qp->qp_type;
  init_attr->sq_sig_all = shape.signal_all ? 1 : 0;
  return 0;
}

/// 0: octets of a message are not promised to appear in order.
WEFT_EXPORT int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode, std::uint32_t flags) {
  if (is_foreign(qp)) return behind().ibv_query_qp_data_in_order(qp, opcode, flags);
  return 0;
}

WEFT_EXPORT int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  if (is_foreign(qp)) return behind().ibv_set_ece(qp, ece);
  return fail(EOPNOTSUPP);
}
WEFT_EXPORT int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  if (is_foreign(qp)) return behind().ibv_query_ece(qp, ece);
  *ece = {};
  return fail(EOPNOTSUPP);
}
