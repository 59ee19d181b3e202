// The control calls of a CQ; polling is in the header.
#include "verbs/cq.h"

#include <cerrno>
#include <cstring>

#include "verbs/cookie.h"

namespace weft::verbs {
namespace {

Result<void> check_depth(std::uint32_t depth) {
  if (depth == 0 || depth > device::kCQDepthMax) return Error{EINVAL, "CQ depth out of range"};
  return {};
}

}  // namespace

Result<void> CQ::open(device::Device& device, std::uint32_t depth, CompletionChannel* channel,
                      AsyncQueue& async, void* owner) {
  if (auto checked = check_depth(depth); !checked) return checked;
  // Set before the device knows the CQ: from then on it may report.
  channel_ = channel;
  async_ = &async;
  completion_events_.owner = owner;
  async_events_.owner = owner;
  auto face = device.create_cq(depth, to_cookie(this));
  if (!face) return face.error();
  device_ = &device;
  number_ = face->number;
  ring_ = face->completions;
  return {};
}

Result<void> CQ::close() {
  if (uses_.any()) return Error{EBUSY, "the CQ is in use"};
  if (auto done = device_->destroy_cq(number_); !done) return done;
  if (channel_ != nullptr) channel_->retire(completion_events_);
  async_->retire(async_events_);
  return {};
}

const device::CompletionEntry* CQ::begin_walk() {
  for (bool helped = false;; helped = true) {
    consumer_.lock();
    walked_ = ring_.consumed_own();
    if (ring_.produced_seen() != walked_) return &entry(walked_);
    consumer_.unlock();
    if (helped) return nullptr;
    device_->poll();
  }
}

const device::CompletionEntry* CQ::advance() {
  if (ring_.produced_seen() == walked_ + 1) return nullptr;
  ++walked_;
  return &entry(walked_);
}

void CQ::end_walk() {
  ring_.release(walked_ + 1);
  consumer_.unlock();
}

Result<void> CQ::resize(std::uint32_t depth) {
  if (auto checked = check_depth(depth); !checked) return checked;
  std::lock_guard guard(consumer_);
  auto face = device_->resize_cq(number_, depth);
  if (!face) return face.error();
  number_ = face->number;
  ring_ = face->completions;
  return {};
}

void CQ::purge(device::QPNumber qp) {
  std::lock_guard guard(consumer_);
  // What stays moves up to the newest end: the free space of the ring is at the oldest.
  const std::uint32_t first = ring_.consumed_own();
  const std::uint32_t end = ring_.produced_seen();
  std::uint32_t kept = end;
  for (std::uint32_t index = end; index != first;) {
    --index;
    if (entry(index).qp_number == qp) continue;
    if (--kept != index) {
      std::memcpy(ring_.entry(kept), ring_.entry(index), sizeof(device::CompletionEntry));
    }
  }
  if (kept != first) ring_.release(kept);
}

}  // namespace weft::verbs
