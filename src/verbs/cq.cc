// The control calls of a CQ; polling is in the header.
#include "verbs/cq.h"

#include <cerrno>
#include <cstring>

#include "verbs/cookie.h"
#include "verbs/qp.h"

namespace weft::verbs {
namespace {

Result<void> check_depth(std::uint32_t depth) {
  if (depth == 0 || depth > device::kCQDepthMax) return Error{EINVAL, "CQ depth out of range"};
  return {};
}

}  // namespace

Result<void> CQ::open(device::Device& device, std::uint32_t depth, CompletionChannel* channel,
                      AsyncQueue& async, void* owner, RingAllocator* allocator, bool timed) {
  if (auto checked = check_depth(depth); !checked) return checked;
  auto place = RingPlace::take(allocator, RingKind::Completion, device::completion_ring(depth));
  if (!place) return place.error();
  // Set before the device knows the CQ: from then on it may report.
  channel_ = channel;
  async_ = &async;
  completion_events_.owner = owner;
  async_events_.owner = owner;
  auto face = device.create_cq(depth, to_cookie(this), place->memory(), timed);
  if (!face) return face.error();
  allocator_ = allocator;
  place_ = std::move(*place);
  device_ = &device;
  number_ = face->number;
  ring_ = face->completions;
  return {};
}

Result<void> CQ::close() {
  if (uses_.any()) return Error{EBUSY, "the CQ is in use"};
  if (auto done = device_->destroy_cq(number_); !done) return done;
  place_.give_back();
  if (channel_ != nullptr) channel_->retire(completion_events_);
  async_->retire(async_events_);
  return {};
}

void CQ::give_place_back(const Origin& origin) {
  if (origin.qp_cookie != 0) from_cookie<QP>(origin.qp_cookie)->handle_polled(origin.opcode);
}

void CQ::prefetch_origin(std::uint64_t qp_cookie) {
  if (qp_cookie != 0) prefetch(from_cookie<QP>(qp_cookie), sizeof(QP));
}

const device::CompletionEntry* CQ::begin_walk() {
  for (bool helped = false;; helped = true) {
    consumer_.lock();
    if (const auto* found = advance()) return found;
    consumer_.unlock();
    if (helped) {
      note_empty_poll();
      return nullptr;
    }
    device_->poll(number_);
  }
}

const device::CompletionEntry* CQ::advance() {
  if (ring_.empty()) return nullptr;
  const std::uint32_t first = ring_.consumed_own();
  walked_ = entry(first);
  ring_.release(first + 1);
  give_place_back({walked_.qp_cookie, walked_.opcode});
  return &walked_;
}

void CQ::end_walk() {
  consumer_.unlock();
}

Result<void> CQ::resize(std::uint32_t depth) {
  if (auto checked = check_depth(depth); !checked) return checked;
  auto place = RingPlace::take(allocator_, RingKind::Completion, device::completion_ring(depth));
  if (!place) return place.error();
  std::lock_guard guard(consumer_);
  auto face = device_->resize_cq(number_, depth, place->memory());
  if (!face) return face.error();
  ring_ = face->completions;
  std::swap(place_, *place);  // the old one is given back behind the lock
  return {};
}

void CQ::purge(std::uint32_t qp) {
  std::lock_guard guard(consumer_);
  // What stays moves up to the newest end: the free space of the ring is at the oldest.
  const std::uint32_t first = ring_.consumed_own();
  const std::uint32_t end = ring_.produced_seen();
  std::uint32_t kept = end;
  for (std::uint32_t index = end; index != first;) {
    --index;
    if (entry(index).qp_number == qp) {
      give_place_back({entry(index).qp_cookie, entry(index).opcode});
      continue;
    }
    if (--kept != index) {
      std::memcpy(ring_.entry(kept), ring_.entry(index), sizeof(device::CompletionEntry));
    }
  }
  if (kept != first) ring_.release(kept);
}

}  // namespace weft::verbs
