// Copying with a sum for each segment, and finding it again.
#include "device/sums.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace weft::device {

void Sums::copy(std::uint8_t* target, Octets source) {
  const std::uint32_t segment = segment_.load(std::memory_order_relaxed);
  std::uint32_t produced = produced_.load(std::memory_order_relaxed);
  while (!source.empty()) {
    const Octets part = source.first(std::min<std::size_t>(source.size(), segment));
    const bool room = produced - consumed_.load(std::memory_order_acquire) < sums_.size();
    if (part.size() < kOctetsMin || !room) break;
    const std::uint32_t sum = crc32c_copy(0, MutableOctets(target, part.size()), part);
    sums_[produced++ % sums_.size()] = {target, static_cast<std::uint32_t>(part.size()), sum};
    target += part.size();
    source = source.subspan(part.size());
  }
  if (!source.empty()) std::memcpy(target, source.data(), source.size());
  produced_.store(produced, std::memory_order_release);
}

std::optional<std::uint32_t> Sums::find(const std::uint8_t* place, std::uint32_t octets,
                                        std::uint32_t segment) {
  if (segment_.load(std::memory_order_relaxed) != segment) {
    segment_.store(segment, std::memory_order_relaxed);
  }
  const std::uint32_t produced = produced_.load(std::memory_order_acquire);
  std::uint32_t consumed = consumed_.load(std::memory_order_relaxed);
  std::optional<std::uint32_t> found;
  while (consumed != produced && !found) {
    const Sum& sum = sums_[consumed % sums_.size()];
    const bool overlaps = sum.place < place + octets && place < sum.place + sum.octets;
    if (!overlaps) break;  // its time is still to come
    if (sum.place == place && sum.octets == octets) found = sum.value;
    ++consumed;  // also when it was cut otherwise
  }
  consumed_.store(consumed, std::memory_order_release);
  return found;
}

}  // namespace weft::device
