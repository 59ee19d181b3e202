// The verbs of a data path, for every program that measures: posting, polling, arming, and what is
// wrong as a Failure.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

#include "measure/basics.h"

namespace weft::measure {

/// Each posts a list. 0, or what went wrong as an errno: some providers give it negated.
inline int try_post(ibv_qp* qp, ibv_send_wr& first) {
  ibv_send_wr* bad = nullptr;
  const int error = ::ibv_post_send(qp, &first, &bad);
  return error < 0 ? -error : error;
}
inline int try_post(ibv_qp* qp, ibv_recv_wr& first) {
  ibv_recv_wr* bad = nullptr;
  const int error = ::ibv_post_recv(qp, &first, &bad);
  return error < 0 ? -error : error;
}
inline int try_post(ibv_srq* srq, ibv_recv_wr& first) {
  ibv_recv_wr* bad = nullptr;
  const int error = ::ibv_post_srq_recv(srq, &first, &bad);
  return error < 0 ? -error : error;
}

/// The same; throws Failure.
inline void post(ibv_qp* qp, ibv_send_wr& first) {
  if (const int error = try_post(qp, first); error != 0) fail_error(error, "ibv_post_send");
}
inline void post(ibv_qp* qp, ibv_recv_wr& first) {
  if (const int error = try_post(qp, first); error != 0) fail_error(error, "ibv_post_recv");
}
inline void post(ibv_srq* srq, ibv_recv_wr& first) {
  if (const int error = try_post(srq, first); error != 0) fail_error(error, "ibv_post_srq_recv");
}

/// The next completion of the CQ, of any kind, makes an event.
inline void arm(ibv_cq* cq) {
  if (const int error = ::ibv_req_notify_cq(cq, 0); error != 0) {
    fail_error(error < 0 ? -error : error, "ibv_req_notify_cq");
  }
}

/// One ibv_poll_cq for up to `kBatch` completions; `handle` gets each. Returns how many there were.
/// Throws Failure at one that is not a success.
template <int kBatch, typename Handle>
int poll_cq(ibv_cq* cq, Handle handle) {
  std::array<ibv_wc, kBatch> found;
  const int count = ::ibv_poll_cq(cq, kBatch, found.data());
  if (count < 0) fail("ibv_poll_cq failed ({})", count);
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = found[static_cast<std::size_t>(i)];
    if (completion.status != IBV_WC_SUCCESS) {
      fail("a work request completed with \"{}\" (vendor code {:#x})",
           ::ibv_wc_status_str(completion.status), completion.vendor_err);
    }
    handle(completion);
  }
  return count;
}

}  // namespace weft::measure
