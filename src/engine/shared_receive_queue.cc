// Which receive of an SRQ is the next one.
#include "engine/shared_receive_queue.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace weft::engine {

device::ReceiveEntry* SharedReceiveQueue::next() {
  if (stack_posted()) {
    const std::size_t top = std::size_t{stacked_ - 1} * ring.stride();
    return reinterpret_cast<device::ReceiveEntry*>(stack_.get() + top);
  }
  if (ring.empty()) return nullptr;
  return static_cast<device::ReceiveEntry*>(ring.entry(ring.consumed_own()));
}

void SharedReceiveQueue::release() {
  if (stacked_ != 0) --stacked_;
  ring.release(ring.consumed_own() + 1);
}

/// Puts what was posted since onto the stack, if there is one to be. False: the stack is empty.
bool SharedReceiveQueue::stack_posted() {
  const bool stacks = users.size() > kOrderedUsersMax;
  if (!stacks && stacked_ == 0) return false;
  if (stacks && stack_ == nullptr) {
    stack_.reset(new (std::nothrow) std::uint8_t[std::size_t{ring.capacity()} * ring.stride()]);
    if (stack_ == nullptr) return false;  // in their order, then
  }
  if (stacks) {
    const std::uint32_t first = ring.consumed_own() + stacked_;
    const std::uint32_t posted = std::min(ring.produced_seen() - first, ring.capacity() - stacked_);
    for (std::uint32_t i = 0; i < posted; ++i) {
      std::memcpy(stack_.get() + std::size_t{stacked_++} * ring.stride(), ring.entry(first + i),
                  ring.stride());
    }
  }
  return stacked_ != 0;
}

}  // namespace weft::engine
