// Memory windows: allocated, bound to a part of a region, and unbound again (verbs draft §7).
#include <cerrno>

#include "core/memory/memory_slot.h"

namespace weft::core {
namespace {

constexpr std::uint32_t kWindowRights = kRemoteRead | kRemoteWrite | kRemoteAtomic;

}  // namespace

Result<STag> MemoryTable::allocate_window(PD pd, WindowKind kind, std::uint64_t random) {
  if (pd.value == 0) return Error{EINVAL, "a memory window needs a protection domain"};
  Slot* const slot = add_slot(random);
  if (slot == nullptr) return Error{ENOMEM, "no room for another memory window"};
  slot->attributes = {};
  slot->attributes.pd = pd;
  slot->state = Slot::State::Invalid;
  slot->kind = kind == WindowKind::Type1 ? Slot::Kind::Window1 : Slot::Kind::Window2;
  return STag{slot->stag};
}

MemoryTable::Slot* MemoryTable::window_at(std::uint32_t index) const {
  Slot* const slot = slot_of(index);
  const bool found = slot != nullptr && slot->state != Slot::State::Free && slot->is_window();
  return found ? slot : nullptr;
}

Result<void> MemoryTable::deallocate_window(STag stag) {
  Slot* const window = window_at(index_of(stag.value));
  if (window == nullptr) return Error{EINVAL, "no memory window has this STag"};
  unbind(*window);
  untie(*window);
  free_slot(*window);
  return {};
}

//= DDP-24
Result<void, BindFault> MemoryTable::bind(const WindowBinding& binding, Requester requester) {
  Slot* const window = window_at(index_of(binding.stag.value));
  if (window == nullptr) return BindFault::NoWindow;
  if (window->attributes.pd != requester.pd) return BindFault::NotAssociated;
  const bool shared = window->kind == Slot::Kind::Window1;
  if (!shared && window->state == Slot::State::Valid) return BindFault::AlreadyBound;

  Slot* region = nullptr;
  if (binding.octets != 0) {
    region = region_of(binding.region);
    const bool good = region != nullptr && !region->is_window();
    if (!good || region->state != Slot::State::Valid) return BindFault::NoRegion;
    if (const auto fault = judge(binding, region->attributes, shared, requester)) return *fault;
  }
  unbind(*window);
  untie(*window);
  window->stag = binding.stag.value;
  if (region == nullptr) return {};

  const RegionAttributes& whole = region->attributes;
  window->attributes.access = binding.access & kWindowRights;
  window->attributes.base_to = (binding.access & kZeroBased) != 0 ? 0 : binding.to;
  window->attributes.address = place_at(whole.address, binding.to - whole.base_to);
  window->attributes.octets = binding.octets;
  window->region = number_of(*region) + 1;
  window->state = Slot::State::Valid;
  ++region->windows;
  if (!shared) tie(*window, requester.stream);
  return {};
}

// What has to be right between a window that is to be bound and the region.
std::optional<BindFault> MemoryTable::judge(const WindowBinding& binding,
                                            const RegionAttributes& region, bool shared,
                                            Requester requester) {
  if (!lets_in(region, requester)) return BindFault::NotAssociated;
  // What only one stream may reach, a window for all of the domain would open to the others.
  if (shared && region.stream.value != 0) return BindFault::NotAssociated;
  //= SEC-03
  const bool writes = (binding.access & (kRemoteWrite | kRemoteAtomic)) != 0;
  if ((binding.access & ~(kWindowRights | kZeroBased)) != 0 || (region.access & kWindowBind) == 0 ||
      (region.access & kZeroBased) != 0 || (writes && (region.access & kLocalWrite) == 0)) {
    return BindFault::Access;
  }
  //= SEC-02
  const std::uint64_t offset = binding.to - region.base_to;
  if (binding.to < region.base_to || offset > region.octets ||
      binding.octets > region.octets - offset) {
    return BindFault::Bounds;
  }
  return {};
}

// Valid to Invalid. The window keeps its STag, its domain and, of type 2, its stream.
void MemoryTable::unbind(Slot& window) {
  if (window.state != Slot::State::Valid) return;
  --slots_[window.region - 1].windows;
  window.region = 0;
  window.attributes = {.pd = window.attributes.pd, .stream = window.attributes.stream};
  window.state = Slot::State::Invalid;
}

void MemoryTable::tie(Slot& window, StreamId stream) {
  window.attributes.stream = stream;
  window.previous = 0;
  window.next = tied_;
  tied_ = number_of(window) + 1;
  if (window.next != 0) slots_[window.next - 1].previous = tied_;
}

void MemoryTable::untie(Slot& window) {
  if (window.attributes.stream.value == 0) return;
  window.attributes.stream = {};
  (window.previous != 0 ? slots_[window.previous - 1].next : tied_) = window.next;
  if (window.next != 0) slots_[window.next - 1].previous = window.previous;
  window.next = window.previous = 0;
}

void MemoryTable::release_stream(StreamId stream) {
  for (std::uint32_t at = tied_; at != 0;) {
    Slot& window = slots_[at - 1];
    at = window.next;
    if (window.attributes.stream != stream) continue;
    unbind(window);
    untie(window);
  }
}

}  // namespace weft::core
