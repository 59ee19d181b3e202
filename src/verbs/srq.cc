// The control calls of an SRQ; posting is in receive_queue.h.
#include "verbs/srq.h"

#include <cerrno>

#include "verbs/cookie.h"

namespace weft::verbs {

Result<void> SRQ::open(PD& pd, std::uint32_t depth, std::uint32_t sges, AsyncQueue& async,
                       void* owner, RingAllocator* allocator) {
  if (depth == 0 || depth > device::kQueueDepthMax) {
    return Error{EINVAL, "SRQ depth out of range"};
  }
  if (sges == 0) sges = 1;
  if (sges > device::kSGECountMax) return Error{EINVAL, "too many SGEs"};
  auto place =
      RingPlace::take(allocator, RingKind::SharedReceive, device::receive_ring(depth, sges));
  if (!place) return place.error();
  async_ = &async;
  async_events_.owner = owner;
  auto face = pd.device().create_srq(pd.number(), depth, sges, to_cookie(this), place->memory());
  if (!face) return face.error();
  place_ = std::move(*place);
  pd_ = &pd;
  number_ = face->number;
  receives_.open(face->receive, face->sges);
  pd.uses().add();
  return {};
}

Result<void> SRQ::close() {
  if (uses_.any()) return Error{EBUSY, "the SRQ is in use"};
  if (auto done = pd_->device().destroy_srq(number_); !done) return done;
  place_.give_back();
  async_->retire(async_events_);
  pd_->uses().drop();
  return {};
}

Result<void> SRQ::set_limit(std::uint32_t limit) {
  if (limit > receives_.depth()) return Error{EINVAL, "the limit is above the SRQ's depth"};
  // Before the device knows: its event, which clears it again, may come during the call.
  const std::uint32_t previous = limit_.exchange(limit, std::memory_order_relaxed);
  auto done = pd_->device().set_srq_limit(number_, limit);
  if (!done) limit_.store(previous, std::memory_order_relaxed);
  return done;
}

}  // namespace weft::verbs
