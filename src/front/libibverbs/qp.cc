// Queue pairs: create and destroy.
#include <algorithm>
#include <new>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"
#include "front/libibverbs/stream_rings.h"
#include "verbs/device_factory.h"

namespace weft::front {
namespace {

/// What can be built by calls; asking for more is refused, because the program would call a slot
/// that nothing fills.
constexpr std::uint64_t kSendOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND |
                                   IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_LOCAL_INV |
                                   IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                   IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                   IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                   IBV_QP_EX_WITH_BIND_MW;

/// 0, or why the attributes cannot be met.
int check(const ibv_qp_init_attr_ex& attr) {
  constexpr std::uint32_t kKnownMask =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const auto has = [&](std::uint32_t bit) { return (attr.comp_mask & bit) != 0; };
  if (to_number(attr.qp_type) != IBV_QPT_RC) return EOPNOTSUPP;
  if ((attr.comp_mask & ~kKnownMask) != 0) return EOPNOTSUPP;
  if (has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags != 0) return EOPNOTSUPP;
  if (has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) && (attr.send_ops_flags & ~kSendOps) != 0) {
    return EOPNOTSUPP;
  }
  if (!has(IBV_QP_INIT_ATTR_PD) || !is_ours(attr.pd)) return EINVAL;
  if (attr.send_cq == nullptr || attr.recv_cq == nullptr) return EINVAL;
  const ibv_context* context = attr.pd->context;
  if (attr.send_cq->context != context || attr.recv_cq->context != context) return EINVAL;
  if (attr.srq != nullptr && attr.srq->context != context) return EINVAL;
  return 0;
}

/// Inline data that fits a send entry's first cache line costs nothing, so it is always granted:
/// programs that send 16 octets inline without having asked (rdma_xclient) work on RNICs, too.
constexpr std::uint32_t kInlineOctetsFree = 32;

verbs::QPShape to_shape(const ibv_qp_init_attr_ex& attr) {
  verbs::QPShape shape;
  shape.pd = &to_object(attr.pd)->real();
  shape.allocator = to_object(attr.pd)->ring_allocator();
  shape.send_cq = &to_object(attr.send_cq)->cq;
  shape.receive_cq = &to_object(attr.recv_cq)->cq;
  shape.srq = attr.srq != nullptr ? &to_object(attr.srq)->srq : nullptr;
  shape.send_depth = attr.cap.max_send_wr;
  shape.receive_depth = attr.cap.max_recv_wr;
  shape.send_sges = attr.cap.max_send_sge;
  shape.receive_sges = attr.cap.max_recv_sge;
  shape.inline_octets = std::max(attr.cap.max_inline_data, kInlineOctetsFree);
  shape.signal_all = attr.sq_sig_all != 0;
  shape.one_thread = to_object(attr.pd)->td != nullptr;
  shape.named = verbs::persona() == verbs::Persona::IB;
  return shape;
}

void set_face(QPObject* object, const ibv_qp_init_attr_ex& attr) {
  ibv_qp& face = object->qp_base;
  face.context = attr.pd->context;
  face.qp_context = attr.qp_context;
  face.pd = attr.pd;
  face.send_cq = attr.send_cq;
  face.recv_cq = attr.recv_cq;
  face.srq = attr.srq;
  face.handle = object->qp.number();
  face.qp_num = object->qp.public_number();
  face.state = IBV_QPS_RESET;
  face.qp_type = IBV_QPT_RC;
  pthread_mutex_init(&face.mutex, nullptr);
  pthread_cond_init(&face.cond, nullptr);
  object->has_send_ops = (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  set_qp_ex_operations(object);
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  if (!to_object(context)->alive()) return fail_null(EIO);
  if (const int code = check(*attr); code != 0) return fail_null(code);
  auto* object = new (std::nothrow) QPObject{};
  if (object == nullptr) return fail_null(ENOMEM);
  void* const face = static_cast<ibv_qp_ex*>(object);
  if (auto opened = object->qp.open(to_shape(*attr), to_object(context)->async, face); !opened) {
    delete object;
    return fail_null(opened.error().code);
  }
  set_face(object, *attr);
  to_object(attr->pd)->add_user();
  const verbs::QPShape& granted = object->qp.shape();
  attr->cap = {granted.send_depth, granted.receive_depth, granted.send_sges,
               granted.receive_sges, granted.inline_octets};
  return &object->qp_base;
}

}  // namespace weft::front

using namespace weft::front;

WEFT_VERB(ibv_qp*, create_qp, (ibv_pd * pd, ibv_qp_init_attr* init)) {
  if (is_foreign(pd)) {
    if (is_ours(init->send_cq) || is_ours(init->recv_cq) || is_ours(init->srq)) {
      return fail_null(EINVAL);
    }
    return behind().ibv_create_qp(pd, init);
  }
  ibv_qp_init_attr_ex attr = {};
  attr.qp_context = init->qp_context;
  attr.send_cq = init->send_cq;
  attr.recv_cq = init->recv_cq;
  attr.srq = init->srq;
  attr.cap = init->cap;
  std::memcpy(&attr.qp_type, &init->qp_type, sizeof attr.qp_type);
  attr.sq_sig_all = init->sq_sig_all;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.pd = pd;
  ibv_qp* qp = create_qp_ex(pd->context, &attr);
  if (qp != nullptr) init->cap = attr.cap;
  return qp;
}

WEFT_VERB(int, destroy_qp, (ibv_qp * qp)) {
  if (is_foreign(qp)) return behind().ibv_destroy_qp(qp);
  QPObject* object = to_object(qp);
  if (to_object(qp->context)->alive()) {
    if (auto closed = object->qp.close(); !closed) return finish(closed);
  }
  PDObject* domain = to_object(qp->pd);
  pthread_cond_destroy(&qp->cond);
  pthread_mutex_destroy(&qp->mutex);
  delete object;
  domain->drop_user();
  return 0;
}

WEFT_EXPORT bool weft_keep_writes(ibv_qp* qp, ibv_mr* mr, std::atomic<std::uint32_t>* count) {
  if (is_foreign(qp) || is_foreign(mr)) return false;
  return to_object(qp)->qp.keep_writes(mr->rkey, *count).ok();
}

WEFT_EXPORT bool weft_read_written(ibv_qp* qp, void* to, const void* from, std::size_t octets,
                                   bool peek) {
  return to_object(qp)->qp.read_written(static_cast<std::uint8_t*>(to),
                                        {static_cast<const std::uint8_t*>(from), octets}, peek);
}

WEFT_EXPORT bool weft_sum_sends(ibv_qp* qp) {
  return !is_foreign(qp) && to_object(qp)->qp.sum_sends().ok();
}

WEFT_EXPORT void weft_copy_summed(ibv_qp* qp, void* to, const void* from, std::size_t octets) {
  to_object(qp)->qp.copy_summed(static_cast<std::uint8_t*>(to),
                                {static_cast<const std::uint8_t*>(from), octets});
}

/// Null unless the QP was made with send operations.
WEFT_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  if (is_foreign(qp)) return behind().ibv_qp_to_qp_ex(qp);
  QPObject* object = to_object(qp);
  return object->has_send_ops ? object : nullptr;
}
