// Memory windows: made, destroyed, and bound by an entry of the send queue.
#include <new>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"

namespace weft::front {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  const std::uint32_t kind = to_number(type);
  if (kind != IBV_MW_TYPE_1 && kind != IBV_MW_TYPE_2) return fail_null(EINVAL);
  if (!to_object(pd->context)->alive()) return fail_null(EIO);
  auto* object = new (std::nothrow) MWObject{};
  if (object == nullptr) return fail_null(ENOMEM);
  const bool first = kind == IBV_MW_TYPE_1;
  const auto opened = object->mw.open(
      to_object(pd)->real(), first ? device::WindowKind::Type1 : device::WindowKind::Type2);
  if (!opened) {
    delete object;
    return fail_null(opened.error().code);
  }
  object->context = pd->context;
  object->pd = pd;
  to_object(pd)->add_user();
  object->rkey = object->mw.stag();
  object->handle = object->mw.stag();
  object->type = first ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
  return object;
}

int dealloc_mw(ibv_mw* mw) {
  MWObject* object = to_object(mw);
  if (to_object(mw->context)->alive()) {
    if (auto closed = object->mw.close(); !closed) return finish(closed);
  }
  to_object(mw->pd)->drop_user();
  delete object;
  return 0;
}

int fill_bind(const ibv_mw& mw, std::uint32_t rkey, const ibv_mw_bind_info& info,
              device::SendEntry* entry) {
  if (!is_ours(&mw) || is_foreign(info.mr)) return EINVAL;
  constexpr unsigned kRights = unsigned{IBV_ACCESS_REMOTE_WRITE} | IBV_ACCESS_REMOTE_READ |
                               IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED;
  // A window's rights are the peer's; the local one that goes with them says nothing here.
  if ((info.mw_access_flags & ~(kRights | IBV_ACCESS_LOCAL_WRITE)) != 0) return EINVAL;
  // The key is free to choose, the index is the window's.
  constexpr std::uint32_t kKeyMask = 0xff;
  if (((rkey ^ mw.rkey) & ~kKeyMask) != 0) return EINVAL;
  if (info.mr == nullptr && (info.addr != 0 || info.length != 0)) return EINVAL;
  if (info.mr != nullptr && &to_object(info.mr->pd)->real() != &to_object(mw.pd)->real()) {
    return EPERM;
  }
  entry->opcode = device::SendOpcode::BindWindow;
  entry->remote_stag = rkey;
  *entry->binding() = {info.addr, info.length, info.mr != nullptr ? info.mr->rkey : 0,
                       info.mw_access_flags & kRights};
  return 0;
}

int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  if (is_foreign(qp) || to_number(mw->type) != IBV_MW_TYPE_1) return EINVAL;
  constexpr unsigned kFlags = unsigned{IBV_SEND_SIGNALED} | IBV_SEND_FENCE | IBV_SEND_SOLICITED;
  if ((bind->send_flags & ~kFlags) != 0) return EINVAL;
  QPObject* object = to_object(qp);
  const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
  verbs::QP::SendBatch batch(object->qp);
  device::SendEntry* entry = batch.next();
  int code = ENOMEM;
  if (entry != nullptr) {
    *entry = {};
    entry->wr_id = bind->wr_id;
    entry->flags = bind_flags(*object, bind->send_flags);
    code = fill_bind(*mw, rkey, bind->bind_info, entry);
  }
  if (code == 0) batch.commit();
  if (batch.finish()) object->qp.ring_send(batch.posted());
  // The program has the new key from here on; if the bind fails, it has to put the old one back.
  if (code == 0) mw->rkey = rkey;
  return code;
}

}  // namespace weft::front
