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
    // The time-out is the connection manager's, which has no later state to ask for.
    {IBV_QPS_INIT, IBV_QPS_INIT, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS | IBV_QP_TIMEOUT},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    // InfiniBand also takes a new path and a new depth for the peer's Reads; here the stream has
    // settled both.
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT |
         IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC},
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
  request.ord = device::kReadDepthMax;  // the peer's depth bounds it; ours comes on the way to RTS
  return finish_device(object->qp.pair(request));
}

/// How long InfiniBand would try: the time-out of 4.096 us * 2^n, once and again for each retry,
/// and hardware waits up to four times as long. To be found, a peer has at least the time that the
/// start of a process takes.
device::PairPatience patience_of(unsigned timeout, unsigned retry_count) {
  constexpr Duration kToFindMin = std::chrono::seconds(5);
  if (timeout == 0) return {};
  const Duration once(std::int64_t{4096} << std::min(timeout, 31u));
  const Duration all = once * (retry_count + 1) * 4;
  return {.to_find = std::max(all, kToFindMin), .to_miss = all};
}

/// What the device has to know of the attributes given, and what the states say of its send queue.
device::QPAttributes to_device(const QPObject& object, const ibv_qp_attr& attr, int mask) {
  device::QPAttributes wanted;
  const ibv_qp_attr& kept = object.attributes;
  const auto given = [mask](int bit) { return (mask & bit) != 0; };
  if (given(IBV_QP_ACCESS_FLAGS)) wanted.remote_access = remote_access(attr.qp_access_flags);
  if (given(IBV_QP_MAX_QP_RD_ATOMIC)) wanted.ord = attr.max_rd_atomic;
  if (given(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT)) {
    wanted.patience = patience_of(given(IBV_QP_TIMEOUT) ? attr.timeout : kept.timeout,
                                  given(IBV_QP_RETRY_CNT) ? attr.retry_cnt : kept.retry_cnt);
  }
  const bool drains = to_number(attr.qp_state) == IBV_QPS_SQD;
  if (drains != (object.ib_state == IBV_QPS_SQD)) {
    wanted.sends_paused = drains;
    wanted.tell_drained = given(IBV_QP_EN_SQD_ASYNC_NOTIFY) && attr.en_sqd_async_notify != 0;
  }
  return wanted;
}

/// Moves along a row of the table.
int follow(QPObject* object, const Transition& row, const ibv_qp_attr& attr, int mask) {
  if ((mask & row.needed) != row.needed) return EINVAL;
  if ((mask & ~(row.needed | row.allowed | kAny)) != 0) return EINVAL;
  const auto too_deep = [&](int bit, unsigned depth) {
    return (mask & bit) != 0 && depth > device::kReadDepthMax;
  };
  if (too_deep(IBV_QP_MAX_QP_RD_ATOMIC, attr.max_rd_atomic) ||
      too_deep(IBV_QP_MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic)) {
    return EINVAL;
  }
  // First what the peer may do: it may be here before the next call is.
  const int code = finish_device(object->qp.modify(to_device(*object, attr, mask)));
  if (code != 0 || row.to != IBV_QPS_RTR) return code;
  return to_ready_to_receive(object, attr);
}

/// Without a state: a change of attributes, where the present state has a row to itself.
int change_only(QPObject* object, const ibv_qp_attr& attr, int mask) {
  const Transition* row = find_transition(object->ib_state, object->ib_state);
  if (row == nullptr) return mask != 0 ? EINVAL : 0;
  ibv_qp_attr stays = attr;
  stays.qp_state = object->ib_state;
  return follow(object, *row, stays, mask);
}

}  // namespace

int modify_ib(QPObject* object, const ibv_qp_attr& attr, int mask) {
  const ibv_qp_state now = object->ib_state;
  if ((mask & IBV_QP_STATE) == 0) return change_only(object, attr, mask);
  const std::uint32_t target = to_number(attr.qp_state);
  int code = 0;
  if (target == IBV_QPS_RESET || target == IBV_QPS_ERR) {
    if ((mask & ~kAny) != 0) return EINVAL;
    code = target == IBV_QPS_RESET ? to_reset(object)
                                   : finish_device(object->qp.command(QPCommand::Fail));
  } else {
    const Transition* row = find_transition(now, target);
    if (row == nullptr) return EINVAL;
    code = follow(object, *row, attr, mask);
  }
  if (code != 0) return code;
  object->ib_state = object->qp_base.state = static_cast<ibv_qp_state>(target);
  return 0;
}

void note_connection(QPObject* object, const device::QPStatus& status) {
  if (object->ib_state >= IBV_QPS_RTR || status.state == QPState::Idle) return;
  const bool connected = status.state == QPState::RTS;
  object->ib_state = object->qp_base.state = connected ? IBV_QPS_RTS : IBV_QPS_ERR;
  if (!connected) return;
  const auto depth = [](unsigned settled) {
    return static_cast<std::uint8_t>(std::min(settled, 255u));
  };
  object->attributes.max_rd_atomic = depth(status.ord);
  object->attributes.max_dest_rd_atomic = depth(status.ird);
}

ibv_qp_state shown_ib_state(const QPObject& object, const device::QPStatus& status) {
  switch (status.state) {
    case QPState::Idle:
    case QPState::RTS: return object.ib_state;
    case QPState::Closing:
    case QPState::Terminate:
    case QPState::Error: return status.peer_gone ? object.ib_state : IBV_QPS_ERR;
  }
  return IBV_QPS_UNKNOWN;
}

}  // namespace weft::front
