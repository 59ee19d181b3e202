// STags drawn at random, found by open addressing, and the checks of every access.
#include "core/memory/memory_table.h"

#include <bit>
#include <cerrno>

#include "base/assert.h"
#include "core/memory/memory_slot.h"

namespace weft::core {
namespace {

constexpr std::uint32_t kIndexMask = 0x00ffffff;
constexpr std::uint32_t kAccessAll = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic |
                                     kWindowBind | kZeroBased | kLocalRead | kNull;
// Draws before the search walks on from the last one: a table with 2^20 of 2^24 indices in use
// fails one draw in 16, so this many in a row do not happen to random octets.
constexpr int kDrawsMax = 64;

/// At least twice the capacity, so that probe runs stay short with every slot in use.
std::uint32_t bucket_count(std::uint32_t capacity) { return std::bit_ceil(capacity) * 2; }

std::uint32_t clamped(std::uint32_t capacity) {
  weft_assert(capacity >= 1 && capacity <= MemoryTable::kCapacityMax);
  if (capacity < 1) return 1;
  return capacity > MemoryTable::kCapacityMax ? MemoryTable::kCapacityMax : capacity;
}

/// The output function of splitmix64: every bit of the result depends on every bit of x.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

Result<void> validate(const RegionAttributes& region) {
  if (region.pd.value == 0) return Error{EINVAL, "a memory region needs a protection domain"};
  if ((region.access & ~kAccessAll) != 0) return Error{EINVAL, "unknown access right"};
  if ((region.access & (kRemoteWrite | kRemoteAtomic)) != 0 &&
      (region.access & kLocalWrite) == 0) {
    return Error{EINVAL, "remote write and remote atomic access need local write access"};
  }
  if ((region.access & kZeroBased) != 0 && region.base_to != 0) {
    return Error{EINVAL, "a zero-based memory region starts at offset 0"};
  }
  if (region.octets != 0 && region.address == nullptr) {
    return Error{EINVAL, "a memory region needs an address"};
  }
  if ((region.access & kNull) != 0 && (region.access & ~(kNull | kLocalRead)) != kLocalWrite) {
    return Error{EINVAL, "a null region is for local reading and writing"};
  }
  if ((region.access & kNull) == 0 &&
      passes_top(reinterpret_cast<std::uintptr_t>(region.address), region.octets)) {
    return Error{EINVAL, "the memory region passes the end of the address space"};
  }
  if (passes_top(region.base_to, region.octets)) {
    return Error{EINVAL, "the memory region's tagged offsets pass 2^64"};
  }
  return {};
}

}  // namespace

std::size_t MemoryTable::storage_octets(std::uint32_t capacity) {
  const std::uint32_t n = clamped(capacity);
  return n * sizeof(Slot) + bucket_count(n) * sizeof(std::uint32_t);
}

MemoryTable::MemoryTable(MutableOctets storage, std::uint32_t capacity)
    : capacity_(clamped(capacity)), bucket_mask_(bucket_count(capacity_) - 1) {
  weft_assert(storage.size() >= storage_octets(capacity_));
  weft_assert(reinterpret_cast<std::uintptr_t>(storage.data()) % alignof(Slot) == 0);
  // Zero octets are a Free slot and an empty bucket, so nothing is written here.
  slots_ = reinterpret_cast<Slot*>(storage.data());
  buckets_ = reinterpret_cast<std::uint32_t*>(storage.data() + capacity_ * sizeof(Slot));
}

std::uint32_t MemoryTable::bucket_of(std::uint32_t index) const {
  // The indices are random already, so their low bits are the hash. The table is never more than
  // half full: a free bucket ends every walk.
  std::uint32_t at = index & bucket_mask_;
  while (buckets_[at] != 0 && index_of(slots_[buckets_[at] - 1].stag) != index) {
    at = (at + 1) & bucket_mask_;
  }
  return at;
}

MemoryTable::Slot* MemoryTable::slot_of(std::uint32_t index) const {
  const std::uint32_t entry = buckets_[bucket_of(index)];
  return entry == 0 ? nullptr : &slots_[entry - 1];
}

MemoryTable::Slot* MemoryTable::region_of(STag stag) const {
  Slot* const slot = slot_of(index_of(stag.value));
  if (slot == nullptr || slot->state == Slot::State::Free) return nullptr;
  // The key is compared too: an old STag of a slot in use again does not fit.
  return slot->stag == stag.value ? slot : nullptr;
}

void MemoryTable::forget_index(std::uint32_t index) {
  std::uint32_t hole = bucket_of(index);
  if (buckets_[hole] == 0) return;
  // Closing the gap instead of leaving a tombstone keeps walks as short after a million
  // registrations as after one. An entry moves back unless its home lies behind the hole.
  for (std::uint32_t at = (hole + 1) & bucket_mask_; buckets_[at] != 0;
       at = (at + 1) & bucket_mask_) {
    const std::uint32_t home = index_of(slots_[buckets_[at] - 1].stag) & bucket_mask_;
    if (((at - home) & bucket_mask_) >= ((at - hole) & bucket_mask_)) {
      buckets_[hole] = buckets_[at];
      hole = at;
    }
  }
  buckets_[hole] = 0;
}

std::uint32_t MemoryTable::draw_stag(std::uint64_t random) {
  //= SEC-06
  // Sparse over 24 bits, index and key from the caller's random octets alone; an index that any
  // slot still remembers is drawn again.
  std::uint64_t seed = random + ++draws_ * 0x9e3779b97f4a7c15u;
  std::uint32_t index = 0;
  std::uint32_t key = 0;
  for (int i = 0; i < kDrawsMax; ++i, seed += 0x9e3779b97f4a7c15u) {
    const std::uint64_t drawn = mix(seed);
    index = static_cast<std::uint32_t>(drawn >> 32) & kIndexMask;
    key = static_cast<std::uint32_t>(drawn) & 0xff;
    if (index != 0 && slot_of(index) == nullptr) return index << kSTagKeyBits | key;
  }
  // At most capacity_ of 2^24 - 1 indices are taken: the walk ends.
  while (index == 0 || slot_of(index) != nullptr) index = (index + 1) & kIndexMask;
  return index << kSTagKeyBits | key;
}

std::uint32_t MemoryTable::take_slot() {
  if (fresh_ < capacity_) return fresh_++;
  const std::uint32_t number = free_head_ - 1;
  free_head_ = slots_[number].next;
  if (free_head_ == 0) free_tail_ = 0;
  forget_index(index_of(slots_[number].stag));
  return number;
}

std::uint32_t MemoryTable::number_of(const Slot& slot) const {
  return static_cast<std::uint32_t>(&slot - slots_);
}

// A slot with an STag of its own, for the caller to fill; null when the table is full.
MemoryTable::Slot* MemoryTable::add_slot(std::uint64_t random) {
  static_assert(sizeof(Slot) == 64, "one cache line");
  if (count_ == capacity_) return nullptr;
  // The STag is drawn before the slot gives its old index back, so even a table with one slot does
  // not hand out the same index twice in a row.
  const std::uint32_t stag = draw_stag(random);
  const std::uint32_t number = take_slot();
  Slot& slot = slots_[number];
  slot.stag = stag;
  slot.next = 0;
  // Filled before its bucket points to it: a walk reads the STags of the slots it passes.
  buckets_[bucket_of(index_of(stag))] = number + 1;
  ++count_;
  return &slot;
}

void MemoryTable::free_slot(Slot& slot) {
  slot.state = Slot::State::Free;
  slot.attributes = {};
  slot.next = 0;
  const std::uint32_t number = number_of(slot);
  if (free_tail_ != 0) {
    slots_[free_tail_ - 1].next = number + 1;
  } else {
    free_head_ = number + 1;
  }
  free_tail_ = number + 1;
  --count_;
}

Result<STag> MemoryTable::register_region(const RegionAttributes& region, std::uint64_t random) {
  //= SEC-03
  if (const Result<void> valid = validate(region); !valid) return valid.error();
  Slot* const slot = add_slot(random);
  if (slot == nullptr) return Error{ENOMEM, "no room for another memory region"};
  slot->attributes = region;
  slot->attributes.access |= kLocalRead;
  slot->state = Slot::State::Valid;
  slot->kind = Slot::Kind::Region;
  return STag{slot->stag};
}

Result<MemoryTable::Slot*> MemoryTable::region_to_change(STag stag) const {
  Slot* const slot = region_of(stag);
  if (slot == nullptr || slot->is_window()) return Error{EINVAL, "no memory region has this STag"};
  if (slot->windows != 0) return Error{EBUSY, "memory windows are bound to the region"};
  return slot;
}

Result<void> MemoryTable::deregister(STag stag) {
  const Result<Slot*> slot = region_to_change(stag);
  if (!slot) return slot.error();
  //= SEC-03
  //= SEC-04
  free_slot(**slot);
  return {};
}

Result<void> MemoryTable::reregister(STag stag, const RegionAttributes& region) {
  const Result<Slot*> slot = region_to_change(stag);
  if (!slot) return slot.error();
  if (const Result<void> valid = validate(region); !valid) return valid.error();
  //= SEC-04
  (*slot)->attributes = region;
  (*slot)->attributes.access |= kLocalRead;
  (*slot)->state = Slot::State::Valid;
  return {};
}

//= SEC-01
//= DDP-24
bool MemoryTable::lets_in(const RegionAttributes& region, Requester requester) {
  const bool any_stream = region.stream.value == 0;
  return region.pd == requester.pd && (any_stream || region.stream == requester.stream);
}

Result<std::uint8_t*, MemoryFault> MemoryTable::check(STag stag, std::uint64_t to,
                                                      std::uint64_t octets, std::uint32_t rights,
                                                      Requester requester) const {
  const Slot* const slot = region_of(stag);
  if (slot == nullptr || slot->state != Slot::State::Valid) return MemoryFault::InvalidSTag;
  const RegionAttributes& region = slot->attributes;
  if (!lets_in(region, requester)) return MemoryFault::NotAssociated;
  if ((rights & ~region.access) != 0) return MemoryFault::Access;
  if (passes_top(to, octets)) return MemoryFault::Wrap;
  //= SEC-02
  const std::uint64_t offset = to - region.base_to;
  if (to < region.base_to || offset > region.octets || octets > region.octets - offset) {
    return MemoryFault::Bounds;
  }
  if ((region.access & kNull) != 0) {
    if (octets > kNullOctets) return MemoryFault::Bounds;
    return region.address + ((rights & kLocalWrite) != 0 ? 0 : kNullOctets);
  }
  return place_at(region.address, offset);
}

Result<void, MemoryFault> MemoryTable::invalidate(STag stag, Requester requester) {
  Slot* const slot = region_of(stag);
  if (slot == nullptr) return MemoryFault::InvalidSTag;
  if (!lets_in(slot->attributes, requester)) return MemoryFault::NotAssociated;
  switch (slot->kind) {
    case Slot::Kind::Region:
      if (slot->windows != 0) return MemoryFault::NotAssociated;
      slot->state = Slot::State::Invalid;
      return {};
    case Slot::Kind::Window1:
      return MemoryFault::NotAssociated;
    case Slot::Kind::Window2:
      unbind(*slot);
      return {};
  }
  return MemoryFault::NotAssociated;
}

Result<void, MemoryFault> MemoryTable::invalidate_for_peer(STag stag, Requester requester) {
  //= SEC-05
  const Slot* const slot = region_of(stag);
  if (slot != nullptr && slot->attributes.stream.value == 0) return MemoryFault::NotAssociated;
  return invalidate(stag, requester);
}

bool MemoryTable::holds(PD pd, const std::uint8_t* address, std::uint64_t octets) const {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  for (std::uint32_t i = 0; i < fresh_; ++i) {
    const Slot& slot = slots_[i];
    if (slot.state != Slot::State::Valid || slot.is_window()) continue;
    const RegionAttributes& region = slot.attributes;
    const std::uint64_t offset = first - reinterpret_cast<std::uintptr_t>(region.address);
    const std::uint64_t size = (region.access & kNull) != 0 ? 2 * kNullOctets : region.octets;
    if (region.pd == pd && offset < size && octets <= size - offset) return true;
  }
  return false;
}

std::uint32_t MemoryTable::region_count(PD pd) const {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < fresh_; ++i) {
    if (slots_[i].state != Slot::State::Free && slots_[i].attributes.pd == pd) ++n;
  }
  return n;
}

std::optional<RegionAttributes> MemoryTable::find(STag stag) const {
  const Slot* const slot = region_of(stag);
  if (slot == nullptr || slot->is_window()) return std::nullopt;
  return slot->attributes;
}

}  // namespace weft::core
