// The control calls of a QP; posting is in the header.
#include "verbs/qp.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "verbs/cookie.h"

namespace weft::verbs {

Result<void> QP::sum_sends() {
  if (sums_ != nullptr) return Error{EINVAL, "the QP's sends are summed already"};
  std::unique_ptr<device::Sums> sums(new (std::nothrow) device::Sums);
  if (sums == nullptr) return Error{ENOMEM, "no memory for the sums of a QP"};
  const Result<void> taken = shape_.pd->device().take_sums(number_, *sums);
  if (taken) sums_ = std::move(sums);
  return taken;
}

Result<void> QP::open(const QPShape& shape, AsyncQueue& async, void* owner) {
  const bool own_receives = shape.srq == nullptr;
  device::QPRequest request;
  request.pd = shape.pd->number();
  request.send_cq = shape.send_cq->number();
  request.receive_cq = shape.receive_cq->number();
  request.srq = own_receives ? 0 : shape.srq->number();
  request.send_depth = std::max(shape.send_depth, 1u);
  request.receive_depth = own_receives ? std::max(shape.receive_depth, 1u) : 1;
  request.send_sges = std::max(shape.send_sges, 1u);
  request.receive_sges = own_receives ? std::max(shape.receive_sges, 1u) : 1;
  request.inline_octets = shape.inline_octets;
  request.cookie = to_cookie(this);
  if (std::max(request.send_depth, request.receive_depth) > device::kQueueDepthMax) {
    return Error{EINVAL, "queue depth out of range"};
  }
  if (std::max(request.send_sges, request.receive_sges) > device::kSGECountMax) {
    return Error{EINVAL, "too many SGEs"};
  }
  if (request.inline_octets > device::kInlineOctetsMax) {
    return Error{EINVAL, "too much inline data"};
  }

  auto send_place = RingPlace::take(shape.allocator, RingKind::Send, device::send_ring(request));
  if (!send_place) return send_place.error();
  auto receive_place =
      RingPlace::take(own_receives ? shape.allocator : nullptr, RingKind::Receive,
                      device::receive_ring(request.receive_depth, request.receive_sges));
  if (!receive_place) return receive_place.error();
  request.send_place = send_place->memory();
  request.receive_place = receive_place->memory();

  // Set before the device knows the QP: from then on it may report.
  shape_ = shape;
  async_ = &async;
  async_events_.owner = owner;
  auto face = shape.pd->device().create_qp(request);
  if (!face) return face.error();
  number_ = public_number_ = face->number;
  if (shape.named) {
    const auto name = shape.pd->device().name_qp(number_);
    if (!name) {
      static_cast<void>(shape.pd->device().destroy_qp(number_));
      return name.error();
    }
    public_number_ = *name;
  }
  send_ = face->send;
  send_place_ = std::move(*send_place);
  receive_place_ = std::move(*receive_place);
  shape_.send_depth = face->send.capacity();
  shape_.send_sges = face->send_sges;
  shape_.inline_octets = face->inline_octets;
  shape_.receive_depth = 0;
  shape_.receive_sges = 0;
  if (own_receives) {
    receives_.open(face->receive, face->receive_sges);
    shape_.receive_depth = face->receive.capacity();
    shape_.receive_sges = face->receive_sges;
  }
  if (shape.one_thread) {
    send_lock_.turn_off();
    receives_.turn_lock_off();
  }
  shape_.pd->uses().add();
  shape_.send_cq->uses().add();
  shape_.receive_cq->uses().add();
  if (!own_receives) shape_.srq->uses().add();
  return {};
}

Result<void> QP::close() {
  if (auto done = shape_.pd->device().destroy_qp(number_); !done) return done;
  send_place_.give_back();
  receive_place_.give_back();
  // The number may be given out again, and a completion under it would then be taken for one of
  // the new QP.
  purge();
  async_->retire(async_events_);
  if (shape_.srq != nullptr) shape_.srq->uses().drop();
  shape_.receive_cq->uses().drop();
  shape_.send_cq->uses().drop();
  shape_.pd->uses().drop();
  return {};
}

void QP::purge() {
  shape_.send_cq->purge(public_number_);
  if (shape_.receive_cq != shape_.send_cq) shape_.receive_cq->purge(public_number_);
}

}  // namespace weft::verbs
