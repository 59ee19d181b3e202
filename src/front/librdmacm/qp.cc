// The QP, CQs and SRQ that an id owns. All of them are made with the public verbs.
#include <rdma/rdma_verbs.h>

#include <cstring>

#include "front/libibverbs/export.h"
#include "front/librdmacm/error.h"
#include "front/librdmacm/id.h"

namespace weft::front::cm {
namespace {

/// The program may have put the same object in both places: it is destroyed once.
void destroy_cqs(rdma_cm_id& id) {
  if (id.send_cq != nullptr) ibv_destroy_cq(id.send_cq);
  if (id.recv_cq != nullptr && id.recv_cq != id.send_cq) ibv_destroy_cq(id.recv_cq);
  id.send_cq = id.recv_cq = nullptr;
  if (id.send_cq_channel != nullptr) ibv_destroy_comp_channel(id.send_cq_channel);
  if (id.recv_cq_channel != nullptr && id.recv_cq_channel != id.send_cq_channel) {
    ibv_destroy_comp_channel(id.recv_cq_channel);
  }
  id.send_cq_channel = id.recv_cq_channel = nullptr;
}

/// What an id had before create_cqs; puts it back after a failure and keeps errno.
class CQsBefore {
 public:
  explicit CQsBefore(const rdma_cm_id& id) : send_(id.send_cq), recv_(id.recv_cq) {}

  int restore(rdma_cm_id& id) const {
    const int code = errno;
    if (id.send_cq != send_) destroy(id.send_cq, id.send_cq_channel);
    if (id.recv_cq != recv_) destroy(id.recv_cq, id.recv_cq_channel);
    return fail(code);
  }

 private:
  static void destroy(ibv_cq*& cq, ibv_comp_channel*& channel) {
    ibv_destroy_cq(cq);
    ibv_destroy_comp_channel(channel);
    cq = nullptr;
    channel = nullptr;
  }

  const ibv_cq* send_;
  const ibv_cq* recv_;
};

/// A CQ with a channel of its own. Its context is the id: rdma_get_send_comp asserts that.
bool create_cq(rdma_cm_id& id, std::uint32_t depth, ibv_cq*& cq, ibv_comp_channel*& channel) {
  channel = ibv_create_comp_channel(id.verbs);
  if (channel == nullptr) return false;
  cq = ibv_create_cq(id.verbs, static_cast<int>(depth), &id, channel, 0);
  if (cq != nullptr) return true;
  const int code = errno;
  ibv_destroy_comp_channel(channel);
  channel = nullptr;
  errno = code;
  return false;
}

/// Makes the CQs that neither the program nor the id has; those of a depth of 0 are left out.
bool create_cqs(rdma_cm_id& id, const ibv_qp_init_attr_ex& attributes) {
  if (attributes.send_cq == nullptr && id.send_cq == nullptr && attributes.cap.max_send_wr != 0 &&
      !create_cq(id, attributes.cap.max_send_wr, id.send_cq, id.send_cq_channel)) {
    return false;
  }
  return attributes.recv_cq != nullptr || id.recv_cq != nullptr ||
         attributes.cap.max_recv_wr == 0 ||
         create_cq(id, attributes.cap.max_recv_wr, id.recv_cq, id.recv_cq_channel);
}

int show_ack_timeout(const Id& id, ibv_qp* qp) {
  if (id.ack_timeout == 0) return 0;
  ibv_qp_attr attributes{};
  attributes.timeout = id.ack_timeout;
  return ibv_modify_qp(qp, &attributes, IBV_QP_TIMEOUT);
}

/// A QP of an id is in INIT when the program gets it, as ibv_qp::state shows.
bool initialise(rdma_cm_id& id, ibv_qp* qp) {
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_INIT;
  if (rdma_init_qp_attr(&id, &attributes, &mask) != 0) return false;
  int code = ibv_modify_qp(qp, &attributes, mask);
  if (code == 0) code = show_ack_timeout(Id::of(&id), qp);
  if (code != 0) errno = code;
  return code == 0;
}

bool conflicts(const ibv_cq* own, const ibv_cq* given) {
  return own != nullptr && given != nullptr && own != given;
}

/// Without PD in the mask, the id's.
bool settle_pd(const rdma_cm_id& id, ibv_pd*& pd, bool given) {
  if (!given || pd == nullptr) pd = id.pd;
  return pd != nullptr && pd->context == id.verbs;
}

}  // namespace
}  // namespace weft::front::cm

using namespace weft::front::cm;

