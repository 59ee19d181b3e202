// InfiniBand's states of a reliable connection, over a device that knows Idle and RTS.
//
// On the way to RTR the program names the other QP and its GID, which is an IP address here; from
// then on the device looks for it (device::Device::pair_qp), and ibv_modify_qp does not wait for
// that. What is posted meanwhile goes out when the peer was found, or fails with
// IBV_WC_RETRY_EXC_ERR when it was not.
#include "front/libibverbs/qp_state_ib.h"

#include <algorithm>
#include <cerrno>

#include "front/libibverbs/gids.h"

namespace weft::front {
namespace {

using device::QPCommand;
using device::QPState;

constexpr int kAny = IBV_QP_STATE | IBV_QP_CUR_STATE;

/// A legal transition: the attributes that it needs, and those that it may be given.
struct Transition {
  ibv_qp_state from, to;
  int needed, allowed;
};
constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};

const Transition* find_transition(ibv_qp_state from, std::uint32_t to) {
  const auto* row = std::find_if(std::begin(kTransitions), std::end(kTransitions),
                                 [&](const Transition& t) { return t.from == from && t.to == to; });
  return row == std::end(kTransitions) ? nullptr : row;
}

int finish_device(const Result<void>& done) { return done ? 0 : done.error().code; }

int to_reset(QPObject* object) {
  const auto status = object->qp.status();
  if (!status) return status.error().code;
  // The device goes to Idle from Error only, and flushes on the way; here nothing is left of what
  // was posted, not even its completions.
  if (status->state != QPState::Error) {
    if (const int code = finish_device(object->qp.command(QPCommand::Fail)); code != 0) return code;
  }
  const int code = finish_device(object->qp.command(QPCommand::Reset));
  object->qp.purge();
  return code;
}

/// Where the QP and its peer are. Without a GRH there is no telling: then both are on this host.
int fill_addresses(const QPObject& object, const ibv_ah_attr& path, device::PairRequest* request) {
  ibv_context* context = object.qp_base.context;
  const auto table = gid_table(context);
  const std::size_t index = path.is_global != 0 ? path.grh.sgid_index : 0;
  if (index >= table.size()) return EINVAL;
  const ibv_gid& peer = path.is_global != 0 ? path.grh.dgid : table[index];
  const bool both = address_of_gid(context, table[index], &request->local) &&
                    address_of_gid(context, peer, &request->remote);
  return both && request->local.ss_family == request->remote.ss_family ? 0 : EINVAL;
}

int to_ready_to_receive(QPObject* object, const ibv_qp_attr& attr) {
  device::PairRequest request;
  if (const int code = fill_addresses(*object, attr.ah_attr, &request); code != 0) return code;
  request.peer = attr.dest_qp_num;
  request.ird = attr.max_dest_rd_atomic;
  request.ord = device::kReadDepthMax;  // the peer's depth bounds it; ours comes with RTS
  return finish_device(object->qp.pair(request));
}

/// How long InfiniBand would try: the time-out of 4.096 us * 2^n, once and again for each retry,
/// and hardware waits up to four times as long. To be found, a peer has at least the time that the
/// start of a process takes.
device::PairPatience patience_of(const ibv_qp_attr& attr) {
  constexpr Duration kToFindMin = std::chrono::seconds(5);
  if (attr.timeout == 0) return {};
  const unsigned exponent = std::min<unsigned>(attr.timeout, 31);
  const Duration once(std::int64_t{4096} << exponent);
  const Duration all = once * (attr.retry_cnt + 1) * 4;
  return {.to_find = std::max(all, kToFindMin), .to_miss = all};
}

}  // namespace

int modify_ib(QPObject* object, const ibv_qp_attr& attr, int mask) {
  const ibv_qp_state now = object->ib_state;
  if ((mask & IBV_QP_STATE) == 0) return now == IBV_QPS_RESET && mask != 0 ? EINVAL : 0;
  const std::uint32_t target = to_number(attr.qp_state);
  int code = 0;
  if (target == IBV_QPS_RESET || target == IBV_QPS_ERR) {
    if ((mask & ~kAny) != 0) return EINVAL;
    code = target == IBV_QPS_RESET ? to_reset(object)
                                   : finish_device(object->qp.command(QPCommand::Fail));
  } else {
    const Transition* row = find_transition(now, target);
    // Draining the send queue is a state that the device does not have.
    if (row == nullptr) return target == IBV_QPS_SQD ? EOPNOTSUPP : EINVAL;
    if ((mask & row->needed) != row->needed) return EINVAL;
    if ((mask & ~(row->needed | row->allowed | kAny)) != 0) return EINVAL;
    if (target == IBV_QPS_RTR) code = to_ready_to_receive(object, attr);
    if (target == IBV_QPS_RTS && now == IBV_QPS_RTR) {
      code = finish_device(object->qp.set_pair_patience(patience_of(attr)));
    }
  }
  if (code != 0) return code;
  object->ib_state = object->qp_base.state = static_cast<ibv_qp_state>(target);
  return 0;
}

ibv_qp_state shown_ib_state(const QPObject& object, const device::QPStatus& status) {
  switch (status.state) {
    case QPState::Idle: return object.ib_state;
    // Connected by RDMA CM, which tells nobody else.
    case QPState::RTS: return object.ib_state < IBV_QPS_RTR ? IBV_QPS_RTS : object.ib_state;
    case QPState::Closing:
    case QPState::Terminate:
    case QPState::Error: return status.peer_gone ? object.ib_state : IBV_QPS_ERR;
  }
  return IBV_QPS_UNKNOWN;
}

}  // namespace weft::front
