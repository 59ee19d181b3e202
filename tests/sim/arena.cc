// Regions between guards, and what became of those that were taken back.
#include "tests/sim/arena.h"

#include <algorithm>

namespace weft::sim {

void Arena::guard(Zone zone) {
  Bytes& memory = this->memory(zone);
  for (std::uint64_t octets = random_.between(1, 40); octets > 0; --octets) {
    memory.push_back(static_cast<std::uint8_t>(0x5a ^ memory.size()));
  }
}

std::size_t Arena::add(Zone zone, std::uint32_t octets, std::uint32_t access, core::PD pd) {
  Region region;
  region.zone = zone;
  region.begin = memory(zone).size();
  region.octets = octets;
  region.access = access;
  region.pd = pd;
  switch (random_.between(0, 3)) {
    case 0:
      region.access |= core::kZeroBased;
      region.base_is_address = false;
      break;
    case 1:
      region.base_is_address = false;
      // Up to the very end of the 64 bits.
      region.base_to = random_.chance(100'000) ? ~std::uint64_t{0} - octets + 1
                                               : random_.next() >> random_.between(1, 40);
      break;
    default:
      break;
  }
  Bytes& memory = this->memory(zone);
  std::uint64_t drawn = random_.next();
  for (std::uint32_t i = 0; i < octets; ++i) {
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    memory.push_back(static_cast<std::uint8_t>(drawn >> 56));
  }
  guard(zone);
  regions_.push_back(std::move(region));
  return regions_.size() - 1;
}

std::size_t Arena::add_window(Window window) {
  Region& region = regions_[window.region];
  region.windows_only = true;
  region.access = (region.access | core::kWindowBind) & ~std::uint32_t{core::kZeroBased};
  region.base_is_address |= region.base_to == 0;
  windows_.push_back(window);
  return windows_.size() - 1;
}

void Arena::seal(core::MemoryTable& table) {
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    Region& region = regions_[i];
    if (region.base_is_address) {
      region.base_to = reinterpret_cast<std::uintptr_t>(address(i));
    }
    const auto stag = table.register_region({.pd = region.pd,
                                             .stream = region.stream,
                                             .access = region.access,
                                             .base_to = region.base_to,
                                             .address = address(i),
                                             .octets = region.octets},
                                            random_.next());
    weft_assert(stag.ok());
    region.stag = *stag;
  }
  for (Window& window : windows_) {
    const auto stag =
        table.allocate_window(regions_[window.region].pd, window.kind, random_.next());
    weft_assert(stag.ok());
    window.allocated = *stag;
    window.bound = {(stag->value & ~0xffu) | window.key};
    if (window.bound == window.allocated) window.bound.value ^= 1;
  }
}

void Arena::shut(std::size_t index) {
  windows_[index].state = Window::State::Shut;
  const std::size_t region = windows_[index].region;
  for (const Window& other : windows_) {
    if (other.region == region && other.state != Window::State::Shut) return;
  }
  revoke(region);
}

std::uint64_t Arena::to(const Run& run, std::size_t index) const {
  const Window& window = windows_[index];
  const bool zero_based = (window.access & core::kZeroBased) != 0;
  return zero_based ? std::uint64_t{run.offset} - window.offset : to(run);
}

core::WindowBinding Arena::binding(std::size_t index) const {
  const Window& window = windows_[index];
  return {window.bound, regions_[window.region].stag,
          regions_[window.region].base_to + window.offset, window.octets, window.access};
}

bool Arena::shows(const Region& region, const std::uint8_t* place, std::size_t octets,
                  std::uint32_t access) {
  for (const Window& window : windows_) {
    const bool open = window.state == Window::State::Open || window.state == Window::State::Closing;
    if (&regions_[window.region] != &region || !open) continue;
    const std::uint8_t* begin = address(window.region) + window.offset;
    if (place >= begin && place + octets <= begin + window.octets &&
        (access & ~window.access) == 0) {
      return true;
    }
  }
  return false;
}

void Arena::deregister_all(core::MemoryTable& table) {
  for (const Window& window : windows_) (void)table.deallocate_window(window.allocated).ok();
  for (const Region& region : regions_) (void)table.deregister(region.stag).ok();
}

const Region* Arena::holder(const std::uint8_t* address, std::size_t octets) {
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const std::uint8_t* begin = this->address(i);
    if (address >= begin && address + octets <= begin + regions_[i].octets) {
      return regions_[i].revoked ? nullptr : &regions_[i];
    }
  }
  return nullptr;
}

void Arena::revoke(std::size_t index) {
  Region& region = regions_[index];
  if (region.revoked) return;
  region.revoked = true;
  region.frozen.assign(address(index), address(index) + region.octets);
}

const Region* Arena::changed_after_revocation() {
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    if (region.revoked && !std::equal(region.frozen.begin(), region.frozen.end(), address(i))) {
      return &region;
    }
  }
  return nullptr;
}

}  // namespace weft::sim