WEFT_EXPORT int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attributes) {
  if (id == nullptr || attributes == nullptr || id->verbs == nullptr || id->qp != nullptr ||
      conflicts(id->send_cq, attributes->send_cq) || conflicts(id->recv_cq, attributes->recv_cq) ||
      !settle_pd(*id, attributes->pd, (attributes->comp_mask & IBV_QP_INIT_ATTR_PD) != 0)) {
    return fail(EINVAL);
  }
  attributes->comp_mask |= IBV_QP_INIT_ATTR_PD;
  const CQsBefore before(*id);
  if (!create_cqs(*id, *attributes)) return before.restore(*id);
  if (attributes->send_cq == nullptr) attributes->send_cq = id->send_cq;
  if (attributes->recv_cq == nullptr) attributes->recv_cq = id->recv_cq;
  if (attributes->srq == nullptr) attributes->srq = id->srq;
  ibv_qp* qp = ibv_create_qp_ex(id->verbs, attributes);
  if (qp == nullptr) return before.restore(*id);
  if (!initialise(*id, qp)) {
    const int code = errno;
    ibv_destroy_qp(qp);
    errno = code;
    return before.restore(*id);
  }
  id->pd = attributes->pd;
  id->qp = qp;
  return 0;
}

WEFT_EXPORT int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  if (attributes == nullptr) return fail(EINVAL);
  // The old struct is the beginning of the new one.
  ibv_qp_init_attr_ex extended{};
  std::memcpy(static_cast<void*>(&extended), attributes, sizeof *attributes);
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd;
  const int result = rdma_create_qp_ex(id, &extended);
  if (result == 0) std::memcpy(attributes, &extended, sizeof *attributes);
  return result;
}

WEFT_EXPORT void rdma_destroy_qp(rdma_cm_id* id) {
  if (id == nullptr || id->qp == nullptr) return;
  ibv_destroy_qp(id->qp);
  id->qp = nullptr;
  destroy_cqs(*id);
}

WEFT_EXPORT int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attributes) {
  if (id == nullptr || attributes == nullptr || id->verbs == nullptr || id->srq != nullptr ||
      (attributes->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 ||
      !settle_pd(*id, attributes->pd, (attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) != 0)) {
    return fail(EINVAL);
  }
  attributes->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
  ibv_srq* srq = ibv_create_srq_ex(id->verbs, attributes);
  if (srq == nullptr) return -1;
  id->pd = attributes->pd;
  id->srq = srq;
  return 0;
}

WEFT_EXPORT int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attributes) {
  if (attributes == nullptr) return fail(EINVAL);
  ibv_srq_init_attr_ex extended{};
  std::memcpy(static_cast<void*>(&extended), attributes, sizeof *attributes);
  extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  extended.srq_type = IBV_SRQT_BASIC;
  extended.pd = pd;
  const int result = rdma_create_srq_ex(id, &extended);
  if (result == 0) std::memcpy(attributes, &extended, sizeof *attributes);
  return result;
}

WEFT_EXPORT void rdma_destroy_srq(rdma_cm_id* id) {
  if (id == nullptr || id->srq == nullptr) return;
  ibv_destroy_srq(id->srq);
  id->srq = nullptr;
}

/// The attributes with which a program may call ibv_modify_qp. An iWARP QP goes from idle to
/// connected inside connect and accept: there is no RTR, RTS asks for nothing, and a connected QP
/// has no state left to set. So a program that walks an external QP through the InfiniBand states
/// gets through, whatever the moment.
WEFT_EXPORT int rdma_init_qp_attr(rdma_cm_id* public_id, ibv_qp_attr* attributes, int* mask) {
  if (public_id == nullptr || attributes == nullptr || mask == nullptr) return fail(EINVAL);
  Id& id = Id::of(public_id);
  if (id.verbs == nullptr) return fail(EINVAL);
  const IdState state = id.current_state();
  const bool connected = state == IdState::Established || state == IdState::Disconnected;
  switch (attributes->qp_state) {
    case IBV_QPS_INIT:
    case IBV_QPS_RTR:
      attributes->qp_access_flags =
          IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
      attributes->port_num = id.port_num;
      *mask = IBV_QP_ACCESS_FLAGS;
      // As in InfiniBand, the ready QP of persona ib keeps its port.
      if (!connected || !id.is_ib()) *mask |= IBV_QP_PORT;
      if (attributes->qp_state == IBV_QPS_INIT && !connected) {
        *mask |= IBV_QP_STATE;
        // Persona ib insists on it, as InfiniBand does.
        if (id.is_ib()) {
          attributes->pkey_index = 0;
          *mask |= IBV_QP_PKEY_INDEX;
        }
      }
      return 0;
    case IBV_QPS_RTS:
      *mask = 0;
      return 0;
    default:
      return fail(EINVAL);
  }
}
