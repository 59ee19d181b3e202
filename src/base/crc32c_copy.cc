// Copy and CRC as one pass over memory.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/crc32c_fold.h"

namespace weft {
namespace {

/// Small beside an L1 data cache (source and target both stay in it), large beside the start-up
/// cost of a copy and of a CRC.
constexpr std::size_t kBlockOctets = 4096;
/// What is just being stored is slow to read: so much is stored before any of it is read again.
constexpr std::size_t kWholeOctetsMax = 8192;

/// What folds sums what it read and stores just that.
bool folds(std::size_t octets) {
  return octets >= kFoldOctetsMin && (can_fold_512() || can_fold_256());
}

}  // namespace

std::uint32_t crc32c_copy(std::uint32_t state, MutableOctets target, Octets source) {
  weft_assert(target.size() >= source.size());
  if (source.size() >= kFoldOctetsMin) {
    if (can_fold_512()) return crc32c_copy_512(state, target, source);
    if (can_fold_256()) return crc32c_copy_256(state, target, source);
  }
  return crc32c_copy_unfolded(state, target, source);
}

std::uint32_t crc32c_copy_past(std::uint32_t state, MutableOctets target, Octets source) {
  weft_assert(target.size() >= source.size());
  if (source.size() >= kCopyPastOctetsMin) {
    if (can_fold_512()) return crc32c_copy_past_512(state, target, source);
    if (can_fold_256()) return crc32c_copy_past_256(state, target, source);
  }
  return crc32c_copy(state, target, source);
}

std::uint32_t crc32c_place(std::uint32_t state, MutableOctets target, Octets source) {
  weft_assert(target.size() >= source.size());
  return (folds(source.size()) ? crc32c_copy : crc32c_place_unfolded)(state, target, source);
}

std::uint32_t crc32c_place_past(std::uint32_t state, MutableOctets target, Octets source) {
  weft_assert(target.size() >= source.size());
  return (folds(source.size()) ? crc32c_copy_past : crc32c_place_unfolded)(state, target, source);
}

std::uint32_t crc32c_copy_unfolded(std::uint32_t state, MutableOctets target, Octets source) {
  const std::size_t most = source.size() <= kWholeOctetsMax ? kWholeOctetsMax : kBlockOctets;
  for (std::size_t done = 0; done < source.size();) {
    const std::size_t octets = std::min(most, source.size() - done);
    std::memcpy(target.data() + done, source.data() + done, octets);
    // Of the copy, not of the source: the source may be changing under our hands, and a CRC that
    // does not belong to the stored octets would make a good FPDU look corrupt to the peer.
    state = crc32c_extend_unfolded(state, target.subspan(done, octets));
    done += octets;
  }
  return state;
}

std::uint32_t crc32c_place_unfolded(std::uint32_t state, MutableOctets target, Octets source) {
  for (std::size_t done = 0; done < source.size();) {
    const Octets block = source.subspan(done, std::min(kBlockOctets, source.size() - done));
    state = crc32c_extend_unfolded(state, block);
    std::memcpy(target.data() + done, block.data(), block.size());
    done += block.size();
  }
  return state;
}

}  // namespace weft
