// Which region holds some octets.
#include "front/sockets/regions.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <weft/sockets.h>

namespace weft::sockets {

Result<Region*> Regions::add(const Region& region) {
  if (by_address_.size() == IWARP_REGIONS_MAX || last_number_ == INT_MAX) {
    return Error{ENOBUFS, "no more regions on this socket"};
  }
  auto added = std::make_unique<Region>(region);
  added->number = ++last_number_;
  octets_max_ = std::max(octets_max_, region.octets);
  const auto at = std::upper_bound(
      by_address_.begin(), by_address_.end(), region.address,
      [](std::uintptr_t address, const auto& other) { return address < other->address; });
  return by_address_.insert(at, std::move(added))->get();
}

Region* Regions::find(int number) {
  if (hit_ != nullptr && hit_->number == number) return hit_;
  for (const auto& region : by_address_) {
    if (region->number == number) return region.get();
  }
  return nullptr;
}

std::unique_ptr<Region> Regions::take(int number) {
  for (auto at = by_address_.begin(); at != by_address_.end(); ++at) {
    if ((*at)->number != number) continue;
    auto taken = std::move(*at);
    by_address_.erase(at);
    hit_ = nullptr;
    return taken;
  }
  return nullptr;
}

Result<Region*> Regions::around(const void* memory, std::size_t octets, int rights) {
  if (Region* same = around_again(memory, octets, rights); same != nullptr) return same;
  auto found = search(reinterpret_cast<std::uintptr_t>(memory), octets, rights);
  if (found) hit_ = *found;
  return found;
}

/// Regions may overlap, so the nearest that begins before the octets need not be the one.
Result<Region*> Regions::search(std::uintptr_t at, std::size_t octets, int rights) {
  auto next = std::upper_bound(
      by_address_.begin(), by_address_.end(), at,
      [](std::uintptr_t address, const auto& other) { return address < other->address; });
  bool forbidden = false;
  while (next != by_address_.begin()) {
    Region& region = **--next;
    if (at - region.address > octets_max_) break;
    if (!region.holds(at, octets)) continue;
    if ((region.rights & rights) == rights) return &region;
    forbidden = true;
  }
  if (forbidden) return Error{EACCES, "the region is not registered for that"};
  return Error{EFAULT, "memory that is not registered"};
}

}  // namespace weft::sockets
